//! `idempotency plan`: what it costs to keep the keys of updates in the item that they update.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use idempotency_core::key::Json;
use idempotency_dynamodb::once::{self, Estimate};

use crate::exit::{Exit, Failure};
use crate::json;

/// The arguments of `idempotency plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
The numbers are those of `once::plan` of the crate dynamodb-writes. DynamoDB accepts items of at most 400 KB, and one partition
takes 1,000 write units a second. The exit code is 1 if an item cannot hold the rate.")]
pub(crate) struct PlanArguments {
    /// The writes of the busiest item, duplicates included: 2/s, 30/m, 500/h or 9000/d
    #[arg(long)]
    rate: Rate,
    /// How long a key must be known, such as 1h
    #[arg(long, value_parser = humantime::parse_duration)]
    lifetime: Duration,
    /// What the item takes without the keys, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 500)]
    own_bytes: u64,
    /// The bytes that are stored of the digest of a key, 8 to 32
    #[arg(long, value_name = "BYTES", default_value_t = 12)]
    key_bytes: usize,
    /// How far the clocks of writers may differ, the time of a request included
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    clock_skew: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number of writes in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, seconds) = match text.split_once('/') {
            None | Some((_, "s")) => (text.trim_end_matches("/s"), 1.0),
            Some((number, "m")) => (number, 60.0),
            Some((number, "h")) => (number, 3_600.0),
            Some((number, "d")) => (number, 86_400.0),
            Some(_) => return Err("the unit must be /s, /m, /h or /d".to_owned()),
        };
        let number: f64 = number
            .parse()
            .map_err(|_| "it must be a number, such as 2/s".to_owned())?;
        Ok(Self(number / seconds))
    }
}

/// Runs the command.
pub(crate) fn print_plan(arguments: &PlanArguments) -> Result<Exit, Failure> {
    let plan = once::plan(arguments.rate.0, arguments.lifetime)
        .own_bytes(arguments.own_bytes)
        .key_bytes(arguments.key_bytes)
        .clock_skew(arguments.clock_skew);
    let estimate = plan
        .estimate()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    json::print(arguments.json, || to_json(&estimate), to_text(&estimate))?;
    Ok(if estimate.holds() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn to_text(estimate: &Estimate) -> String {
    let known = estimate.lifetime();
    let most = estimate.remembered_at_most();
    let cheaper = if estimate.is_marker_cheaper() {
        "a marker item in the same transaction"
    } else {
        "the keys in the item"
    };
    let lines = [
        (
            "rate",
            format!(
                "{} writes a second; the largest is {}",
                significant(estimate.rate()),
                significant(estimate.largest_rate())
            ),
        ),
        (
            "key known",
            format!(
                "for {} at least, {} at most",
                humantime::format_duration(known),
                humantime::format_duration(most)
            ),
        ),
        (
            "item",
            format!(
                "{} bytes at most, of 409600; {} keys of {} bytes",
                estimate.item_bytes(),
                estimate.keys(),
                estimate.bytes_per_key()
            ),
        ),
        (
            "write units",
            format!(
                "{} a write at most, {} on average",
                estimate.write_units(),
                estimate.average_write_units()
            ),
        ),
        (
            "marker item",
            format!(
                "{} write units a write; the largest rate is {}",
                estimate.marker_write_units(),
                significant(estimate.marker_largest_rate())
            ),
        ),
        ("cheaper", cheaper.to_owned()),
        (
            "holds",
            if estimate.holds() { "yes" } else { "no" }.to_owned(),
        ),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        // A write to a `String` does not fail.
        let _ = writeln!(text, "{name:<13} {value}");
    }
    text
}

/// Returns a rate with two significant digits, rounded down so that it still holds.
fn significant(rate: f64) -> String {
    if rate <= 0.0 || !rate.is_finite() {
        return rate.to_string();
    }
    let digits = rate.log10().floor() as i32 - 1;
    let unit = 10_f64.powi(digits);
    // A little more, because 0.1 / 0.01 is below 10.
    let rounded = (rate / unit + 1e-9).floor() * unit;
    let decimals = usize::try_from(-digits).unwrap_or_default();
    let text = format!("{rounded:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn to_json(estimate: &Estimate) -> Json {
    let whole = |number: u64| Some(json::number(i64::try_from(number).unwrap_or(i64::MAX)));
    json::object([
        ("holds", Some(Json::Bool(estimate.holds()))),
        ("rate", Some(Json::Float(estimate.rate().into()))),
        (
            "largest_rate",
            Some(Json::Float(estimate.largest_rate().into())),
        ),
        ("item_bytes", whole(estimate.item_bytes())),
        ("keys", whole(estimate.keys())),
        ("bytes_per_key", whole(estimate.bytes_per_key())),
        ("write_units", whole(estimate.write_units())),
        ("average_write_units", whole(estimate.average_write_units())),
        ("lifetime_seconds", whole(estimate.lifetime().as_secs())),
        (
            "remembered_at_most_seconds",
            whole(estimate.remembered_at_most().as_secs()),
        ),
        ("marker_write_units", whole(estimate.marker_write_units())),
        (
            "marker_largest_rate",
            Some(Json::Float(estimate.marker_largest_rate().into())),
        ),
        (
            "marker_is_cheaper",
            Some(Json::Bool(estimate.is_marker_cheaper())),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_of_time() {
        for (text, rate) in [
            ("2", 2.0),
            ("2/s", 2.0),
            ("0.5/s", 0.5),
            ("30/m", 0.5),
            ("1800/h", 0.5),
            ("43200/d", 0.5),
        ] {
            assert_eq!(text.parse(), Ok(Rate(rate)), "{text}");
        }
        for text in ["", "/s", "2/w", "2/", "x/s", "2/s/s/"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_rounded_down_to_two_digits() {
        for (rate, text) in [
            (0.1, "0.1"),
            (4.199, "4.1"),
            (500.0, "500"),
            (0.034_9, "0.034"),
            (1_234.0, "1200"),
            (10.0, "10"),
        ] {
            assert_eq!(significant(rate), text);
        }
    }
}

//! `idempotency plan`: what it costs to keep the keys of updates in the item that they update.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use dynamodb_writes::once::{self, Estimate};
use idempotency_expression::parse_duration;

use crate::exit::{Exit, Failure};
use crate::help;
use crate::json::{self, Object};

/// The arguments of `idempotency plan`.
#[derive(Debug, Args)]
#[command(after_long_help = help::PLAN)]
pub(crate) struct PlanArguments {
    /// The writes of the busiest item, duplicates included: 2/s, 30/m, 500/h or 9000/d
    #[arg(long)]
    rate: Rate,
    /// How long a key must be known, such as 1h
    #[arg(long, value_parser = parse_duration)]
    lifetime: Duration,
    /// What the item takes without the keys, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 500)]
    own_bytes: u64,
    /// The bytes that are stored of the digest of a key, 8 to 32
    #[arg(long, value_name = "BYTES", default_value_t = 12)]
    key_bytes: usize,
    /// How far the clocks of writers may differ, the time of a request included
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    clock_skew: Duration,
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
pub(crate) fn print_plan(arguments: &PlanArguments, as_json: bool) -> Result<Exit, Failure> {
    let plan = once::plan(arguments.rate.0, arguments.lifetime)
        .own_bytes(arguments.own_bytes)
        .key_bytes(arguments.key_bytes)
        .clock_skew(arguments.clock_skew);
    let estimate = plan
        .estimate()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    let text = to_text(arguments, &estimate);
    json::print(as_json, || to_json(arguments, &estimate), text)?;
    Ok(if estimate.holds() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn to_text(arguments: &PlanArguments, estimate: &Estimate) -> String {
    let rate = significant(arguments.rate.0);
    let largest = significant(estimate.largest_rate());
    let known = humantime::format_duration(arguments.lifetime);
    let most = humantime::format_duration(estimate.remembered_at_most());
    let (bytes, keys) = (estimate.item_bytes(), estimate.keys());
    let of_key = estimate.bytes_per_key();
    let (units, average) = (estimate.write_units(), estimate.average_write_units());
    let marker = estimate.marker_write_units();
    let marker_largest = significant(estimate.marker_largest_rate());
    let cheaper = match estimate.is_marker_cheaper() {
        true => "a marker item in the same transaction",
        false => "the keys in the item",
    };
    let holds = if estimate.holds() { "yes" } else { "no" };
    format!(
        "\
rate          {rate} writes a second; the largest is {largest}
key known     for {known} at least, {most} at most
item          {bytes} bytes at most, of 409600; {keys} keys of {of_key} bytes
write units   {units} a write at most, {average} on average
marker item   {marker} write units a write; the largest rate is {marker_largest}
cheaper       {cheaper}
holds         {holds}
"
    )
}

/// Returns a rate with two significant digits, rounded down so that it still holds.
fn significant(rate: f64) -> String {
    if rate <= 0.0 || !rate.is_finite() {
        return rate.to_string();
    }
    let digits = rate.log10().floor() as i32 - 1;
    let unit = 10_f64.powi(digits);
    // A little more, because 0.29 / 0.01 is below 29.
    let rounded = (rate / unit + 1e-9).floor() * unit;
    let decimals = usize::try_from(-digits).unwrap_or_default();
    let text = format!("{rounded:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn to_json(arguments: &PlanArguments, estimate: &Estimate) -> Object {
    let remembered = estimate.remembered_at_most();
    json::object()
        .bool("holds", estimate.holds())
        .float("rate", arguments.rate.0)
        .float("largest_rate", estimate.largest_rate())
        .count("item_bytes", estimate.item_bytes())
        .count("keys", estimate.keys())
        .count("bytes_per_key", estimate.bytes_per_key())
        .count("write_units", estimate.write_units())
        .count("average_write_units", estimate.average_write_units())
        .count("lifetime_seconds", arguments.lifetime.as_secs())
        .count("remembered_at_most_seconds", remembered.as_secs())
        .count("marker_write_units", estimate.marker_write_units())
        .float("marker_largest_rate", estimate.marker_largest_rate())
        .bool("marker_is_cheaper", estimate.is_marker_cheaper())
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
            (0.29, "0.29"),
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

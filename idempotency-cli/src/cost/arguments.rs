//! The arguments of `idempotency cost`.

use clap::Args;
use idempotency_core::protocol::policy::Lookup;

use super::capacity::LARGEST_RESPONSE;
use crate::help;

/// The arguments of `idempotency cost`.
#[derive(Debug, Args)]
#[command(after_long_help = help::COST)]
pub(crate) struct CostArguments {
    /// The size of a response as JSON text, in bytes; repeat it for more columns [default: 500, 1000, 4000, 40000, 400000]
    #[arg(long, value_name = "BYTES", value_parser = response)]
    pub(crate) response: Vec<usize>,
    /// claim-first or read-first: how calls look for their record
    #[arg(long, value_name = "NAME", default_value = "claim-first")]
    pub(crate) lookup: Lookup,
    /// The price of a million write units
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "read_price")]
    pub(crate) write_price: Option<f64>,
    /// The price of a million read units
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "write_price")]
    pub(crate) read_price: Option<f64>,
    /// How many calls in a hundred are duplicates of finished calls; repeat it for more rows
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_values = ["1", "10"])]
    pub(crate) duplicates: Vec<f64>,
}

/// Parses the size of a response. Refuses one that is larger than an item: it is in pieces, whose requests are not reckoned.
fn response(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if bytes <= LARGEST_RESPONSE => Ok(bytes),
        _ => Err(format!(
            "write a number of bytes, at most {LARGEST_RESPONSE}: a longer response is stored in pieces, which \
             docs/reference/cost.md reckons"
        )),
    }
}

/// Parses a price.
fn price(text: &str) -> Result<f64, String> {
    number(text, 1e12).ok_or_else(|| "write a price, such as 0.625".to_owned())
}

/// Parses a share in percent.
fn percent(text: &str) -> Result<f64, String> {
    number(text, 100.0).ok_or_else(|| "write a number from 0 to 100".to_owned())
}

fn number(text: &str, largest: f64) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && (0.0..=largest).contains(&number)).then_some(number)
}

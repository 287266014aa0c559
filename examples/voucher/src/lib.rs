//! Sells vouchers: takes the price from an account, and writes the voucher.
//!
//! [`careless`] is not safe to retry, on purpose: `docs/guide/retry-safety.md` has the report of its test. [`careful`] does the
//! same and is safe. [`staged`] is safe with the code of the careless one: it stages its writes.

pub mod careful;
pub mod careless;
pub mod staged;

use serde::{Deserialize, Serialize};

/// The table of the accounts and the vouchers. Its key is `id`.
pub const TABLE: &str = "shop";

/// An order of a voucher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The id that the customer's app gave to the order: the same in each retry.
    pub order_id: String,
    /// The account that pays.
    pub account: String,
    /// The price, in the smallest unit of the currency.
    pub price: u64,
}

/// A voucher that was sold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Voucher {
    /// The code that the customer shows.
    pub code: String,
    /// What it is worth.
    pub worth: u64,
}

#[cfg(test)]
mod tests;

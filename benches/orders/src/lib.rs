//! The event, the response and the work of every benchmarked function of Rust, so that they differ in their idempotency alone.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    pub user_id: String,
    pub order_id: String,
    pub amount: u64,
    pub currency: String,
    /// The length of the receipt's text, in bytes.
    pub receipt_bytes: usize,
    pub items: Vec<Item>,
}

/// What was ordered. Items make the event large.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Item {
    pub sku: String,
    pub quantity: u32,
    pub price: f64,
    pub note: Option<String>,
}

/// The response.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Receipt {
    /// Has the number of the charge in its process, so that a second charge and a replay differ.
    pub payment_id: String,
    pub amount: u64,
    pub currency: String,
    pub text: String,
}

/// The members of an event that a function uses.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    pub user_id: &'a str,
    pub order_id: &'a str,
    pub amount: u64,
    pub currency: &'a str,
    pub receipt_bytes: usize,
}

/// An event that is an order. The error names a member that is missing.
pub trait AsCharge {
    fn charge(&self) -> Result<Charge<'_>, &'static str>;
}

impl AsCharge for Order {
    fn charge(&self) -> Result<Charge<'_>, &'static str> {
        Ok(Charge {
            user_id: &self.user_id,
            order_id: &self.order_id,
            amount: self.amount,
            currency: &self.currency,
            receipt_bytes: self.receipt_bytes,
        })
    }
}

impl AsCharge for Value {
    fn charge(&self) -> Result<Charge<'_>, &'static str> {
        Ok(Charge {
            user_id: self["user_id"].as_str().ok_or("no user_id")?,
            order_id: self["order_id"].as_str().ok_or("no order_id")?,
            amount: self["amount"].as_u64().ok_or("no amount")?,
            currency: self["currency"].as_str().ok_or("no currency")?,
            receipt_bytes: self["receipt_bytes"]
                .as_u64()
                .and_then(|bytes| usize::try_from(bytes).ok())
                .ok_or("no receipt_bytes")?,
        })
    }
}

/// Charges the order. This stands for the work; it takes next to no time.
pub fn charge(order: Charge<'_>) -> Result<Receipt, &'static str> {
    static CHARGES: AtomicU64 = AtomicU64::new(1);
    if order.amount == 0 {
        return Err("the amount is 0");
    }
    let number = CHARGES.fetch_add(1, Ordering::Relaxed);
    Ok(Receipt {
        payment_id: format!("pay-{}-{number}", order.order_id),
        amount: order.amount,
        currency: order.currency.to_owned(),
        text: text(order.receipt_bytes),
    })
}

/// Returns `bytes` bytes of English words, which compress as other texts do.
fn text(bytes: usize) -> String {
    const WORDS: [&str; 8] = [
        "paid", "order", "receipt", "amount", "total", "thank", "you", "delivery",
    ];
    let mut text = String::with_capacity(bytes + 10);
    let mut state = 1_u32;
    while text.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(WORDS[(state >> 29) as usize]);
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

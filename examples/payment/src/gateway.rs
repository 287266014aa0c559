//! A simulated card gateway. It charges on every request, without duplicate detection, so that the function must prevent duplicates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::Order;

/// A test card.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Card {
    /// Succeeds at once.
    #[default]
    Good,
    /// Succeeds after half a second.
    Slow,
    /// Blocks the gateway for a minute.
    Stuck,
    /// Is declined once in each process, then succeeds.
    DeclinedOnce,
}

/// The gateway refused the card.
#[derive(Debug)]
pub struct Declined;

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the card was declined")
    }
}

impl std::error::Error for Declined {}

/// Charges the order's card and returns the id of the payment, a new one for each charge.
///
/// # Errors
///
/// If the card is declined.
pub async fn charge(order: &Order, request_id: &str) -> Result<String, Declined> {
    static DECLINED: AtomicBool = AtomicBool::new(false);

    tracing::info!(request_id, order_id = order.order_id, "charging the card");
    match order.card {
        Card::Good => {}
        Card::Slow => tokio::time::sleep(Duration::from_millis(500)).await,
        Card::Stuck => tokio::time::sleep(Duration::from_secs(60)).await,
        Card::DeclinedOnce => {
            if !DECLINED.swap(true, Ordering::Relaxed) {
                tracing::info!(request_id, "the card was declined");
                return Err(Declined);
            }
        }
    }
    tracing::info!(request_id, "charged the card");
    Ok(format!("pay-{request_id}"))
}

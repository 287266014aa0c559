//! A pretended card gateway: it charges whoever asks, as often as they ask. That is the point.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::Order;

/// A test card.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Card {
    /// Pays at once.
    #[default]
    Good,
    /// Pays after half a second.
    Slow,
    /// Keeps the gateway busy for a minute.
    Stuck,
    /// Is declined once in the life of a process, then pays.
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

/// Charges the user's card and returns the payment's id, a new one for each charge.
///
/// # Errors
/// If the card is declined.
pub async fn charge(user: &str, order: &Order, request_id: &str) -> Result<String, Declined> {
    static DECLINED: AtomicBool = AtomicBool::new(false);

    tracing::info!(request_id, user, "charging the card");
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

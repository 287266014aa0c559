//! The card gateway: the provider at the address in `PAYMENT_PROVIDER`, or a simulated one.
//!
//! The provider recognises a repeated charge by its `Idempotency-Key`. The simulated gateway charges on every request, so that the
//! function must prevent duplicates.

mod provider;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotency_lambda::{BoxError, Token};
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

/// Why there is no payment.
#[derive(Debug)]
pub enum NotCharged {
    /// The gateway refused the card.
    Declined,
    /// The request failed. The card may have been charged: only a request with the same token is safe.
    Failed(BoxError),
}

/// Charges the order's card and returns the id of the payment.
///
/// `token` is the same in every run for this order. A provider that has seen it does not charge again, and returns the payment of
/// the first charge.
///
/// # Errors
///
/// If the card is declined, or if the provider cannot be reached.
pub async fn charge(order: &Order, request_id: &str, token: &Token) -> Result<String, NotCharged> {
    tracing::info!(request_id, order_id = order.order_id, %token, "charging the card");
    match address() {
        Some(address) => provider::charge(&address, order, token).await,
        None => simulated(order, request_id).await,
    }
}

/// Returns the address of the provider, if there is one.
fn address() -> Option<String> {
    #[cfg(test)]
    if let Some(address) = crate::tests::provider() {
        return Some(address);
    }
    std::env::var("PAYMENT_PROVIDER").ok()
}

/// Charges without a provider. Each charge is a new payment.
async fn simulated(order: &Order, request_id: &str) -> Result<String, NotCharged> {
    static DECLINED: AtomicBool = AtomicBool::new(false);

    match order.card {
        Card::Good => {}
        Card::Slow => tokio::time::sleep(Duration::from_millis(500)).await,
        Card::Stuck => tokio::time::sleep(Duration::from_secs(60)).await,
        Card::DeclinedOnce => {
            if !DECLINED.swap(true, Ordering::Relaxed) {
                tracing::info!(request_id, "the card was declined");
                return Err(NotCharged::Declined);
            }
        }
    }
    tracing::info!(request_id, "charged the card");
    Ok(format!("pay-{request_id}"))
}

//! The card gateway: the provider at the address in `PAYMENT_PROVIDER`, or a simulated one.
//!
//! The provider recognises a repeated charge by its `Idempotency-Key`. The simulated gateway charges on every request, so that the
//! function must prevent duplicates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idempotency_lambda::{BoxError, Token};
use serde::Deserialize;
use serde_json::json;

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
/// If the card is declined, or if the request to the provider fails.
pub async fn charge(order: &Order, request_id: &str, token: &Token) -> Result<String, NotCharged> {
    tracing::info!(request_id, order_id = order.order_id, %token, "charging the card");
    match address() {
        Some(address) => charge_at(&address, order, token).await,
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

/// The provider's response.
#[derive(Deserialize)]
struct ChargeReply {
    payment_id: String,
}

/// Sends `POST /charges` to the provider at `address` (host and port).
///
/// # Errors
///
/// If the provider declines the card, or if the request fails. The provider may have charged although the request failed.
async fn charge_at(address: &str, order: &Order, token: &Token) -> Result<String, NotCharged> {
    let (status, body) = send(address, order, token)
        .await
        .map_err(NotCharged::Failed)?;
    match status {
        StatusCode::CREATED => {
            let charged: ChargeReply = serde_json::from_slice(&body)
                .map_err(|_| NotCharged::Failed("the provider's response has no payment".into()))?;
            Ok(charged.payment_id)
        }
        StatusCode::PAYMENT_REQUIRED => Err(NotCharged::Declined),
        status => Err(NotCharged::Failed(
            format!("the provider responded with {status}").into(),
        )),
    }
}

async fn send(
    address: &str,
    order: &Order,
    token: &Token,
) -> Result<(StatusCode, Bytes), BoxError> {
    let body =
        json!({ "order_id": order.order_id, "amount": order.amount, "currency": order.currency });
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{address}/charges"))
        .header("content-type", "application/json")
        .header("idempotency-key", token.as_str())
        .body(Full::new(Bytes::from(body.to_string())))?;
    // A function with many charges keeps the client, for its open connections. A real provider needs a client with TLS.
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

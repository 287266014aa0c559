//! A payment provider with an HTTP API, and its idempotency header.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idempotency_lambda::{BoxError, Token};
use serde::Deserialize;
use serde_json::json;

use super::NotCharged;
use crate::Order;

/// The provider's response.
#[derive(Deserialize)]
struct Charged {
    payment_id: String,
}

/// Sends `POST /charges` to the provider at `address` (host and port).
///
/// # Errors
///
/// If the provider declines the card, or sends no response. It may then have charged.
pub(super) async fn charge(
    address: &str,
    order: &Order,
    token: &Token,
) -> Result<String, NotCharged> {
    let (status, body) = send(address, order, token)
        .await
        .map_err(NotCharged::Failed)?;
    match status {
        StatusCode::CREATED => {
            let charged: Charged = serde_json::from_slice(&body)
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

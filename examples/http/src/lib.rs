//! An axum API for refunds, behind an API Gateway HTTP API with a JWT authorizer. A retry with the same `Idempotency-Key` header
//! pays once and gets the same response.

pub mod bank;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, post};
use idempotency_lambda::{BoxError, Context, Operation};
use serde::{Deserialize, Serialize};

use bank::{Bank, Unreachable};

/// How long a response is replayed: longer than a client of this API retries.
const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// The body of a request.
#[derive(Debug, Deserialize)]
struct Refund {
    payment_id: String,
    /// In the smallest unit of the currency.
    amount: u64,
}

/// The body of a response.
#[derive(Debug, Serialize)]
struct Receipt {
    refund_id: String,
    amount: u64,
}

/// Starts the API.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch("IdempotencyExamples")?;
    idempotency_lambda::http::run(app(Bank::new(true))?).await
}

/// Returns the API over a client of the bank.
///
/// The layer is beside the route, not around the router: a request for an unknown path then claims no key. The token was
/// checked by API Gateway, before the function was called.
///
/// # Errors
///
/// If a setting is invalid.
pub fn app(bank: Bank) -> Result<Router, BoxError> {
    let idempotent = Operation::builder("refunds")
        .key_prefix("refunds")
        .expires_after(WINDOW)
        .http()
        .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
        .build()?;
    Ok(Router::new()
        .route("/refunds", post(refund))
        .route_layer(idempotent)
        .with_state(Arc::new(bank)))
}

/// Pays a payment back, as a whole or in part.
async fn refund(
    State(bank): State<Arc<Bank>>,
    Extension(context): Extension<Context>,
    Json(refund): Json<Refund>,
) -> Result<(StatusCode, Json<Receipt>), Refused> {
    if refund.amount == 0 {
        return Err(Refused::NoAmount);
    }
    let refund_id = bank
        .refund(&refund.payment_id, refund.amount, &context.request_id)
        .await?;
    let amount = refund.amount;
    Ok((StatusCode::CREATED, Json(Receipt { refund_id, amount })))
}

/// Why there is no refund.
enum Refused {
    /// A duplicate gets this response again: the request cannot become valid.
    NoAmount,
    /// Not stored, because the status is a 5xx: the client's retry runs the handler again.
    BankUnreachable,
}

impl From<Unreachable> for Refused {
    fn from(_: Unreachable) -> Self {
        Self::BankUnreachable
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::NoAmount => (StatusCode::BAD_REQUEST, "the amount is 0"),
            Self::BankUnreachable => (
                StatusCode::BAD_GATEWAY,
                "the bank cannot be reached: try again",
            ),
        }
        .into_response()
    }
}

#[cfg(test)]
mod tests;

//! An axum API for refunds, behind an API Gateway HTTP API with a JWT authorizer. A retry with the same `Idempotency-Key` header
//! pays once and gets the same response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Extension, Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, post};
use idempotency_lambda::{BoxError, Context, Operation};
use serde::{Deserialize, Serialize};

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
/// The layer is on the route, not around the router: a request for an unknown path then claims no key. The token was
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
) -> Result<(StatusCode, Json<Receipt>), RefundError> {
    if refund.amount == 0 {
        return Err(RefundError::NoAmount);
    }
    let refund_id = bank
        .refund(&refund.payment_id, refund.amount, &context.request_id)
        .await?;
    let amount = refund.amount;
    Ok((StatusCode::CREATED, Json(Receipt { refund_id, amount })))
}

/// Why there is no refund.
enum RefundError {
    /// A duplicate gets this response again: the request cannot become valid.
    NoAmount,
    /// Not stored, because the status is a 5xx: the client's retry runs the handler again.
    BankUnreachable,
}

impl From<Unreachable> for RefundError {
    fn from(_: Unreachable) -> Self {
        Self::BankUnreachable
    }
}

impl IntoResponse for RefundError {
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

/// A client of a simulated bank: the state that the handlers share. The bank pays on every request, without duplicate detection, so
/// that the API must prevent duplicates.
#[derive(Debug)]
pub struct Bank {
    reachable: AtomicBool,
}

/// The bank could not be reached. It has not paid.
#[derive(Debug)]
pub struct Unreachable;

impl Bank {
    /// Returns a client. A bank that is not `reachable` refuses its first request.
    pub fn new(reachable: bool) -> Self {
        Self {
            reachable: AtomicBool::new(reachable),
        }
    }

    /// Pays `amount` back and returns the id of the refund, a new one for each request.
    ///
    /// # Errors
    ///
    /// If the bank cannot be reached.
    pub async fn refund(
        &self,
        payment_id: &str,
        amount: u64,
        request_id: &str,
    ) -> Result<String, Unreachable> {
        tracing::info!(request_id, payment_id, amount, "refunding the payment");
        if !self.reachable.swap(true, Ordering::Relaxed) {
            return Err(Unreachable);
        }
        Ok(format!("ref-{request_id}"))
    }
}

#[cfg(test)]
mod tests {
    use idempotency_lambda::http::service;
    use idempotency_lambda::{LambdaEvent, MemoryStore, backend_over, with_backend};
    use lambda_http::lambda_runtime::{FunctionResponse, Service};
    use serde_json::Value;

    use super::*;

    /// Sends the event of `examples/events` to the API, after a change. Returns the status and the body, with `replayed` before them if
    /// an earlier request had this response.
    async fn send(app: &Router, request_id: &str, change: impl FnOnce(&mut Value)) -> String {
        let event = include_str!("../../events/http.json");
        let mut event: Value = serde_json::from_str(event).unwrap();
        change(&mut event);
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        let event = LambdaEvent::new(serde_json::from_value(event).unwrap(), context);
        let response = service(app.clone()).call(event).await.unwrap();
        let FunctionResponse::BufferedResponse(response) = response else {
            panic!("the response is a stream");
        };
        let response = serde_json::to_value(response).unwrap();
        let is_replay = response["headers"]["idempotent-replayed"] == "true";
        let replayed = if is_replay { "replayed " } else { "" };
        let body = response["body"].as_str().unwrap_or_default();
        format!("{replayed}{} {body}", response["statusCode"])
    }

    /// Runs a test over a store of its own and an API whose bank is `reachable` or not.
    async fn with_app<F: Future>(reachable: bool, test: impl FnOnce(Router) -> F) -> F::Output {
        let app = app(Bank::new(reachable)).unwrap();
        with_backend(backend_over(Arc::new(MemoryStore::new())), test(app)).await
    }

    #[tokio::test]
    async fn a_key_pays_once_for_one_user_and_one_body() {
        let of_another_user = |event: &mut Value| {
            event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = "u-2".into();
        };
        let with_another_body = |event: &mut Value| {
            event["body"] = r#"{"payment_id":"pay-1001","amount":9900}"#.into();
        };
        let without_key = |event: &mut Value| {
            let headers = event["headers"].as_object_mut().unwrap();
            headers.remove("idempotency-key");
        };
        let as_it_is: fn(&mut Value) = |_| ();
        let paid = |id: &str| format!(r#"201 {{"refund_id":"ref-{id}","amount":1500}}"#);
        with_app(true, async |app| {
            for (request_id, change, expected) in [
                ("r-1", as_it_is, paid("r-1")),
                ("r-2", as_it_is, format!("replayed {}", paid("r-1"))),
                ("r-3", of_another_user, paid("r-3")),
                ("r-4", with_another_body, "422 ".to_owned()),
                ("r-5", without_key, "400 ".to_owned()),
            ] {
                let sent = send(&app, request_id, change).await;
                assert!(sent.starts_with(&expected), "{request_id}: {sent}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_bank_that_cannot_be_reached_leaves_the_key_free_for_a_retry() {
        with_app(false, async |app| {
            for (request_id, status) in [("r-1", "502 "), ("r-2", "201 ")] {
                let sent = send(&app, request_id, |_| ()).await;
                assert!(sent.starts_with(status), "{sent}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn an_invalid_request_gets_the_same_response_again() {
        with_app(true, async |app| {
            for expected in ["400 the amount is 0", "replayed 400 the amount is 0"] {
                let invalid = send(&app, "r-1", |event| {
                    event["body"] = r#"{"payment_id":"pay-1001","amount":0}"#.into();
                });
                assert_eq!(invalid.await, expected);
            }
        })
        .await;
    }
}

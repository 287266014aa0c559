//! An API of payments behind an API Gateway HTTP API with a JWT authorizer. A retry under the same `Idempotency-Key` gets the first
//! response.

use std::collections::HashMap;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::extract::{Extension, Json, State};
use axum::http::StatusCode;
use axum::routing::{Router, post};
use idempotency_lambda::{BoxError, Call, Operation, Token};
// In the check of `retry_safety` each lock is a point where faults happen.
#[cfg(test)]
use idempotency_testkit::retry_safety::Mutex;
use serde::{Deserialize, Serialize};

/// How long a response is replayed: longer than a client retries.
const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// The body of a request.
#[derive(Debug, Deserialize)]
struct Order {
    /// In the smallest unit of the currency.
    amount: u64,
}

/// The body of a response.
#[derive(Debug, Serialize)]
struct Payment {
    payment_id: String,
}

/// Returns the API. The caller is a part of each key. Otherwise a client could get the response of another client, because a replay
/// skips the handler and each check in it.
fn app(provider: Arc<Provider>) -> Result<Router, BoxError> {
    let idempotent = Operation::builder("{{ project_name }}")
        .key_prefix("{{ project_name }}")
        .expires_after(WINDOW)
        .http()
        .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
        .build()?;
    Ok(Router::new()
        .route("/payments", post(pay))
        .route_layer(idempotent)
        .with_state(provider))
}

/// Charges an amount. A status from 500 on is not stored: a retry runs the handler again with the same token.
async fn pay(
    State(provider): State<Arc<Provider>>,
    Extension(call): Extension<Call>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Payment>), StatusCode> {
    let charged = provider.charge(order.amount, &call.token("charge")).await;
    let payment_id = charged.map_err(|error| {
        eprintln!("the provider failed: {error}");
        StatusCode::BAD_GATEWAY
    })?;
    Ok((StatusCode::CREATED, Json(Payment { payment_id })))
}

/// A simulated payment provider: replace it with your client. It knows a charge by its token, which is the same in every run
/// for a key: a run that is repeated after a crash gets the first payment.
#[derive(Debug, Default)]
struct Provider(Mutex<HashMap<String, String>>);

impl Provider {
    async fn charge(&self, _amount: u64, token: &Token) -> Result<String, BoxError> {
        let mut payments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = format!("pay-{}", payments.len() + 1);
        let payment_id = payments.entry(token.to_string()).or_insert(next);
        Ok(payment_id.clone())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    idempotency_lambda::http::run(app(Arc::default())?).await
}

#[cfg(test)]
mod tests {
    use idempotency_lambda::http::service;
    use idempotency_lambda::{Context, LambdaEvent, MemoryStore, backend_over, with_backend};
    use idempotency_testkit::events;
    use idempotency_testkit::retry_safety::{World, retry_safety};
    use lambda_http::lambda_runtime::{FunctionResponse, Service};
    use serde_json::{Value, json};

    use super::*;

    /// Returns a request of this user, under the key `k-1`.
    fn request(user: &str, amount: u64) -> Value {
        events::api_gateway_v2("POST", "/payments")
            .header("Idempotency-Key", "k-1")
            .claim("iss", "https://id.example.com/")
            .claim("sub", user)
            .json(&json!({ "amount": amount }))
            .to_value()
    }

    /// Sends a request to the API and returns its response.
    async fn send(provider: Arc<Provider>, request: Value) -> Result<Value, BoxError> {
        let event = LambdaEvent::new(serde_json::from_value(request)?, Context::default());
        let response = service(app(provider)?).call(event).await;
        match response.map_err(|error| error.error_message)? {
            FunctionResponse::BufferedResponse(response) => Ok(serde_json::to_value(response)?),
            FunctionResponse::StreamingResponse(_) => Err("the response is a stream".into()),
        }
    }

    #[tokio::test]
    async fn a_retry_gets_the_first_payment_and_another_amount_is_refused() {
        let provider = Arc::<Provider>::default();
        let send = async |request| send(provider.clone(), request).await.unwrap();
        with_backend(backend_over(Arc::new(MemoryStore::new())), async {
            let first = send(request("u-1", 4200)).await;
            assert_eq!(first["statusCode"], 201);
            let retry = send(request("u-1", 4200)).await;
            assert_eq!(retry["body"], first["body"]);
            assert_eq!(retry["headers"]["idempotent-replayed"], "true");
            assert_ne!(send(request("u-2", 4200)).await["body"], first["body"]);
            assert_eq!(send(request("u-1", 9900)).await["statusCode"], 422);
        })
        .await;
    }

    #[tokio::test]
    async fn a_payment_is_charged_once_wherever_the_function_fails() {
        let report = retry_safety(request("u-1", 4200), async |world: World, request| {
            send(world.fake::<Provider>(), request).await
        })
        .effect("payments", async |world| {
            world.fake::<Provider>().0.lock().unwrap().len()
        })
        .another(request("u-2", 4200))
        .changed(request("u-1", 9900))
        .run()
        .await;
        report.assert_safe();
    }
}

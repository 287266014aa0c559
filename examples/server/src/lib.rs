//! An axum server that takes payments. A retry with the same `Idempotency-Key` header charges once and gets the same response, also after
//! a server was killed or has shut down.

use std::time::Duration;

use axum::extract::{Extension, Json, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{Router, get, post};
use idempotency_http::{Backend, Call, Error, HttpIdempotencyLayer, HttpOperation, Token};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::signal;

/// How long a response is replayed: longer than a client of this server retries.
const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

/// The user that a request comes from.
#[derive(Clone)]
struct User(&'static str);

/// The body of a request.
#[derive(Debug, Deserialize)]
struct Order {
    order_id: String,
    /// In the smallest unit of the currency.
    amount: u64,
}

/// The body of a response.
#[derive(Debug, Serialize)]
struct Payment {
    payment_id: String,
    amount: u64,
}

/// Serves until `stop` ends. Then it lets the requests that run come to their end.
///
/// # Errors
///
/// If a setting is invalid, or the listener fails.
pub async fn serve(
    listener: TcpListener,
    backend: Backend,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), axum::BoxError> {
    let idempotent = layer(backend)?;
    let stopping = async {
        stop.await;
        tracing::info!("stopping: the requests that run come to their end, and no others begin");
    };
    // The clients that are connected get their responses.
    let server = axum::serve(listener, app(idempotent.clone()));
    server.with_graceful_shutdown(stopping).await?;
    // The requests whose clients have gone.
    idempotent.idle().await;
    Ok(())
}

/// Returns the layer, over the store that all servers share.
///
/// # Errors
///
/// If a setting is invalid.
pub fn layer(backend: Backend) -> Result<HttpIdempotencyLayer, Error> {
    let operation = HttpOperation::builder("payments")
        .key_prefix("payments")
        .caller_from(|request| Some(request.extensions.get::<User>()?.0.to_owned()))
        .expires_after(WINDOW)
        .renew(true) // after a kill a key is free in 30 s, however long a request takes
        .build()?;
    // A client that disconnects does not cut its payment off.
    Ok(operation.layer(backend).run_to_end())
}

/// Returns the routes. Authentication is outside of the layer: a replay is authenticated too.
pub fn app(idempotent: HttpIdempotencyLayer) -> Router {
    Router::new()
        .route("/payments", post(pay))
        .route_layer(idempotent)
        .route_layer(from_fn(authenticate))
        // It does not ask the store: a restart does not repair it, and other routes do not need it.
        .route("/health", get(async || "ok"))
}

/// Waits until the process should end. A container gets a SIGTERM, and some time later a SIGKILL.
pub async fn stop_signal() {
    #[cfg(unix)]
    let terminated = async {
        let mut signal = signal::unix::signal(signal::unix::SignalKind::terminate())?;
        signal.recv().await;
        Ok(())
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending();
    let received = tokio::select! {
        received = terminated => received,
        received = signal::ctrl_c() => received,
    };
    if let Err(error) = received {
        tracing::error!(%error, "no signal can be received, so the server shuts down");
    }
}

/// Finds out which user sends a request. A server of yours checks a signed token here.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = match request.headers().get(AUTHORIZATION).map(|it| it.as_bytes()) {
        Some(b"Bearer token-of-ann") => User("ann"),
        Some(b"Bearer token-of-bob") => User("bob"),
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

/// Charges a card.
async fn pay(
    Extension(call): Extension<Call>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Payment>), (StatusCode, &'static str)> {
    if order.amount == 0 {
        // Stored, because a retry cannot become valid.
        return Err((StatusCode::BAD_REQUEST, "the amount is 0"));
    }
    let payment_id = charge(&order, &call.token("charge"), gateway_time(&headers)).await;
    let amount = order.amount;
    Ok((StatusCode::CREATED, Json(Payment { payment_id, amount })))
}

/// Charges at a simulated gateway, and returns the id of the payment. As a payment provider does, the gateway recognises a charge that is
/// repeated, by its token: this protects the run that follows a kill.
async fn charge(order: &Order, token: &Token, time: Duration) -> String {
    tracing::info!(order.order_id, order.amount, %token, "charging the card");
    tokio::time::sleep(time).await;
    let token = token.as_str();
    format!("pay-{}", token.get(..8).unwrap_or(token))
}

/// Returns how long the simulated gateway takes: no time, unless a header says so.
fn gateway_time(headers: &HeaderMap) -> Duration {
    let seconds = headers.get("gateway-seconds");
    let seconds = seconds.and_then(|it| it.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::request::Builder;
    use http_body_util::BodyExt;
    use idempotency_http::{MemoryStore, backend};
    use tower::ServiceExt;

    use super::*;

    /// Sends a request. Returns its status and body, with `replayed` before them if an earlier request had this response.
    async fn send(app: &Router, request: Builder, body: &'static str) -> String {
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body)).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let is_replay = response.headers().contains_key("idempotent-replayed");
        let replayed = if is_replay { "replayed " } else { "" };
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        format!("{replayed}{status} {}", String::from_utf8_lossy(&body))
    }

    fn new_app() -> Router {
        app(layer(backend(MemoryStore::new())).unwrap())
    }

    /// Returns a payment of the user with this token.
    fn payment(token: &str) -> Builder {
        let payment = Request::post("/payments").header("idempotency-key", "k-1");
        payment.header("authorization", format!("Bearer {token}"))
    }

    #[tokio::test]
    async fn a_key_charges_once_for_one_user_and_one_body() {
        let app = new_app();
        let (order, changed) = (
            r#"{"order_id":"o-1","amount":4200}"#,
            r#"{"order_id":"o-1","amount":9900}"#,
        );
        let first = send(&app, payment("token-of-ann"), order).await;
        assert!(first.starts_with(r#"201 {"payment_id":"pay-"#), "{first}");
        let again = send(&app, payment("token-of-ann"), order).await;
        assert_eq!(again, format!("replayed {first}"));
        let changed = send(&app, payment("token-of-ann"), changed).await;
        assert!(changed.starts_with("422 "), "{changed}");
        let theirs = send(&app, payment("token-of-bob"), order).await;
        assert!(theirs.starts_with("201 ") && theirs != first, "{theirs}");
    }

    #[tokio::test]
    async fn a_request_without_a_known_token_is_refused_and_the_health_needs_none() {
        let app = new_app();
        let order = r#"{"order_id":"o-1","amount":4200}"#;
        assert_eq!(send(&app, payment("token-of-eve"), order).await, "401 ");
        assert_eq!(send(&app, Request::get("/health"), "").await, "200 ok");
    }

    #[tokio::test]
    async fn an_invalid_order_gets_the_same_response_again() {
        let app = new_app();
        let order = r#"{"order_id":"o-1","amount":0}"#;
        for expected in ["400 the amount is 0", "replayed 400 the amount is 0"] {
            let invalid = send(&app, payment("token-of-ann"), order).await;
            assert_eq!(invalid, expected);
        }
    }

    #[test]
    fn the_page_has_the_code_of_this_server() {
        let page = include_str!("../../../docs/guide/servers.md");
        let code = include_str!("lib.rs");
        for function in ["pub async fn serve(", "pub fn layer(", "pub fn app("] {
            let (_, rest) = code.split_once(function).unwrap();
            let (body, _) = rest.split_once("\n}\n").unwrap();
            let is_there = page.contains(&format!("{function}{body}\n}}\n"));
            assert!(is_there, "docs/guide/servers.md has another `{function}..`");
        }
    }
}

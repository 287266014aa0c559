//! The settings of a layer: prefixes, variables, other stores. What its handler gets.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use idempotency_lambda::http::HttpLayerBuilder;
use idempotency_lambda::{BoxError, Error, ErrorKind, MemoryStore, Operation, Variables};
use idempotency_tests::Harness;
use lambda_http::{Body, Request, Response, http, service_fn};
use lambda_runtime::Service;
use lambda_runtime::tower::{Layer, ServiceExt};

fn request(key: &str, body: impl Into<Body>) -> Request {
    let request = http::Request::post("/payments").header("idempotency-key", key);
    request.header("x-user", "u-1").body(body.into()).unwrap()
}

/// Sends a request, and returns the status and the body of the response, such as `200 1`.
async fn respond<B>(
    app: &(impl Service<Request, Response = Response<B>, Error = BoxError> + Clone),
    request: Request,
) -> String
where
    B: HttpBody<Data = Bytes, Error: Debug>,
{
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{status} {}", String::from_utf8_lossy(&body))
}

/// Returns a service that counts its runs.
fn counting() -> impl Service<Request, Response = Response<Body>, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let runs = Arc::new(AtomicU32::new(1));
    service_fn(move |_: Request| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, BoxError>(Response::new(Body::Text(run.to_string()))) }
    })
}

/// Returns the rules of an operation over this store.
fn pay(prefix: &'static str, store: &Arc<MemoryStore>) -> HttpLayerBuilder {
    let operation = Operation::builder("shop::pay").key_prefix(prefix);
    let http = operation.store(store.clone()).http();
    http.caller_header("x-user")
}

fn is_about_the_prefix(built: Result<impl Sized, Error>, prefix: &str) {
    let error = built.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let shared = format!("share the key prefix `{prefix}`");
    assert!(error.to_string().contains(&shared), "{error}");
}

#[test]
fn an_operation_may_be_built_again_only_with_the_same_rules() {
    let plain = |prefix: &str| Operation::builder("shop::refund").key_prefix(prefix);
    let pay = |prefix| pay(prefix, &Arc::default());
    for _ in 0..2 {
        assert!(pay("built.1").build().is_ok());
    }
    is_about_the_prefix(plain("built.1").build(), "built.1");
    is_about_the_prefix(pay("built.1").key_header("x-id").build(), "built.1");
    let http = Operation::builder("shop::pay").key_prefix("built.1").http();
    is_about_the_prefix(http.caller_header("x-team").build(), "built.1");
    assert!(plain("built.2").build().is_ok());
    is_about_the_prefix(pay("built.2").build(), "built.2");
}

#[tokio::test]
async fn a_layer_has_a_store_of_its_own_and_a_test_has_another() {
    let own = Arc::default();
    let app = pay("built.5", &own).build().unwrap().layer(counting());
    for _ in 0..2 {
        assert_eq!(respond(&app, request("k-1", "")).await, "200 1");
    }
    assert_eq!(own.len(), 1);
    let harness = Harness::default();
    let of_test = harness.within(respond(&app, request("k-1", ""))).await;
    assert_eq!(of_test, "200 2");
    assert_eq!((own.len(), harness.store.inner().len()), (1, 1));
}

#[tokio::test]
async fn a_layer_reads_the_variables_that_it_is_given() {
    let variables = [
        ("IDEMPOTENCY_DISABLED", "true"),
        ("IDEMPOTENCY_KEY_PREFIX", "shop"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let operation = Operation::builder("pay").variables(Variables::from_iter(variables));
    let http = operation.http().caller_header("x-user").build().unwrap();
    assert!(format!("{http:?}").contains(r#"key_prefix: "shop.pay""#));
    let app = http.layer(counting());
    for expected in ["200 1", "200 2"] {
        assert_eq!(respond(&app, request("k-1", "")).await, expected);
    }
}

#[tokio::test]
async fn the_key_may_stand_before_http_and_the_rules_of_http_follow_it() {
    let operation = Operation::builder("shop::pay").key_prefix("built.7");
    let http = operation
        .key("powertools_json(body).order")
        .store(Arc::new(MemoryStore::new()))
        .http()
        .caller_header("x-user")
        .fingerprint("powertools_json(body).amount")
        .key_required(false);
    let app = http.build().unwrap().layer(counting());
    for (body, expected) in [
        (r#"{"order":1,"amount":1,"at":1}"#, "200 1"),
        (r#"{"order":1,"amount":1,"at":2}"#, "200 1"),
        (r#"{"amount":1}"#, "200 2"),
        (r#"{"amount":1}"#, "200 3"),
        (r#"{"order":1,"amount":2}"#, "422 "),
    ] {
        let seen = respond(&app, request("k-1", body)).await;
        assert!(seen.starts_with(expected), "{body}: {seen}");
    }
}

#[tokio::test]
async fn a_handler_gets_text_as_text_and_bytes_as_bytes() {
    let kind = service_fn(async |request: Request| {
        Ok::<_, BoxError>(Response::new(Body::from(match request.body() {
            Body::Text(_) => "text",
            Body::Binary(_) => "binary",
            _ => "empty",
        })))
    });
    let app = pay("built.8", &Arc::default()).build().unwrap().layer(kind);
    for (key, body, expected) in [
        ("k-1", Body::from("{}"), "200 text"),
        ("k-2", Body::from(b"{}".to_vec()), "200 binary"),
        ("k-3", Body::from(b"\xff".to_vec()), "200 binary"),
    ] {
        assert_eq!(respond(&app, request(key, body)).await, expected);
    }
}

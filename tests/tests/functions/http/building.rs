//! The settings of a layer: prefixes, variables, other stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idempotency_lambda::{BoxError, Error, ErrorKind, MemoryStore, Operation, Variables};
use idempotency_tests::Harness;
use lambda_http::{Body, Request, Response, http, service_fn};
use lambda_runtime::tower::{Layer, ServiceExt};

fn request() -> Request {
    let request = http::Request::post("/payments").header("idempotency-key", "k-1");
    request.header("x-user", "u-1").body(Body::Empty).unwrap()
}

/// Returns a service that counts its runs.
fn counting()
-> impl lambda_runtime::Service<Request, Response = Response<Body>, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let runs = Arc::new(AtomicU32::new(1));
    service_fn(move |_: Request| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, BoxError>(Response::new(Body::Text(run.to_string()))) }
    })
}

fn is_about_the_prefix(built: Result<impl Sized, Error>, prefix: &str) {
    let error = built.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let shared = format!("share the key prefix `{prefix}`");
    assert!(error.to_string().contains(&shared), "{error}");
}

#[test]
fn two_operations_with_one_prefix_are_refused_in_either_order() {
    let plain = |prefix: &str| Operation::builder("shop::refund").key_prefix(prefix);
    let http = |prefix: &str| {
        let http = Operation::builder("shop::pay").key_prefix(prefix).http();
        http.caller_header("x-user").build()
    };
    assert!(http("built.1").is_ok());
    is_about_the_prefix(plain("built.1").build(), "built.1");
    assert!(plain("built.2").build().is_ok());
    is_about_the_prefix(http("built.2"), "built.2");
}

#[test]
fn an_operation_may_be_built_again_with_the_same_rules_alone() {
    let pay = || Operation::builder("shop::pay").key_prefix("built.3").http();
    assert!(pay().caller_header("x-user").build().is_ok());
    assert!(pay().caller_header("x-user").build().is_ok());
    is_about_the_prefix(pay().caller_header("x-team").build(), "built.3");
    is_about_the_prefix(
        pay().caller_header("x-user").key_header("x-id").build(),
        "built.3",
    );
}

#[tokio::test]
async fn a_layer_has_a_store_of_its_own_and_a_test_has_another() {
    let own = Arc::new(MemoryStore::new());
    let idempotent = Operation::builder("shop::pay")
        .key_prefix("built.5")
        .store(own.clone())
        .http()
        .caller_header("x-user")
        .build()
        .unwrap();
    let app = idempotent.layer(counting());
    let run = async || {
        let response = app.clone().oneshot(request()).await.unwrap();
        body_of(response).await
    };
    assert_eq!((run().await, run().await), ("1".to_owned(), "1".to_owned()));
    assert_eq!(own.len(), 1);
    let harness = Harness::default();
    assert_eq!(harness.within(run()).await, "2");
    assert_eq!((own.len(), harness.store.inner().len()), (1, 1));
}

#[tokio::test]
async fn a_layer_reads_the_variables_that_it_is_given() {
    let variables = [
        ("IDEMPOTENCY_DISABLED", "true"),
        ("IDEMPOTENCY_KEY_PREFIX", "shop"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let idempotent = Operation::builder("pay")
        .variables(Variables::from_iter(variables))
        .store(Arc::new(MemoryStore::new()))
        .http()
        .caller_header("x-user")
        .build()
        .unwrap();
    assert_eq!(idempotent.key_prefix(), "shop.pay");
    let app = idempotent.layer(counting());
    for run in ["1", "2"] {
        let response = app.clone().oneshot(request()).await.unwrap();
        assert_eq!(body_of(response).await, run);
    }
}

#[tokio::test]
async fn the_key_may_stand_before_http_and_the_rules_of_http_follow_it() {
    let idempotent = Operation::builder("shop::pay")
        .key_prefix("built.7")
        .key("powertools_json(body).order")
        .store(Arc::new(MemoryStore::new()))
        .http()
        .caller_header("x-user")
        .fingerprint("powertools_json(body).amount")
        .key_required(false)
        .documentation("https://shop.example/idempotency")
        .build()
        .unwrap();
    let app = idempotent.layer(counting());
    for (body, run) in [
        (r#"{"order":1,"amount":1,"at":1}"#, "1"),
        (r#"{"order":1,"amount":1,"at":2}"#, "1"),
        (r#"{"amount":1}"#, "2"),
        (r#"{"amount":1}"#, "3"),
    ] {
        let request = request().map(|_| Body::from(body));
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(body_of(response).await, run, "{body}");
    }
    let other = request().map(|_| Body::from(r#"{"order":1,"amount":2}"#));
    let refused = app.oneshot(other).await.unwrap();
    assert_eq!(refused.status(), 422);
    let link = "<https://shop.example/idempotency>; rel=\"describedby\"";
    assert_eq!(refused.headers()["link"], link);
}

/// Returns the body of a response as text.
async fn body_of<B>(response: Response<B>) -> String
where
    B: axum::body::HttpBody<Data = axum::body::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let body = axum::body::Body::new(response.into_body());
    let bytes = axum::body::to_bytes(body, 1_000).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

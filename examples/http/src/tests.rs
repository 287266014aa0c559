use std::sync::Arc;

use idempotency_lambda::http::service;
use idempotency_lambda::{LambdaEvent, MemoryStore, backend_over, with_backend};
use lambda_http::lambda_runtime::{FunctionResponse, Service};
use serde_json::Value;

use super::*;

/// Sends the event of `examples/events` to the API, after a change.
async fn send(app: &Router, request_id: &str, change: impl FnOnce(&mut Value)) -> Value {
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
    serde_json::to_value(response).unwrap()
}

/// Runs a test over a store of its own and an API whose bank is `reachable` or not.
async fn with_app<F: Future>(reachable: bool, test: impl FnOnce(Router) -> F) -> F::Output {
    let app = app(Bank::new(reachable)).unwrap();
    with_backend(backend_over(Arc::new(MemoryStore::new())), test(app)).await
}

#[tokio::test]
async fn a_retry_gets_the_first_response_and_is_marked_as_a_replay() {
    with_app(true, async |app| {
        let first = send(&app, "r-1", |_| ()).await;
        assert_eq!(first["statusCode"], 201);
        assert_eq!(first["body"], r#"{"refund_id":"ref-r-1","amount":1500}"#);
        let again = send(&app, "r-2", |_| ()).await;
        assert_eq!(again["body"], first["body"]);
        assert_eq!(again["headers"]["idempotent-replayed"], "true");
    })
    .await;
}

#[tokio::test]
async fn the_key_of_another_user_is_another_key() {
    with_app(true, async |app| {
        send(&app, "r-1", |_| ()).await;
        let theirs = send(&app, "r-2", |event| {
            event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = "u-2".into();
        });
        assert_eq!(
            theirs.await["body"],
            r#"{"refund_id":"ref-r-2","amount":1500}"#
        );
    })
    .await;
}

#[tokio::test]
async fn another_body_with_the_same_key_is_refused() {
    with_app(true, async |app| {
        send(&app, "r-1", |_| ()).await;
        let other = send(&app, "r-2", |event| {
            event["body"] = r#"{"payment_id":"pay-1001","amount":9900}"#.into();
        });
        assert_eq!(other.await["statusCode"], 422);
    })
    .await;
}

#[tokio::test]
async fn a_request_without_a_key_is_refused() {
    with_app(true, async |app| {
        let refused = send(&app, "r-1", |event| {
            event["headers"]
                .as_object_mut()
                .unwrap()
                .remove("idempotency-key");
        });
        assert_eq!(refused.await["statusCode"], 400);
    })
    .await;
}

#[tokio::test]
async fn a_bank_that_cannot_be_reached_leaves_the_key_free_for_a_retry() {
    with_app(false, async |app| {
        assert_eq!(send(&app, "r-1", |_| ()).await["statusCode"], 502);
        assert_eq!(send(&app, "r-2", |_| ()).await["statusCode"], 201);
    })
    .await;
}

#[tokio::test]
async fn an_invalid_request_gets_the_same_response_again() {
    with_app(true, async |app| {
        for replayed in [Value::Null, "true".into()] {
            let invalid = send(&app, "r-1", |event| {
                event["body"] = r#"{"payment_id":"pay-1001","amount":0}"#.into();
            });
            let invalid = invalid.await;
            assert_eq!(invalid["statusCode"], 400);
            assert_eq!(invalid["headers"]["idempotent-replayed"], replayed);
        }
    })
    .await;
}

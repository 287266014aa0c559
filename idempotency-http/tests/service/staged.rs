//! What becomes of the writes that a handler stages, by the response that it returns.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Request, Response};
use http_body_util::BodyExt;
use idempotency_core::config::Settings;
use idempotency_core::operation::{Call, Run};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_http::{
    ClientReply, HttpOperation, HttpOperationBuilder, Place, ReceivedRequest, Unstorable,
};
use tower::ServiceExt;
use tower_layer::Layer;

use crate::common::*;

/// Stages a write that adds one to an account.
fn stage(call: &Call) {
    let staged = call.stage(|writes: &mut MemoryWrites| {
        writes.push(LedgerEntry::add("shop", 1));
        Ok::<_, Infallible>(())
    });
    staged.unwrap();
}

fn operation(change: impl FnOnce(HttpOperationBuilder) -> HttpOperationBuilder) -> HttpOperation {
    let builder = builder().caller_header("x-user-id");
    change(builder).build().unwrap()
}

/// Looks for the key in the body, where the requests of this module have none.
fn key_in_event(builder: HttpOperationBuilder) -> HttpOperationBuilder {
    let builder = builder.key("powertools_json(body).order_id");
    builder.key_required(false)
}

fn with_key() -> Request<Body> {
    post().body(body("{}")).unwrap()
}

fn without_key() -> Request<Body> {
    let request = Request::post("/payments").header("x-user-id", "u-1");
    request.body(body("{}")).unwrap()
}

/// Sends a request through the layer to a handler that stages a write. Returns the response, and how many writes were applied.
async fn sent(
    operation: &HttpOperation,
    request: Request<Body>,
    response: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> (Response<Bytes>, i64) {
    let store = Arc::new(MemoryStore::new());
    let service = operation
        .layer(backend_over(&store))
        .layer(tower::service_fn(move |request: Request<Body>| {
            stage(request.extensions().get::<Call>().unwrap());
            let response = response();
            async move { Ok::<_, Infallible>(response) }
        }));
    let response = send(&service, request).await;
    (response, store.balance("shop"))
}

#[tokio::test]
async fn a_response_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let optional = operation(|builder| builder.key_required(false));
    let in_event = operation(key_in_event);
    for (status, applied) in [
        (200, 1),
        (303, 1),
        (422, 1),
        (403, 0),
        (409, 0),
        (429, 0),
        (500, 0),
        (503, 0),
    ] {
        for (operation, request) in [
            (&optional, with_key()),
            (&optional, without_key()),
            (&in_event, with_key()),
        ] {
            let (response, balance) = sent(operation, request, move || text(status, "x")).await;
            assert_eq!((response.status().as_u16(), balance), (status, applied));
            assert_eq!(response.body(), "x");
        }
    }
}

#[tokio::test]
async fn staged_writes_of_a_response_that_cannot_be_stored_are_applied_under_every_rule() {
    for rule in [
        Unstorable::Complete,
        Unstorable::Release,
        Unstorable::Refuse,
    ] {
        let optional = operation(|builder| {
            let builder = builder.key_required(false);
            builder.on_unstorable(rule).max_response_body(3)
        });
        for request in [with_key(), without_key()] {
            let (_, balance) = sent(&optional, request, || text(200, "too long")).await;
            assert_eq!(balance, 1, "{rule:?}");
        }
    }
    // The key is completed, so a duplicate does not apply them again.
    let store = Arc::new(MemoryStore::new());
    let released = operation(|builder| {
        builder
            .on_unstorable(Unstorable::Release)
            .max_response_body(3)
    });
    let service = released
        .layer(backend_over(&store))
        .layer(tower::service_fn(|request: Request<Body>| {
            stage(request.extensions().get::<Call>().unwrap());
            async { Ok::<_, Infallible>(text(200, "too long")) }
        }));
    let first = send(&service, with_key()).await;
    assert_eq!(
        (first.status().as_u16(), &first.body()[..]),
        (200, &b"too long"[..])
    );
    let second = send(&service, with_key()).await;
    assert_eq!(problem(&second), "urn:idempotency:response-unavailable");
    assert_eq!(store.balance("shop"), 1);
}

#[tokio::test]
async fn store_when_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let settings = Settings {
        store_when: Some("statusCode != `200`".into()),
        ..Settings::default()
    };
    let optional = operation(|builder| builder.settings(settings).key_required(false));
    for (status, applied) in [(200, 0), (201, 1)] {
        for request in [with_key(), without_key()] {
            let (response, balance) = sent(&optional, request, move || text(status, "x")).await;
            assert_eq!((response.status().as_u16(), balance), (status, applied));
        }
    }
}

#[tokio::test]
async fn a_request_in_memory_has_the_same_verdict_on_staged_writes_with_and_without_a_key() {
    let optional = operation(|builder| builder.key_required(false));
    let in_event = operation(key_in_event);
    for (status, applied) in [(200, 1), (409, 0), (500, 0)] {
        for (operation, request) in [
            (&optional, with_key()),
            (&optional, without_key()),
            (&in_event, with_key()),
        ] {
            let store = Arc::new(MemoryStore::new());
            let place = Place {
                backend: backend_over(&store),
                deadline: None,
                tenant: None,
            };
            let (parts, _) = request.into_parts();
            let call = operation.call(Ok(place), &ReceivedRequest::new(&parts, b"{}"));
            let response = Response::builder()
                .status(status)
                .body(Bytes::new())
                .unwrap();
            let run = call.run(
                async |call| {
                    stage(&call);
                    Ok::<_, Infallible>(response)
                },
                |response| Ok(response.clone()),
            );
            let sent = run.await.unwrap();
            assert!(matches!(sent, ClientReply::Own(response) if response.status() == status));
            assert_eq!(store.balance("shop"), applied, "{status}");
        }
    }
}

#[tokio::test]
async fn a_request_whose_event_has_no_key_runs_unprotected_and_its_stream_is_not_read() {
    let in_event = operation(|builder| {
        let builder = key_in_event(builder).collect_streams(true);
        builder.on_unstorable(Unstorable::Refuse)
    });
    let (store, read) = (Arc::new(MemoryStore::new()), Runs::default());
    let counted = read.clone();
    let service = in_event
        .layer(backend_over(&store))
        .layer(tower::service_fn(move |request: Request<Body>| {
            let call = request.extensions().get::<Call>().unwrap();
            assert_eq!((call.which_run(), call.key()), (Run::Unprotected, None));
            let counted = counted.clone();
            let chunks = stream::iter([Ok::<_, Infallible>("paid")]);
            let chunks = chunks.inspect(move |_| {
                counted.add();
            });
            async { Ok::<_, Infallible>(Response::new(Body::from_stream(chunks))) }
        }));
    for run in 0..2 {
        let response = service.clone().oneshot(with_key()).await.unwrap();
        assert_eq!(read.count(), run, "nothing is stored of it");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "paid");
    }
    assert!(store.is_empty());
}

//! Routers, routes and other services that take the layer, and what they make of paths.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request};
use axum::routing::{get, post as on_post};
use axum::{Json, Router};
use http_body_util::BodyExt;
use idempotency_core::error::Error as IdempotencyError;
use idempotency_http::{Backend, Host, HttpOperation, Place};
use lambda_http::Body as LambdaBody;
use serde_json::{Value, json};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::trace::TraceLayer;
use tower_layer::Layer;

use crate::common::*;
use crate::stack::{layer, payments};

#[tokio::test]
async fn a_router_a_route_and_a_handler_take_the_layer() {
    let handler = || async { Json(json!({"paid": true})) };
    let apps: [Router; 4] = [
        Router::new()
            .route("/payments", on_post(handler))
            .layer(layer()),
        Router::new()
            .route("/payments", on_post(handler))
            .route_layer(layer()),
        Router::new().route("/payments", on_post(handler).layer(layer())),
        Router::new().route("/payments", on_post(handler)).layer(
            ServiceBuilder::new()
                .layer(TraceLayer::new_for_http())
                .layer(layer()),
        ),
    ];
    for app in apps {
        for replayed in [false, true] {
            let response = send(&app, post().body(body("{}")).unwrap()).await;
            let paid: Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(
                (paid, is_replayed(&response)),
                (json!({"paid": true}), replayed)
            );
            assert_eq!(response.headers()["content-type"], "application/json");
        }
    }
}

#[tokio::test]
async fn a_layer_around_the_router_stores_404_and_a_route_layer_does_not_see_it() {
    let runs = Runs::default();
    let lost = || post().uri("/paymnets").body(body("{}")).unwrap();
    let around = payments(&runs).layer(layer());
    assert!(!is_replayed(&send(&around, lost()).await));
    assert!(
        is_replayed(&send(&around, lost()).await),
        "the mistake: 404 takes the key"
    );
    assert_eq!(
        send(&around, post().body(body("{}")).unwrap())
            .await
            .status(),
        422
    );

    let routes = payments(&runs).route_layer(layer());
    for _ in 0..2 {
        let response = send(&routes, lost()).await;
        assert_eq!(
            (response.status().as_u16(), is_replayed(&response)),
            (404, false)
        );
    }
    assert_eq!(
        send(&routes, post().body(body("{}")).unwrap())
            .await
            .status(),
        200
    );
}

#[tokio::test]
async fn routes_that_are_added_after_the_layer_are_not_protected() {
    let runs = Runs::default();
    let counted = runs.clone();
    let late = async move || counted.add().to_string();
    let app = Router::new()
        .route("/health", get(async || "ok"))
        .layer(layer())
        .route("/payments", on_post(late));
    for run in ["1", "2"] {
        assert_eq!(
            send(&app, post().body(body("{}")).unwrap()).await.body(),
            run
        );
    }
}

#[tokio::test]
async fn a_layer_inside_a_nested_router_sees_the_path_without_its_prefix() {
    let (runs, backend) = (Runs::default(), backend());
    let nested = payments(&runs).layer(operation().layer(backend.clone()));
    let app = Router::new()
        .nest("/v1", nested.clone())
        .nest("/v2", nested);
    let of = |uri: &str| post().uri(uri).body(body("{}")).unwrap();
    send(&app, of("/v1/payments")).await;
    let other = send(&app, of("/v2/payments")).await;
    assert!(
        is_replayed(&other),
        "the mistake: both are `/payments` of one operation"
    );

    let outside = Router::new()
        .nest("/v1", payments(&runs))
        .nest("/v2", payments(&runs))
        .layer(operation().layer(backend));
    let of = |uri: &str| {
        let mut request = of(uri);
        let key = HeaderValue::from_static("k-2");
        request.headers_mut().insert("idempotency-key", key);
        request
    };
    send(&outside, of("/v1/payments")).await;
    assert_eq!(send(&outside, of("/v2/payments")).await.status(), 422);
}

#[tokio::test]
async fn two_layers_of_one_operation_block_each_other_and_two_operations_do_not() {
    let runs = Runs::default();
    let one = operation().layer(backend());
    let twice = payments(&runs).layer(one.clone()).layer(one);
    let response = send(&twice, post().body(body("{}")).unwrap()).await;
    assert_eq!(
        problem(&response),
        "urn:idempotency:in-progress",
        "the mistake"
    );
    assert_eq!(runs.count(), 0);

    let outer = HttpOperation::builder("shop::gateway").caller_header("x-user-id");
    let app = payments(&runs)
        .layer(layer())
        .layer(outer.build().unwrap().layer(backend()));
    for replayed in [false, true] {
        let response = send(&app, post().body(body("{}")).unwrap()).await;
        assert_eq!(
            (response.status().as_u16(), is_replayed(&response)),
            (200, replayed)
        );
    }
    assert_eq!(runs.count(), 1);
}

#[test]
fn the_service_is_clone_send_and_sync_if_the_inner_one_is() {
    fn check<T: Clone + Send + Sync + 'static>(_: T) {}
    check(layer());
    let service = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, std::convert::Infallible>(axum::http::Response::new(Body::empty()))
    });
    check(layer().layer(service));
}

/// A host of Lambda: its handlers get bytes as bytes.
#[derive(Clone)]
struct Lambda(Backend);

impl Host for Lambda {
    async fn place(&self, operation: &str, request: &Parts) -> Result<Place, IdempotencyError> {
        self.0.place(operation, request).await
    }

    fn may_be_text(&self, body: &dyn std::any::Any) -> bool {
        matches!(body.downcast_ref(), Some(LambdaBody::Text(_)))
    }
}

#[tokio::test]
async fn services_of_the_lambda_runtime_get_text_as_text_and_bytes_as_bytes() {
    let runs = Runs::default();
    let counted = runs.clone();
    let handler = move |request: lambda_http::Request| {
        counted.add();
        async move {
            Ok::<_, lambda_http::Error>(lambda_http::Response::new(LambdaBody::from(match request
                .body()
            {
                LambdaBody::Text(_) => "text",
                LambdaBody::Binary(_) => "binary",
                _ => "empty",
            })))
        }
    };
    let service = operation()
        .layer(Lambda(backend()))
        .layer(lambda_http::service_fn(handler));
    for (key, sent, expected) in [
        ("k-1", LambdaBody::from("{}"), "text"),
        ("k-1", LambdaBody::from("{}"), "text"),
        ("k-2", LambdaBody::from(b"{}".to_vec()), "binary"),
        ("k-3", LambdaBody::from(b"\xff".to_vec()), "binary"),
    ] {
        let request = Request::post("/payments")
            .header("idempotency-key", key)
            .header("x-user-id", "u-1");
        let response = service.clone().oneshot(request.body(sent).unwrap()).await;
        let body = response.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), expected);
    }
    assert_eq!(runs.count(), 3);
}

//! What a client of a protected service sees: replays, refusals and their headers.
use http::Request;
use tower_layer::Layer;

use crate::common::*;

#[tokio::test]
async fn a_duplicate_gets_the_first_response_and_the_handler_runs_one_time() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |run| text(201, format!("charge {run}"))));
    let first = send(&service, post().body(body("{}")).unwrap()).await;
    let second = send(&service, post().body(body("{}")).unwrap()).await;
    assert_eq!(
        (first.status(), second.status()),
        (http::StatusCode::CREATED, http::StatusCode::CREATED)
    );
    assert_eq!(
        (&first.body()[..], &second.body()[..]),
        (&b"charge 1"[..], &b"charge 1"[..])
    );
    assert!(!is_replayed(&first) && is_replayed(&second));
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn methods_that_are_not_protected_pass_unchanged() {
    let runs = Runs::default();
    let service = operation()
        .layer(backend())
        .layer(app(&runs, |run| text(200, run.to_string())));
    for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
        let request = Request::builder().method(method).uri("/payments");
        let response = send(&service, request.body(body("")).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert!(!is_replayed(&response));
    }
    assert_eq!(runs.count(), 5);
}

//! The outcome event of a request, and what is never written to a log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use http::Request;
use idempotency_http::{HttpOperation, Unstorable};
use tower_layer::Layer;
use tracing::instrument::WithSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use crate::common::*;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the outcome events, each as JSON.
    fn events(&self) -> Vec<serde_json::Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|event: &serde_json::Value| {
                event["target"] == idempotency_core::event::TARGET
                    && event["fields"]["message"] == idempotency_core::event::MESSAGE
            })
            .collect()
    }
}

/// Sends requests to a service that responds with `secret-response`, and returns the log.
async fn logged(operation: HttpOperation, requests: Vec<Request<axum::body::Body>>) -> Log {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let service = operation
        .layer(backend())
        .layer(app(&Runs::default(), |_| text(200, "secret-response")));
    async {
        for request in requests {
            send(&service, request).await;
        }
    }
    .with_subscriber(subscriber)
    .await;
    log
}

fn with_key(key: &str) -> Request<axum::body::Body> {
    Request::post("/secret-path?secret-query")
        .header("idempotency-key", key)
        .header("x-user-id", "secret-caller")
        .header("content-type", "application/json")
        .body(body("{\"card\":\"secret-body\"}"))
        .unwrap()
}

#[tokio::test]
async fn no_log_contains_a_part_of_a_request_or_a_response() {
    let expression = builder().caller("powertools_json(body).secret").build();
    let headers = builder().caller_header("x-other").build();
    let log = |operation, requests| async move { logged(operation, requests).await.text() };
    let texts = [
        log(
            operation(),
            vec![with_key("secret-key"), with_key("secret-key")],
        )
        .await,
        log(
            operation(),
            vec![with_key("secret-key,"), with_key("\"secret-key")],
        )
        .await,
        log(expression.unwrap(), vec![with_key("secret-key")]).await,
        log(headers.unwrap(), vec![with_key("secret-key")]).await,
    ];
    for text in texts {
        assert!(text.contains("\"operation\":"), "a log was written: {text}");
        for secret in ["key", "path", "query", "caller", "body", "response"] {
            assert!(!text.contains(&format!("secret-{secret}")), "{text}");
        }
    }
}

#[tokio::test]
async fn each_request_has_one_outcome_event() {
    let log = logged(
        operation(),
        vec![
            with_key("k-1"),
            with_key("k-1"),
            with_key("a,b"),
            Request::post("/")
                .header("idempotency-key", "k")
                .body(body(""))
                .unwrap(),
            Request::post("/").body(body("")).unwrap(),
            Request::get("/").body(body("")).unwrap(),
        ],
    )
    .await;
    let outcomes: Vec<_> = log
        .events()
        .into_iter()
        .map(|event| {
            let error = event["fields"]["error"].as_str().map(str::to_owned);
            error.unwrap_or_else(|| event["fields"]["outcome"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(
        outcomes,
        [
            "executed",
            "replayed",
            "IdempotencyInvalidPayload",
            "IdempotencyKeyMissing",
            "IdempotencyKeyMissing",
        ]
    );
}

#[tokio::test]
async fn a_method_that_is_not_protected_and_has_a_key_is_a_warning_once() {
    let request = |method: &str, key: Option<&str>| {
        let request = Request::builder().method(method).uri("/secret-path");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        request.body(body("secret-body")).unwrap()
    };
    let requests = vec![
        request("GET", None),
        request("PUT", Some("secret-key")),
        request("PUT", Some("secret-key")),
        request("GET", Some("secret-key")),
    ];
    let log = logged(operation(), requests).await.text();
    assert_eq!(log.matches("\"WARN\"").count(), 1, "{log}");
    for part in ["local.shop.payments", "PUT", "`methods`", "ran unprotected"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(!log.contains("secret"), "{log}");
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_a_warning_that_says_why() {
    for policy in [
        Unstorable::Complete,
        Unstorable::Release,
        Unstorable::Refuse,
    ] {
        let operation = builder()
            .caller_header("x-user-id")
            .max_response_body(4)
            .on_unstorable(policy);
        let log = logged(operation.build().unwrap(), vec![with_key("k-1")]).await;
        let events = log.events();
        assert_eq!(events.len(), 1, "{policy:?}");
        assert_eq!(events[0]["level"], "WARN", "{policy:?}");
        let cause = events[0]["fields"]["cause"].as_str().unwrap();
        assert!(cause.contains("larger than `max_response_body`"), "{cause}");
    }
}

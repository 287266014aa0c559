//! Errors of the handler and of the store.

use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::lambda::InvokeError;

use crate::harness::{FUNCTIONS, Harness};
use crate::source::Request;

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_503_with_a_time_to_wait_and_no_run() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        harness
            .database
            .inject(Fault::on("PutItem").always().access_denied());
        for &source in sources {
            let request = Request::post("/payments", "\"k-1\"");
            let received = harness.send(source, &request).await;
            assert_eq!(received.status, 503, "{role} {source:?}: {received:?}");
            assert_eq!(received.names(), ["content-type", "retry-after"]);
            let seconds: u64 = received.header("retry-after").unwrap().parse().unwrap();
            assert!(seconds >= 1);
            assert_eq!(received.json()["type"], "urn:idempotency:unavailable");
        }
        harness.database.clear_faults();
        let request = Request::post("/payments", "\"k-1\"");
        let received = harness.send(sources[0], &request).await;
        assert_eq!(
            received.json()["run"],
            1,
            "{role}: the handler has not run before"
        );
    }
}

#[tokio::test]
async fn a_completion_that_is_not_confirmed_is_500_with_what_to_do() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        harness
            .database
            .inject(Fault::on("UpdateItem").always().access_denied());
        let request = Request::post("/payments", "\"k-1\"");
        let received = harness.send(sources[0], &request).await;
        assert_eq!(received.status, 500, "{role}: {received:?}");
        assert_eq!(
            received.header("content-type"),
            Some("application/problem+json")
        );
        let problem = received.json();
        assert_eq!(problem["type"], "urn:idempotency:not-confirmed", "{role}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("same key"), "{detail}");
        assert!(!received.names().contains(&"set-cookie"), "{role}");
    }
}

#[tokio::test]
async fn an_error_of_the_handler_frees_the_key_and_keeps_its_own_way_to_the_client() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        let request = Request::post("/fails", "\"k-1\"");
        for _ in 0..2 {
            match harness.try_send(sources[0], &request).await {
                // axum: the route has made a response of it.
                Ok(received) => {
                    assert!(
                        ["router", "lambda_http", "concurrent"].contains(&role),
                        "{role}"
                    );
                    assert_eq!(received.status, 500, "{role}");
                    assert_eq!(received.body, b"the card was declined", "{role}");
                }
                Err(InvokeError::Function {
                    error_type,
                    error_message,
                    ..
                }) => {
                    assert_eq!(
                        (&*error_type, &*error_message),
                        ("Error", "the card was declined"),
                        "{role}"
                    );
                }
                Err(error) => panic!("{role}: {error}"),
            }
        }
        // Both have run: each claimed the free key.
        assert_eq!(harness.claims().len(), 2, "{role}");
        let left = harness.database.items("idempotency").await.unwrap();
        // What a layer may have made leaves a mark in the free record.
        assert!(
            left.iter().all(|item| item.contains_key("failure")),
            "{role}: {left:?}"
        );
    }
}

#[tokio::test]
async fn a_server_error_is_sent_as_it_is_and_never_stored() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        let request = Request::post("/error", "\"k-1\"");
        for run in 1..=2 {
            let received = harness.send(sources[0], &request).await;
            assert_eq!(
                (received.status, &received.json()["run"]),
                (502, &run.into()),
                "{role}"
            );
            assert_eq!(
                received.header("set-cookie"),
                Some("session=s3cr3t"),
                "{role}"
            );
        }
        let left = harness.database.items("idempotency").await.unwrap();
        // What a layer may have made leaves a mark in the free record.
        assert!(
            left.iter().all(|item| item.contains_key("failure")),
            "{role}: {left:?}"
        );
    }
}

#[tokio::test]
async fn a_function_whose_settings_cannot_be_used_does_not_start() {
    let variables = [("IDEMPOTENCY_LEASE", "soon")];
    let harness = Harness::start_with("v2", &variables).await;
    match harness.process.ready().await {
        Err(InvokeError::Init {
            error_type,
            error_message,
            ..
        }) => {
            assert_eq!(error_type, "IdempotencyConfiguration");
            assert!(
                error_message.contains("IDEMPOTENCY_LEASE is `soon`"),
                "{error_message}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn protection_that_is_switched_off_needs_no_key_no_caller_and_no_table() {
    let variables = [("IDEMPOTENCY_DISABLED", "true")];
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start_with(role, &variables).await;
        for &source in sources {
            let mut request = Request::post("/payments", "").of(None);
            request.headers.clear();
            let received = harness.send(source, &request).await;
            assert_eq!(received.status, 201, "{role} {source:?}: {received:?}");
        }
        assert!(harness.database.requests().is_empty(), "{role}");
    }
}

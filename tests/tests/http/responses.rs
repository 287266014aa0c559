//! Each response of `draft-ietf-httpapi-idempotency-key-header`, header by header, for each function and source.

use serde_json::Value;

use crate::harness::{FUNCTIONS, Harness, now};
use crate::source::{Received, Request, Source};

/// Checks a response of this framework: its status, every header, and the members of its body.
fn is_problem(received: &Received, status: u64, kind: &str, retry_after: bool) {
    assert_eq!(received.status, status, "{received:?}");
    assert_eq!(
        received.header("content-type"),
        Some("application/problem+json")
    );
    let mut names = vec!["content-type"];
    names.extend(retry_after.then_some("retry-after"));
    assert_eq!(received.names(), names);
    let problem = received.json();
    assert_eq!(problem["type"], format!("urn:idempotency:{kind}"));
    assert_eq!(problem["status"], status);
    for member in ["title", "detail"] {
        assert!(
            problem[member].as_str().is_some_and(|text| text.len() > 10),
            "{problem}"
        );
    }
    assert_eq!(problem.as_object().unwrap().len(), 4, "{problem}");
}

fn run(received: &Received) -> Value {
    received.json()["run"].clone()
}

/// Checks the first response: the handler's own, unchanged.
fn is_own(received: &Received) {
    assert_eq!(received.status, 201, "{received:?}");
    let names = ["content-type", "location", "set-cookie", "x-trace"];
    assert_eq!(received.names(), names);
    assert_eq!(received.header("content-type"), Some("application/json"));
    let location = format!("/payments/{}", run(received));
    assert_eq!(received.header("location"), Some(&*location));
    assert_eq!(received.header("set-cookie"), Some("session=s3cr3t"));
}

/// Checks a replay: the same result and body, without what belongs to one exchange.
fn is_replay_of(received: &Received, first: &Received) {
    assert_eq!(received.status, first.status);
    assert_eq!(received.body, first.body);
    let names = ["content-type", "idempotent-replayed", "location"];
    assert_eq!(received.names(), names);
    assert_eq!(received.header("idempotent-replayed"), Some("true"));
    for name in ["content-type", "location"] {
        assert_eq!(received.header(name), first.header(name));
    }
}

async fn every_response(role: &'static str, sources: &[Source]) {
    let harness = Harness::start(role).await;
    for &source in sources {
        let key = format!("\"{source:?}-1\"");
        let request = Request::post("/payments?b=2&a=1&a=3", &key);
        let first = harness.send(source, &request).await;
        is_own(&first);
        is_replay_of(&harness.send(source, &request).await, &first);
        // JSON with other white space and order is the same request, and so is the key without quotes.
        let mut again = request.clone().body(br#"{"currency":"EUR","amount":1}"#);
        again.headers[0].1 = key.trim_matches('"').to_owned();
        is_replay_of(&harness.send(source, &again).await, &first);

        let other = request.clone().body(br#"{"amount":2,"currency":"EUR"}"#);
        is_problem(
            &harness.send(source, &other).await,
            422,
            "key-reused",
            false,
        );
        let elsewhere = Request::post("/payments?a=1&a=3&b=3", &key);
        is_problem(
            &harness.send(source, &elsewhere).await,
            422,
            "key-reused",
            false,
        );

        let mut keyless = request.clone();
        keyless.headers.clear();
        is_problem(
            &harness.send(source, &keyless).await,
            400,
            "key-missing",
            false,
        );
        let long = "k".repeat(256);
        for malformed in ["", "\"\"", "\"open", "a b", "\"a\", \"b\"", &long] {
            let request = Request::post("/payments", malformed);
            let received = harness.send(source, &request).await;
            is_problem(&received, 400, "key-malformed", false);
        }
        let mut repeated = request.clone();
        let another = format!("{source:?}-2");
        repeated.headers.push(("Idempotency-Key", another));
        let received = harness.send(source, &repeated).await;
        // A load balancer sends the last value alone, and the start of `lambda_http` keeps the last value of an event of
        // format 1.
        let is_dropped = source == Source::ApiGatewayV1 && role.starts_with("lambda_http");
        let is_hidden = source == Source::Alb || is_dropped;
        if is_hidden {
            is_own(&received);
        } else {
            is_problem(&received, 400, "key-malformed", false);
        }
    }
}

/// Each function is a test of its own, so that the processes run side by side.
macro_rules! every_response_of {
    ($($test:ident: $role:literal;)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                let (role, sources) = FUNCTIONS.into_iter().find(|(role, _)| *role == $role).unwrap();
                every_response(role, sources).await;
            }
        )+
    };
}

every_response_of! {
    an_axum_router_sends_every_response: "router";
    a_service_of_lambda_http_sends_every_response: "service_fn";
    a_router_under_plain_lambda_http_sends_every_response: "lambda_http";
    a_router_with_concurrent_requests_sends_every_response: "concurrent";
    a_handler_of_payload_format_1_sends_every_response: "v1";
    a_handler_of_payload_format_2_sends_every_response: "v2";
    a_handler_of_a_load_balancer_sends_every_response: "alb";
    a_handler_of_a_function_url_sends_every_response: "url";
}

#[tokio::test]
async fn a_request_in_progress_is_409_with_the_rest_of_the_lease() {
    for (role, sources) in FUNCTIONS
        .into_iter()
        .filter(|(role, _)| *role != "concurrent")
    {
        let harness = Harness::start(role).await;
        let another = harness.lambda.start_process().await.unwrap();
        let source = sources[0];
        let request = Request::post("/slow", "\"k-1\"");
        let event = request.event(source);
        let deadline = now() + 20_000;
        let first = harness
            .process
            .invoke(event.clone())
            .deadline(deadline)
            .start();
        harness.process.wait_for_line("charged").await.unwrap();
        let reply = another.invoke(event).await.unwrap();
        let received = Received::read(source, &reply.json().unwrap());
        is_problem(&received, 409, "in-progress", true);
        let seconds: u64 = received.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=20).contains(&seconds), "{role}: {seconds}");
        harness.process.kill().await;
        assert!(first.await.is_err());
    }
}

#[tokio::test]
async fn a_concurrent_request_in_one_process_is_409() {
    let harness = Harness::start("concurrent").await;
    let request = Request::post("/slow", "\"k-1\"");
    let first = harness
        .process
        .invoke(request.event(Source::ApiGatewayV2))
        .start();
    harness.process.wait_for_line("charged").await.unwrap();
    let received = harness.send(Source::ApiGatewayV2, &request).await;
    is_problem(&received, 409, "in-progress", true);
    harness.process.kill().await;
    assert!(first.await.is_err());
}

#[tokio::test]
async fn a_request_without_a_known_caller_is_403() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let request = Request::post("/payments", "\"k-1\"").of(None);
            let received = harness.send(source, &request).await;
            is_problem(&received, 403, "caller-unknown", false);
        }
        assert!(harness.claims().is_empty(), "{role}");
    }
}

#[tokio::test]
async fn a_request_of_another_method_passes_unchanged_without_a_request_to_the_store() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let mut request = Request::post("/payments", "\"k-1\"");
            request.method = "PUT";
            let (first, second) = (
                harness.send(source, &request).await,
                harness.send(source, &request).await,
            );
            is_own(&first);
            is_own(&second);
            assert_ne!(run(&first), run(&second), "{role}");
        }
        assert!(harness.claims().is_empty(), "{role}");
    }
}

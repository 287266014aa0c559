//! Each response of `draft-ietf-httpapi-idempotency-key-header`, header by header, for each function and source.
//!
//! Errors of the handler and of the store.
//!
//! Binary bodies, byte for byte, and bodies that the table cannot hold.
//!
//! Deadlines, tenants and callers: what keeps requests with one key apart.
//!
//! Keys, callers, paths, bodies and responses never reach the log.

use idempotency_testkit::dynamodb::Fault;
use idempotency_tests::process::{Claim, now};
use serde_json::Value;

use super::functions::{BINARY, LARGEST_BODY};
use super::harness::{FUNCTIONS, Harness};
use super::harness::{Received, Request, Source};

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

#[tokio::test]
async fn a_store_that_cannot_be_asked_is_503_with_a_time_to_wait_and_no_run() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        harness.database.inject(
            Fault::on("PutItem")
                .always()
                .respond_with(400, "AccessDeniedException"),
        );
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
        harness.database.inject(
            Fault::on("UpdateItem")
                .always()
                .respond_with(400, "AccessDeniedException"),
        );
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
                Err(error) => {
                    assert_eq!(
                        (&*error.error_type, &*error.error_message),
                        ("Error", "the card was declined"),
                        "{role}"
                    );
                }
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
    let error = harness.process.ready().await.unwrap_err();
    assert_eq!(error.error_type, "IdempotencyConfiguration");
    let message = error.error_message;
    assert!(message.contains("IDEMPOTENCY_LEASE is `soon`"), "{message}");
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

#[tokio::test]
async fn a_binary_body_is_replayed_byte_for_byte_and_is_a_part_of_the_fingerprint() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let key = format!("\"{source:?}\"");
            let mut request = Request::post("/binary", &key).body(BINARY);
            request.headers.push(("X-Kind", "png".to_owned()));
            let first = harness.send(source, &request).await;
            assert!(first.body.starts_with(BINARY), "{role} {source:?}");
            assert_eq!(first.header("content-type"), Some("image/png"));
            let replay = harness.send(source, &request).await;
            assert_eq!(replay.header("idempotent-replayed"), Some("true"));
            assert_eq!(replay.body, first.body, "{role} {source:?}");
            assert_eq!(replay.header("content-type"), Some("image/png"));

            let mut bytes = BINARY.to_vec();
            bytes[0] += 1;
            let other = harness.send(source, &request.clone().body(&bytes)).await;
            assert_eq!(other.status, 422, "{role} {source:?}");
        }
    }
}

#[tokio::test]
async fn a_response_that_the_table_cannot_hold_is_never_replayed_and_never_runs_again() {
    for (role, first) in [
        ("large, Complete", 200),
        ("large, Release", 200),
        ("large, Refuse", 500),
    ] {
        let off = [
            ("IDEMPOTENCY_COMPRESS_ABOVE", "off"),
            ("IDEMPOTENCY_LARGE_RESPONSES", "off"),
        ];
        let harness = Harness::start_with(role, &off).await;
        let request = Request::post("/reports", "\"k-1\"");
        for status in [first, 500] {
            let received = harness.send(Source::ApiGatewayV2, &request).await;
            assert_eq!(received.status, status, "{role}");
            if status == 200 {
                assert_eq!(received.body.len(), 410_000);
            } else {
                let kind = &received.json()["type"];
                assert_eq!(kind, "urn:idempotency:response-unavailable", "{role}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_of_nearly_6_mb_is_replayed_byte_for_byte() {
    // Each time limit is longer than any machine needs: what is shown does not depend on its speed.
    let harness = Harness::start_with("largest", &[("IDEMPOTENCY_STORE_TIMEOUT", "5m")]).await;
    let request = Request::post("/reports", "\"k-1\"");
    let first = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!((first.status, first.body.len()), (200, LARGEST_BODY));
    assert_eq!(first.header("idempotent-replayed"), None);
    let replay = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert!(replay.body == first.body);
}

async fn send(
    harness: &Harness,
    source: Source,
    request: &Request,
    tenant: &str,
    deadline: u64,
) -> Received {
    let invocation = harness.process.invoke(request.event(source));
    let reply = invocation.tenant(tenant).deadline(deadline).await.unwrap();
    Received::read(source, &reply.json().unwrap())
}

#[tokio::test]
async fn the_lease_ends_with_the_invocation_and_two_tenants_never_share() {
    for (role, sources) in FUNCTIONS.into_iter().chain([
        ("own runtime", &Source::ALL[..1]),
        ("route", &Source::ALL[1..2]),
    ]) {
        let harness = Harness::start(role).await;
        let request = Request::post("/payments", "\"k-1\"");
        let deadline = now() + 20_000;
        let blue = send(&harness, sources[0], &request, "blue", deadline + 1).await;
        let green = send(&harness, sources[0], &request, "green", deadline + 2).await;
        let again = send(&harness, sources[0], &request, "blue", deadline + 3).await;
        assert_ne!(blue.body, green.body, "{role}");
        assert_eq!(blue.body, again.body, "{role}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{role}");
        let claims = harness.claims();
        assert_eq!(claims.len(), 3, "{role}: {claims:?}");
        for (Claim { id, lease_ends }, (tenant, end)) in
            claims.iter().zip([("blue", 1), ("green", 2), ("blue", 3)])
        {
            assert!(
                id.starts_with(&format!("pay#tenant={tenant}#")),
                "{role}: {id}"
            );
            assert_eq!(*lease_ends, deadline + end, "{role}");
        }
    }
}

#[tokio::test]
async fn a_streaming_runtime_replays_and_the_lease_ends_with_the_invocation() {
    let harness = Harness::start("lambda_http, streaming").await;
    let request = Request::post("/payments", "\"k-1\"");
    let deadline = now() + 20_000;
    for _ in 0..2 {
        let invocation = harness.process.invoke(request.event(Source::ApiGatewayV2));
        let reply = invocation.deadline(deadline).await.unwrap();
        assert!(reply.payload.contains(r#"{"run":1}"#), "{}", reply.payload);
    }
    // The layer sees the whole body of this router: only the way to the client is a stream.
    assert_eq!(harness.claims()[0].lease_ends, deadline);
}

/// The attack that a key without the caller allows: a client guesses or learns the key of another client.
#[tokio::test]
async fn a_client_that_sends_the_key_of_another_client_gets_a_run_of_its_own() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let request = Request::post("/payments", &format!("\"{source:?}\""));
            let victim = harness.send(source, &request.clone().of(Some("u-1"))).await;
            let attacker = harness.send(source, &request.of(Some("u-2"))).await;
            assert_eq!(attacker.status, 201, "{role} {source:?}");
            assert_eq!(
                attacker.header("idempotent-replayed"),
                None,
                "{role} {source:?}"
            );
            assert_ne!(attacker.body, victim.body, "{role} {source:?}");
        }
    }
}

#[tokio::test]
async fn a_client_cannot_write_the_caller_itself() {
    let harness = Harness::start("v2").await;
    let mut request = Request::post("/payments", "\"k-1\"").of(None);
    request
        .headers
        .push(("X-Amzn-Oidc-Identity", "u-1".to_owned()));
    request.headers.push(("requestContext", "u-1".to_owned()));
    let received = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!(received.status, 403);
}

/// It is a part of everything that a client or the handler writes.
pub(crate) const CANARY: &str = "canary7141";

#[tokio::test]
async fn no_part_of_a_request_or_a_response_is_logged_at_any_level() {
    for role in ["canary", "canary, attribute"] {
        let harness = Harness::start(role).await;
        let request = |key: &str, body: &str| {
            Request::post("/canary7141?q=canary7141", key)
                .of(Some(CANARY))
                .body(body.as_bytes())
        };
        let key = format!("\"{CANARY}\"");
        let body = format!(r#"{{"{CANARY}":"{CANARY}"}}"#);
        let first = request(&key, &body);
        let requests = [
            (200, first.clone()),
            (200, first.clone()),
            (422, request(&key, CANARY)),
            (400, request(&format!("{CANARY};"), &body)),
            (400, request("", &body)),
            (403, first.of(None)),
        ];
        for (status, request) in requests {
            let received = harness.send(Source::ApiGatewayV2, &request).await;
            assert_eq!(received.status, status, "{role} {received:?}");
            let text = String::from_utf8(received.body).unwrap();
            assert_eq!(text.contains(CANARY), status == 200, "{role}");
        }
        harness
            .process
            .wait_for_line("idempotent call")
            .await
            .unwrap();
        let log = harness.process.log();
        let mut lines = log.iter().map(|line| &*line.text);
        assert!(lines.clone().count() > 5, "the log is not empty");
        assert_eq!(lines.find(|line| line.contains(CANARY)), None, "{role}");
    }
}

//! Each response of `draft-ietf-httpapi-idempotency-key-header`, header by header, for each function and source.

use idempotency_testkit::dynamodb::Fault;
use idempotency_tests::process::{Claim, now};

use super::functions::{BINARY, LARGEST_BODY};
use super::harness::{Harness, Received, Request, Source, sources};

/// Checks a response of this framework: its status, every header, and the members of its body.
fn is_problem(received: &Received, status: u64, kind: &str, retry_after: bool) {
    assert_eq!(received.status, status, "{received:?}");
    let content_type = received.header("content-type");
    assert_eq!(content_type, Some("application/problem+json"));
    let mut names = vec!["content-type"];
    names.extend(retry_after.then_some("retry-after"));
    assert_eq!(received.names(), names);
    let problem = received.json();
    assert_eq!(problem["type"], format!("urn:idempotency:{kind}"));
    assert_eq!(problem["status"], status);
    for member in ["title", "detail"] {
        let text = problem[member].as_str().unwrap();
        assert!(text.len() > 10, "{problem}");
    }
    assert_eq!(problem.as_object().unwrap().len(), 4, "{problem}");
}

/// Returns the number of the run that made a response.
fn run(received: &Received) -> u64 {
    received.json()["run"].as_u64().unwrap()
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

/// Sends every kind of request to one process of a function, from each of its sources.
async fn every_response(role: &'static str) {
    let (harness, sources) = (Harness::start(role).await, sources(role));
    for &source in sources {
        a_request_and_its_duplicates(&harness, source).await;
        refusals(&harness, source).await;
        another_method(&harness, source).await;
        another_client(&harness, source).await;
        a_binary_body(&harness, source).await;
    }
    two_tenants(&harness, sources[0]).await;
    ends_of_a_run(&harness, sources[0]).await;
    faults_of_the_store(&harness, sources).await;
    in_progress(&harness, sources[0]).await;
}

/// Each function is a test of its own, so that the processes run side by side.
macro_rules! every_response_of {
    ($($test:ident: $role:literal;)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                every_response($role).await;
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

async fn a_request_and_its_duplicates(harness: &Harness, source: Source) {
    let key = format!("\"{source:?}-1\"");
    let request = Request::post("/payments?b=2&a=1&a=3", &key);
    let first = harness.send(source, &request).await;
    is_own(&first);
    is_replay_of(&harness.send(source, &request).await, &first);
    // JSON with other white space and order is the same request, and so is the key without quotes.
    let mut again = request.clone().body(br#"{"currency":"EUR","amount":1}"#);
    again.headers[0].1 = key.trim_matches('"').to_owned();
    is_replay_of(&harness.send(source, &again).await, &first);
    let other = request.body(br#"{"amount":2,"currency":"EUR"}"#);
    let elsewhere = Request::post("/payments?a=1&a=3&b=3", &key);
    for request in [other, elsewhere] {
        let received = harness.send(source, &request).await;
        is_problem(&received, 422, "key-reused", false);
    }
}

/// Requests that are refused before a request to the table.
async fn refusals(harness: &Harness, source: Source) {
    let claims = harness.claims().len();
    let request = Request::post("/payments", "\"k-1\"");
    let mut stranger = request.clone().of(None);
    if harness.role == "v2" {
        // A client cannot write the caller itself.
        let headers = ["X-Amzn-Oidc-Identity", "requestContext"];
        let written = headers.map(|name| (name, "u-1".to_owned()));
        stranger.headers.extend(written);
    }
    let mut keyless = request.clone();
    keyless.headers.clear();
    let long = "k".repeat(256);
    let malformed = ["", "\"\"", "\"open", "a b", "\"a\", \"b\"", &long];
    let malformed = malformed.map(|key| (Request::post("/payments", key), 400, "key-malformed"));
    let refused = [
        (keyless, 400, "key-missing"),
        (stranger, 403, "caller-unknown"),
    ];
    for (request, status, kind) in refused.into_iter().chain(malformed) {
        let received = harness.send(source, &request).await;
        is_problem(&received, status, kind, false);
    }
    assert_eq!(harness.claims().len(), claims, "{source:?}");

    let mut repeated = request;
    let another = format!("{source:?}-2");
    repeated.headers.push(("Idempotency-Key", another));
    let received = harness.send(source, &repeated).await;
    // A load balancer sends only the last value, and plain `lambda_http` keeps only the last value of an event of payload
    // format 1.
    let is_dropped = source == Source::ApiGatewayV1 && harness.role.starts_with("lambda_http");
    if source == Source::Alb || is_dropped {
        is_own(&received);
    } else {
        is_problem(&received, 400, "key-malformed", false);
    }
}

/// A request of a method that is not protected passes unchanged, without a request to the table.
async fn another_method(harness: &Harness, source: Source) {
    let claims = harness.claims().len();
    let mut request = Request::post("/payments", "\"k-1\"");
    request.method = "PUT";
    let first = harness.send(source, &request).await;
    let second = harness.send(source, &request).await;
    is_own(&first);
    is_own(&second);
    assert_ne!(run(&first), run(&second));
    assert_eq!(harness.claims().len(), claims, "{source:?}");
}

/// The attack that a key without the caller allows: a client guesses or learns the key of another client.
async fn another_client(harness: &Harness, source: Source) {
    let request = Request::post("/payments", &format!("\"{source:?}-3\""));
    let victim = harness.send(source, &request).await;
    let attacker = harness.send(source, &request.of(Some("u-2"))).await;
    is_own(&attacker);
    assert_ne!(attacker.body, victim.body, "{source:?}");
}

/// A binary body is replayed byte for byte, and is a part of the fingerprint.
async fn a_binary_body(harness: &Harness, source: Source) {
    let key = format!("\"{source:?}-4\"");
    let mut request = Request::post("/binary", &key).body(BINARY);
    request.headers.push(("X-Kind", "png".to_owned()));
    let first = harness.send(source, &request).await;
    assert!(first.body.starts_with(BINARY), "{source:?}");
    assert_eq!(first.header("content-type"), Some("image/png"));
    is_replay_of(&harness.send(source, &request).await, &first);
    let mut bytes = BINARY.to_vec();
    bytes[0] += 1;
    let other = harness.send(source, &request.body(&bytes)).await;
    is_problem(&other, 422, "key-reused", false);
}

/// The lease ends with the invocation, and two tenants never share.
async fn two_tenants(harness: &Harness, source: Source) {
    let before = harness.claims().len();
    let request = Request::post("/payments", "\"k-5\"");
    let deadline = now() + 20_000;
    let tenants = [
        ("blue", deadline + 1),
        ("green", deadline + 2),
        ("blue", deadline + 3),
    ];
    let mut received = Vec::new();
    for (tenant, deadline) in tenants {
        let invocation = harness.process.invoke(request.event(source));
        let reply = invocation.tenant(tenant).deadline(deadline).await.unwrap();
        received.push(Received::read(source, &reply.json().unwrap()));
    }
    let [blue, green, again] = &received[..] else {
        panic!("{received:?}");
    };
    is_own(green);
    assert_ne!(blue.body, green.body);
    is_replay_of(again, blue);
    let claims = &harness.claims()[before..];
    assert_eq!(claims.len(), tenants.len(), "{claims:?}");
    for (Claim { id, lease_ends }, (tenant, deadline)) in claims.iter().zip(tenants) {
        assert!(id.starts_with(&format!("pay#tenant={tenant}#")), "{id}");
        assert_eq!(*lease_ends, deadline, "{tenant}");
    }
}

/// An error of the handler reaches the client as without this framework, and a server error is sent as it is. Both free the key: the
/// next request runs, and the record that is left has a mark at most.
async fn ends_of_a_run(harness: &Harness, source: Source) {
    let (claims, held) = (harness.claims().len(), harness.held().await);
    let fails = Request::post("/fails", "\"k-6\"");
    for _ in 0..2 {
        match harness.try_send(source, &fails).await {
            // axum: the route has made a response of it.
            Ok(received) => {
                let is_axum = ["router", "lambda_http", "concurrent"].contains(&harness.role);
                assert!(is_axum && received.status == 500, "{received:?}");
                assert_eq!(received.body, b"the card was declined");
            }
            Err(error) => {
                let shown = (&*error.error_type, &*error.error_message);
                assert_eq!(shown, ("Error", "the card was declined"));
            }
        }
    }
    let error = Request::post("/error", "\"k-7\"");
    let mut runs = [0; 2];
    for number in &mut runs {
        let received = harness.send(source, &error).await;
        assert_eq!(received.status, 502, "{received:?}");
        assert_eq!(received.header("set-cookie"), Some("session=s3cr3t"));
        *number = run(&received);
    }
    assert_eq!(runs[1], runs[0] + 1);
    assert_eq!(harness.claims().len(), claims + 4);
    assert_eq!(harness.held().await, held);
}

/// A store that cannot be asked leads to 503 with a time to wait, and no run. An unconfirmed completion leads to 500 with what to do.
async fn faults_of_the_store(harness: &Harness, sources: &[Source]) {
    let refused = |operation: &str| {
        let fault = Fault::on(operation).always();
        fault.respond_with(400, "AccessDeniedException")
    };
    let pay = async |source, key| harness.send(source, &Request::post("/payments", key)).await;
    let before = run(&pay(sources[0], "\"k-8\"").await);
    harness.database.inject(refused("PutItem"));
    for &source in sources {
        let received = pay(source, "\"k-9\"").await;
        is_problem(&received, 503, "unavailable", true);
        let seconds: u64 = received.header("retry-after").unwrap().parse().unwrap();
        assert!(seconds >= 1);
    }
    harness.database.clear_faults();
    let after = run(&pay(sources[0], "\"k-9\"").await);
    assert_eq!(after, before + 1, "no refused request ran");
    harness.database.inject(refused("UpdateItem"));
    let received = pay(sources[0], "\"k-10\"").await;
    is_problem(&received, 500, "not-confirmed", true);
    let detail = received.json()["detail"].to_string();
    assert!(detail.contains("same key"), "{detail}");
    harness.database.clear_faults();
}

/// A duplicate of a request in progress gets 409 with the rest of the lease. At the end the process is killed.
async fn in_progress(harness: &Harness, source: Source) {
    let event = Request::post("/slow", "\"k-11\"").event(source);
    let first = harness.process.invoke(event.clone());
    let first = first.deadline(now() + 20_000).start();
    harness.process.wait_for_line("charged").await.unwrap();
    let another = match harness.role {
        "concurrent" => harness.process.clone(),
        _ => harness.lambda.start_process().await.unwrap(),
    };
    let reply = another.invoke(event).await.unwrap();
    let received = Received::read(source, &reply.json().unwrap());
    is_problem(&received, 409, "in-progress", true);
    let seconds: u64 = received.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&seconds), "{seconds}");
    harness.process.kill().await;
    assert!(first.await.is_err());
}

/// A layer of one route, a runtime of the program's own, and a streaming one, which passes the whole body of this router.
#[tokio::test]
async fn the_lease_ends_with_the_invocation_in_every_runtime() {
    for (role, source) in [
        ("own runtime", Source::ApiGatewayV1),
        ("route", Source::ApiGatewayV2),
    ] {
        two_tenants(&Harness::start(role).await, source).await;
    }
    let harness = Harness::start("lambda_http, streaming").await;
    let request = Request::post("/payments", "\"k-1\"");
    let deadline = now() + 20_000;
    for _ in 0..2 {
        let invocation = harness.process.invoke(request.event(Source::ApiGatewayV2));
        let reply = invocation.deadline(deadline).await.unwrap();
        assert!(reply.payload.contains(r#"{"run":1}"#), "{}", reply.payload);
    }
    assert_eq!(harness.claims()[0].lease_ends, deadline);
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

/// The layer reads the switch, and so does the attribute.
#[tokio::test]
async fn protection_that_is_switched_off_says_so_and_needs_no_key_no_caller_and_no_table() {
    let variables = [("IDEMPOTENCY_DISABLED", "true")];
    for role in ["router", "v2"] {
        let harness = Harness::start_with(role, &variables).await;
        for &source in sources(role) {
            let mut request = Request::post("/payments", "").of(None);
            request.headers.clear();
            is_own(&harness.send(source, &request).await);
        }
        assert!(harness.database.requests().is_empty(), "{role}");
        let warning = "every handler runs unprotected";
        let warned = harness.process.wait_for_line(warning);
        warned.await.unwrap();
    }
}

#[tokio::test]
async fn a_response_that_the_table_cannot_hold_is_never_replayed_and_never_runs_again() {
    let off = [
        ("IDEMPOTENCY_COMPRESS_ABOVE", "off"),
        ("IDEMPOTENCY_LARGE_RESPONSES", "off"),
    ];
    for (role, first) in [
        ("large, Complete", 200),
        ("large, Release", 200),
        ("large, Refuse", 500),
    ] {
        let harness = Harness::start_with(role, &off).await;
        let request = Request::post("/reports", "\"k-1\"");
        for status in [first, 500] {
            let received = harness.send(Source::ApiGatewayV2, &request).await;
            match status {
                200 => assert_eq!((received.status, received.body.len()), (200, 410_000)),
                _ => is_problem(&received, 500, "response-unavailable", false),
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
        let logged = harness.process.wait_for_line("idempotent call");
        logged.await.unwrap();
        let log = harness.process.log();
        let mut lines = log.iter().map(|line| &*line.text);
        assert!(lines.clone().count() > 5, "the log is not empty");
        assert_eq!(lines.find(|line| line.contains(CANARY)), None, "{role}");
    }
}

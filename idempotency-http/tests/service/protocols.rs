//! Two protocols that prescribe idempotency for payments by agents, as examples: `docs/guide/http.md` has a table of each.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use idempotency_http::{Problem, Reason};
use serde_json::{Value, json};

use crate::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The Agentic Commerce Protocol. The layer that authenticates has put the identity into `x-user-id`.
fn agentic_commerce() -> HttpOperation {
    HttpOperation::builder("shop::checkout")
        .variables(Variables::default())
        .caller_header("x-user-id")
        .key_per_path(true)
        .fingerprint_rfc8785([])
        .methods([Method::POST])
        .expires_after(DAY)
        .add_headers(echo)
        .error_response(flat)
        .build()
        .unwrap()
}

/// Returns the key of the request, which each response must have. The handler adds it to its own.
fn echo(request: &HeaderMap) -> HeaderMap {
    let key = request.get("idempotency-key");
    let key = key.map(|key| (HeaderName::from_static("idempotency-key"), key.clone()));
    key.into_iter().collect()
}

/// Returns an error in the protocol's form.
fn flat(problem: &Problem) -> Response<Bytes> {
    let (kind, code) = match problem.reason() {
        Reason::KeyMissing => ("invalid_request", "idempotency_key_required"),
        Reason::InProgress => ("invalid_request", "idempotency_in_flight"),
        Reason::KeyReused => ("invalid_request", "idempotency_conflict"),
        Reason::Unavailable => ("service_unavailable", "unavailable"),
        reason if reason.status().is_server_error() => ("processing_error", "failed"),
        _ => ("invalid_request", "invalid"),
    };
    with_json(
        problem,
        json!({"type": kind, "code": code, "message": problem.detail()}),
    )
}

/// Returns the response of a problem with another body.
fn with_json(problem: &Problem, body: Value) -> Response<Bytes> {
    let mut response = problem.response().map(|_| Bytes::from(body.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Returns a POST of JSON by client `u-1`.
fn json_to(path: &str, body: &str) -> Request<Body> {
    let head = Request::post(path).header("x-user-id", "u-1");
    of(
        head.header(CONTENT_TYPE, "application/json"),
        body.to_owned(),
    )
}

/// Returns the request under this key.
fn keyed(key: &'static str, mut request: Request<Body>) -> Request<Body> {
    let key = HeaderValue::from_static(key);
    request.headers_mut().insert("idempotency-key", key);
    request
}

/// Returns what a client sees of a response: of an error the code.
fn seen_by_agent(response: &Response<Bytes>) -> String {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let code = body["code"].as_str().or(body["errors"][0]["code"].as_str());
    match code {
        Some(code) => format!("{} {code}", response.status().as_u16()),
        None => seen(response),
    }
}

async fn sent(app: &App, request: Request<Body>) -> String {
    seen_by_agent(&send(app, request).await)
}

#[tokio::test]
async fn agentic_commerce_scopes_keys_to_identity_and_endpoint_and_compares_bodies_alone() {
    let (app, _) = count(agentic_commerce().layer(backend()));
    let (create, update) = ("/checkout_sessions", "/checkout_sessions/cs_1");
    let amounts = r#"{"total":1,"items":[1,2],"note":null}"#;
    for (key, path, body, expected) in [
        (None, create, amounts, "400 idempotency_key_required"),
        (Some("k-1"), create, amounts, "200 1"),
        (Some("k-1"), create, amounts, "200 1, replayed"),
        // Other orders of members and other zeros are the same body.
        (
            Some("k-1"),
            create,
            r#"{"note":null,"items":[1,2.0],"total":1.0}"#,
            "200 1, replayed",
        ),
        (
            Some("k-1"),
            create,
            r#"{"total":1,"items":[2,1],"note":null}"#,
            "422 idempotency_conflict",
        ),
        (
            Some("k-1"),
            create,
            r#"{"total":1,"items":[1,2]}"#,
            "422 idempotency_conflict",
        ),
        // Another endpoint has its own keys. A POST may have no body.
        (Some("k-1"), update, amounts, "200 2"),
        (Some("k-1"), "/checkout_sessions/cs_1/cancel", "", "200 3"),
        (
            Some("k-1"),
            "/checkout_sessions/cs_1/cancel",
            "",
            "200 3, replayed",
        ),
        (Some("k-1"), "/checkout_sessions/cs_2/cancel", "", "200 4"),
    ] {
        let request = json_to(path, body);
        let request = match key {
            Some(key) => keyed(key, request),
            None => request,
        };
        assert_eq!(sent(&app, request).await, expected, "{key:?} {path} {body}");
    }
    // Headers are not compared, and another identity has its own keys.
    let mut request = keyed("k-1", json_to(create, amounts));
    let headers = request.headers_mut();
    headers.insert("request-id", HeaderValue::from_static("r-2"));
    let replay = send(&app, request).await;
    assert_eq!(seen_by_agent(&replay), "200 1, replayed");
    assert_eq!(replay.headers()["idempotency-key"], "k-1");
    let mut request = keyed("k-1", json_to(create, amounts));
    let headers = request.headers_mut();
    headers.insert("x-user-id", HeaderValue::from_static("u-2"));
    assert_eq!(sent(&app, request).await, "200 5");
}

#[tokio::test]
async fn agentic_commerce_answers_409_while_a_request_runs_and_stores_no_5xx() {
    let clock = Arc::new(TestClock::default());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let app = hang(agentic_commerce().layer(backend_with(store.clone(), &clock))).0;
    let running = start(&app);
    let (again, _) = count(agentic_commerce().layer(backend_with(store, &clock)));
    let refused = send(&again, request()).await;
    assert_eq!(seen_by_agent(&refused), "409 idempotency_in_flight");
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["idempotency-key"], "\"k-1\"");
    drop(running);

    let (app, runs) = serve(agentic_commerce().layer(backend()), |run| {
        text(if run == 1 { 500 } else { 201 }, run.to_string())
    });
    assert_eq!(twice(&app).await, ["500 1", "201 2"]);
    assert_eq!(answer(&app, request()).await, "201 2, replayed");
    assert_eq!(runs.count(), 2);
}

/// The Ad Context Protocol, with a path for each tool. The layer that authenticates has put the agent into `x-user-id`.
fn ad_context() -> HttpOperation {
    HttpOperation::builder("ads::tasks")
        // A failed task is an error, also in a 200.
        .store_when("powertools_json(body).status != 'failed'")
        .variables(Variables::default())
        .caller_header("x-user-id")
        .key("powertools_json(body).[account, idempotency_key]")
        .fingerprint_rfc8785([
            "/idempotency_key",
            "/context",
            "/governance_context",
            "/push_notification_config/authentication/credentials",
        ])
        .stored_statuses(|status| status.is_success()) // `build` refuses it under `on_timeout = "hold"`
        .expires_after(DAY)
        .error_response(listed)
        .build()
        .unwrap()
}

/// Returns an error in the protocol's form.
fn listed(problem: &Problem) -> Response<Bytes> {
    let (code, recovery) = match problem.reason() {
        Reason::InProgress => ("IDEMPOTENCY_IN_FLIGHT", "transient"),
        Reason::KeyReused => ("IDEMPOTENCY_CONFLICT", "correctable"),
        reason if reason.status() == StatusCode::BAD_REQUEST => ("INVALID_REQUEST", "correctable"),
        _ => ("SERVICE_UNAVAILABLE", "transient"),
    };
    let wait = problem.retry_after();
    let error = json!({
        "code": code, "message": problem.detail(), "recovery": recovery, "retry_after": wait,
    });
    with_json(problem, json!({ "errors": [error] }))
}

/// Returns the request of a media buy. `rest` are members after those of every request.
fn buy(account: &str, rest: &str) -> Request<Body> {
    let body = format!(
        r#"{{"idempotency_key":"8e03978e-40d5-43dd","account":{{"account_id":"{account}"}},"budget":1{rest}}}"#
    );
    json_to("/create_media_buy", &body)
}

#[tokio::test]
async fn ad_context_takes_the_key_from_the_body_and_compares_all_but_four_members() {
    let (app, _) = count(ad_context().layer(backend()));
    let of_push = |push: &str| format!(r#","push_notification_config":{push}"#);
    let signed = |token: &str| {
        let auth = format!(r#"{{"authentication":{{"scheme":"s","credentials":"{token}"}}}}"#);
        of_push(&auth)
    };
    let conflict = "422 IDEMPOTENCY_CONFLICT";
    for (account, rest, expected) in [
        ("a", "", "200 1"),
        ("a", r#","context":{"trace":1}"#, "200 1, replayed"),
        (
            "a",
            r#","context":{"trace":2},"governance_context":"t""#,
            "200 1, replayed",
        ),
        // No list says what is compared: a member that is new to the seller counts, and null is a member.
        ("a", r#","ext":{"x":1}"#, conflict),
        ("a", r#","note":null"#, conflict),
        // One key, another account.
        ("b", &signed("t-1"), "200 2"),
        ("b", &signed("t-2"), "200 2, replayed"),
        (
            "b",
            &of_push(r#"{"authentication":{"scheme":"t"}}"#),
            conflict,
        ),
    ] {
        assert_eq!(
            sent(&app, buy(account, rest)).await,
            expected,
            "{account} {rest}"
        );
    }
    // 1 is 1.0. Another tool is another payload, and another agent has its own keys.
    let spaced =
        r#"{"budget":1.0, "account":{"account_id":"a"}, "idempotency_key":"8e03978e-40d5-43dd"}"#;
    let same = json_to("/create_media_buy", spaced);
    assert_eq!(sent(&app, same).await, "200 1, replayed");
    let tool = json_to("/update_media_buy", spaced);
    assert_eq!(sent(&app, tool).await, conflict);
    let mut agent = buy("a", "");
    let headers = agent.headers_mut();
    headers.insert("x-user-id", HeaderValue::from_static("u-2"));
    assert_eq!(sent(&app, agent).await, "200 3");
    for body in [
        r#"{"account":{"account_id":"a"}}"#,
        r#"{"idempotency_key":"8e03978e-40d5-43dd"}"#,
    ] {
        let refused = sent(&app, json_to("/create_media_buy", body)).await;
        assert_eq!(refused, "400 INVALID_REQUEST", "{body}");
    }
}

#[tokio::test]
async fn ad_context_stores_successes_alone_and_finds_a_conflict_while_a_request_runs() {
    let (app, _) = serve(ad_context().layer(backend()), |run| match run {
        1 => text(400, "{}"),
        2 => text(200, r#"{"status":"failed"}"#),
        _ => text(200, format!(r#"{{"status":"completed","id":{run}}}"#)),
    });
    let (failed, done) = (
        r#"200 {"status":"failed"}"#,
        r#"200 {"status":"completed","id":3}"#,
    );
    for expected in ["400 {}", failed, done, &format!("{done}, replayed")] {
        assert_eq!(sent(&app, buy("a", "")).await, expected);
    }

    let app = hang(ad_context().layer(backend())).0;
    let mut running = Box::pin(app.clone().oneshot(buy("a", "")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(running.as_mut().poll(&mut context).is_pending());
    let refused = send(&app, buy("a", "")).await;
    assert_eq!(seen_by_agent(&refused), "409 IDEMPOTENCY_IN_FLIGHT");
    let body: Value = serde_json::from_slice(refused.body()).unwrap();
    assert_eq!(body["errors"][0]["retry_after"], 1);
    let other = sent(&app, buy("a", r#","ext":1"#)).await;
    assert_eq!(other, "422 IDEMPOTENCY_CONFLICT");
}

#[test]
fn the_guide_shows_these_operations() {
    let guide = include_str!("../../../docs/guide/http.md");
    let (_, section) = guide.split_once("## Payments by agents").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let source: Vec<_> = include_str!("protocols.rs")
        .lines()
        .map(str::trim)
        .collect();
    let blocks: Vec<_> = section.split("```").skip(1).step_by(2).collect();
    assert_eq!(blocks.len(), 2);
    for line in blocks.iter().flat_map(|block| block.lines().skip(1)) {
        assert!(source.contains(&line.trim()), "{line}");
    }
}

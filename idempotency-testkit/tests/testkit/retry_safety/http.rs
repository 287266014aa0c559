//! Effects at a provider over HTTP, in one handler and in steps.

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use idempotency_lambda::{BoxError, Call, Steps};
use idempotency_testkit::retry_safety::SafetyVerdict::{EffectLost, EffectTwice};
use idempotency_testkit::retry_safety::{
    Provider, Row, SafetyReport, SafetyVerdict, World, retry_safety,
};
use serde_json::{Value, json};

use super::fault::{CRASH_AFTER, CRASH_BEFORE, DUPLICATE, LOST_REPLY, NO_REPLY, REFUSED, TAKEOVER};
use super::{assert_found, in_operation, operation, order};

pub(crate) fn provider() -> Provider {
    Provider::new(|request| {
        let payment_id = format!("pay-{}", request.number);
        (201, json!({ "payment_id": payment_id }))
    })
    .honours("idempotency-key")
}

/// Sends a request to the provider and returns its reply.
pub(crate) async fn send(
    world: &World,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &Value,
) -> Result<Value, BoxError> {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(format!("{}{path}", world.url()));
    if let Some(token) = token {
        request = request.header("idempotency-key", token);
    }
    let request = request.body(Full::new(Bytes::from(body.to_string())))?;
    let reply = client.request(request).await?;
    let status = reply.status();
    let body = reply.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("the provider replied with {status}").into());
    }
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

/// Plays the check of a handler under the operation of this name.
async fn play(
    name: &'static str,
    handler: impl AsyncFn(&World, &Value) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> SafetyReport {
    let handler = async move |world: &World, event: &Value, _| handler(world, event).await;
    let check = in_operation(order(), move || operation(name), handler);
    check.provider(provider()).run().await
}

#[tokio::test]
async fn a_request_without_a_token_is_charged_twice() {
    let report = play("http.plain", async |world, event| {
        send(world, "POST", "/charges", None, &event["amount"]).await
    })
    .await;
    for fault in [CRASH_AFTER, LOST_REPLY, NO_REPLY, TAKEOVER] {
        assert_found(&report, "POST /charges", fault, EffectTwice);
    }
    let first = report.unsafe_rows()[0];
    assert_eq!(first.findings, ["`POST /charges` is 2 instead of 1"]);
    for fault in [CRASH_BEFORE, REFUSED, DUPLICATE] {
        let at_charge = |row: &&Row| row.point == "POST /charges" && row.fault == Some(fault);
        let row = report.rows().iter().find(at_charge).unwrap();
        assert_eq!(row.verdict, SafetyVerdict::Ok, "{fault}\n{report}");
    }
}

#[tokio::test]
async fn a_request_with_a_token_that_each_run_has_is_safe() {
    let report = play("http.token", async |world, event| {
        let token = event["order_id"].as_str();
        send(world, "POST", "/charges", token, &event["amount"]).await
    })
    .await;
    report.assert_safe();
}

#[tokio::test]
async fn a_token_that_each_run_makes_anew_protects_nothing() {
    let report = play("http.random", async |world, event| {
        let token = format!("run {}", world.delivery());
        send(world, "POST", "/charges", Some(&token), &event["amount"]).await
    })
    .await;
    assert_found(&report, "POST /charges", CRASH_AFTER, EffectTwice);
}

#[tokio::test]
async fn a_process_that_runs_meanwhile_breaks_no_connection_of_the_one_that_stands_still() {
    let handler = async |world: &World, event: &Value, _| {
        let sent = send(world, "POST", "/charges", Some("o-1"), &event["amount"]).await;
        if sent.is_err() {
            world.fake::<super::Outbox>().send();
        }
        sent
    };
    let check = in_operation(order(), || operation("http.meanwhile"), handler);
    let check = check.effect("errors", super::mails).provider(provider());
    let report = check.run().await;
    let meanwhile = |row: &&Row| matches!(row.fault, Some(DUPLICATE | TAKEOVER));
    let rows: Vec<_> = report.rows().iter().filter(meanwhile).collect();
    assert!(
        rows.iter().any(|row| row.point.contains("await")),
        "{report}"
    );
    for row in rows {
        assert_eq!(row.verdict, SafetyVerdict::Ok, "{report}");
    }
}

#[tokio::test]
async fn a_put_with_an_id_of_the_event_is_safe_without_a_token() {
    let report = play("http.put", async |world, event| {
        send(world, "PUT", "/orders/o-1", None, &event["amount"]).await?;
        Ok(json!({ "ordered": true }))
    })
    .await;
    report.assert_safe();
}

#[tokio::test]
async fn a_request_whose_error_is_ignored_is_lost() {
    let report = play("http.ignored", async |world, event| {
        let _ = send(world, "POST", "/mails", Some("o-1"), &event["amount"]).await;
        Ok(json!({ "mailed": true }))
    })
    .await;
    assert_found(&report, "POST /mails", REFUSED, EffectLost);
}

#[tokio::test]
async fn a_client_that_repeats_a_lost_request_by_itself_charges_twice_in_one_run() {
    let report = play("http.repeats", async |world, event| {
        for _ in 0..3 {
            let sent = send(world, "POST", "/charges", None, &event["amount"]).await;
            if sent.is_ok() {
                return sent;
            }
        }
        Err("the provider does not reply".into())
    })
    .await;
    assert_found(&report, "POST /charges", LOST_REPLY, EffectTwice);
}

/// Starts a server of the test's own, on a thread of its own. It replies to each connection.
fn own_server() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"done");
        }
    });
    address
}

/// Sends a request to the server and returns its reply.
async fn ask(address: std::net::SocketAddr) -> Result<String, BoxError> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.writable().await?;
    stream.try_write(b"do it")?;
    let mut reply = [0; 64];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut reply) {
            Ok(length) => return Ok(String::from_utf8_lossy(&reply[..length]).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[tokio::test]
async fn a_function_can_ask_a_server_of_the_tests_own() {
    let address = own_server();
    let report = retry_safety(order(), async move |world: World, _: Value| {
        let reply = ask(address).await?;
        world.fake::<super::Bank>().charge(Some("order"));
        Ok::<_, BoxError>(json!({ "reply": reply }))
    })
    .effect("charges", super::charges)
    .settle(std::time::Duration::from_secs(2))
    .run()
    .await;
    report.assert_safe();
}

fn numbered() -> Provider {
    Provider::new(|request| (201, json!({ "number": request.number }))).honours("idempotency-key")
}

/// Plays the check of an order: a reservation, then a charge. Each is a step, with or without a token.
async fn play_in_steps(with_tokens: bool) -> SafetyReport {
    let place = async move |world: &World, _: &Value, call: Call| {
        let mut done = Vec::new();
        for name in ["reserve", "charge"] {
            let step = call.named_step(name);
            let token = with_tokens.then(|| step.token().to_string());
            let path = format!("/{name}");
            let effect =
                || async { send(world, "POST", &path, token.as_deref(), &json!(name)).await };
            let result: Value = step.run(effect).await?;
            done.push(result);
        }
        Ok::<_, BoxError>(json!(done))
    };
    let check = in_operation(
        order(),
        || operation("steps.order").steps(Steps::Keep),
        place,
    );
    check.provider(numbered()).run().await
}

#[tokio::test]
async fn steps_with_tokens_are_safe_at_every_point() {
    let report = play_in_steps(true).await;
    report.assert_safe();
}

#[tokio::test]
async fn without_a_token_a_step_repeats_only_what_was_not_recorded() {
    let report = play_in_steps(false).await;
    for name in ["POST /reserve", "POST /charge"] {
        assert_found(&report, name, CRASH_AFTER, EffectTwice);
    }
    // At most one effect is repeated: a run goes on after the last recorded step.
    for row in report.unsafe_rows() {
        assert_eq!(row.findings.len(), 1, "{report}");
    }
}

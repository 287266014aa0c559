//! The local Lambda, with a real process on `lambda_runtime`: this test program, started again with the test [`the_function`].

use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, LocalLambda};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const ROLE: &str = "TESTKIT_ROLE";

pub(crate) fn function(role: &str) -> FunctionSpec {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["local_lambda::the_function", "--exact", "--nocapture"]);
    FunctionSpec::new("payment", command).env(ROLE, role)
}

async fn lambda(role: &str) -> LocalLambda {
    LocalLambda::start(function(role)).await.unwrap()
}

async fn process(role: &str) -> (LocalLambda, FunctionProcess) {
    let lambda = lambda(role).await;
    let process = lambda.start_process().await.unwrap();
    (lambda, process)
}

/// Runs the function in a process that a local Lambda started. Does nothing in the test run.
#[test]
fn the_function() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var(ROLE).as_deref() {
        Ok("handler") => {
            let served = runtime.block_on(lambda_runtime::run(service_fn(handler)));
            served.unwrap();
        }
        Ok("puts an order") => {
            let put = service_fn(crate::function_and_table::handler);
            runtime.block_on(lambda_runtime::run(put)).unwrap();
        }
        Ok("exits at start") => {
            eprintln!("no table");
            std::process::exit(3);
        }
        Ok("reports at start") => {
            let error = r#"{"errorType":"NoTable","errorMessage":"set it"}"#;
            call("POST", "init/error", error);
            std::thread::park();
        }
        Ok("by hand") => by_hand(),
        Ok("two at once") => two_at_once(),
        _ => {}
    }
}

async fn handler(event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let context = &event.context;
    println!("begun {}", event.payload);
    match event.payload["do"].as_str().unwrap_or_default() {
        "fail" => {
            return Err(Diagnostic {
                error_type: "CardDeclined".to_owned(),
                error_message: "no funds".to_owned(),
            });
        }
        "panic" => panic!("on purpose"),
        "exit" => std::process::exit(7),
        "hang" => std::future::pending().await,
        "context" => {
            return Ok(json!({
                "request_id": context.request_id,
                "deadline": context.deadline,
                "arn": context.invoked_function_arn,
                "tenant": context.tenant_id,
                "name": context.env_config.function_name,
                "memory": context.env_config.memory,
                "version": context.env_config.version,
                "log_group": context.env_config.log_group,
                "cargo": std::env::var("CARGO_MANIFEST_DIR").ok(),
            }));
        }
        "large" => return Ok(Value::String("x".repeat(7 << 20))),
        _ => {}
    }
    eprintln!("done");
    Ok(json!({ "process": std::process::id(), "event": event.payload }))
}

/// A runtime that violates the protocol, and prints the status of each request.
fn by_hand() {
    let id = next();
    for (path, body) in [
        ("invocation/unknown/response".to_owned(), "1"),
        ("nowhere".to_owned(), "1"),
        (format!("invocation/{id}/response"), "first"),
        (format!("invocation/{id}/response"), "second"),
        (format!("invocation/{id}/error"), "{}"),
    ] {
        let reply = call("POST", &path, body);
        println!("{} {}", &reply[9..12], reply.lines().last().unwrap());
    }
}

/// Takes two events before it responds to them.
fn two_at_once() {
    assert_eq!(std::env::var("AWS_LAMBDA_MAX_CONCURRENCY").unwrap(), "2");
    let ids = [next(), next()];
    for id in ids.iter().rev() {
        call(
            "POST",
            &format!("invocation/{id}/response"),
            &format!("\"{id}\""),
        );
    }
}

fn next() -> String {
    let next = call("GET", "invocation/next", "");
    let id = next
        .lines()
        .find_map(|line| line.strip_prefix("lambda-runtime-aws-request-id: "));
    id.unwrap().to_owned()
}

fn call(method: &str, path: &str, body: &str) -> String {
    let api = std::env::var("AWS_LAMBDA_RUNTIME_API").unwrap();
    let mut stream = TcpStream::connect(&api).unwrap();
    let length = body.len();
    let head =
        format!("{method} /2018-06-01/runtime/{path} HTTP/1.1\r\nhost: {api}\r\nconnection: close");
    write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[tokio::test]
async fn a_call_returns_the_response_and_its_own_log() {
    let (_lambda, process) = process("handler").await;
    process.ready().await.unwrap();
    for n in 1..=2 {
        let reply = process.invoke(json!({ "n": n }).to_string()).await.unwrap();
        assert_eq!(reply.json().unwrap()["event"], json!({ "n": n }));
        let log: Vec<_> = reply.log.iter().map(|line| line.text.as_str()).collect();
        let begun = format!("begun {{\"n\":{n}}}");
        assert_eq!(log.len(), 2, "{log:?}");
        // The one is on standard output, the other on standard error.
        assert!(log.contains(&begun.as_str()), "{log:?}");
        assert!(log.contains(&"done"), "{log:?}");
        assert!(!format!("{reply:?}").contains("begun"));
    }
}

#[tokio::test]
async fn the_function_gets_the_context_that_lambda_sends() {
    let function = function("handler").env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256");
    let lambda = LocalLambda::start(function).await.unwrap();
    let call = lambda
        .invoke(r#"{"do":"context"}"#)
        .request_id("r-1")
        .tenant("blue");
    let deadline = 4_000_000_000_000_u64;
    let reply = call.deadline(deadline).await.unwrap();
    let expected = json!({
        "request_id": "r-1",
        "deadline": deadline,
        "arn": "arn:aws:lambda:eu-central-1:123456789012:function:payment",
        "tenant": "blue",
        "name": "payment",
        "memory": 256,
        "version": "$LATEST",
        "log_group": "/aws/lambda/payment",
        "cargo": null,
    });
    assert_eq!(reply.json().unwrap(), expected);
}

#[tokio::test]
async fn an_error_has_the_type_and_the_message_that_lambda_gives_and_the_log() {
    let ended = "the function's process ended before it responded, see the log of this error:";
    let exit = format!("{ended} `Runtime.ExitError`: exit status: 7");
    let fail = "the function returned an error of type `CardDeclined`: no funds";
    let no_start = "the function did not start, see the log of this error: `NoTable`: set it";
    for (role, event, text, line) in [
        ("handler", r#"{"do":"fail"}"#, fail, "begun"),
        ("handler", r#"{"do":"exit"}"#, &exit, "begun"),
        ("reports at start", "{}", no_start, ""),
    ] {
        let error = lambda(role).await.invoke(event).await.unwrap_err();
        assert_eq!(error.to_string(), text);
        let is_logged = error.log.iter().any(|found| found.text.starts_with(line));
        assert!(is_logged || line.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn replies_that_violate_the_protocol_are_rejected() {
    let (_lambda, process) = process("by hand").await;
    let reply = process.invoke("{}").await.unwrap();
    assert_eq!(reply.payload, "first");
    assert!(process.wait_for_line("no such line").await.is_err());
    let log = process.log();
    let said = |text: &str| log.iter().any(|line| line.text.starts_with(text));
    assert!(said(
        r#"400 {"errorMessage":"Invalid request ID","errorType":"InvalidRequestID"}"#
    ));
    assert!(said("404 "));
    assert!(said(r#"202 {"status":"OK"}"#));
    let refused = log.iter().filter(|line| line.text.starts_with("403 "));
    assert_eq!(refused.count(), 2);
}

#[tokio::test]
async fn a_response_above_lambdas_limit_is_an_error() {
    let lambda = lambda("handler").await;
    let error = lambda.invoke(r#"{"do":"large"}"#).await.unwrap_err();
    assert_eq!(error.error_type, "Function.ResponseSizeTooLarge");
}

#[tokio::test]
async fn an_error_names_a_missing_program() {
    let function = FunctionSpec::new("payment", Command::new("no/such/program"));
    let lambda = LocalLambda::start(function).await.unwrap();
    let error = lambda.invoke("{}").await.unwrap_err();
    assert_eq!(error.error_type, "Runtime.InvalidEntrypoint");
    assert!(error.to_string().contains("no/such/program"), "{error}");
}

#[tokio::test]
async fn a_value_that_is_not_allowed_in_a_header_is_an_error() {
    let lambda = lambda("handler").await;
    let error = lambda.invoke("{}").tenant("a\nb").await.unwrap_err();
    assert_eq!(error.error_type, "InvalidRequestContentException");
    assert!(lambda.invoke("{}").request_id("a/b").await.is_err());
    assert!(lambda.processes().is_empty());
}

#[tokio::test]
async fn a_panic_is_an_error_and_its_process_continues() {
    let (_lambda, process) = process("handler").await;
    let error = process.invoke(r#"{"do":"panic"}"#).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the function returned an error"), "{text}");
    assert!(text.contains("on purpose"), "{text}");
    let reply = process.invoke("{}").await.unwrap();
    assert_eq!(
        reply.json().unwrap()["process"],
        json!(process.process_id())
    );
}

#[tokio::test]
async fn a_kill_in_the_handler_ends_the_invocation_and_those_that_wait() {
    let (_lambda, process) = process("handler").await;
    let running = process.invoke(r#"{"do":"hang"}"#).start();
    let waiting = process.invoke("{}").start();
    process.wait_for_line("begun").await.unwrap();
    process.kill().await;
    assert!(!process.is_alive());
    let error = running.await.unwrap_err();
    assert_eq!(error.log.len(), 1, "{:?}", process.log());
    assert_eq!(error.error_type, "Runtime.ExitError");
    assert!(error.error_message.starts_with("signal: 9"), "{error}");
    assert_eq!(waiting.await.unwrap_err().error_type, "Runtime.ExitError");
    let later = process.invoke("{}").await.unwrap_err();
    assert_eq!(later.error_type, "Runtime.ExitError");
    assert!(process.wait_for_line("begun").await.is_err());
}

#[tokio::test]
async fn an_expired_deadline_kills_the_process_and_the_next_call_gets_a_new_one() {
    let (lambda, process) = process("handler").await;
    let call = process.invoke(r#"{"do":"hang"}"#);
    let error = call
        .deadline_in(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert_eq!(error.error_type, "Sandbox.Timedout");
    assert!(!process.is_alive());
    lambda.invoke("{}").await.unwrap();
    assert_eq!(lambda.processes().len(), 2);
}

#[tokio::test]
async fn a_deadline_that_is_missing_or_not_enforced_is_only_sent() {
    let lambda = lambda("handler").await;
    for (deadline, enforce) in [(0, true), (1, false)] {
        let call = lambda.invoke(r#"{"do":"context"}"#).deadline(deadline);
        let reply = call.enforce_deadline(enforce).await.unwrap();
        assert_eq!(reply.json().unwrap()["deadline"], deadline);
    }
}

#[tokio::test]
async fn two_processes_handle_events_at_the_same_time() {
    let lambda = lambda("handler").await;
    let one = lambda.start_process().await.unwrap();
    let two = lambda.start_process().await.unwrap();
    let held = one.invoke(r#"{"do":"hang"}"#).start();
    one.wait_for_line("begun").await.unwrap();
    let reply = two.invoke("{}").await.unwrap();
    assert_eq!(reply.json().unwrap()["process"], json!(two.process_id()));
    assert_ne!(one.process_id(), two.process_id());
    one.kill().await;
    assert!(held.await.is_err());
    assert!(two.is_alive());
}

#[tokio::test]
async fn an_idle_process_is_used_again_and_a_busy_one_is_not() {
    let lambda = lambda("handler").await;
    let first = lambda.invoke("{}").await.unwrap().json().unwrap();
    let second = lambda.invoke("{}").await.unwrap().json().unwrap();
    assert_eq!(first["process"], second["process"]);
    let held = lambda.invoke(r#"{"do":"hang"}"#).start();
    let third = lambda.invoke("{}").await.unwrap().json().unwrap();
    assert_ne!(first["process"], third["process"]);
    drop(held);
}

#[tokio::test]
async fn a_concurrent_function_takes_several_events_in_one_process() {
    let function = function("two at once").concurrency(2);
    let lambda = LocalLambda::start(function).await.unwrap();
    let one = lambda.invoke("1").request_id("r-1").start();
    let two = lambda.invoke("2").request_id("r-2").start();
    let payloads = [one.await.unwrap().payload, two.await.unwrap().payload];
    assert_eq!(payloads, [r#""r-1""#, r#""r-2""#]);
    assert_eq!(lambda.processes().len(), 1);
}

#[tokio::test]
async fn a_process_that_ends_before_its_first_event_failed_to_start() {
    let lambda = lambda("exits at start").await;
    let error = lambda.invoke("{}").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("the function did not start"), "{text}");
    assert!(error.log.iter().any(|line| line.text == "no table"));
    assert_eq!(error.error_type, "Runtime.ExitError");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert!(lambda.start_process().await.unwrap().ready().await.is_err());
}

#[tokio::test]
async fn dropping_the_lambda_ends_its_processes() {
    let (lambda, process) = process("handler").await;
    let pending = process.invoke(r#"{"do":"hang"}"#).start();
    process.wait_for_line("begun").await.unwrap();
    drop(lambda);
    let error = pending.await.unwrap_err();
    assert_eq!(error.error_message, "its local Lambda was dropped");
    assert!(!process.is_alive());
    assert!(process.invoke("{}").await.is_err());
}

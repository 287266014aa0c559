//! Start and end of processes, deadlines, and the choice of a process for an event.

use super::*;

#[tokio::test]
async fn a_panic_is_an_error_and_its_process_continues() {
    let lambda = lambda("handler").await;
    let process = lambda.start_process().await.unwrap();
    let error = process.invoke(r#"{"do":"panic"}"#).await.unwrap_err();
    assert!(matches!(&error, InvokeError::Function { .. }), "{error:?}");
    assert!(error.to_string().contains("on purpose"), "{error}");
    let reply = process.invoke("{}").await.unwrap();
    assert_eq!(
        reply.json().unwrap()["process"],
        json!(process.process_id())
    );
}

#[tokio::test]
async fn a_kill_in_the_handler_ends_the_invocation_and_those_that_wait() {
    let lambda = lambda("handler").await;
    let process = lambda.start_process().await.unwrap();
    let running = process.invoke(r#"{"do":"hang"}"#).start();
    let waiting = process.invoke("{}").start();
    let line = process.wait_for_line("begun").await.unwrap();
    assert_eq!(line.source, LogSource::Stdout);
    process.kill().await;
    assert!(!process.is_alive());
    let error = running.await.unwrap_err();
    assert_eq!(error.log().len(), 1, "{:?}", process.log());
    assert!(
        matches!(error, InvokeError::Exited { status: Some(status), .. } if status.code().is_none())
    );
    assert!(matches!(waiting.await, Err(InvokeError::Exited { .. })));
    assert!(matches!(
        process.invoke("{}").await,
        Err(InvokeError::Exited { .. })
    ));
    assert!(process.wait_for_line("begun").await.is_err());
}

#[tokio::test]
async fn a_process_that_exits_is_not_a_timeout() {
    let lambda = lambda("handler").await;
    match lambda.invoke(r#"{"do":"exit"}"#).await {
        Err(InvokeError::Exited { status, .. }) => assert_eq!(status.unwrap().code(), Some(7)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_expired_deadline_kills_the_process_and_the_next_call_gets_a_new_one() {
    let lambda = lambda("handler").await;
    let process = lambda.start_process().await.unwrap();
    let call = process.invoke(r#"{"do":"hang"}"#);
    let error = call
        .deadline_in(Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(matches!(error, InvokeError::TimedOut { .. }), "{error:?}");
    assert!(!process.is_alive());
    lambda.invoke("{}").await.unwrap();
    assert_eq!(lambda.processes().len(), 2);
}

#[tokio::test]
async fn a_deadline_that_is_not_enforced_is_only_sent() {
    let lambda = lambda("handler").await;
    let call = lambda
        .invoke(r#"{"do":"context"}"#)
        .deadline(1)
        .enforce_deadline(false);
    assert_eq!(call.await.unwrap().json().unwrap()["deadline"], 1);
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
    let one = lambda.invoke("1").start();
    let two = lambda.invoke("2").start();
    let expected = [one.request_id(), two.request_id()].map(|id| format!("\"{id}\""));
    assert_eq!(
        [one.await.unwrap().payload, two.await.unwrap().payload],
        expected
    );
    assert_eq!(lambda.processes().len(), 1);
}

#[tokio::test]
async fn a_process_that_ends_before_its_first_event_failed_to_start() {
    let lambda = lambda("exits at start").await;
    let error = lambda.invoke("{}").await.unwrap_err();
    assert!(matches!(&error, InvokeError::Init { .. }), "{error:?}");
    assert!(error.log().iter().any(|line| line.text == "no table"));
    assert_eq!(error.error_type(), "Runtime.ExitError");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert!(lambda.start_process().await.unwrap().ready().await.is_err());
}

#[tokio::test]
async fn dropping_the_lambda_ends_its_processes() {
    let lambda = lambda("handler").await;
    let process: FunctionProcess = lambda.start_process().await.unwrap();
    let pending = process.invoke(r#"{"do":"hang"}"#).start();
    process.wait_for_line("begun").await.unwrap();
    drop(lambda);
    assert!(matches!(
        pending.await,
        Err(InvokeError::Exited { status: None, .. })
    ));
    assert!(!process.is_alive());
    assert!(process.invoke("{}").await.is_err());
}

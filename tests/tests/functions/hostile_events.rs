//! Hostile events for a function of 128 MB.

use std::process::Command;
use std::time::Duration;

use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use idempotency_testkit::lambda::LocalLambda;
use idempotency_tests::{hostile, process};
use serde::de::IgnoredAny;

/// The memory of the function, in MiB. An allocation beyond it fails and ends the process.
const MEMORY: u32 = 128;

#[idempotent(key_prefix = "whole")]
async fn whole(event: LambdaEvent<Raw<IgnoredAny>>) -> Result<usize, BoxError> {
    Ok(event.payload.text().len())
}

#[idempotent(key_prefix = "body", key = "powertools_json(body)")]
async fn body(event: LambdaEvent<Raw<IgnoredAny>>) -> Result<usize, BoxError> {
    Ok(event.payload.text().len())
}

#[idempotent(
    key_prefix = "packed",
    key = "powertools_json(powertools_base64_gzip(body))"
)]
async fn packed(event: LambdaEvent<Raw<IgnoredAny>>) -> Result<usize, BoxError> {
    Ok(event.payload.text().len())
}

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    match role {
        "body" => idempotency_lambda::run(body).await,
        "packed" => idempotency_lambda::run(packed).await,
        _ => idempotency_lambda::run(whole).await,
    }
}

/// Starts the function with a limit on its data memory.
async fn start(role: &str) -> Result<LocalLambda, BoxError> {
    let limited = format!("ulimit -d {} && exec \"$0\" \"$@\"", MEMORY * 1024);
    let function = process::command()?;
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(function.get_program());
    command.args(function.get_args());
    let function = process::function_by(command, format!("hostile_events/{role}"))
        .env("IDEMPOTENCY_STORE", "memory")
        .timeout(Duration::from_secs(300));
    Ok(LocalLambda::start(function).await?)
}

/// Returns the peak memory of the process, in MiB.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    peak.unwrap().parse::<u64>().unwrap() / 1024
}

/// Sends each event to one process, which must respond to all, and then an event that is not hostile.
async fn survives(role: &str, events: Vec<(&str, String)>) -> Result<(), BoxError> {
    let lambda = start(role).await?;
    let process = lambda.start_process().await?;
    for (name, event) in events.iter().chain(&events) {
        let response = match process.invoke(event.as_str()).await {
            Ok(reply) => reply.json()?.to_string(),
            Err(error) => error.error_type,
        };
        println!(
            "{role}: {name}: {response}; at most {} MiB",
            peak(process.process_id().unwrap())
        );
        let refusals = ["IdempotencyInvalidPayload", "IdempotencyExpressionFailed"];
        assert!(
            response == event.len().to_string() || refusals.contains(&response.as_str()),
            "{name}: {response}"
        );
        assert!(process.is_alive(), "{name}");
    }
    let harmless = match role {
        "packed" => hostile::in_body(&hostile::packed("[1]")),
        _ => hostile::in_body("[1]"),
    };
    assert_eq!(process.invoke(&harmless).await?.json()?, harmless.len());
    let most = peak(process.process_id().unwrap());
    assert!(most < u64::from(MEMORY), "{most} MiB");
    Ok(())
}

fn events(of: impl Fn(&hostile::Hostile) -> bool) -> Vec<(&'static str, String)> {
    let events = hostile::events().into_iter().filter(of);
    events.map(|event| (event.name, event.event)).collect()
}

#[tokio::test]
async fn a_function_of_128_mb_responds_to_every_hostile_event() -> Result<(), BoxError> {
    survives("whole", events(|hostile| hostile.key.is_none())).await
}

#[tokio::test]
async fn a_function_of_128_mb_responds_to_every_hostile_string() -> Result<(), BoxError> {
    let strings = events(|hostile| hostile.name.starts_with("JSON in a string"));
    survives("body", strings).await
}

#[tokio::test]
async fn a_function_of_128_mb_responds_to_every_gzip_bomb() -> Result<(), BoxError> {
    survives("packed", events(|hostile| hostile.name.contains("gzip"))).await
}

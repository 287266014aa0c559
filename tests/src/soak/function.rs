//! The function in Rust, as a process of the local Lambda runs it.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

/// The variable that makes a process the function.
pub const ROLE: &str = "SOAK_FUNCTION";
/// The variable with the folder where runs are noted.
pub(super) const FOLDER: &str = "SOAK_FOLDER";
/// The variable that says how many times as long this process takes.
pub(super) const SLOWNESS: &str = "SOAK_SLOWNESS";
/// What the ids of all records begin with, in either language.
pub(super) const KEY_PREFIX: &str = "soak";

/// What is delivered.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Event {
    pub(super) key: String,
    /// How long the handler takes, before its process's slowness.
    pub(super) work_ms: u64,
    /// How long the handler takes beyond that, whatever the process.
    pub(super) extra_ms: u64,
    pub(super) fails: bool,
}

/// What the caller is given: unlike that of any other run.
#[derive(Debug, Deserialize, Serialize)]
struct Response {
    key: String,
    run: String,
}

/// A line that a process notes: a run that began.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Began {
    pub(super) key: String,
    pub(super) run: String,
    pub(super) request_id: String,
    /// In microseconds since the epoch.
    pub(super) at_us: u64,
}

/// Serves events until the process is killed.
///
/// # Errors
/// If the function's settings are wrong.
pub async fn serve() -> Result<(), BoxError> {
    if std::env::var_os("AWS_LAMBDA_MAX_CONCURRENCY").is_none() {
        return idempotency_lambda::run(handler).await;
    }
    idempotency_lambda::init().await?;
    lambda_runtime::run_concurrent(idempotency_lambda::service(handler)).await
}

#[idempotent(
    key = "key",
    key_required = true,
    key_prefix = "soak",
    expires_after = "1h"
)]
async fn handler(event: LambdaEvent<Event>) -> Result<Response, BoxError> {
    static RUNS: AtomicU64 = AtomicU64::new(1);

    let Event {
        key,
        work_ms,
        extra_ms,
        fails,
    } = event.payload;
    let run = format!(
        "{}-{}",
        std::process::id(),
        RUNS.fetch_add(1, Ordering::Relaxed)
    );
    note(&Began {
        key: key.clone(),
        run: run.clone(),
        request_id: event.context.request_id,
        at_us: now_us(),
    })?;
    let slowness: u64 = std::env::var(SLOWNESS)?.parse()?;
    tokio::time::sleep(Duration::from_millis(work_ms * slowness + extra_ms)).await;
    if fails {
        return Err("declined".into());
    }
    Ok(Response { key, run })
}

/// One write: a process that is killed leaves whole lines.
fn note(began: &Began) -> Result<(), BoxError> {
    let folder = std::env::var(FOLDER)?;
    let file = format!("{folder}/{}.jsonl", std::process::id());
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    let mut line = serde_json::to_vec(began)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(())
}

fn now_us() -> u64 {
    micros(SystemTime::now())
}

pub(super) fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

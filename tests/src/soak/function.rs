//! The function in Rust, which the processes of the local Lambda run.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

/// The variable that makes a process the function.
pub const ROLE: &str = "SOAK_FUNCTION";
/// The variable that makes the function an HTTP server.
pub(super) const SERVER: &str = "SOAK_SERVER";
/// The variable with the URL of the Valkey server. Without a URL the store is a table of DynamoDB.
pub(super) const VALKEY: &str = "SOAK_VALKEY_URL";
/// The variable with the URL of the PostgreSQL server.
pub(super) const POSTGRES: &str = "SOAK_POSTGRES_URL";
/// The variable that lets the handler move money in PostgreSQL.
pub(super) const TRANSFERS: &str = "SOAK_TRANSFERS";
/// The variable with the folder in which runs are recorded.
pub(super) const FOLDER: &str = "SOAK_FOLDER";
/// The variable with the factor by which this process is slower.
pub(super) const SLOWNESS: &str = "SOAK_SLOWNESS";
/// The prefix of all record ids, in both languages.
pub(super) const KEY_PREFIX: &str = "soak";

/// The event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Event {
    pub(super) key: String,
    /// How long the handler takes in a process with slowness 1.
    pub(super) work_ms: u64,
    /// Extra time of the handler, the same in every process.
    pub(super) extra_ms: u64,
    pub(super) fails: bool,
}

impl Event {
    pub(super) fn new(key: impl Into<String>, work_ms: u64) -> Self {
        Self {
            key: key.into(),
            work_ms,
            extra_ms: 0,
            fails: false,
        }
    }
}

/// The response. `run` differs for each run.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Response {
    pub(super) key: String,
    pub(super) run: String,
    /// True if the run moved money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves: Option<bool>,
}

/// A line that a process writes when a run starts.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct RunStart {
    pub(super) key: String,
    pub(super) run: String,
    pub(super) request_id: String,
    /// The id of the record. Our function on Lambda and the one in Python do not say it: it follows from the key.
    #[serde(default)]
    pub(super) id: Option<String>,
    /// In microseconds since the epoch.
    pub(super) at_us: u64,
}

/// Serves events, or requests, until the process is killed.
///
/// # Errors
///
/// If the function's settings are wrong.
pub async fn serve() -> Result<(), BoxError> {
    if std::env::var_os(SERVER).is_some() {
        return super::server::serve().await;
    }
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
    work(event.payload, event.context.request_id, None).await
}

/// Records the run, and works as the event says.
pub(super) async fn work(
    event: Event,
    request_id: String,
    id: Option<String>,
) -> Result<Response, BoxError> {
    static RUNS: AtomicU64 = AtomicU64::new(1);

    let Event {
        key,
        work_ms,
        extra_ms,
        fails,
    } = event;
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let run = format!("{}-{number}", std::process::id());
    note(&RunStart {
        key: key.clone(),
        run: run.clone(),
        request_id,
        id,
        at_us: micros(SystemTime::now()),
    })?;
    let slowness: u64 = std::env::var(SLOWNESS)?.parse()?;
    tokio::time::sleep(Duration::from_millis(work_ms * slowness + extra_ms)).await;
    if fails {
        return Err("declined".into());
    }
    let moves = None;
    Ok(Response { key, run, moves })
}

/// Appends a line in one write, so that a killed process leaves no partial line.
fn note(began: &RunStart) -> Result<(), BoxError> {
    let folder = std::env::var(FOLDER)?;
    let file = format!("{folder}/{}.jsonl", std::process::id());
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    let mut line = serde_json::to_vec(began)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(())
}

pub(super) fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

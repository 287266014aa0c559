//! The function of the rehearsal's soak and alarms. Its event says how long it runs and how it ends.

use std::time::Duration;

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use serde::{Deserialize, Serialize};

/// The event.
#[derive(Deserialize, Serialize)]
struct Event {
    key: String,
    /// How long the handler takes, in milliseconds. If that is longer than the function's timeout, Lambda kills the process.
    #[serde(default)]
    work_ms: u64,
    #[serde(default)]
    end: End,
}

/// How the handler ends.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum End {
    #[default]
    Respond,
    /// It returns an error.
    Fail,
    /// The process ends without a response.
    Exit,
}

/// The response.
#[derive(Deserialize, Serialize)]
struct Response {
    key: String,
    /// The invocation that ran the handler, so that callers can compare which run made their response.
    run: String,
}

#[idempotent(key = "key", key_prefix = "probe", expires_after = "1d")]
async fn handler(event: LambdaEvent<Event>) -> Result<Response, BoxError> {
    let Event { key, work_ms, end } = event.payload;
    tokio::time::sleep(Duration::from_millis(work_ms)).await;
    match end {
        End::Respond => Ok(Response {
            key,
            run: event.context.request_id,
        }),
        End::Fail => Err("declined".into()),
        End::Exit => std::process::exit(1),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch(std::env::var("REHEARSAL_NAMESPACE")?)?;
    idempotency_lambda::run(handler).await
}

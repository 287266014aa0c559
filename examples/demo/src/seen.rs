//! What was observed of one event, from outside: the answer, the function's log and the requests to DynamoDB.

use std::fmt;

use idempotency_testkit::dynamodb::Request;
use idempotency_testkit::lambda::{InvokeError, LogLine, Reply};
use serde_json::Value;

/// What the function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// The handler ran under a claim.
    Ran,
    /// The handler ran without one.
    Unprotected,
    /// The handler ran and failed.
    Failed,
    /// The handler ran until its process was killed.
    Killed,
    /// The handler did not run: the answer came from the table.
    Replayed,
    /// The handler did not run: the answer came from the process's memory.
    Cached,
    /// The handler did not run, and there is no answer.
    Refused,
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ran => "ran",
            Self::Unprotected => "ran unguarded",
            Self::Failed => "ran, failed",
            Self::Killed => "ran, killed",
            Self::Replayed => "stored answer",
            Self::Cached => "cached answer",
            Self::Refused => "refused",
        })
    }
}

/// A request to DynamoDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    name: String,
    refused: bool,
    key: Option<String>,
    /// When the claim's lease ends, in ms since the epoch.
    pub(crate) lease_ends: Option<u64>,
}

impl Call {
    pub(crate) fn is_put(&self) -> bool {
        self.name == "Put"
    }
}

impl From<&Request> for Call {
    fn from(request: &Request) -> Self {
        let lease = &request.body["Item"]["in_progress_expiration"]["N"];
        let key = request.key("id");
        Self {
            name: request.operation.replace("Item", ""),
            refused: request.status != Some(200),
            // Behind the operation's name stands the digest, whose beginning will do here.
            key: key.map(|key| {
                key.rsplit('#')
                    .next()
                    .unwrap_or(key)
                    .chars()
                    .take(8)
                    .collect()
            }),
            lease_ends: lease.as_str().and_then(|lease| lease.parse().ok()),
        }
    }
}

/// `Put Update`; a write refused by its condition is marked.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(if self.refused { "✗" } else { "" })
    }
}

/// One event, or one message of a batch, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How often the handler began.
    pub(crate) runs: usize,
    pub(crate) did: Did,
    pub(crate) calls: Vec<Call>,
    /// The answer in short, or the `errorType`.
    pub(crate) told: String,
    /// The answer itself.
    pub(crate) payload: Option<String>,
}

impl Seen {
    /// Reads an outcome, where `first_line` is what the handler logs when it begins.
    pub(crate) fn read(
        outcome: Result<Reply, InvokeError>,
        calls: Vec<Call>,
        first_line: &str,
    ) -> Self {
        let log: &[LogLine] = match &outcome {
            Ok(reply) => &reply.log,
            Err(error) => error.log(),
        };
        let lines = || log.iter().map(|line| line.text.as_str());
        let runs = lines().filter(|line| line.contains(first_line)).count();
        let did = match (&outcome, runs) {
            (Ok(_), 0) if calls.is_empty() => Did::Cached,
            (Ok(_), 0) => Did::Replayed,
            (Ok(_), _) if calls.is_empty() => Did::Unprotected,
            (Ok(_), _) => Did::Ran,
            (Err(_), 0) => Did::Refused,
            (Err(InvokeError::Function { .. }), _) => Did::Failed,
            (Err(_), _) => Did::Killed,
        };
        Self {
            runs,
            did,
            calls,
            told: told(&outcome),
            payload: outcome.ok().map(|reply| reply.payload),
        }
    }

    /// The beginning of the key that DynamoDB was asked for; `None` if it was not asked.
    pub(crate) fn key(&self) -> Option<&str> {
        self.calls.first()?.key.as_deref()
    }

    /// The requests in order, such as `Put Update`.
    pub(crate) fn calls(&self) -> String {
        let calls: Vec<_> = self.calls.iter().map(Call::to_string).collect();
        if calls.is_empty() {
            "none".to_owned()
        } else {
            calls.join(" ")
        }
    }
}

/// The answer in a few words: what a customer would look for in it.
fn told(outcome: &Result<Reply, InvokeError>) -> String {
    let reply = match outcome {
        Ok(reply) => reply,
        Err(InvokeError::Exited { .. }) => return "none".to_owned(),
        Err(InvokeError::Function {
            error_type,
            error_message,
            ..
        }) if !error_type.starts_with("Idempotency") => {
            return format!("{error_type}: {error_message}");
        }
        Err(error) => return error.error_type().to_owned(),
    };
    let answer = reply.json().unwrap_or_default();
    let body: Value = answer["body"]
        .as_str()
        .and_then(|body| serde_json::from_str(body).ok())
        .unwrap_or_default();
    if let (Some(status), Some(payment)) =
        (answer["statusCode"].as_u64(), body["payment_id"].as_str())
    {
        return format!("{status} {payment}");
    }
    if let Some(parcel) = answer["tracking"].as_str() {
        return parcel.to_owned();
    }
    match answer["batchItemFailures"].as_array().map(Vec::len) {
        Some(0) => "none to repeat".to_owned(),
        Some(failures) => format!("{failures} to repeat"),
        None => "not understood".to_owned(),
    }
}

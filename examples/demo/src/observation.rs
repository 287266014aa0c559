//! What was observed of one event from outside: the response, the function's log and the requests to DynamoDB.

use std::fmt;

use idempotency_testkit::dynamodb::Request;
use idempotency_testkit::lambda::{InvokeError, LogLine, Reply};

use crate::response;

/// What the function did with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The handler ran under a claim.
    Ran,
    /// The handler ran without a claim.
    Unprotected,
    /// The handler ran and failed.
    Failed,
    /// The handler ran until its process was killed.
    Killed,
    /// The handler did not run: the response came from the table.
    Replayed,
    /// The handler did not run: the response came from the memory of the process.
    Cached,
    /// The handler did not run, and there is no response.
    Refused,
    /// The handler did not run for this part of a batch: an earlier part has the same key.
    Shared,
    /// This part of a batch was returned without a call.
    NotStarted,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ran => "ran",
            Self::Unprotected => "ran unprotected",
            Self::Failed => "ran, failed",
            Self::Killed => "ran, killed",
            Self::Replayed => "stored response",
            Self::Cached => "cached response",
            Self::Refused => "refused",
            Self::Shared => "same batch",
            Self::NotStarted => "not started",
        })
    }
}

/// A request to DynamoDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRequest {
    name: String,
    failed: bool,
    key: Option<String>,
    /// When the claim's lease ends, in ms since the epoch.
    pub(crate) lease_ends: Option<u64>,
}

impl TableRequest {
    pub(crate) fn is_put(&self) -> bool {
        self.name == "Put"
    }

    pub(crate) fn is_delete(&self) -> bool {
        self.name == "Delete"
    }

    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl From<&Request> for TableRequest {
    fn from(request: &Request) -> Self {
        let lease = &request.body["Item"]["in_progress_expiration"]["N"];
        let key = request.key("id");
        Self {
            name: request.operation.replace("Item", ""),
            failed: request.status != Some(200),
            key: key.map(short),
            lease_ends: lease.as_str().and_then(|lease| lease.parse().ok()),
        }
    }
}

/// Returns the first characters of the digest in a record id. It follows the key prefix.
pub(crate) fn short(record_id: &str) -> String {
    let digest = record_id.rsplit('#').next().unwrap_or(record_id);
    digest.chars().take(8).collect()
}

/// Writes the operation, such as `Put`, and marks a write whose condition failed.
impl fmt::Display for TableRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        f.write_str(if self.failed { "✗" } else { "" })
    }
}

/// What was observed of one event, or of one message of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The number of times the handler began.
    pub(crate) runs: usize,
    pub(crate) action: Action,
    pub(crate) requests: Vec<TableRequest>,
    /// A summary of the response, or the `errorType`.
    pub(crate) response: String,
    /// The bytes of the response, without the header of a replay.
    pub(crate) payload: Option<String>,
}

impl Observation {
    /// Derives the observation from an outcome. The handler logs `first_line` each time it begins.
    pub(crate) fn of(
        outcome: Result<Reply, InvokeError>,
        requests: Vec<TableRequest>,
        first_line: &str,
    ) -> Self {
        let log: &[LogLine] = match &outcome {
            Ok(reply) => &reply.log,
            Err(error) => error.log(),
        };
        let lines = || log.iter().map(|line| line.text.as_str());
        let runs = lines().filter(|line| line.contains(first_line)).count();
        let action = match (&outcome, runs) {
            // Over HTTP, a refusal and a failure are responses too.
            (Ok(reply), 0) if response::is_refusal(reply) => Action::Refused,
            (Ok(reply), _) if response::is_failure(reply) => Action::Failed,
            (Ok(_), 0) if requests.is_empty() => Action::Cached,
            (Ok(_), 0) => Action::Replayed,
            (Ok(_), _) if requests.is_empty() => Action::Unprotected,
            (Ok(_), _) => Action::Ran,
            (Err(_), 0) => Action::Refused,
            (Err(InvokeError::Function { .. }), _) => Action::Failed,
            (Err(_), _) => Action::Killed,
        };
        Self {
            runs,
            action,
            requests,
            response: response::summary(&outcome),
            payload: outcome.ok().map(response::stored_part),
        }
    }

    /// Returns the first characters of the key in the requests to DynamoDB; `None` if there was no request.
    pub(crate) fn key(&self) -> Option<&str> {
        self.requests.first()?.key.as_deref()
    }

    /// Returns the requests in order, such as `Put Update`.
    pub(crate) fn requests(&self) -> String {
        let requests: Vec<_> = self.requests.iter().map(TableRequest::to_string).collect();
        if requests.is_empty() {
            "none".to_owned()
        } else {
            requests.join(" ")
        }
    }
}

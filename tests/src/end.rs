//! The end of a call as a value that a test compares.

use idempotency_lambda::{BoxError, Bypass, Error, ErrorKind, Outcome, OutcomeKind};

/// The end of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum End<R> {
    /// The handler ran, and its response is stored.
    Ran(R),
    /// The handler ran, and its response is not stored.
    NotStored(R),
    /// The response of another call was returned.
    Replayed(R),
    /// The handler ran without protection.
    Bypassed(Bypass, R),
    /// The framework's error, without a run.
    Refused(ErrorKind),
    /// The framework's error, after the handler ran.
    AfterRun(ErrorKind),
    /// The handler's own error, as text.
    Failed(String),
}

/// Returns the end of a call with this result.
pub fn end<R>(result: Result<Outcome<R>, BoxError>) -> End<R> {
    match result {
        Ok(outcome) => match outcome.kind() {
            OutcomeKind::Executed { stored: true, .. } => End::Ran(outcome.into_response()),
            OutcomeKind::Executed { .. } => End::NotStored(outcome.into_response()),
            OutcomeKind::Replayed(_) => End::Replayed(outcome.into_response()),
            OutcomeKind::Bypassed(why) => End::Bypassed(*why, outcome.into_response()),
            other => panic!("{other:?} is not an end that a test knows"),
        },
        Err(error) => match error.downcast_ref::<Error>() {
            Some(ours) if ours.handler_ran() => End::AfterRun(ours.kind()),
            Some(ours) => End::Refused(ours.kind()),
            None => End::Failed(error.to_string()),
        },
    }
}

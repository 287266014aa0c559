//! What the protocol needs of the reply to a write.

use crate::protocol::{WriteErrorKind, WriteResult};
use crate::store::{Rejection, SendLog, Store, StoreError, StoreErrorKind, WriteOutcome};

/// Returns what the protocol needs of the reply to a write, and the error if the write failed or was rejected.
///
/// `reply` is `None` if there was none in time. Unless the sends are known, the write may then have been applied, or may still be
/// applied later. `is_transaction` is true if the write was a transaction with staged writes.
pub(super) fn write_result(
    reply: Option<WriteOutcome>,
    log: &SendLog,
    store: &dyn Store,
    is_transaction: bool,
) -> (WriteResult, Option<StoreError>) {
    let (maybe_applied, error) = match reply {
        Some(WriteOutcome::Applied) if log.maybe_again() => {
            return (WriteResult::AppliedMaybeAgain, None);
        }
        Some(WriteOutcome::Applied) => return (WriteResult::Applied, None),
        Some(WriteOutcome::ConditionFailed {
            existing,
            maybe_applied,
        }) => {
            let result = WriteResult::ConditionFailed {
                existing,
                maybe_applied,
            };
            return (result, None);
        }
        Some(WriteOutcome::Rejected {
            rejection,
            maybe_applied,
        }) => {
            let result = WriteResult::Rejected { maybe_applied };
            return (result, Some(rejected(rejection)));
        }
        Some(WriteOutcome::Failed {
            maybe_applied,
            error,
        }) => (maybe_applied, error),
        None => log.timed_out(&store.name()),
    };
    let result = WriteResult::Failed {
        maybe_applied,
        kind: write_error_kind(&error, log, is_transaction),
    };
    (result, Some(error))
}

/// Returns what the protocol knows of a write that failed.
///
/// `is_transaction` is true if the write was a transaction with staged writes.
fn write_error_kind(error: &StoreError, log: &SendLog, is_transaction: bool) -> WriteErrorKind {
    match error.kind() {
        // The record is another call's, which may apply its own writes: this is no rejection of these.
        _ if is_transaction && log.is_refused() => WriteErrorKind::Refused,
        // Clients do not repeat a transaction that is throttled.
        StoreErrorKind::Throttled if is_transaction => WriteErrorKind::Conflict,
        StoreErrorKind::TooLarge => WriteErrorKind::TooLarge,
        StoreErrorKind::Conflict => WriteErrorKind::Conflict,
        kind if kind.is_transient() && log.is_refused() => WriteErrorKind::Refused,
        kind if kind.is_transient() => WriteErrorKind::Transient,
        _ => WriteErrorKind::Permanent,
    }
}

/// Returns the error whose cause is a rejection.
fn rejected(rejection: Rejection) -> StoreError {
    StoreError::new(StoreErrorKind::Rejected, rejection.to_string()).with_source(rejection)
}

#[cfg(test)]
mod tests;

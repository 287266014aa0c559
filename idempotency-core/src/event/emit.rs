//! Emits the outcome event of a call that has ended, at the level of its end.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Level, Span};

use super::summary::{CallOutcome, CallSummary, CircuitChange, HandlerProgress};
use super::{MESSAGE, TARGET};
use crate::error::{Error, ErrorKind};
use crate::outcome::Bypass;
use crate::protocol::{ClaimEnd, StagedEnd};
use crate::record::RecordId;
use crate::store::StoreError;

impl CallSummary<'_> {
    /// Emits the outcome event.
    pub(super) fn emit(&self) {
        // The level of an event is a constant of its call site.
        macro_rules! emit {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    operation = self.operation,
                    key = self.key.map(tracing::field::display),
                    outcome = self.outcome().name(),
                    source = self.source_name(),
                    bypass = self.bypass_name(),
                    handler_ran = self.handler_ran(),
                    handler = self.handler.map(HandlerProgress::name),
                    stored = self.stored(),
                    claim = self.claim.map(ClaimEnd::name),
                    taken_over = self.taken_over.then_some(true),
                    renewals = (self.renewals > 0).then_some(self.renewals),
                    claim_lost = self.claim_lost.then_some(true),
                    undone = (self.undone > 0).then_some(self.undone),
                    staged = self.staged.map(StagedEnd::name),
                    circuit = self.circuit.map(CircuitChange::name),
                    error = self.error_kind().map(ErrorKind::name),
                    cause = self.has_cause().then(|| tracing::field::display(Cause(self))),
                    store_requests = self.store_requests,
                    store_ms = milliseconds(self.store_time),
                    handler_ms = milliseconds(self.handler_time),
                    "{MESSAGE}"
                )
            };
        }
        match self.level() {
            Level::ERROR => emit!(Level::ERROR),
            Level::WARN => emit!(Level::WARN),
            _ => emit!(Level::INFO),
        }
    }

    /// Returns the level. ERROR: an operator or a developer must act. WARN: the call was not quite normal, and a retry or
    /// time can help. INFO: everything else.
    fn level(&self) -> Level {
        if self.handler == Some(HandlerProgress::Panicked) {
            return Level::ERROR;
        }
        if let Some(error) = self.error {
            return level_of(error);
        }
        let warns = match self.outcome {
            CallOutcome::Abandoned | CallOutcome::Unprotected => true,
            // No warning for `IDEMPOTENCY_DISABLED`: one was logged when the process started. But dropped writes are a warning, because
            // the caller got a response as if they were applied.
            CallOutcome::Bypassed => {
                self.bypass == Some(Bypass::NoKey)
                    || (self.handler == Some(HandlerProgress::Returned)
                        && self.staged == Some(StagedEnd::Dropped))
            }
            _ => {
                let unstored = matches!(
                    self.claim,
                    Some(ClaimEnd::CompletedWithoutResponse | ClaimEnd::NotReleased)
                );
                unstored || self.note.is_some()
            }
        };
        if warns { Level::WARN } else { Level::INFO }
    }

    fn has_cause(&self) -> bool {
        self.note.is_some()
            || self
                .error
                .is_some_and(|error| error.detail().is_some() || causes(error).next().is_some())
    }
}

/// Returns the level of a call that ends with this error.
fn level_of(error: &Error) -> Level {
    match error.kind() {
        // A retry or another payload can succeed.
        ErrorKind::AlreadyInProgress
        | ErrorKind::PayloadMismatch
        | ErrorKind::KeyMissing
        | ErrorKind::InvalidPayload
        | ErrorKind::ExpressionFailed
        | ErrorKind::Contended
        | ErrorKind::NoTimeLeft
        | ErrorKind::StepNoTimeLeft
        | ErrorKind::StepNotRecorded
        | ErrorKind::StepNotUndone
        // The call whose response was too large has logged a warning; nothing can be done for this key.
        | ErrorKind::ResponseUnavailable => Level::WARN,
        // A throttled or unreachable store recovers by itself. A missing table or permission does not.
        ErrorKind::StoreFailed => match causes(error).find_map(|cause| cause.downcast_ref()) {
            Some(cause) if !StoreError::kind(cause).is_transient() => Level::ERROR,
            _ => Level::WARN,
        },
        // Other data, or a later call, can fulfil a condition. A write that the store does not accept must be corrected.
        ErrorKind::TransactionRejected => match error.rejection() {
            Some(rejection) if rejection.is_by_conditions() => Level::WARN,
            _ => Level::ERROR,
        },
        ErrorKind::Unresolved
        | ErrorKind::CorruptRecord
        | ErrorKind::ResponseTypeChanged
        | ErrorKind::ResponseNotSerializable
        | ErrorKind::LostOwnership
        | ErrorKind::CompletionUnknown
        | ErrorKind::StepRefused
        | ErrorKind::StepTypeChanged
        | ErrorKind::Configuration
        | ErrorKind::Environment
        | ErrorKind::UnknownInvocation
        | ErrorKind::Internal => Level::ERROR,
    }
}

/// Returns the causes of an error, without the first one, which only repeats its kind.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first = error.source().and_then(|kind| kind.source());
    std::iter::successors(
        first,
        |cause| -> Option<&(dyn std::error::Error + 'static)> { (*cause).source() },
    )
}

/// Displays the detail of an error and the texts of its causes, then the note. Formatted only if a subscriber collects the
/// event.
struct Cause<'a>(&'a CallSummary<'a>);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(error) = self.0.error {
            let detail = error.detail();
            if let Some(detail) = detail {
                f.write_str(detail)?;
                separator = ": ";
            }
            for cause in causes(error) {
                let text = cause.to_string();
                // The detail is often the text of the first cause.
                if detail != Some(&text) {
                    write!(f, "{separator}{text}")?;
                    separator = ": ";
                }
            }
        }
        let Some(note) = self.0.note else {
            return Ok(());
        };
        // The separator of notes: the note is not a cause of the error.
        let separator = if separator.is_empty() { "" } else { "; " };
        write!(f, "{separator}{note}")
    }
}

/// Returns whole milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the span of a call that begins. It is disabled, and costs nothing, if no subscriber wants it.
pub(super) fn span(operation: &str, key: Option<&RecordId>) -> Span {
    tracing::info_span!(
        target: TARGET,
        MESSAGE,
        operation,
        key = key.map(tracing::field::display),
        outcome = Empty,
        source = Empty,
        bypass = Empty,
        handler_ran = Empty,
        handler = Empty,
        stored = Empty,
        claim = Empty,
        taken_over = Empty,
        renewals = Empty,
        claim_lost = Empty,
        undone = Empty,
        staged = Empty,
        circuit = Empty,
        error = Empty,
        store_requests = Empty,
        store_ms = Empty,
        handler_ms = Empty,
    )
}

impl CallSummary<'_> {
    /// Records the fields of the end in the span of the call.
    pub(super) fn record(&self, span: &Span) {
        if span.is_disabled() {
            return;
        }
        tracing::record_all!(
            span,
            outcome = self.outcome().name(),
            source = self.source_name(),
            bypass = self.bypass_name(),
            handler_ran = self.handler_ran(),
            handler = self.handler.map(HandlerProgress::name),
            stored = self.stored(),
            claim = self.claim.map(ClaimEnd::name),
            taken_over = self.taken_over.then_some(true),
            renewals = (self.renewals > 0).then_some(self.renewals),
            claim_lost = self.claim_lost.then_some(true),
            undone = (self.undone > 0).then_some(self.undone),
            staged = self.staged.map(StagedEnd::name),
            circuit = self.circuit.map(CircuitChange::name),
            error = self.error_kind().map(ErrorKind::name),
            store_requests = self.store_requests,
            store_ms = milliseconds(self.store_time),
            handler_ms = milliseconds(self.handler_time)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{RejectedWrite, StoreErrorKind};

    fn store_failed(kind: StoreErrorKind) -> Error {
        let trouble = StoreError::new(kind, "the table is busy")
            .with_source(std::io::Error::other("connection reset"));
        Error::new(ErrorKind::StoreFailed, "charge")
            .with_detail(trouble.to_string())
            .with_source(trouble)
    }

    fn charge() -> CallSummary<'static> {
        CallSummary::new("charge", None)
    }

    #[test]
    fn the_cause_lists_all_causes_and_no_text_twice() {
        let error = store_failed(StoreErrorKind::Throttled);
        let summary = charge().with_error(&error);
        assert!(summary.has_cause());
        let cause = Cause(&summary).to_string();
        assert_eq!(cause, "the table is busy: connection reset");
        let error = Error::new(ErrorKind::Contended, "charge");
        assert!(!charge().with_error(&error).has_cause());
    }

    #[test]
    fn a_note_follows_the_cause_of_an_error() {
        let contended = Error::new(ErrorKind::Contended, "charge");
        let error = Error::new(ErrorKind::AlreadyInProgress, "charge").with_detail("retry later");
        for (summary, cause) in [
            (charge().with_error(&error), "retry later; no part"),
            (charge().with_error(&contended), "no part"),
            (charge(), "no part"),
        ] {
            let note = Some("no part");
            let summary = CallSummary { note, ..summary };
            assert!(summary.has_cause());
            assert_eq!(Cause(&summary).to_string(), cause);
        }
    }

    #[test]
    fn a_condition_that_failed_is_a_warning_and_a_write_that_is_not_accepted_is_an_error() {
        let of = |codes: &[&str]| {
            let writes = codes.iter().map(|code| RejectedWrite::new(0, "put", *code));
            let rejection = crate::store::Rejection::new(2, writes.collect());
            level_of(&Error::new(ErrorKind::TransactionRejected, "charge").with_source(rejection))
        };
        assert_eq!(of(&[RejectedWrite::CONDITION]), Level::WARN);
        let invalid = of(&[RejectedWrite::CONDITION, "ValidationError"]);
        assert_eq!(invalid, Level::ERROR);
        let unknown = Error::new(ErrorKind::TransactionRejected, "charge");
        assert_eq!(level_of(&unknown), Level::ERROR);
    }

    #[test]
    fn a_store_that_recovers_is_a_warning_and_one_that_must_be_repaired_is_an_error() {
        use StoreErrorKind::{AccessDenied, TableMissing, Throttled, Unreachable};
        for (kind, level) in [
            (Throttled, Level::WARN),
            (Unreachable, Level::WARN),
            (TableMissing, Level::ERROR),
            (AccessDenied, Level::ERROR),
        ] {
            assert_eq!(level_of(&store_failed(kind)), level, "{kind:?}");
        }
    }
}

//! The summary of a call that has ended, and its event. Span fields and metrics must be made from the same [`Summary`].

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use tracing::Level;

use crate::error::{Error, ErrorKind};
use crate::outcome::Bypass;
use crate::protocol::Source;
use crate::record::RecordId;
use crate::store::StoreError;

/// The target of the outcome event.
pub const TARGET: &str = "idempotency";

/// The message of the outcome event.
pub const MESSAGE: &str = "idempotent call";

/// The summary of a call that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Summary<'a> {
    pub(crate) operation: &'a str,
    pub(crate) key: Option<&'a RecordId>,
    pub(crate) ended: Ended<'a>,
    /// How far the handler got; `None` if it was not started.
    pub(crate) handler: Option<Handler>,
    /// How this call's own claim ended, if known.
    pub(crate) claim: Option<Claim>,
    /// A note for the developer, in addition to the error.
    pub(crate) note: Option<&'a str>,
    /// The number of requests to the `Store`. The store may have sent one request several times.
    pub(crate) store_requests: u32,
    pub(crate) store_time: Duration,
    pub(crate) handler_time: Duration,
}

/// How a call ended.
#[derive(Clone, Copy)]
pub(crate) enum Ended<'a> {
    /// The caller gets the handler's result.
    Own,
    /// The caller gets a stored response.
    Replayed(Source),
    /// The handler ran unprotected.
    Bypassed(Bypass),
    /// The caller gets an error of this framework.
    Error(&'a Error),
    /// The call's future was dropped before its end.
    Abandoned,
}

/// How far the handler got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Started,
    Returned,
    Failed,
    Panicked,
}

/// How a call's own claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Completed with the response.
    Completed,
    /// Completed without a response, because the response cannot be stored.
    CompletedWithoutResponse,
    /// Released: the next call runs the handler.
    Released,
    /// Not released, because the request failed: the key is free when the lease expires; under `hold`, an operator frees it.
    NotReleased,
    /// Kept, because the handler panicked under `hold`: an operator decides.
    Kept,
}

impl Summary<'_> {
    /// Emits the outcome event.
    pub(crate) fn emit(&self) {
        // The level of an event is a constant of its call site.
        macro_rules! emit {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    operation = self.operation,
                    key = self.key.map(tracing::field::display),
                    outcome = self.outcome(),
                    source = self.source(),
                    bypass = self.bypass(),
                    handler_ran = self.handler.is_some(),
                    handler = self.handler.map(Handler::name),
                    stored = self.claim.map(|claim| claim == Claim::Completed),
                    claim = self.claim.map(Claim::name),
                    error = self.error().map(|error| error.kind().name()),
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

    fn outcome(&self) -> &'static str {
        match (self.ended, self.handler) {
            (Ended::Own, Some(Handler::Failed)) => "failed",
            (Ended::Own, Some(Handler::Panicked)) => "panicked",
            (Ended::Own, _) => "executed",
            (Ended::Replayed(_), _) => "replayed",
            (Ended::Bypassed(_), _) => "bypassed",
            (Ended::Error(error), _) if error.handler_ran() => "unconfirmed",
            (Ended::Error(_), _) => "refused",
            (Ended::Abandoned, _) => "abandoned",
        }
    }

    /// Returns the level. ERROR: an operator or a developer must act. WARN: the call was not quite normal, and a retry or
    /// time can help. INFO: everything else.
    fn level(&self) -> Level {
        if self.handler == Some(Handler::Panicked) {
            return Level::ERROR;
        }
        match self.ended {
            Ended::Error(error) => level_of(error),
            Ended::Abandoned | Ended::Bypassed(Bypass::NoKey) => Level::WARN,
            Ended::Own => match self.claim {
                Some(Claim::CompletedWithoutResponse | Claim::NotReleased) => Level::WARN,
                _ if self.note.is_some() => Level::WARN,
                _ => Level::INFO,
            },
            Ended::Replayed(_) if self.note.is_some() => Level::WARN,
            // A warning about `IDEMPOTENCY_DISABLED` was logged when the process started.
            Ended::Replayed(_) | Ended::Bypassed(_) => Level::INFO,
        }
    }

    fn source(&self) -> Option<&'static str> {
        match self.ended {
            Ended::Replayed(Source::Store) => Some("store"),
            Ended::Replayed(Source::Cache) => Some("cache"),
            Ended::Replayed(Source::ConcurrentCall) => Some("flight"),
            Ended::Replayed(Source::Completion) => Some("completion"),
            _ => None,
        }
    }

    fn bypass(&self) -> Option<&'static str> {
        match self.ended {
            Ended::Bypassed(Bypass::NoKey) => Some("no_key"),
            Ended::Bypassed(Bypass::Disabled) => Some("disabled"),
            _ => None,
        }
    }

    fn error(&self) -> Option<&Error> {
        match self.ended {
            Ended::Error(error) => Some(error),
            _ => None,
        }
    }

    fn has_cause(&self) -> bool {
        self.note.is_some()
            || self
                .error()
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
        // The call whose response was too large has logged a warning; nothing can be done for this key.
        | ErrorKind::ResponseUnavailable => Level::WARN,
        // A throttled or unreachable store recovers by itself. A missing table or permission does not.
        ErrorKind::StoreFailed => match causes(error).find_map(|cause| cause.downcast_ref()) {
            Some(cause) if !StoreError::kind(cause).is_transient() => Level::ERROR,
            _ => Level::WARN,
        },
        ErrorKind::Unresolved
        | ErrorKind::CorruptRecord
        | ErrorKind::ResponseTypeChanged
        | ErrorKind::ResponseNotSerializable
        | ErrorKind::LostOwnership
        | ErrorKind::CompletionUnknown
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
struct Cause<'a>(&'a Summary<'a>);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(error) = self.0.error() {
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

impl Handler {
    fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Returned => "returned",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
        }
    }
}

impl Claim {
    fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CompletedWithoutResponse => "completed_without_response",
            Self::Released => "released",
            Self::NotReleased => "not_released",
            Self::Kept => "kept",
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreErrorKind;

    fn store_failed(kind: StoreErrorKind) -> Error {
        let trouble = StoreError::new(kind, "the table is busy")
            .with_source(std::io::Error::other("connection reset"));
        Error::new(ErrorKind::StoreFailed, "charge")
            .with_detail(trouble.to_string())
            .with_source(trouble)
    }

    fn of(ended: Ended<'_>) -> Summary<'_> {
        Summary {
            operation: "charge",
            key: None,
            ended,
            handler: None,
            claim: None,
            note: None,
            store_requests: 0,
            store_time: Duration::ZERO,
            handler_time: Duration::ZERO,
        }
    }

    #[test]
    fn the_cause_lists_all_causes_and_no_text_twice() {
        let error = store_failed(StoreErrorKind::Throttled);
        let summary = of(Ended::Error(&error));
        assert!(summary.has_cause());
        assert_eq!(
            Cause(&summary).to_string(),
            "the table is busy: connection reset"
        );
        let error = Error::new(ErrorKind::Contended, "charge");
        assert!(!of(Ended::Error(&error)).has_cause());
    }

    #[test]
    fn a_note_follows_the_cause_of_an_error() {
        let note = Some("a part of the key is missing");
        let error = Error::new(ErrorKind::AlreadyInProgress, "charge").with_detail("retry later");
        let summary = Summary {
            note,
            ..of(Ended::Error(&error))
        };
        assert_eq!(
            Cause(&summary).to_string(),
            "retry later; a part of the key is missing"
        );
        let error = Error::new(ErrorKind::Contended, "charge");
        let summary = Summary {
            note,
            ..of(Ended::Error(&error))
        };
        assert!(summary.has_cause());
        assert_eq!(Cause(&summary).to_string(), "a part of the key is missing");
        let summary = Summary {
            note,
            ..of(Ended::Own)
        };
        assert_eq!(Cause(&summary).to_string(), "a part of the key is missing");
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

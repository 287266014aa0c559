//! Errors: what happened, whether the handler ran, and what to do.

mod client;

use std::error::Error as StdError;
use std::fmt;

use crate::record::RecordId;

/// Why a call was refused an answer, or failed.
///
/// Its text names the operation, the store and the key (a hash, never the payload), says whether the handler ran and
/// what to do next. It is for operators: a client of the service is told [`client_message`](Self::client_message).
///
/// ```
/// use idempotency_core::error::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::AlreadyInProgress, "payments.charge");
/// assert!(error.kind().is_retryable());
/// assert!(!error.handler_ran());
/// assert_eq!(error.kind().name(), "IdempotencyAlreadyInProgress");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    operation: String,
    store: Option<String>,
    key: Option<RecordId>,
    detail: Option<String>,
    handler_ran: bool,
    /// Whether the outcome event of its call was emitted.
    is_told: bool,
    cause: Cause,
}

/// What kind of thing happened.
///
/// ```
/// use idempotency_core::error::ErrorKind;
/// assert_eq!(ErrorKind::PayloadMismatch.name(), "IdempotencyPayloadMismatch");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another call with this key is still running.
    AlreadyInProgress,
    /// The key is known with another payload.
    PayloadMismatch,
    /// The payload has no key, and the operation requires one.
    KeyMissing,
    /// The payload is not what the operation can take a key from.
    InvalidPayload,
    /// An expression failed on this payload.
    ExpressionFailed,
    /// Under `hold`: a run may have happened and was never resolved.
    Unresolved,
    /// The record in the store cannot be understood.
    CorruptRecord,
    /// The call is complete, but its stored answer does not fit the response type.
    ResponseTypeChanged,
    /// Others were faster, time and again.
    Contended,
    /// The deadline was over before the handler could start.
    NoTimeLeft,
    /// The key is completed, but its answer could not be stored.
    ResponseUnavailable,
    /// The handler ran, but its answer cannot be written as JSON.
    ResponseNotSerializable,
    /// The handler ran, but its claim had gone to another call that has no answer for it.
    LostOwnership,
    /// The handler ran, but nobody confirmed that its answer is stored.
    CompletionUnknown,
    /// The store failed before the handler ran.
    StoreFailed,
    /// A setting cannot be understood.
    Configuration,
    /// The clock or the source of randomness cannot be trusted.
    Environment,
    /// The call does not know its invocation, so neither its deadline nor its tenant.
    UnknownInvocation,
    /// This framework contradicted itself: a fault of its own, which a retry does not mend.
    Internal,
}

impl ErrorKind {
    /// A stable name, for `errorType` in Lambda's answers and for alarms.
    ///
    /// ```
    /// # use idempotency_core::error::ErrorKind;
    /// assert_eq!(ErrorKind::NoTimeLeft.name(), "IdempotencyNoTimeLeft");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => "IdempotencyAlreadyInProgress",
            Self::PayloadMismatch => "IdempotencyPayloadMismatch",
            Self::KeyMissing => "IdempotencyKeyMissing",
            Self::InvalidPayload => "IdempotencyInvalidPayload",
            Self::ExpressionFailed => "IdempotencyExpressionFailed",
            Self::Unresolved => "IdempotencyUnresolved",
            Self::CorruptRecord => "IdempotencyCorruptRecord",
            Self::ResponseTypeChanged => "IdempotencyResponseTypeChanged",
            Self::Contended => "IdempotencyContended",
            Self::NoTimeLeft => "IdempotencyNoTimeLeft",
            Self::ResponseUnavailable => "IdempotencyResponseUnavailable",
            Self::ResponseNotSerializable => "IdempotencyResponseNotSerializable",
            Self::LostOwnership => "IdempotencyLostOwnership",
            Self::CompletionUnknown => "IdempotencyCompletionUnknown",
            Self::StoreFailed => "IdempotencyStoreFailed",
            Self::Configuration => "IdempotencyConfiguration",
            Self::Environment => "IdempotencyEnvironment",
            Self::UnknownInvocation => "IdempotencyUnknownInvocation",
            Self::Internal => "IdempotencyInternal",
        }
    }

    /// Whether the same call, sent again later, may be given an answer without anybody changing anything.
    ///
    /// Where [`Error::handler_ran`], the retry may be given the stored answer, or run the handler again.
    ///
    /// ```
    /// # use idempotency_core::error::ErrorKind;
    /// assert!(ErrorKind::Contended.is_retryable());
    /// assert!(!ErrorKind::PayloadMismatch.is_retryable());
    /// ```
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::AlreadyInProgress
                | Self::Contended
                | Self::NoTimeLeft
                | Self::LostOwnership
                | Self::CompletionUnknown
                | Self::StoreFailed
        )
    }

    fn text(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => "a call with this key is still running",
            Self::PayloadMismatch => {
                "this key was used with another payload: send a new key, or the payload that was sent first"
            }
            Self::KeyMissing => "the payload has no idempotency key, and one is required",
            Self::InvalidPayload => "no key can be taken from this payload",
            Self::ExpressionFailed => "an expression failed on this payload",
            Self::Unresolved => {
                "an earlier run of this key ended without a result and may have had its effect: \
                 find out, then delete the record to let it run again"
            }
            Self::CorruptRecord => {
                "the stored record cannot be understood: find out what wrote it (deleting it lets the handler run again)"
            }
            Self::ResponseTypeChanged => {
                "the call is complete, but its stored answer does not fit the response type: restore the type, or wait \
                 for the end of the window (deleting the record lets the handler run again)"
            }
            Self::Contended => "other calls with this key were faster each time: retry",
            Self::NoTimeLeft => {
                "the invocation's time was over before the handler could start: retry, or raise the function's timeout"
            }
            Self::ResponseUnavailable => {
                "the call is complete, but its answer could not be stored (too large, or not serialisable): \
                 it will not run again"
            }
            Self::ResponseNotSerializable => {
                "the answer cannot be written as JSON: correct the response type's `Serialize`"
            }
            Self::LostOwnership => {
                "the claim was gone when the handler had finished (taken over by another call, or evicted): a retry is \
                 given that call's answer, or runs again"
            }
            Self::CompletionUnknown => {
                "nobody confirmed that the answer is stored: retry to be given it if it is"
            }
            Self::StoreFailed => "the store could not be asked",
            Self::Configuration => "the configuration is wrong",
            Self::Environment => "the function's environment cannot be trusted",
            Self::UnknownInvocation => {
                "the invocation of this call is not known, so neither its deadline nor its tenant"
            }
            Self::Internal => {
                "a fault in this framework: do not retry, look at the record of this key, and report the fault"
            }
        }
    }
}

impl Error {
    /// An error of a kind, of an operation.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// let error = Error::new(ErrorKind::KeyMissing, "payments.charge");
    /// assert!(error.to_string().starts_with("payments.charge: the payload has no idempotency key"));
    /// ```
    pub fn new(kind: ErrorKind, operation: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            operation: operation.into(),
            store: None,
            key: None,
            detail: None,
            handler_ran: false,
            is_told: false,
            cause: Cause { kind, source: None },
        }))
    }

    /// The same error with the key it is about, and the store the key lives in.
    ///
    /// ```
    /// # use idempotency_core::{error::*, record::RecordId};
    /// let error = Error::new(ErrorKind::Contended, "charge").with_key(RecordId::new("charge#42"), "memory");
    /// assert_eq!(error.key().unwrap().as_str(), "charge#42");
    /// ```
    #[must_use]
    pub fn with_key(mut self, key: RecordId, store: impl Into<String>) -> Self {
        self.0.key = Some(key);
        self.0.store = Some(store.into());
        self
    }

    /// The same error with a detail that holds no payload.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// let error = Error::new(ErrorKind::Configuration, "charge").with_detail("set IDEMPOTENCY_TABLE");
    /// assert!(error.to_string().contains("set IDEMPOTENCY_TABLE"));
    /// ```
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// The same error with what caused it.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// # use std::error::Error as _;
    /// let error = Error::new(ErrorKind::StoreFailed, "charge").with_source(std::io::Error::other("refused"));
    /// assert_eq!(error.source().unwrap().source().unwrap().to_string(), "refused");
    /// ```
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause.source = Some(source.into());
        self
    }

    /// The same error, of a call whose handler ran.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// assert!(Error::new(ErrorKind::LostOwnership, "charge").with_handler_ran(true).handler_ran());
    /// ```
    #[must_use]
    pub fn with_handler_ran(mut self, ran: bool) -> Self {
        self.0.handler_ran = ran;
        self
    }

    /// Notes that the outcome event of its call was emitted; returns whether that is news.
    pub(crate) fn mark_emitted(&mut self) -> bool {
        !std::mem::replace(&mut self.0.is_told, true)
    }

    /// Returns the detail, which holds no payload.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What kind of thing happened.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// assert_eq!(Error::new(ErrorKind::Contended, "").kind(), ErrorKind::Contended);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind
    }

    /// Whether the handler ran in this very call.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// assert!(!Error::new(ErrorKind::Contended, "").handler_ran());
    /// ```
    pub fn handler_ran(&self) -> bool {
        self.0.handler_ran
    }

    /// The key the error is about, where one was found.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// assert!(Error::new(ErrorKind::KeyMissing, "").key().is_none());
    /// ```
    pub fn key(&self) -> Option<&RecordId> {
        self.0.key.as_ref()
    }

    /// The operation's name.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// assert_eq!(Error::new(ErrorKind::KeyMissing, "charge").operation(), "charge");
    /// ```
    pub fn operation(&self) -> &str {
        &self.0.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "{}: {}", inner.operation, inner.cause.kind.text())?;
        if let Some(detail) = &inner.detail {
            write!(f, ": {detail}")?;
        }
        if inner.cause.kind == ErrorKind::Configuration {
            return Ok(());
        }
        let ran = if inner.handler_ran {
            "the handler ran"
        } else {
            "the handler did not run"
        };
        match (&inner.key, &inner.store) {
            (Some(key), Some(store)) => write!(f, " ({ran}; key {key}; {store})"),
            _ => write!(f, " ({ran})"),
        }
    }
}

/// As `Display`, with the chain of causes: what a log of `{:?}` should say, and nothing of the payload.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self}", self.kind().name())?;
        let mut cause = self.0.cause.source();
        while let Some(error) = cause {
            write!(f, "; caused by: {error}")?;
            cause = error.source();
        }
        f.write_str(")")
    }
}

/// The kind stands in the chain of causes too: an enum that wraps this error with `#[error(transparent)]`, or `anyhow`
/// with a context, hides the error itself but not its causes, and `errorType` is found either way.
impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0.cause)
    }
}

/// The kind of an [`Error`], as a link in the chain of its causes.
///
/// ```
/// use idempotency_core::error::{Cause, Error, ErrorKind};
/// use std::error::Error as _;
/// let error = Error::new(ErrorKind::Contended, "charge");
/// let cause = error.source().unwrap().downcast_ref::<Cause>().unwrap();
/// assert_eq!(cause.kind(), ErrorKind::Contended);
/// ```
#[derive(Debug)]
pub struct Cause {
    kind: ErrorKind,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Cause {
    /// What kind of thing happened.
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// # use std::error::Error as _;
    /// let error = Error::new(ErrorKind::Contended, "charge");
    /// assert!(error.source().unwrap().is::<Cause>());
    /// ```
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_whether_the_handler_ran_and_for_which_key() {
        let error = || {
            Error::new(ErrorKind::StoreFailed, "charge")
                .with_key(RecordId::new("charge#1"), "memory")
        };
        assert_eq!(
            error().to_string(),
            "charge: the store could not be asked (the handler did not run; key charge#1; memory)"
        );
        assert_eq!(
            error().with_handler_ran(true).to_string(),
            "charge: the store could not be asked (the handler ran; key charge#1; memory)"
        );
    }

    #[test]
    fn a_retry_is_advised_where_it_can_come_to_something_else() {
        use ErrorKind as Kind;
        for kind in [
            Kind::AlreadyInProgress,
            Kind::Contended,
            Kind::NoTimeLeft,
            Kind::LostOwnership,
            Kind::CompletionUnknown,
            Kind::StoreFailed,
        ] {
            assert!(kind.is_retryable(), "{kind:?}");
        }
        for kind in [
            Kind::PayloadMismatch,
            Kind::KeyMissing,
            Kind::InvalidPayload,
            Kind::ExpressionFailed,
            Kind::Unresolved,
            Kind::CorruptRecord,
            Kind::ResponseTypeChanged,
            Kind::ResponseUnavailable,
            Kind::ResponseNotSerializable,
            Kind::Configuration,
            Kind::Environment,
            Kind::UnknownInvocation,
            Kind::Internal,
        ] {
            assert!(!kind.is_retryable(), "{kind:?}");
        }
    }
}

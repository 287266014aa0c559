//! Errors: what happened, whether the handler ran, and what to do next.

mod client;
mod kind;
pub(crate) mod rejection;

pub use kind::ErrorKind;

use std::error::Error as StdError;
use std::fmt;

use crate::record::RecordId;
use crate::time::EpochMillis;
use rejection::Rejection;

/// Why a call has no response.
///
/// Its text names the operation, the store and the key (a hash, never the payload), and says whether the handler ran and
/// what to do next. The text is for operators. For a client of the service, use [`client_message`](Self::client_message).
///
/// # Examples
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
    lease_end: Option<EpochMillis>,
    circuit_open_until: Option<EpochMillis>,
    /// True if a step found that the claim was gone.
    unfinished_steps: bool,
    /// True if the outcome event of its call was emitted.
    event_emitted: bool,
    /// True if the handler staged writes of which it is not known that they were applied.
    writes_unconfirmed: bool,
    cause: Cause,
}

impl Error {
    /// Returns an error of this kind, for this operation.
    pub fn new(kind: ErrorKind, operation: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            operation: operation.into(),
            store: None,
            key: None,
            detail: None,
            lease_end: None,
            circuit_open_until: None,
            unfinished_steps: false,
            event_emitted: false,
            writes_unconfirmed: false,
            cause: Cause {
                kind,
                handler_ran: false,
                source: None,
            },
        }))
    }

    /// Returns the same error with a detail. The detail must not contain payload or response.
    #[doc(hidden)]
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Returns the same error of a call whose handler staged writes that were not applied, or may not have been.
    pub(crate) fn with_unconfirmed_writes(mut self) -> Self {
        self.0.writes_unconfirmed = true;
        self
    }

    /// Marks the outcome event of its call as emitted. Returns true if it was not emitted before.
    pub(crate) fn mark_emitted(&mut self) -> bool {
        !std::mem::replace(&mut self.0.event_emitted, true)
    }

    /// Returns the detail.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.cause.kind
    }

    /// Returns true if the call was refused before its handler, and no other call can have done it: it had no effect.
    #[doc(hidden)]
    pub fn is_unprocessed(&self) -> bool {
        !self.handler_ran() && self.kind().is_of_unprocessed()
    }

    /// Returns true if the handler ran during this call.
    pub fn handler_ran(&self) -> bool {
        self.0.cause.handler_ran
    }

    /// Returns true if the handler staged writes, and they were not applied or it is not known that they were.
    ///
    /// The handler then has not done its work, although it ran and returned `Ok`: the call must be made again.
    pub fn has_unconfirmed_writes(&self) -> bool {
        self.0.writes_unconfirmed
    }

    /// Returns which staged writes were rejected, and why, if the error is
    /// [`TransactionRejected`](ErrorKind::TransactionRejected) and the store said it.
    ///
    /// It is in the chain of causes too. There it can also be a cause of [`CompletionUnknown`](ErrorKind::CompletionUnknown), if an
    /// earlier send may have been applied: then it says nothing of that send, and this method returns `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{error::{Error, ErrorKind}, store::{RejectedWrite, Rejection}};
    /// # let rejection = Rejection::new(2, vec![RejectedWrite::new(0, "update of table `accounts`", RejectedWrite::CONDITION)]);
    /// # let error = Error::new(ErrorKind::TransactionRejected, "transfer").with_source(rejection);
    /// // The first write that the handler staged takes the money.
    /// let poor = error.rejection().and_then(|rejection| rejection.write(0)).is_some_and(RejectedWrite::is_condition);
    /// assert!(poor);
    /// ```
    pub fn rejection(&self) -> Option<&Rejection> {
        self.0.cause.rejection()
    }

    /// Returns the key that the error concerns, if the call had one.
    pub fn key(&self) -> Option<&RecordId> {
        self.0.key.as_ref()
    }

    /// Returns when the lease of the call in progress ends, if the error is
    /// [`AlreadyInProgress`](ErrorKind::AlreadyInProgress) and the lease is known.
    ///
    /// That call can end sooner. After this time a retry gets its response, or takes over.
    pub fn lease_end(&self) -> Option<EpochMillis> {
        self.0.lease_end
    }

    /// Returns until when the circuit breaker refuses calls, if the error is [`StoreFailed`](ErrorKind::StoreFailed) for that reason.
    ///
    /// A retry before this time ends the same way.
    pub fn circuit_open_until(&self) -> Option<EpochMillis> {
        self.0.circuit_open_until
    }

    /// Returns the operation's name.
    pub fn operation(&self) -> &str {
        &self.0.operation
    }
}

/// What the other crates of this product add to an error, and ask of it.
#[doc(hidden)]
impl Error {
    /// Returns the same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause.source = Some(source.into());
        self
    }

    /// Returns the same error with the key that it concerns, and the name of the store that holds the key.
    #[must_use]
    pub fn with_key(mut self, key: RecordId, store: impl Into<String>) -> Self {
        self.0.key = Some(key);
        self.0.store = Some(store.into());
        self
    }

    /// Returns the same error, with `ran`: true if the handler ran.
    #[must_use]
    pub fn with_handler_ran(mut self, ran: bool) -> Self {
        self.0.cause.handler_ran = ran;
        self
    }

    /// Returns the same error with the end of the lease that the call in progress has.
    #[must_use]
    pub fn with_lease_end(mut self, end: EpochMillis) -> Self {
        self.0.lease_end = Some(end);
        self
    }

    /// Returns the same error with the time until which the circuit breaker refuses calls.
    #[must_use]
    pub fn with_circuit_open_until(mut self, until: EpochMillis) -> Self {
        self.0.circuit_open_until = Some(until);
        self
    }

    /// Returns the same error, after a step of the handler found that the claim was gone, or of a call whose steps are not undone.
    #[must_use]
    pub fn with_unfinished_steps(mut self) -> Self {
        self.0.unfinished_steps = true;
        self
    }

    /// Returns true if a step of the handler found that the claim was gone, or if the handler decided that its steps are undone, and it is
    /// not known that they all are.
    ///
    /// Its work is then not done, also if it returned `Ok`.
    pub fn has_unfinished_steps(&self) -> bool {
        self.0.unfinished_steps
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "{}: {}", inner.operation, inner.cause.kind.text())?;
        if let Some(detail) = &inner.detail {
            write!(f, ": {detail}")?;
        }
        // Most of these errors are of no call.
        if inner.cause.kind == ErrorKind::Configuration && !inner.cause.handler_ran {
            return Ok(());
        }
        let ran = if inner.cause.handler_ran {
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

/// Writes the kind, the text of `Display` and the chain of causes.
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

/// The kind is in the chain of causes too. An enum that wraps this error with `#[error(transparent)]`, or `anyhow` with a
/// context, hides the error itself but not its causes, so `errorType` can still be found.
impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0.cause)
    }
}

/// The kind of an [`Error`], as a link in the chain of its causes.
///
/// # Examples
///
/// ```
/// use idempotency_core::error::{Cause, Error, ErrorKind};
/// use std::error::Error as _;
/// let error = Error::new(ErrorKind::Contended, "charge");
/// let cause = error.source().unwrap().downcast_ref::<Cause>().unwrap();
/// assert_eq!(cause.kind(), ErrorKind::Contended);
/// ```
#[doc(hidden)]
#[derive(Debug)]
pub struct Cause {
    kind: ErrorKind,
    handler_ran: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Cause {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the rejection among the causes. `None` if the end of the transaction is unknown: an earlier send may have been applied.
    fn rejection(&self) -> Option<&Rejection> {
        if self.kind != ErrorKind::TransactionRejected {
            return None;
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(rejection) = error.downcast_ref() {
                return Some(rejection);
            }
            cause = error.source();
        }
        None
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
mod tests;

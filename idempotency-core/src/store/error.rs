//! Errors of a store.

use std::error::Error as StdError;
use std::fmt;

/// The error of a request to a store.
///
/// Its text says what failed and what to do next. The store's own error is its source.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::{StoreError, StoreErrorKind};
/// let error = StoreError::new(StoreErrorKind::TableMissing, "there is no table `idempotency`: create it");
/// assert!(!error.kind().is_transient());
/// assert_eq!(error.to_string(), "there is no table `idempotency`: create it");
/// ```
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The category of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No reply in time, or no connection.
    Unreachable,
    /// The store asks for fewer requests.
    Throttled,
    /// Another transaction with one of the items is in progress. Nothing was applied.
    Conflict,
    /// The store has an internal fault.
    Internal,
    /// The credentials do not permit this request.
    AccessDenied,
    /// There are no credentials, or they have expired or are wrong.
    Credentials,
    /// The certificate of the store, or of a proxy before it, is not trusted. Nothing was sent.
    Certificate,
    /// The table does not exist.
    TableMissing,
    /// The table has other keys, or the server is one that would lose records.
    WrongSchema,
    /// The table is not encrypted as events need it (`store_event`).
    NotEncrypted,
    /// The record would be larger than the store accepts.
    TooLarge,
    /// The store refused the request for another reason.
    Rejected,
}

impl StoreErrorKind {
    /// Returns true if the same request may succeed later without a change. The engine sends a completion again only after such an
    /// error, or after [`Credentials`](Self::Credentials) and [`Certificate`](Self::Certificate).
    #[doc(hidden)]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable | Self::Throttled | Self::Conflict | Self::Internal
        )
    }
}

impl StoreError {
    /// Returns an error of this kind. The message says what failed and what to do next.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// Returns the same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_pass_without_a_change_are_transient() {
        use StoreErrorKind::{
            AccessDenied, Certificate, Conflict, Credentials, Internal, NotEncrypted, Rejected,
            TableMissing, Throttled, TooLarge, Unreachable, WrongSchema,
        };
        for kind in [Unreachable, Throttled, Conflict, Internal] {
            assert!(kind.is_transient(), "{kind:?}");
        }
        for kind in [
            AccessDenied,
            Certificate,
            Credentials,
            TableMissing,
            WrongSchema,
            NotEncrypted,
            TooLarge,
            Rejected,
        ] {
            assert!(!kind.is_transient(), "{kind:?}");
        }
    }
}

//! What went wrong in a store, and what to do about it.

use std::error::Error as StdError;
use std::fmt;

/// A store's request failed.
///
/// Its text says what failed and what to do next; the store's own error is its source.
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

/// What kind of thing went wrong in a store.
///
/// ```
/// use idempotency_core::store::StoreErrorKind;
/// // The engine sends a write again only after a failure that may pass by itself.
/// assert!(StoreErrorKind::Unreachable.is_transient());
/// assert!(!StoreErrorKind::TableMissing.is_transient());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No answer in time, or no connection.
    Unreachable,
    /// The store asks to be called less often.
    Throttled,
    /// The store failed by itself.
    Internal,
    /// The caller may not do this.
    AccessDenied,
    /// There are no credentials, or they are expired or wrong.
    Credentials,
    /// The table is not there.
    TableMissing,
    /// The table is there but its keys are others.
    WrongSchema,
    /// The record would be larger than the store takes.
    TooLarge,
    /// The request was refused for another reason.
    Rejected,
}

impl StoreErrorKind {
    /// Whether the same request may succeed later without anybody changing anything.
    ///
    /// ```
    /// # use idempotency_core::store::StoreErrorKind;
    /// assert!(StoreErrorKind::Throttled.is_transient());
    /// assert!(!StoreErrorKind::AccessDenied.is_transient());
    /// ```
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Unreachable | Self::Throttled | Self::Internal)
    }
}

impl StoreError {
    /// An error of a kind, in words that say what to do next.
    ///
    /// ```
    /// # use idempotency_core::store::*;
    /// let error = StoreError::new(StoreErrorKind::Throttled, "too many requests: retry later");
    /// assert_eq!(error.kind(), StoreErrorKind::Throttled);
    /// ```
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The same error with what caused it.
    ///
    /// ```
    /// # use idempotency_core::store::*;
    /// # use std::error::Error;
    /// let cause = std::io::Error::other("connection reset");
    /// let error = StoreError::new(StoreErrorKind::Unreachable, "no answer").with_source(cause);
    /// assert_eq!(error.source().unwrap().to_string(), "connection reset");
    /// ```
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of thing went wrong.
    ///
    /// ```
    /// # use idempotency_core::store::*;
    /// assert_eq!(StoreError::new(StoreErrorKind::TooLarge, "").kind(), StoreErrorKind::TooLarge);
    /// ```
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
    fn what_passes_by_itself_is_worth_another_try_and_what_somebody_must_mend_is_not() {
        use StoreErrorKind::{
            AccessDenied, Credentials, Internal, Rejected, TableMissing, Throttled, TooLarge,
            Unreachable, WrongSchema,
        };
        for kind in [Unreachable, Throttled, Internal] {
            assert!(kind.is_transient(), "{kind:?}");
        }
        for kind in [
            AccessDenied,
            Credentials,
            TableMissing,
            WrongSchema,
            TooLarge,
            Rejected,
        ] {
            assert!(!kind.is_transient(), "{kind:?}");
        }
    }
}

//! What a store accepts and remembers. The protocol has no such number of its own.

use std::time::Duration;

use crate::record::Data;

/// What a store accepts, and how long it remembers. It stays the same for the life of the store.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::{MemoryStore, Store, StoreLimits};
/// assert_eq!(MemoryStore::new().limits(), StoreLimits::NONE);
/// let limits = StoreLimits { record: Some(1024 * 1024), ..StoreLimits::NONE };
/// # assert_ne!(limits, StoreLimits::NONE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreLimits {
    /// The largest record, in bytes as the store counts them. A larger one fails as
    /// [`TooLarge`](crate::store::StoreErrorKind::TooLarge). The conformance suite needs at least 301 KB.
    pub record: Option<usize>,
    /// The longest response that fits a record beside the event of its call, in bytes. A longer response takes the place of the event.
    pub beside_event: Option<usize>,
    /// The longest results of all steps of a record together, in bytes of JSON text. A longer result is not recorded.
    pub steps: Option<usize>,
    /// How long the store remembers the [token](crate::store::TransactionRequest::token) of a transaction without a record. The
    /// protocol sends none again in the last minute of it or later. A store that repeats requests itself does not do so after it.
    pub token: Duration,
}

impl StoreLimits {
    /// No size is limited, and a token is never forgotten.
    pub const NONE: Self = Self {
        record: None,
        beside_event: None,
        steps: None,
        token: Duration::MAX,
    };

    /// Returns true if a record can have this response and the event of its call.
    pub(super) fn fits_beside_event(&self, response: &Data) -> bool {
        let longest = self.beside_event;
        longest.is_none_or(|longest| response.as_str().len() <= longest)
    }
}

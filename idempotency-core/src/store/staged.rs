//! The writes that a handler stages.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{StoreError, StoreErrorKind};

/// Writes of a handler in the form of one store. Only that store can perform them.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::{LedgerEntry, MemoryWrites, Staged};
/// let staged = Staged::new(MemoryWrites::from([LedgerEntry::add("alice", -5).at_least(0), LedgerEntry::add("bob", 5)]));
/// assert_eq!(staged.count(), 2);
/// ```
pub trait StagedWrites: Any + Send + Sync {
    /// Returns the number of writes.
    fn count(&self) -> usize;

    /// Returns what the writes are, for the error of a store that cannot perform them, such as `changes of balances`.
    fn what(&self) -> &'static str;
}

/// The writes that a handler has staged. A clone is a handle to the same writes.
///
/// `Debug` shows their number alone.
#[derive(Clone)]
pub struct Staged(Arc<dyn StagedWrites>);

impl Staged {
    /// Returns the writes of a handler that has ended.
    #[doc(hidden)]
    pub fn new(writes: impl StagedWrites) -> Self {
        Self(Arc::new(writes))
    }

    pub(crate) fn of(writes: Box<dyn StagedWrites>) -> Self {
        Self(Arc::from(writes))
    }

    /// Returns the number of writes.
    #[doc(hidden)]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Returns the writes in the form of a store, or `None` if they have another form.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::{LedgerEntry, MemoryWrites, Staged};
    /// let staged = Staged::new(MemoryWrites::from([LedgerEntry::add("alice", 5)]));
    /// assert_eq!(staged.downcast_ref::<MemoryWrites>().map(|writes| writes.entries().len()), Some(1));
    /// ```
    pub fn downcast_ref<T: StagedWrites>(&self) -> Option<&T> {
        let writes: &dyn Any = &*self.0;
        writes.downcast_ref()
    }

    /// Returns the error of a store that cannot perform these writes. Nothing was sent.
    pub fn unsupported(&self, store: &str) -> StoreError {
        StoreError::new(
            StoreErrorKind::Rejected,
            format!(
                "{store} cannot perform {}: stage writes of the store that holds the records",
                self.0.what()
            ),
        )
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({} writes)", self.count())
    }
}

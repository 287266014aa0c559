//! The writes that a handler stages.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Store, StoreError, StoreErrorKind, StoreReply};
use crate::protocol::Commits;

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

    /// Returns how often the transaction of these writes can commit.
    pub(crate) fn commits(&self) -> Commits {
        match self.downcast_ref::<Open>() {
            Some(_) => Commits::Once,
            None => Commits::Again,
        }
    }

    /// Returns the open transaction of a handler that has ended.
    #[doc(hidden)]
    pub fn open(open: OpenTransaction) -> Self {
        Self::new(Open(Mutex::new(Some(open))))
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

    /// Takes the open transaction that the handler has handed back, which [`Store::begin`] made. It is for [`Store::send`] of that store.
    ///
    /// # Errors
    ///
    /// The reply of `store`, if this is no open transaction of it, or if it was taken before: then an earlier send may have committed it.
    pub fn take_open<T: Send + 'static>(&self, store: &dyn Store) -> Result<T, Box<StoreReply>> {
        let unsupported = || Box::new(StoreReply::failed(self.unsupported(&store.name())));
        let open = self.downcast_ref::<Open>().ok_or_else(unsupported)?;
        let taken = open.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(open) = taken else {
            let text = "the transaction of the handler was sent before, and it can commit only once: read the record";
            let error = StoreError::new(StoreErrorKind::Unreachable, text);
            return Err(Box::new(StoreReply::failed(error).admit_earlier()));
        };
        open.downcast().map(|open| *open).map_err(|_| unsupported())
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

/// An open transaction in the form of one store: what [`Store::begin`] returns. If it is dropped, it must be rolled back.
pub type OpenTransaction = Box<dyn Any + Send>;

/// An open transaction that the handler has handed back.
struct Open(Mutex<Option<OpenTransaction>>);

impl StagedWrites for Open {
    fn count(&self) -> usize {
        1
    }

    fn what(&self) -> &'static str {
        "the transaction of another store"
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({} writes)", self.count())
    }
}

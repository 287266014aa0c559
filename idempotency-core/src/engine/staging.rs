//! The writes that a handler stages while it runs.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{Staged, StagedWrites};

/// The staged writes of one call. It is open while the handler runs.
#[derive(Default)]
pub(crate) struct Staging(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nothing is staged.
    #[default]
    Empty,
    Staged(Box<dyn StagedWrites>),
    /// The handler has ended.
    Closed,
    /// No completion would apply what is staged.
    Outside,
}

/// Why a write was not staged.
#[derive(Debug)]
#[non_exhaustive]
pub enum StageError<E> {
    /// The handler has ended. A clone of its `Call` cannot stage.
    Ended,
    /// No completion would apply the write: the run is outside of an operation (a unit test, a request that is not protected), or it has no
    /// confirmed claim because the store failed (`run-unprotected`).
    Outside,
    /// The handler has staged writes of another store.
    OtherStore,
    /// The write was refused.
    Refused(E),
}

impl<E: fmt::Display> fmt::Display for StageError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str(
                "the handler of this call has ended, so the write was not staged: stage before the handler returns",
            ),
            Self::Outside => f.write_str(
                "this run is outside of an operation, or the store failed before it, so the write was not staged: nothing would apply it",
            ),
            Self::OtherStore => f.write_str(
                "this call has staged writes of another store, so the write was not staged: one transaction has one store",
            ),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StageError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => error.source(),
            Self::Ended | Self::Outside | Self::OtherStore => None,
        }
    }
}

impl Staging {
    /// Changes the staged writes, which have the form of one store. If `change` fails, it must have changed nothing.
    pub(crate) fn change<W, E>(
        &self,
        change: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), StageError<E>>
    where
        W: StagedWrites + Default,
    {
        let mut state = self.state();
        match &mut *state {
            State::Closed => Err(StageError::Ended),
            State::Outside => Err(StageError::Outside),
            State::Empty => {
                let mut writes = W::default();
                change(&mut writes).map_err(StageError::Refused)?;
                *state = State::Staged(Box::new(writes));
                Ok(())
            }
            State::Staged(staged) => {
                let staged: &mut dyn Any = &mut **staged;
                let writes = staged.downcast_mut().ok_or(StageError::OtherStore)?;
                change(writes).map_err(StageError::Refused)
            }
        }
    }

    /// Refuses all writes, because no completion would apply them.
    pub(crate) fn refuse(&self) {
        *self.state() = State::Outside;
    }

    /// Returns true if writes are staged.
    pub(crate) fn has_staged(&self) -> bool {
        matches!(&*self.state(), State::Staged(writes) if writes.count() > 0)
    }

    /// Ends the staging, and returns what was staged.
    pub(crate) fn close(&self) -> Option<Staged> {
        match std::mem::replace(&mut *self.state(), State::Closed) {
            State::Staged(writes) if writes.count() > 0 => Some(Staged::of(writes)),
            _ => None,
        }
    }

    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{LedgerEntry, MemoryWrites};

    fn add(writes: &mut MemoryWrites) -> Result<(), &'static str> {
        writes.push(LedgerEntry::add("alice", 1));
        Ok(())
    }

    #[derive(Default)]
    struct Others;

    impl StagedWrites for Others {
        fn count(&self) -> usize {
            0
        }

        fn what(&self) -> &'static str {
            "nothing"
        }
    }

    #[test]
    fn writes_are_collected_until_the_handler_ends_and_refused_after_that() {
        let staging = Staging::default();
        staging.change(add).unwrap();
        staging.change(add).unwrap();
        let refused = staging.change(|_: &mut MemoryWrites| Err("no"));
        assert!(matches!(refused, Err(StageError::Refused("no"))));
        let other = staging.change(|_: &mut Others| Ok::<_, &str>(()));
        assert!(matches!(other, Err(StageError::OtherStore)));
        assert!(staging.has_staged());
        assert_eq!(staging.close().map(|staged| staged.count()), Some(2));
        assert!(!staging.has_staged());
        assert!(matches!(staging.change(add), Err(StageError::Ended)));
        assert!(staging.close().is_none());
    }

    #[test]
    fn a_transaction_without_writes_is_none() {
        let staging = Staging::default();
        staging.change(|_: &mut Others| Ok::<_, &str>(())).unwrap();
        assert!(staging.close().is_none());
        let staging = Staging::default();
        assert!(staging.change(|_: &mut MemoryWrites| Err("no")).is_err());
        assert!(staging.close().is_none());
    }
}

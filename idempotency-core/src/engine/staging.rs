//! The writes that a handler stages while it runs.

use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{OpenTransaction, Staged, StagedWrites};

/// The staged writes of one call. It is open while the handler runs.
#[derive(Default)]
pub(crate) struct Staging(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    state: State,
    /// Why a write was refused: the first one. The call must then not complete as if it had been staged.
    refused: Option<&'static str>,
}

/// What a handler has staged when it has ended.
#[derive(Debug)]
pub(crate) struct StagedByHandler {
    pub(crate) staged: Option<Staged>,
    /// Why a write was refused. The text is a constant: it has nothing of the write.
    pub(crate) refused: Option<&'static str>,
}

/// Why a write cannot be staged where the code of the handler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    InStep,
    InOtherRun,
}

/// What a handler must do that returned a response and kept its transaction.
const KEPT: &str = "the handler returned a response although its transaction was still open, so it is not committed with the response: end it with \
                    `commit_with_response` or `rollback` before the handler returns, and leave it to no other task";

/// What a handler must do that returned a response and dropped its transaction.
const DROPPED: &str = "the handler returned a response although it dropped its transaction, which rolls back what it has not committed itself: end it with \
                       `commit_with_response`, or with `rollback` if the response counts on none of its writes";

#[derive(Default)]
enum State {
    /// Nothing is staged.
    #[default]
    Empty,
    Staged(Box<dyn StagedWrites>),
    /// The handler holds an open transaction.
    Begun,
    /// The handler has handed its open transaction back.
    HandedBack(OpenTransaction),
    /// The handler dropped its transaction and did not say why.
    Dropped,
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
    /// A step of the call is open. A later run uses the recorded result and skips the code of the step, and with it the write.
    InStep,
    /// The handler of another protected operation runs here. A replay of that operation skips its handler, and with it the write.
    InOtherRun,
    /// The handler has staged writes of another store, or has begun a transaction.
    OtherStore,
    /// The write was refused.
    Refused(E),
}

impl<E> StageError<E> {
    /// Returns what a handler must do that ignored this error, as a part of the error of its call.
    fn ignored(&self) -> &'static str {
        match self {
            Self::InStep => {
                "the handler returned a response although a write that it staged in a step was refused: stage it outside of the step"
            }
            Self::InOtherRun => {
                "the handler returned a response although a write that it staged in the handler of another operation was refused: \
                 stage it outside of that handler"
            }
            Self::Ended | Self::Outside | Self::OtherStore | Self::Refused(_) => {
                "the handler returned a response although a write that it staged was refused: return the error of the write"
            }
        }
    }
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
            Self::InStep => f.write_str(
                "a step of this call is open, so the write was not staged: a later run skips the step and would lose the write; stage it \
                 before the step or after it, with the result of the step",
            ),
            Self::InOtherRun => f.write_str(
                "the handler of another operation runs here, so the write was not staged: a replay of that operation would lose the \
                 write; stage it with the call of that operation, or outside of its handler",
            ),
            Self::OtherStore => f.write_str(
                "this call has staged writes of another store, or begun a transaction, so the write was not staged: a call has one transaction",
            ),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StageError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => error.source(),
            Self::Ended | Self::Outside | Self::InStep | Self::InOtherRun | Self::OtherStore => {
                None
            }
        }
    }
}

impl Staging {
    /// Changes the staged writes, which have the form of one store. If `change` fails, it must have changed nothing. `misplaced` says
    /// why nothing may be staged here.
    ///
    /// A refusal sticks: [`close`](Self::close) returns it.
    pub(crate) fn change<W, E>(
        &self,
        misplaced: Option<Misplaced>,
        change: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), StageError<E>>
    where
        W: StagedWrites + Default,
    {
        let mut inner = self.inner();
        let changed = inner.state.change(misplaced, change);
        if let Err(error) = &changed {
            inner.refused.get_or_insert(error.ignored());
        }
        changed
    }

    /// Notes that the handler begins a transaction. `misplaced` says why it may not begin one here.
    ///
    /// # Errors
    ///
    /// Why it may not. A refusal sticks, as in [`change`](Self::change).
    pub(crate) fn begin(&self, misplaced: Option<Misplaced>) -> Result<(), &'static str> {
        let mut inner = self.inner();
        let refused = match (&inner.state, misplaced) {
            (State::Closed, _) => {
                "the handler of this call has ended, so no transaction was begun: begin it before the handler returns"
            }
            (State::Outside, _) => {
                "this run is outside of an operation, or the store failed before it, so no transaction was begun: nothing would commit it"
            }
            (_, Some(Misplaced::InStep)) => {
                "a step of this call is open, so no transaction was begun: a later run skips the step and would lose its writes; begin it \
                 before the step or after it, with the result of the step"
            }
            (_, Some(Misplaced::InOtherRun)) => {
                "the handler of another operation runs here, so no transaction was begun: a replay of that operation would lose its \
                 writes; begin it with the call of that operation, or outside of its handler"
            }
            (State::Begun | State::HandedBack(_) | State::Staged(_), None) => {
                "this call has a transaction already, or has staged writes, so no other transaction was begun: a call has one"
            }
            (State::Empty | State::Dropped, None) => {
                inner.state = State::Begun;
                return Ok(());
            }
        };
        let ignored = "the handler returned a response although a transaction was refused when it was begun: return that error";
        inner.refused.get_or_insert(ignored);
        Err(refused)
    }

    /// Takes the open transaction of the handler back. After the end of the handler it is dropped.
    pub(crate) fn hand_back(&self, open: OpenTransaction) {
        let mut inner = self.inner();
        if matches!(inner.state, State::Begun) {
            inner.state = State::HandedBack(open);
        }
    }

    /// Notes that the open transaction of the handler is rolled back. `is_meant` is false if the handler only dropped it.
    pub(crate) fn roll_back(&self, is_meant: bool) {
        let mut inner = self.inner();
        if matches!(inner.state, State::Begun) {
            inner.state = if is_meant {
                State::Empty
            } else {
                State::Dropped
            };
        }
    }

    /// Refuses all writes, because no completion would apply them.
    pub(crate) fn refuse(&self) {
        self.inner().state = State::Outside;
    }

    /// Returns true if writes are staged, or one was refused.
    pub(crate) fn has_staged(&self) -> bool {
        let inner = self.inner();
        inner.refused.is_some()
            || match &inner.state {
                State::Staged(writes) => writes.count() > 0,
                State::Begun | State::Dropped | State::HandedBack(_) => true,
                State::Empty | State::Closed | State::Outside => false,
            }
    }

    /// Ends the staging, and returns what was staged. After a refusal nothing of it may be applied.
    pub(crate) fn close(&self) -> StagedByHandler {
        let mut inner = self.inner();
        let (staged, lost) = match std::mem::replace(&mut inner.state, State::Closed) {
            State::Staged(writes) if writes.count() > 0 => (Some(Staged::of(writes)), None),
            State::HandedBack(open) => (Some(Staged::open(open)), None),
            State::Begun => (None, Some(KEPT)),
            State::Dropped => (None, Some(DROPPED)),
            _ => (None, None),
        };
        StagedByHandler {
            staged,
            refused: inner.refused.take().or(lost),
        }
    }

    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn change<W, E>(
        &mut self,
        misplaced: Option<Misplaced>,
        change: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), StageError<E>>
    where
        W: StagedWrites + Default,
    {
        match (&mut *self, misplaced) {
            (Self::Closed, _) => Err(StageError::Ended),
            (Self::Outside, _) => Err(StageError::Outside),
            (_, Some(Misplaced::InStep)) => Err(StageError::InStep),
            (_, Some(Misplaced::InOtherRun)) => Err(StageError::InOtherRun),
            (Self::Empty, None) => {
                let mut writes = W::default();
                change(&mut writes).map_err(StageError::Refused)?;
                *self = Self::Staged(Box::new(writes));
                Ok(())
            }
            (Self::Begun | Self::Dropped | Self::HandedBack(_), None) => {
                Err(StageError::OtherStore)
            }
            (Self::Staged(staged), None) => {
                let staged: &mut dyn Any = &mut **staged;
                let writes = staged.downcast_mut().ok_or(StageError::OtherStore)?;
                change(writes).map_err(StageError::Refused)
            }
        }
    }
}

#[cfg(test)]
mod tests;

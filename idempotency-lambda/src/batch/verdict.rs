//! How a record ended: acknowledged or returned, and why.
//!
//! A record is acknowledged if its work is known to be done: the handler returned `Ok` in this call and the writes that it
//! staged were applied, or an earlier call with its key is complete. Any other record is
//! returned. So a record is never lost, and never runs again for nothing.
//! An `Ok` after a step that found its claim gone is not counted: that step had no result, and only the redelivery finishes the work if the
//! other call does not.

use idempotency_core::error::{Error, ErrorKind};

/// How a record ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Acknowledged: its work is done.
    Done(Done),
    /// Returned: the source delivers it again.
    Returned(Why),
}

/// Why a record is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// Its own call has a response: the handler's, or a stored one.
    Responded,
    /// Its work is done, but its call ended in this error.
    Despite(ErrorKind),
    /// A record of the same batch with the same key is done.
    Duplicate,
}

/// Why a record is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The handler returned an error of this type.
    Failed(&'static str),
    /// The handler panicked.
    Panicked,
    /// The handler returned `Ok`, but by policy its response is not stored, so the writes that it staged are dropped.
    Dropped,
    /// The call was refused.
    Refused(ErrorKind),
    /// Its body cannot be read.
    Undecodable,
    /// A record of the same batch with the same key was returned.
    Duplicate,
    /// It would not end before the deadline.
    NoTime,
    /// A record before it, in its group or shard, was returned.
    Behind,
}

/// The error of one record's call.
pub(super) enum CallError<E> {
    /// The handler's own.
    Handler(E),
    /// This framework's.
    Framework(Error),
}

impl Verdict {
    /// Returns the verdict of a call that ended in an error. `succeeded` is true if the handler returned `Ok`.
    pub(super) fn of<E>(error: &CallError<E>, succeeded: bool) -> Self {
        match error {
            CallError::Handler(_) => Self::Returned(Why::Failed(std::any::type_name::<E>())),
            CallError::Framework(error)
                if (succeeded && !error.was_lost_in_a_step() && !lacks_writes(error))
                    || is_complete(error.kind()) =>
            {
                Self::Done(Done::Despite(error.kind()))
            }
            CallError::Framework(error) => Self::Returned(Why::Refused(error.kind())),
        }
    }

    /// Returns true if the record is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

/// Returns true if the handler staged writes that were not applied, or may not have been. Its work is then not done, although it
/// returned `Ok`.
fn lacks_writes(error: &Error) -> bool {
    error.has_unconfirmed_writes() || error.kind() == ErrorKind::TransactionRejected
}

/// Returns true if an error of this kind says that an earlier call with the key is complete.
///
/// A batch needs no response, so it does not matter that the stored one cannot be had.
fn is_complete(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ResponseUnavailable | ErrorKind::ResponseTypeChanged
    )
}

impl Why {
    /// Returns the reason's name, for events.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Panicked => "panicked",
            Self::Dropped => "writes_dropped",
            Self::Refused(_) => "refused",
            Self::Undecodable => "undecodable",
            Self::Duplicate => "duplicate",
            Self::NoTime => "no_time",
            Self::Behind => "behind",
        }
    }

    /// Returns the name of the error, if there is one.
    pub(super) fn error(&self) -> Option<&'static str> {
        match self {
            Self::Failed(name) => Some(name),
            Self::Refused(kind) => Some(kind.name()),
            Self::Undecodable => Some(ErrorKind::InvalidPayload.name()),
            Self::Panicked | Self::Dropped | Self::Duplicate | Self::NoTime | Self::Behind => None,
        }
    }
}

#[cfg(test)]
mod tests;

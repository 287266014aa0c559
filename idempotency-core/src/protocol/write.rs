//! Writes to one record, as data.

use std::ops::ControlFlow;
use std::time::Duration;

use super::effect::WriteResult;
use crate::record::{Attribute, Data, Record};
use crate::time::EpochMillis;

/// A write to one record. A [`Store`](crate::store::Store) applies it only if the condition that comes with it holds.
///
/// This enum is exhaustive on purpose: a store must perform every kind of write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Replace the whole record by this one.
    Put(Record),
    /// Change some attributes. If there is no record, create one with them.
    Update(Change),
    /// Delete the record.
    Delete,
    /// Add the result of a step to the [`steps`](Record::steps) of the record. If the record has no steps at all, the write
    /// fails: the claim did not make any.
    Step {
        /// The name of the step.
        name: String,
        /// Its result.
        result: Data,
    },
}

/// Attributes to set, and attributes to remove.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Change;
/// use idempotency_core::record::{Attribute, Field, Record};
/// let change = Change {
///     set: Record { failure: Field::Value("Timeout".to_owned()), ..Record::default() },
///     remove: vec![Attribute::Owner],
/// };
/// assert!(change.set.failure.exists());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Change {
    /// Sets the attributes that are [`Field::Value`](crate::record::Field::Value) here. The others stay as they are.
    pub set: Record,
    /// Removes these attributes.
    pub remove: Vec<Attribute>,
}

/// A write that is sent again until its end is known, as a state machine. Its first send comes at once.
pub trait Resend {
    /// How it ended.
    type End;

    /// Returns how long a send may take that starts at the time `now`.
    fn time_limit(&self, now: EpochMillis) -> Duration;

    /// Takes the result of a send. Returns the end; or the longest pause, after which the same write is sent again. The driver pauses for
    /// a random time between zero and it.
    fn step(&mut self, now: EpochMillis, result: WriteResult) -> ControlFlow<Self::End, Duration>;
}

//! What an attempt asks its driver to do, and the results that the driver returns.

use std::time::Duration;

use super::breaker::Admission;
use super::condition::Condition;
use super::in_flight::InFlight;
use super::read::Consistency;
use super::resolution::Resolution;
use super::steps::StepsEnd;
use super::write::Write;
use crate::record::{Data, Record};

/// What the driver of an [`Attempt`](super::Attempt) must do next.
///
/// Each variant names the [`Input`] to pass to the next step.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Write};
/// # use idempotency_core::time::EpochMillis;
/// # let call = idempotency_core::example::call();
/// let (attempt, effect) = Attempt::begin(call);
/// assert_eq!(effect, Effect::CheckLocal);
/// let (_, effect) = attempt.step(EpochMillis::new(0), Input::Local(None));
/// let Effect::Write(Write::Put(claim), condition) = effect else { panic!("a claim comes next") };
/// assert!(claim.owner.exists() && condition.holds(None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Check this process's memory. Then pass [`Input::Local`] with the cached record. If there is none, and a call with the
    /// same [`InFlightKey`](super::InFlightKey) is in progress, pass [`Input::LeaderProgress`].
    CheckLocal,
    /// Check only for a call in progress, because the cached record has expired. Then pass [`Input::LeaderProgress`],
    /// or [`Input::Local`] with `None`.
    CheckInFlight,
    /// Wait for the leader for at most this duration. Then pass [`Input::LeaderDone`] if it finishes, and
    /// [`Input::LeaderProgress`] if its progress changes or the time ends.
    AwaitLeader(Duration),
    /// Ask the circuit breaker of the store for admission. The requests before the handler may take this long. Then pass
    /// [`Input::Circuit`].
    CheckCircuit(Duration),
    /// Perform the write if the condition holds. Then pass [`Input::Written`].
    Write(Write, Condition),
    /// Perform the write and the writes that the handler staged, all of them or none, if the condition and the conditions of the
    /// staged writes hold. Then pass [`Input::Written`].
    Transact(Write, Condition),
    /// Read the record, as current as this asks. Then pass [`Input::Read`], or [`Input::ReadFailed`].
    Read(Consistency),
    /// Pause for a random time between zero and this duration. Then pass [`Input::Paused`].
    Pause(Duration),
    /// Run the handler. Then pass [`Input::HandlerDone`].
    Run,
    /// Run the handler without a confirmed claim, because the store failed. Then pass [`Input::HandlerDone`].
    RunUnprotected {
        /// True if a claim of this call may have been applied: its response is stored if it was. Otherwise nothing is stored:
        /// pass [`HandlerResult::NotStored`] for a response.
        maybe_claimed: bool,
    },
    /// End the call: give its caller this result.
    Finish(Resolution),
}

/// The result of an [`Effect`].
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Consistency, Effect, Input, Write, WriteErrorKind, WriteResult};
/// # use idempotency_core::time::EpochMillis;
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // The reply to the claim was lost. Only a read can tell whether the claim was applied.
/// let maybe_applied = WriteResult::Failed { maybe_applied: true, kind: WriteErrorKind::Transient };
/// let (attempt, effect) = attempt.step(now, Input::Written(maybe_applied));
/// assert_eq!(effect, Effect::Read(Consistency::Strong));
/// let (_, effect) = attempt.step(now, Input::Read(None));
/// assert!(matches!(effect, Effect::Write(Write::Put(_), _)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The record of this key in the local cache.
    Local(Option<Record>),
    /// Another call of this process is in progress. This is its progress.
    LeaderProgress(InFlight),
    /// The leader has finished. The record is the one that it confirmed, if any:
    /// [`Resolution::confirmed_record`].
    LeaderDone(Option<Record>),
    /// Whether the circuit breaker admits the call.
    Circuit(Admission),
    /// The result of a write.
    Written(WriteResult),
    /// The record that a read found.
    Read(Option<Record>),
    /// The read failed.
    ReadFailed,
    /// The pause has ended.
    Paused,
    /// The handler has ended.
    HandlerDone(HandlerResult),
    /// The handler has ended, and it staged writes. They must be applied if and only if its key is completed by this call.
    HandlerStaged(HandlerResult),
}

/// The result of a write, reduced to what the protocol needs.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, Input, Resolution, Source, WriteResult};
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let completed = Record { status: Field::Value(Status::Completed), data: Field::Value(Data::new("42")),
/// #     expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// // Another call has completed this key. The failed condition brings its record back.
/// let failed = WriteResult::ConditionFailed { existing: Some(completed), maybe_applied: false };
/// let (_, effect) = attempt.step(now, Input::Written(failed));
/// assert!(matches!(effect, Effect::Finish(Resolution::Replay { source: Source::Store, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
// A refused write is no common path, and a record in a box would cost each duplicate an allocation.
#[allow(clippy::large_enum_variant)]
pub enum WriteResult {
    /// The write was applied.
    Applied {
        /// What a put has replaced: a record, or none. `None` if the store does not say it. Then the run does not know whether it is the
        /// first.
        replaced: Option<Option<Record>>,
        /// True if an earlier send of the same write may still be applied later.
        maybe_again: bool,
    },
    /// The condition did not hold.
    ConditionFailed {
        /// The record that the store brought back.
        existing: Option<Record>,
        /// True if an earlier send of the same write may have been applied.
        maybe_applied: bool,
    },
    /// A staged write was rejected: its condition did not hold, or the store does not accept it. The condition on the record held,
    /// or is not known. Nothing was applied.
    Rejected {
        /// True if an earlier send of the same transaction may have been applied.
        maybe_applied: bool,
    },
    /// The write failed.
    Failed {
        /// True if the write may have been applied, or may still be applied later.
        maybe_applied: bool,
        /// The kind of failure.
        kind: WriteErrorKind,
    },
}

impl WriteResult {
    /// The write was applied by its only send, and the store does not say what it replaced.
    pub const APPLIED: Self = Self::Applied {
        replaced: None,
        maybe_again: false,
    };
}

/// The kind of a failed write, reduced to what the protocol needs.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, HandlerResult, Input, Write, WriteErrorKind, WriteResult};
/// # use idempotency_core::{record::Data, time::EpochMillis};
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// # let (attempt, _) = attempt.step(now, Input::Written(WriteResult::APPLIED));
/// # let (attempt, _) = attempt.step(now, Input::HandlerDone(HandlerResult::Returned(Data::new("42"))));
/// // The store does not accept the response, so the key is completed without it.
/// let failed = WriteResult::Failed { maybe_applied: false, kind: WriteErrorKind::TooLarge };
/// let (_, effect) = attempt.step(now, Input::Written(failed));
/// assert!(matches!(effect, Effect::Write(Write::Update(change), _) if !change.set.data.exists()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteErrorKind {
    /// The same write may succeed later.
    Transient,
    /// The same write will succeed when another transaction with one of its items has ended, or when the transaction is not throttled
    /// any more. It was not applied.
    Conflict,
    /// The record is larger than the store accepts.
    TooLarge,
    /// The condition did not hold, but the record that prevents the write could not be read. The same write may bring it back
    /// later.
    Refused,
    /// The same write will fail again.
    Permanent,
}

/// How the handler ended.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Effect, HandlerResult, Input, Write, WriteResult};
/// # use idempotency_core::time::EpochMillis;
/// # let call = idempotency_core::example::call();
/// # let now = EpochMillis::new(0);
/// # let (attempt, _) = Attempt::begin(call).0.step(now, Input::Local(None));
/// let claimed = WriteResult::Applied { replaced: Some(None), maybe_again: false };
/// let (attempt, effect) = attempt.step(now, Input::Written(claimed));
/// assert_eq!(effect, Effect::Run);
/// // The handler of a first run failed: the claim is released, so that a retry runs the handler.
/// let (_, effect) = attempt.step(now, Input::HandlerDone(HandlerResult::Failed("Timeout".to_owned())));
/// assert!(matches!(effect, Effect::Write(Write::Delete, _)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandlerResult {
    /// It returned a response, which must be stored.
    Returned(Data),
    /// It returned a response that cannot be written as JSON.
    NotSerializable,
    /// It returned a response that only its own caller can get: its JSON cannot be read back, or its codec stores nothing.
    NotDeserializable,
    /// It returned a response that is not stored, by the policy `store_when` or by its codec.
    NotStored,
    /// It returned a response that cannot be stored, and its codec asks to release the claim. If the handler staged writes, the key is
    /// completed without the response instead: its caller gets the response, so the writes must be applied.
    Unstorable,
    /// It returned an error. Holds the name of the error's type.
    Failed(String),
    /// It ended in an error or a response that does not report whether its effect happened: a layer around it may have made it, or
    /// its body broke off. Holds the name of the type.
    Unreported(String),
    /// It panicked, so it did not report whether its effect happened.
    Panicked,
    /// It returned an error before it began: no effect of this run has happened, and steps of earlier runs stay.
    NotStarted,
    /// It ended so after it had recorded steps, or had tried to.
    AfterSteps(StepsEnd, Box<HandlerResult>),
}

//! What happened to one key, and which promises that breaks.
//!
//! A [`History`] takes one [`HistoryEvent`] at a time, and applies the rules to it. The model steps it along each transition; the simulation
//! and the soak give it what they recorded. Events have what a log can say: the call, the times, the call that made a response. They have no
//! payload and no response. A history may lack events: a rule that needs them then finds nothing.

mod promise;
mod rules;
#[cfg(test)]
mod tests;

use std::hash::{Hash, Hasher};
use std::time::Duration;

use idempotency_core::error::ErrorKind;
use idempotency_core::protocol::policy::Steps;
use idempotency_core::protocol::{Undoing, Write};
use idempotency_core::record::Status;
use idempotency_core::time::{EpochMillis, EpochSeconds};

pub use promise::{Promise, Promises};
pub use rules::{Broken, History, check};

/// The number of a call. A log has its owner token. A run has the number of its call, and a response that of its run.
pub type CallNumber = u16;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The call that did it, or that it happened to.
    pub by: CallNumber,
    /// When, by the clock of that call.
    pub at: EpochMillis,
    /// What happened.
    pub what: What,
}

/// What happened. Of a write: it was applied, whether its call knows that or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The call was made.
    Called(Terms),
    /// Its claim was applied. The lease ends at `until`, the record at `expires`. A claim replaces the record, or takes it over with
    /// its steps. `late` is a send that is applied after the reply to another send of the claim was made: the reply tells of that one.
    Claimed {
        late: bool,
        replaces: bool,
        until: Option<EpochMillis>,
        expires: Option<EpochSeconds>,
    },
    /// The lease of its claim was renewed: it ends at `until`, the record at `expires`.
    Renewed {
        until: Option<EpochMillis>,
        expires: Option<EpochSeconds>,
    },
    /// Its run knows that its lease, which is renewed, lasts until then.
    Holds { until: EpochMillis },
    /// The lease of its claim was ended. The claim is kept for an operator.
    LeaseEnded,
    /// Its claim was released: the record was deleted, or holds a failure and expires then.
    Released { expires: Option<EpochSeconds> },
    /// Its response was stored, with its staged writes or without. The time of this event is the end of its run, from which on its
    /// window counts. It completes its claim, or `restores` the record where there is none.
    Completed {
        expires: Option<EpochSeconds>,
        staged: bool,
        restores: bool,
    },
    /// Its staged writes were applied with a write that completes nothing.
    StagedAlone,
    /// It asked the store to write its response where there is no record, because its claim was evicted.
    Restores,
    /// The effect of a step happened.
    StepRan { step: u8 },
    /// The result of a step was recorded.
    StepRecorded { step: u8 },
    /// Its handler got the result of a step, which the run of call `of` made: its own, or that of an earlier run.
    StepUsed { step: u8, of: CallNumber },
    /// The decision was recorded that the steps of the key are undone. The call gave the final response.
    UndoDecided,
    /// The effect of the undo of a step happened.
    UndoRan { step: u8 },
    /// It was recorded that a step is undone.
    UndoRecorded { step: u8 },
    /// It stopped undoing. Its claim was released, or is held for an operator.
    UndoStopped { held: bool },
    /// The record was deleted, by an operator or by TTL.
    Deleted { evicted: bool },
    /// An operator decided about the record: completed with the response of this number, or rerun.
    Decided { completed: bool },
    /// Its handler began. Its `Run` was `First`, or not.
    RunBegan { basis: Basis, first: bool },
    /// Its handler ended, and reported how. Without this event a run that began reported nothing.
    RunReported(Reported),
    /// It follows another call of its process until then. `leader` is the end of that call's lease, `deadline` its own.
    Followed {
        until: EpochMillis,
        leader: EpochMillis,
        deadline: Option<EpochMillis>,
    },
    /// Its caller got a response.
    Responded(Given),
    /// Its caller learned that the staged writes of its run were applied, or that they were not.
    StagedEnded { applied: bool },
    /// Its caller got an error of the framework, or no result that is known.
    Refused(Refused),
    /// Its run has ended, its claim is kept for an operator, and its last request did not fail.
    Kept,
    /// From now on no lease runs, and no request fails for long.
    Calmed,
}

/// What is known of a call in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// A number for what it validates. `None` if it validates nothing.
    pub payload: Option<u32>,
    /// True under `hold`.
    pub holds: bool,
    pub steps: Steps,
    /// The longest lease that it may get. `None` if that is not known.
    pub lease: Option<Duration>,
    /// How long its response must be kept. `None` if that is not known.
    pub window: Option<Duration>,
    /// When its caller must have a result at the latest, if its handler does not run.
    pub answer_by: Option<EpochMillis>,
    /// True for a function of another language, whose writes have no fence.
    pub unfenced: bool,
}

/// What a run may begin on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A claim of its own that was confirmed. Its lease ends then.
    Claim(EpochMillis),
    /// The policy `run-unprotected`, after a failure of the store. It met no other call. Its deadline is then, if it has one.
    Policy(Option<EpochMillis>),
    Nothing,
}

/// How a run reported its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reported {
    /// With an error, and each step that ran is recorded.
    Failed,
    /// With a response that by policy is not stored.
    NotStored,
    /// With staged writes.
    Staged,
    /// With a final response, after its steps are undone.
    Undoes,
}

/// A response that a caller got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The call whose run made it.
    pub of: CallNumber,
    pub bond: Bond,
    /// When the record of a replayed response expires.
    pub expires: Option<EpochSeconds>,
}

/// Whether a response binds other callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It is stored.
    Stored,
    /// Its key is completed, but the response could not be stored.
    Completed,
    /// It binds no other caller.
    None,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `None` if that is not known.
    pub kind: Option<ErrorKind>,
    pub met: Met,
    /// True if its claim was left, in the store or on its way, and no release was sent.
    pub claim_left: bool,
}

/// What a call that was refused had met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// A record of its own.
    Own,
    /// Another call of its process, whose lease ends then.
    Leader(EpochMillis),
    /// Another record, or nothing that is known.
    Unknown,
}

impl Hash for Terms {
    /// Adds nothing: a call has the same terms in each state of a model.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Refused {
    /// Returns a refusal of which no more is known.
    pub const fn of(kind: Option<ErrorKind>) -> Self {
        Self {
            kind,
            met: Met::Unknown,
            claim_left: false,
        }
    }
}

impl What {
    /// Returns what a write of this framework does once it is applied, alone or with staged writes. `steps` has the names of the
    /// steps in the order of their numbers.
    pub fn of_write(write: &Write, staged: bool, steps: &[&str]) -> Self {
        let puts = matches!(write, Write::Put(_));
        let set = match write {
            Write::Delete | Write::Step { .. } if staged => return Self::StagedAlone,
            Write::Delete => return Self::Released { expires: None },
            Write::Step { name, .. } => {
                let step = steps.iter().position(|known| known == name);
                let step = step.and_then(|step| u8::try_from(step).ok());
                return Self::StepRecorded {
                    step: step.unwrap_or(u8::MAX),
                };
            }
            Write::Put(record) => record,
            Write::Update(change) => &change.set,
        };
        if set.status.value() == Some(&Status::Undoing) {
            return Self::UndoDecided;
        }
        let until = set.in_progress_expiration.value().copied();
        let expires = set.expiration.value().copied();
        if set.status.value() == Some(&Status::Completed) {
            Self::Completed {
                expires,
                staged,
                restores: puts,
            }
        } else if staged {
            Self::StagedAlone
        } else if set.status.exists() || set.owner.exists() {
            Self::Claimed {
                late: false,
                replaces: puts,
                until,
                expires,
            }
        } else if set.failure.exists() && expires.is_none() {
            // The record of an undoing keeps its end.
            let undoing = Undoing::of(set);
            let held = undoing.is_some_and(|undoing| undoing.held);
            Self::UndoStopped { held }
        } else if let Some(undoing) = Undoing::of(set) {
            let step = undoing.undone.last().map(String::as_str);
            let place = steps.iter().position(|known| Some(*known) == step);
            let place = place.and_then(|step| u8::try_from(step).ok());
            let step = place.unwrap_or(u8::MAX);
            Self::UndoRecorded { step }
        } else if set.failure.exists() {
            Self::Released { expires }
        } else if expires.is_some() {
            Self::Renewed { until, expires }
        } else {
            Self::LeaseEnded
        }
    }
}

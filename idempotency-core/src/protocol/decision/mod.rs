//! An operator's decision about a key whose run did not report how it ended: the write, and when it may be applied.
//!
//! The write is applied only to the record that the operator saw, so a run that took the key over in the meantime is not
//! overwritten. It removes the owner's token. After it a late owner cannot take the record for its own: its completion, its
//! release and its recorded failure are refused by the same fence as after a takeover.

mod trace;
mod undecided;

pub use trace::{Trace, Verdict};
pub use undecided::Undecided;

use super::condition::{Condition, claimable, unchanged};
use super::effect::{Change, Write};
use super::policy::OnTimeout;
use super::requests::{HELD, LONGEST_BESIDE_AN_EVENT};
use crate::record::{Attribute, Data, Field, Record, Status};
use crate::time::{EpochMillis, EpochSeconds};

/// The recorded failure of a claim that an operator freed. It is what frees a key under `hold`.
pub const FREED: &str = "ResolvedByOperator";

/// What an operator decides about a key.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::decision::{Decision, Ending};
/// use idempotency_core::{record::*, time::*};
/// let held = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(EpochMillis::new(30_000)),
///     ..Record::default() };
/// let decision = Decision { ending: Ending::Rerun, by: "ana".into(), reason: "no charge at the provider".into() };
/// assert!(decision.about(&held, EpochMillis::new(30_000), false).is_err(), "its lease still runs");
/// let decided = decision.about(&held, EpochMillis::new(30_001), false).unwrap();
/// assert!(decided.condition.holds(Some(&held)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// How the run counts from now on.
    pub ending: Ending,
    /// Who decided: a name, an address, a ticket.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// How a run counts whose end is not known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It had its effect: duplicates get this response.
    Completed {
        /// The response, as the function stores it.
        response: Data,
        /// When the window ends. `None` keeps the end that the claim has; under `hold` this is ten years after its lease.
        expiration: Option<EpochSeconds>,
    },
    /// It had no effect: the next call runs the handler.
    Rerun,
}

/// The write of a decision, and its condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decided {
    /// The write.
    pub write: Write,
    /// When it may be applied: the record is still the one that the operator saw.
    pub condition: Condition,
    /// The trace that the write leaves in the record, as JSON text.
    pub trace: String,
}

impl Decision {
    /// Returns the write that records this decision about `read`, the record that the operator saw.
    ///
    /// `live` allows a claim whose lease still runs by the operator's clock: a run may then have its effect after the decision.
    ///
    /// # Errors
    ///
    /// If there is nothing to decide about this record, or if the decision is incomplete. Nothing is written.
    pub fn about(&self, read: &Record, now: EpochMillis, live: bool) -> Result<Decided, Undecided> {
        match read.status.value() {
            Some(Status::InProgress) => {}
            Some(Status::Completed) => return Err(Undecided::Completed),
            Some(Status::Other(_)) | None => return Err(Undecided::Unreadable),
        }
        let free = |on_timeout| claimable(now, on_timeout).holds(Some(read));
        if !free(OnTimeout::Rerun) && !live {
            return Err(Undecided::Live);
        }
        let verdict = match self.ending {
            Ending::Completed { .. } => Verdict::Completed,
            Ending::Rerun => Verdict::Rerun,
        };
        let trace = Trace {
            verdict,
            by: self.by.clone(),
            reason: self.reason.clone(),
            at: now,
        };
        trace.check()?;
        let trace = trace.to_json();
        let decision = Field::Value(trace.clone());
        let change = match &self.ending {
            Ending::Completed {
                response,
                expiration,
            } => {
                if !response.is_json() {
                    return Err(Undecided::NotJson);
                }
                let window = expiration.as_ref().or(read.expiration.value());
                let open = window.filter(|end| **end >= now.floor_to_seconds());
                let mut remove = vec![Attribute::Owner, Attribute::Failure];
                if response.as_str().len() > LONGEST_BESIDE_AN_EVENT {
                    remove.push(Attribute::Event);
                }
                // As after a completion: no later run needs them. A step needs the map of its claim, so none can follow.
                if read.steps.exists() {
                    remove.push(Attribute::Steps);
                }
                Change {
                    set: Record {
                        expiration: Field::Value(*open.ok_or(Undecided::WindowExpired)?),
                        status: Field::Value(Status::Completed),
                        data: Field::Value(response.clone()),
                        decision,
                        ..Record::default()
                    },
                    remove,
                }
            }
            Ending::Rerun if free(OnTimeout::Rerun) && free(OnTimeout::Hold) => {
                return Err(Undecided::Free);
            }
            Ending::Rerun => Change {
                set: Record {
                    in_progress_expiration: expired_lease(read, now),
                    failure: Field::Value(FREED.to_owned()),
                    decision,
                    ..Record::default()
                },
                remove: vec![Attribute::Owner],
            },
        };
        Ok(Decided {
            write: Write::Update(change),
            condition: unchanged(read),
            trace,
        })
    }
}

impl Decided {
    /// Returns true if the record has this decision: an earlier send of the write was applied.
    pub fn is_in(&self, record: &Record) -> bool {
        record.decision.value() == Some(&self.trace)
    }
}

/// Returns true if the record is a claim that was made under `hold` and waits for an operator: its lease has expired, and its run
/// reported no failure.
///
/// A claim that was made under `rerun` is held too if its operation holds by now. The record does not say that.
pub fn is_held(record: &Record, now: EpochMillis) -> bool {
    let free = |on_timeout| claimable(now, on_timeout).holds(Some(record));
    let ends = record.in_progress_expiration.value();
    let ends = ends.zip(record.expiration.value());
    let is_kept = ends.is_some_and(|(lease, kept)| *kept >= lease.ceil_to_seconds().plus(HELD));
    record.status.value() == Some(&Status::InProgress)
        && free(OnTimeout::Rerun)
        && !free(OnTimeout::Hold)
        && is_kept
}

/// Returns the lease's end that a freed claim gets: none if its own has expired. Python and calls under `rerun` look at the lease.
fn expired_lease(read: &Record, now: EpochMillis) -> Field<EpochMillis> {
    match read.in_progress_expiration.value() {
        Some(end) if *end < now => Field::Absent,
        _ => Field::Value(EpochMillis::new(now.get().saturating_sub(1))),
    }
}

#[cfg(test)]
mod tests;

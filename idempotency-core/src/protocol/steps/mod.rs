//! The steps of one run: which of them run, and how their results are recorded.
//!
//! A step belongs to the claim of its run. Its result is written under the same fence as a completion, so a run whose claim was taken
//! over can record nothing.

mod retry;

pub use retry::StepRetry;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::CallTerms;
use super::classify::{is_claim_by, is_expired};
use super::condition::{Condition, held_by};
use super::effect::{Resend, Write, WriteErrorKind, WriteResult};
use super::end::StepEnd;
use super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff, time_limit};
use crate::owner::OwnerToken;
use crate::record::{Data, RecordedSteps};
use crate::time::EpochMillis;

/// The longest name of a step, in bytes.
const LONGEST_NAME: usize = 128;

/// The steps of one run: those that are recorded, and those that the run asked for.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{StepLedger, StepRefusal, StepStart};
/// use idempotency_core::record::{Data, RecordedSteps};
/// use idempotency_core::time::EpochMillis;
/// let now = EpochMillis::new(0);
/// let recorded: RecordedSteps = [("reserve".to_owned(), Data::new("7"))].into_iter().collect();
/// let mut ledger = StepLedger::new(recorded, EpochMillis::new(30_000));
/// assert_eq!(ledger.start(now, "reserve"), StepStart::Recorded(Data::new("7")));
/// assert_eq!(ledger.start(now, "charge"), StepStart::Run);
/// assert_eq!(ledger.start(now, "charge"), StepStart::Refused(StepRefusal::SameName));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepLedger {
    recorded: RecordedSteps,
    asked: BTreeSet<String>,
    lease_end: EpochMillis,
    /// The number of steps that were started and have not ended.
    open: usize,
    /// The length of all results that are recorded, or may be.
    text_len: usize,
    /// The worst end of the steps that have ended.
    end: Option<StepEnd>,
    /// True if the handler has ended.
    closed: bool,
}

/// What the caller of a step must do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StepStart {
    /// Use this result. An earlier run recorded it.
    Recorded(Data),
    /// Run the step, then record its result.
    Run,
    /// Return an error. The step does not run.
    Refused(StepRefusal),
}

/// Why a step does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepRefusal {
    /// The run asked for a step of this name before.
    SameName,
    /// The name is empty, or longer than 128 bytes.
    NameLength,
    /// The lease of the claim has expired. Another call may run by now.
    LeaseExpired,
    /// An earlier step of this run found that the claim is gone.
    ClaimLost,
    /// The handler has ended. The key may be free, so another call may run the step.
    HandlerEnded,
}

impl StepLedger {
    /// Returns the steps of a run that begins with these recorded steps, under a claim whose lease ends at this time.
    pub fn new(recorded: RecordedSteps, lease_end: EpochMillis) -> Self {
        Self {
            text_len: recorded.text_len(),
            recorded,
            asked: BTreeSet::new(),
            lease_end,
            open: 0,
            end: None,
            closed: false,
        }
    }

    /// Returns what to do with a step that the run asks for at the time `now`.
    pub fn start(&mut self, now: EpochMillis, name: &str) -> StepStart {
        if self.closed {
            return StepStart::Refused(StepRefusal::HandlerEnded);
        }
        if name.is_empty() || name.len() > LONGEST_NAME {
            return StepStart::Refused(StepRefusal::NameLength);
        }
        if !self.asked.insert(name.to_owned()) {
            return StepStart::Refused(StepRefusal::SameName);
        }
        if let Some(result) = self.recorded.get(name) {
            return StepStart::Recorded(result.clone());
        }
        if let Some(refusal) = self.refusal(now) {
            return StepStart::Refused(refusal);
        }
        self.open += 1;
        StepStart::Run
    }

    /// Returns why no effect of the run may begin at the time `now`, and `None` if one may. A step that is tried again asks this before
    /// each further try.
    pub fn refusal(&self, now: EpochMillis) -> Option<StepRefusal> {
        if self.closed {
            Some(StepRefusal::HandlerEnded)
        } else if self.end == Some(StepEnd::ClaimLost) {
            Some(StepRefusal::ClaimLost)
        } else if is_expired(self.lease_end, now) {
            Some(StepRefusal::LeaseExpired)
        } else {
            None
        }
    }

    /// Notes that the handler has ended. No step starts after this, so [`end`](Self::end) misses none.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Reserves room for a result that is about to be recorded. Returns false if all results of the key would be longer than
    /// [`RecordedSteps::LONGEST`]: then it must not be recorded, because no run could read them.
    pub fn reserve(&mut self, result: &Data) -> bool {
        let text_len = self.text_len.saturating_add(result.as_str().len());
        let fits = text_len <= RecordedSteps::LONGEST;
        if fits {
            self.text_len = text_len;
        }
        fits
    }

    /// Notes that a step ended in an error of its own. It reported that it has no result, so nothing is recorded.
    pub fn failed(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Notes how the recording of a step's result ended.
    pub fn recorded(&mut self, end: StepEnd) {
        self.open = self.open.saturating_sub(1);
        self.end = self.end.max(Some(end));
    }

    /// Returns the worst end of the steps of the run. `None` if it started none.
    ///
    /// A step that was started and never ended counts as not recorded: its future was dropped, perhaps after its effect.
    pub fn end(&self) -> Option<StepEnd> {
        let open = (self.open > 0).then_some(StepEnd::NotRecorded);
        self.end.max(open)
    }

    /// Returns the end of the lease, up to which results are recorded.
    pub fn lease_end(&self) -> EpochMillis {
        self.lease_end
    }

    /// Returns the recorded steps that the run did not ask for.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        let names = self.recorded.iter().map(|(name, _)| name);
        names.filter(|name| !self.asked.contains(*name))
    }
}

/// The write of one result, as a state machine.
///
/// The same write can be sent again after a lost reply: as long as the claim is this call's own, it sets the same result once more.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Resend, StepEnd, StepWrite, Write, WriteErrorKind, WriteResult};
/// use idempotency_core::{record::Data, time::EpochMillis};
/// use std::ops::ControlFlow;
/// # let call = idempotency_core::example::call();
/// let now = EpochMillis::new(0);
/// let mut write = StepWrite::begin(&call, EpochMillis::new(30_000), "reserve", &Data::new("7"));
/// assert!(matches!(write.write(), Write::Step { name, .. } if name == "reserve"));
/// let lost = WriteResult::Failed { maybe_applied: true, kind: WriteErrorKind::Transient };
/// assert!(write.step(now, lost).is_continue());
/// assert_eq!(write.step(now, WriteResult::APPLIED), ControlFlow::Break(StepEnd::Recorded));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepWrite {
    owner: OwnerToken,
    write: Write,
    lease_end: EpochMillis,
    /// The number of sends.
    tries: u8,
}

impl StepWrite {
    /// Begins to record the result of a step, under a claim whose lease ends at this time.
    pub fn begin(call: &CallTerms, lease_end: EpochMillis, name: &str, result: &Data) -> Self {
        Self {
            owner: call.owner.clone(),
            write: Write::Step {
                name: name.to_owned(),
                result: result.clone(),
            },
            lease_end,
            tries: 1,
        }
    }

    /// Returns the write.
    pub fn write(&self) -> &Write {
        &self.write
    }

    /// Returns the condition of the write: the fence.
    pub fn condition(&self) -> Condition {
        held_by(&self.owner)
    }

    /// Returns true if there is time for a pause and one more write.
    fn has_time(&self, now: EpochMillis) -> bool {
        let needed = backoff(self.tries) + REPLY_RESERVE;
        self.tries < MAX_COMPLETIONS && now.until(self.lease_end) > needed
    }
}

impl Resend for StepWrite {
    type End = StepEnd;

    /// A write of a step may take as long as a completion.
    fn time_limit(&self, now: EpochMillis) -> Duration {
        time_limit(now, self.lease_end)
    }

    fn step(&mut self, now: EpochMillis, result: WriteResult) -> ControlFlow<StepEnd, Duration> {
        ControlFlow::Break(match result {
            WriteResult::Applied { .. } => StepEnd::Recorded,
            // If the condition holds for the record that it failed on, what is recorded is unknown.
            WriteResult::ConditionFailed {
                existing: Some(existing),
                ..
            } if is_claim_by(&existing, &self.owner) => StepEnd::NotRecorded,
            WriteResult::ConditionFailed { .. } => StepEnd::ClaimLost,
            // A step has no staged writes that could be rejected.
            WriteResult::Rejected { .. } => StepEnd::NotRecorded,
            WriteResult::Failed { kind, .. } => match kind {
                WriteErrorKind::TooLarge => StepEnd::TooLarge,
                WriteErrorKind::Transient | WriteErrorKind::Conflict if self.has_time(now) => {
                    let pause = backoff(self.tries);
                    self.tries += 1;
                    return ControlFlow::Continue(pause);
                }
                WriteErrorKind::Transient
                | WriteErrorKind::Conflict
                | WriteErrorKind::Permanent => StepEnd::NotRecorded,
                // The condition does not hold, and the record could not be read: it is not this claim any more.
                WriteErrorKind::Refused => StepEnd::ClaimLost,
            },
        })
    }
}

#[cfg(test)]
mod tests;

//! The steps of one run: which of them run, and how their results are recorded.
//!
//! A step belongs to the claim of its run. Its result is written under the same fence as a completion, so a run whose claim was taken
//! over can record nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::CallTerms;
use super::classify::{is_claim_by, is_expired};
use super::condition::{Condition, held_by};
use super::effect::{Resend, Write, WriteErrorKind, WriteResult};
use super::end::StepEnd;
use super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff, time_limit};
use super::store_limits::StoreLimits;
use super::undo::HandlerUndo;
use crate::record::{Data, OwnerToken, RecordedSteps};
use crate::time::EpochMillis;

/// The longest name of a step, in bytes.
const LONGEST_NAME: usize = 128;

/// The steps of one run: those that are recorded, and those that the run asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepLedger {
    recorded: RecordedSteps,
    asked: BTreeSet<String>,
    /// The number of steps that were started and have not ended.
    open: usize,
    /// The length in bytes of all results that are recorded, or may be.
    text_len: usize,
    /// The most bytes that the store accepts for all results. `None` if it has no limit.
    longest: Option<usize>,
    /// The worst end of the steps that have ended.
    end: Option<StepEnd>,
    /// True if a write of the run was refused when it was staged. The call cannot complete, so no further step starts or is recorded.
    refused: bool,
    /// True while the handler writes into a transaction, which commits at its end.
    in_transaction: bool,
    /// True if the handler has ended.
    closed: bool,
    /// The steps of the run that can be undone, the last one first.
    undoable: Vec<String>,
    /// The steps that the run has asked for, and whose results it has not got: recorded steps with an undo, and steps after its decision.
    unread: Vec<String>,
    /// True if the handler decided that its steps are undone.
    decided: bool,
    /// True if an earlier run decided that the steps of the key are undone.
    undoing: bool,
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
    /// A write of this run was refused when it was staged, so the call cannot complete.
    WriteRefused,
    /// The handler writes into a transaction, which commits at its end. The result of a step would be recorded before it, and stay if it is
    /// rolled back.
    InTransaction,
    /// The handler has ended. The key may be free, so another call may run the step.
    HandlerEnded,
    /// The recorded steps of the key are being undone, so no other step runs.
    Undoing,
}

impl StepLedger {
    /// Returns the steps of a run that begins with these recorded steps, in a store with these limits.
    pub fn new(recorded: RecordedSteps, limits: StoreLimits) -> Self {
        Self {
            text_len: recorded.text_len(),
            longest: limits.steps,
            recorded,
            asked: BTreeSet::new(),
            open: 0,
            end: None,
            refused: false,
            in_transaction: false,
            closed: false,
            undoable: Vec::new(),
            unread: Vec::new(),
            decided: false,
            undoing: false,
        }
    }

    /// Returns the steps of a run that only collects how its recorded steps are undone: no other step runs.
    #[must_use]
    pub fn undoing(self) -> Self {
        Self {
            undoing: true,
            ..self
        }
    }

    /// Returns what to do with a step that the run asks for at the time `now`. `lease_end` is until when its claim lasts; `None` if it has
    /// no confirmed claim.
    pub fn start(
        &mut self,
        now: EpochMillis,
        lease_end: Option<EpochMillis>,
        name: &str,
    ) -> StepStart {
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
        if let Some(refusal) = self.refusal(now, lease_end) {
            if self.decided {
                // The handler goes on: it does not return the response of its decision.
                self.unread.push(name.to_owned());
            }
            return StepStart::Refused(refusal);
        }
        self.open += 1;
        StepStart::Run
    }

    /// Returns why no effect of the run may begin at the time `now`, and `None` if one may. A step that is tried again asks this before
    /// each further try. `lease_end` is that of [`start`](Self::start).
    pub fn refusal(&self, now: EpochMillis, lease_end: Option<EpochMillis>) -> Option<StepRefusal> {
        if self.closed {
            Some(StepRefusal::HandlerEnded)
        } else if self.end == Some(StepEnd::ClaimLost) {
            Some(StepRefusal::ClaimLost)
        } else if self.undoing || self.decided {
            Some(StepRefusal::Undoing)
        } else if self.refused {
            Some(StepRefusal::WriteRefused)
        } else if self.in_transaction {
            Some(StepRefusal::InTransaction)
        } else if lease_end.is_some_and(|end| is_expired(end, now)) {
            Some(StepRefusal::LeaseExpired)
        } else {
            None
        }
    }

    /// Returns true if a step is open. Then nothing may be staged: a later run uses the result of the step and skips its code.
    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    /// Notes that a write of the run was refused when it was staged. An open step may have meant the write to be its own, so no step is
    /// recorded any more.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// Notes that the handler has begun a transaction, or that it was rolled back. No step starts in between.
    pub fn transacts(&mut self, in_transaction: bool) {
        self.in_transaction = in_transaction;
    }

    /// Returns true if the results of steps that end now are recorded.
    pub fn records(&self) -> bool {
        !self.refused
    }

    /// Notes that the handler has ended. No step starts after this, so [`end`](Self::end) misses none.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Reserves room for a result that is about to be recorded. Returns false if all results of the key would be longer than the
    /// store accepts: then it must not be recorded, because no run could read them.
    pub fn reserve(&mut self, result: &Data) -> bool {
        let text_len = self.text_len.saturating_add(result.as_str().len());
        let fits = self.longest.is_none_or(|longest| text_len <= longest);
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

    /// Notes that the run is about to read the recorded result of this step, which has an undo. Until [`can_undo`](Self::can_undo) the run
    /// cannot undo it: the result may be of another type.
    pub fn reads(&mut self, name: &str) {
        self.unread.push(name.to_owned());
    }

    /// Notes that the result of this step, which the run has got, can be undone.
    pub fn can_undo(&mut self, name: &str) {
        self.unread.retain(|unread| unread != name);
        self.undoable.insert(0, name.to_owned());
    }

    /// Notes that the handler decided that its steps are undone. No further step starts.
    pub fn decide(&mut self) {
        self.decided = true;
    }

    /// Returns what the end of the run says of undoing. `None` if neither this run nor an earlier one decided it.
    pub fn undo(&self) -> Option<HandlerUndo> {
        (self.decided || self.undoing).then(|| HandlerUndo {
            decided: self.decided,
            undoable: self.undoable.clone(),
            unreached: {
                let unread = self.unread.iter().map(String::as_str);
                self.unused().chain(unread).map(str::to_owned).collect()
            },
        })
    }

    /// Returns the worst end of the steps of the run. `None` if it started none.
    ///
    /// A step that is open counts as not recorded: it can have had its effect.
    pub fn end(&self) -> Option<StepEnd> {
        let open = (self.open > 0).then_some(StepEnd::NotRecorded);
        self.end.max(open)
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepWrite {
    owner: OwnerToken,
    write: Write,
    lease_end: EpochMillis,
    /// The number of sends.
    tries: u8,
}

impl StepWrite {
    /// Begins to record the result of a step, under a claim whose lease ends at this time. It is sent again up to then, also if the claim
    /// is renewed meanwhile.
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

    /// Returns the same limit as for a completion.
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
                WriteErrorKind::Transient
                | WriteErrorKind::Conflict
                | WriteErrorKind::Credentials
                    if self.has_time(now) =>
                {
                    let pause = backoff(self.tries);
                    self.tries += 1;
                    return ControlFlow::Continue(pause);
                }
                WriteErrorKind::Transient
                | WriteErrorKind::Conflict
                | WriteErrorKind::Credentials
                | WriteErrorKind::Permanent => StepEnd::NotRecorded,
                // The condition does not hold, and the record could not be read: it is not this claim any more.
                WriteErrorKind::Refused => StepEnd::ClaimLost,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::condition::held_by;
    use super::super::tests::script::{play, play_replies, step_end, time};
    use super::super::tests::{LIMITS, NOW, call, me, now_plus};
    use super::*;
    use crate::example::shared::check_rows;

    /// Returns a ledger with these recorded steps.
    fn ledger(recorded: &[(&str, &str)]) -> StepLedger {
        let recorded = recorded.iter();
        let recorded = recorded.map(|(name, result)| ((*name).to_owned(), Data::new(*result)));
        StepLedger::new(recorded.collect(), LIMITS)
    }

    #[test]
    fn the_ledger_knows_which_step_runs_and_how_the_steps_ended() {
        check_rows(include_str!("tests/ledger.txt"), |row| {
            let (recorded, script) = row.split_once(" | ").unwrap_or(("", row));
            let recorded = recorded.split('+').map(|name| (name, "1"));
            let (mut ledger, mut now) = (ledger(&recorded.collect::<Vec<_>>()), NOW);
            let mut lease_end = Some(now_plus(30_000));
            play(script, |input| {
                let (word, about) = input.split_once(' ').unwrap_or((input, ""));
                match word {
                    "start" => match ledger.start(now, lease_end, about) {
                        StepStart::Recorded(result) => {
                            assert_eq!(result, Data::new("1"));
                            return "recorded".to_owned();
                        }
                        StepStart::Run => return "run".to_owned(),
                        StepStart::Refused(why) => return format!("{why:?}"),
                    },
                    "end?" => return format!("{:?}", ledger.end()),
                    "refusal?" => return format!("{:?}", ledger.refusal(now, lease_end)),
                    "unused?" => return format!("{:?}", ledger.unused().collect::<Vec<_>>()),
                    "open?" => return ledger.has_open().to_string(),
                    "records?" => return ledger.records().to_string(),
                    "undo?" => return format!("{:?}", ledger.undo()),
                    "decide" => ledger.decide(),
                    "reads" => ledger.reads(about),
                    "undoable" => ledger.can_undo(about),
                    "undoing" => ledger = ledger.clone().undoing(),
                    "refuse" => ledger.refuse(),
                    "begins" => ledger.transacts(true),
                    "rolls-back" => ledger.transacts(false),
                    "failed" => ledger.failed(),
                    "recorded" => ledger.recorded(step_end(about)),
                    "close" => ledger.close(),
                    "lease" => lease_end = (about != "-").then(|| time(about)),
                    at => now = time(at.trim_start_matches('@')),
                }
                String::new()
            })
        });
    }

    #[test]
    fn a_name_has_at_least_one_byte_and_at_most_128() {
        let refused = StepStart::Refused(StepRefusal::NameLength);
        let (mut ledger, lease_end) = (ledger(&[]), None);
        assert_eq!(ledger.start(NOW, lease_end, ""), refused);
        let longest = ledger.start(NOW, lease_end, &"n".repeat(128));
        assert_eq!(longest, StepStart::Run);
        let longer = ledger.start(NOW, lease_end, &"n".repeat(129));
        assert_eq!(longer, refused);
    }

    #[test]
    fn results_are_recorded_only_up_to_the_longest_that_can_be_read() {
        let result = |bytes| Data::new("1".repeat(bytes));
        let mut ledger = ledger(&[("a", "1234")]);
        assert!(!ledger.reserve(&result(1_000 - 3)));
        assert!(ledger.reserve(&result(1_000 - 5)));
        assert!(ledger.reserve(&result(1)));
        assert!(!ledger.reserve(&result(1)));
    }

    fn begin() -> StepWrite {
        StepWrite::begin(&call(), now_plus(30_000), "reserve", &Data::new("7"))
    }

    #[test]
    fn a_result_is_written_under_the_fence() {
        let step = Write::Step {
            name: "reserve".to_owned(),
            result: Data::new("7"),
        };
        assert_eq!(begin().write(), &step);
        assert_eq!(begin().condition(), held_by(&me()));
    }

    #[test]
    fn the_write_of_a_result_ends_as_its_replies_say() {
        check_rows(include_str!("tests/step_write.txt"), |script| {
            let mut write = begin();
            play_replies(script, &mut write)?;
            assert_eq!(write.write(), begin().write(), "the same write");
            Ok(())
        });
    }
}

//! An operator: looks at the claim of a run that did not report its end, and decides about it later.

use idempotency_core::protocol::condition::{Condition, Operand, claimable};
use idempotency_core::protocol::decision::{Decided, Decision, Ending, Undecided, Verdict};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::protocol::{Effect, Write, WriteResult};
use idempotency_core::record::{Attribute, Field, Record, Status};

use super::bounds::{self, Bounds};
use super::promises::Promise;
use super::rules::Rules;
use super::scenario::Scenario;
use super::scenarios::{REPORTED_OR_NOT, RESPONDS_OR_FAILS, plain};
use super::state::{Action, NO_CALL, Shared, State};
use super::table::{in_progress, response_of, write};

impl Scenario {
    /// Returns the number of the operator, for the response that it gives.
    pub(crate) fn operator(&self) -> u8 {
        self.python() + 1
    }

    /// Adds what an operator can do. It looks only at claims whose lease has expired, as the command does without `--force`.
    pub(crate) fn operators_choices(&self, state: &State, actions: &mut Vec<Action>) {
        if state.left.decisions == 0 {
            return;
        }
        let Some(shown) = &state.shown else {
            let held = |record: &Record| in_progress(record) && self.may_be_decided(state, record);
            if state.record.as_deref().is_some_and(held) {
                actions.push(Action::Look);
            }
            return;
        };
        for verdict in [Verdict::Completed, Verdict::Rerun] {
            if self.decided(state, shown, verdict).is_ok() {
                actions.push(Action::Decide(verdict));
            }
        }
    }

    /// Returns true if no run holds this record, by the true time.
    fn may_be_decided(&self, state: &State, record: &Record) -> bool {
        claimable(self.time(state, 0), OnTimeout::Rerun).holds(Some(record))
    }

    fn decided(
        &self,
        state: &State,
        shown: &Record,
        verdict: Verdict,
    ) -> Result<Decided, Undecided> {
        let ending = match verdict {
            Verdict::Completed => Ending::Completed {
                response: response_of(self.operator()),
                expiration: None,
            },
            _ => Ending::Rerun,
        };
        let decision = Decision {
            ending,
            by: "o".to_owned(),
            reason: "w".to_owned(),
        };
        decision.about(shown, self.time(state, 0), false)
    }

    pub(crate) fn show(&self, state: &mut State) {
        state.shown = state.record.clone();
    }

    /// Applies a decision about the record that the operator saw, if its condition holds for the present one.
    pub(crate) fn decide(&self, state: &mut State, verdict: Verdict) -> Option<()> {
        let shown = state.shown.take()?;
        state.left.decisions -= 1;
        let decided = self.decided(state, &shown, verdict).ok()?;
        let (change, condition) = self.rules.decides(decided);
        let before = state.record.clone();
        let (written, after) = write(before.as_deref(), &Effect::Write(change, condition));
        if !matches!(written, WriteResult::Applied { .. }) {
            return Some(());
        }
        let replaces_a_live_one = before
            .as_deref()
            .is_none_or(|record| !in_progress(record) || !self.may_be_decided(state, record));
        if replaces_a_live_one {
            self.break_promise(state, Promise::LateOwner);
        }
        state.record = after.map(Shared::new);
        state.holder = NO_CALL;
        match verdict {
            Verdict::Completed => {
                state.stored_in[usize::from(self.operator())] = state.generation;
            }
            // The operator says that the runs until now had no effect.
            _ => {
                state.generation += 1;
                if !state
                    .record
                    .as_deref()
                    .is_some_and(|record| self.comes_free(record))
                {
                    self.break_promise(state, Promise::Stuck);
                }
            }
        }
        Some(())
    }
}

// Deliberate faults of a decision.

/// A decision is applied to any claim, not only to the one that the operator saw.
pub(crate) struct DecidesAboutAnyClaim;

impl Rules for DecidesAboutAnyClaim {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let status = Operand::Text(Status::InProgress.as_str().to_owned());
        (decided.write, Condition::Equals(Attribute::Status, status))
    }
}

/// A freed key counts as one whose run reported that it had no effect.
pub(crate) struct DecisionReports;

impl Rules for DecisionReports {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let write = match decided.write {
            Write::Update(mut change) if change.set.failure.exists() => {
                change.set.failure = Field::Value("E".to_owned());
                Write::Update(change)
            }
            other => other,
        };
        (write, decided.condition)
    }
}

/// A decision leaves the token of the owner in the record.
pub(crate) struct DecisionKeepsTheOwner;

impl Rules for DecisionKeepsTheOwner {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let write = match decided.write {
            Write::Update(mut change) => {
                change.remove.retain(|removed| *removed != Attribute::Owner);
                Write::Update(change)
            }
            other => other,
        };
        (write, decided.condition)
    }
}

// The scenarios with an operator who decides about a held key.

/// Returns a scenario of two calls that hold, and a decision.
pub(crate) fn decided_while_holding() -> Bounds {
    let call = || plain().holding().ending(REPORTED_OR_NOT);
    Bounds::new(
        "all calls hold, an operator decides",
        vec![call(), call().recording()],
    )
    .with(|it| {
        it.faults.lost_replies = 1;
        it.faults.decisions = 1;
    })
}

/// Returns a scenario of two calls of which only one holds, whose responses can be too large, and a decision.
pub(crate) fn decided_beside_a_takeover() -> Bounds {
    let call = || plain().ending(&[bounds::Ending::Responds, bounds::Ending::RespondsTooLarge]);
    Bounds::new(
        "some hold, an operator decides",
        vec![call(), call().holding()],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.decisions = 1;
    })
}

/// Returns a scenario of two calls of one process that hold, and a decision.
pub(crate) fn decided_in_one_process() -> Bounds {
    let holding = || {
        let call = plain().in_one_process().holding().cached();
        call.ending(RESPONDS_OR_FAILS)
    };
    Bounds::new(
        "all calls hold in one process, an operator decides",
        vec![holding(), holding().waiting().leased(3)],
    )
    .with(|it| {
        it.ticks = 3;
        it.faults.decisions = 1;
    })
}

/// Returns a scenario of two calls without faults, and a decision.
pub(crate) fn quiet_decided() -> Bounds {
    Bounds::new("an operator decides, no faults", vec![plain(), plain()]).with(|it| {
        it.faults.decisions = 1;
    })
}

//! The steps of a run: the handler asks for them one after the other, and production's own rules record them.
//!
//! The result of a step is the number of the call that ran it. A step that is refused, or not recorded, ends the handler in an error.

use std::ops::ControlFlow;

use idempotency_core::protocol::{
    Attempt, CallTerms, Effect, HandlerUndo, Input, Resend, StepEnd, StepLedger, StepStart,
    StepWrite, UndoEnd,
};
use idempotency_core::record::RecordedSteps;
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::What;

use super::bounds::Ending;
use super::rules::CallView;
use super::scenario::Scenario;
use super::state::{Active, Phase, Reply, Shared, State, TimedRequest};
use super::table::{number_of, response_of};

/// The names of the steps, in their order.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The steps of one run.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct StepRun {
    ledger: StepLedger,
    /// Until when the claim of the run lasts.
    lease_end: EpochMillis,
    /// The number of steps that the handler has passed.
    passed: u8,
    /// The write of the current step's result.
    write: Option<StepWrite>,
}

impl StepRun {
    /// Returns true if the handler has passed so many steps.
    pub(crate) fn has_passed(&self, steps: u8) -> bool {
        self.passed >= steps
    }

    /// Returns true if the result of a step is being recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.write.is_some()
    }

    /// Returns the same steps under a lease that was renewed.
    pub(crate) fn until(&self, lease_end: EpochMillis) -> Self {
        Self {
            lease_end,
            ..self.clone()
        }
    }

    /// Returns what the end of the handler says of undoing.
    pub(crate) fn undo(&self, ending: Ending) -> Option<Box<HandlerUndo>> {
        let mut ledger = self.ledger.clone();
        if ending == Ending::Undoes {
            ledger.decide();
        }
        ledger.undo().map(Box::new)
    }

    /// Returns the worst end of the steps. `None` if none was started.
    pub(crate) fn end(&self) -> Option<StepEnd> {
        self.ledger.end()
    }
}

impl Scenario {
    /// Returns the steps of a run that begins. `seen` is what faulty rules remember.
    pub(crate) fn steps_of_run(
        &self,
        attempt: &Attempt,
        seen: Option<&RecordedSteps>,
    ) -> Option<Shared<StepRun>> {
        let read = attempt.steps()?.clone();
        let ledger = StepLedger::new(seen.cloned().unwrap_or(read), attempt.call().limits);
        let undoes = attempt.undoes() && !self.rules.goes_forward;
        Some(Shared::new(StepRun {
            ledger: if undoes { ledger.undoing() } else { ledger },
            lease_end: attempt.lease_end()?,
            passed: 0,
            write: None,
        }))
    }

    /// Lets the handler ask for its next step.
    pub(crate) fn ask_for_step(
        &self,
        state: &mut State,
        number: u8,
        mut active: Active,
    ) -> Option<()> {
        let now = self.time(state, active.skew);
        let mut run = (**active.steps.as_ref()?).clone();
        let step = run.passed;
        let place = usize::from(step);
        match run.ledger.start(now, Some(run.lease_end), NAMES[place]) {
            StepStart::Recorded(result) => {
                let of = number_of(&result).into();
                state.see(number, now, What::StepUsed { step, of });
                state.calls[usize::from(number)].trace.resumed = true;
                run.ledger.can_undo(NAMES[place]);
                run.passed += 1;
                active.steps = Some(Shared::new(run));
                state.calls[usize::from(number)].phase = Phase::Active(active);
            }
            StepStart::Run => {
                state.see(number, now, What::StepRan { step });
                let call = active.attempt.call().clone();
                let result = response_of(number);
                let write = StepWrite::begin(&call, run.lease_end, NAMES[place], &result);
                self.record(
                    state,
                    number,
                    active,
                    run,
                    &call,
                    ControlFlow::Continue(write),
                );
            }
            StepStart::Refused(_) => {
                active.steps = Some(Shared::new(run));
                self.end(state, number, active, Ending::Fails);
            }
        }
        Some(())
    }

    /// Ends the undo of a step.
    pub(crate) fn undo(&self, state: &mut State, number: u8, active: Active, end: UndoEnd) {
        let now = self.time(state, active.skew);
        let Effect::Undo(name) = &*active.asked.effect else {
            panic!("{:?} is no undo", active.asked.effect);
        };
        let step = NAMES.iter().position(|known| known == name);
        let step = step.map_or(u8::MAX, |step| step as u8);
        // An undo that panicked may have had its effect.
        if !matches!(end, UndoEnd::Failed(_)) {
            state.see(number, now, What::UndoRan { step });
        }
        state.calls[usize::from(number)].trace.undid |= end == UndoEnd::Undone;
        self.receive(state, number, active, Reply::of(Input::Undone(end)));
    }

    /// Gives the write of a step its reply.
    pub(crate) fn receive_of_step(
        &self,
        state: &mut State,
        number: u8,
        active: Active,
        reply: Reply,
    ) -> Option<()> {
        let now = self.time(state, active.skew);
        let mut run = (**active.steps.as_ref()?).clone();
        let mut write = run.write.take()?;
        let Input::Written(result) = reply.input else {
            panic!("{:?} is no result of a write", reply.input);
        };
        let call = active.attempt.call().clone();
        // A pause needs no step of its own, as after a completion.
        let next = match write.step(now, result) {
            ControlFlow::Continue(_pause) => ControlFlow::Continue(write),
            ControlFlow::Break(end) => ControlFlow::Break(end),
        };
        self.record(state, number, active, run, &call, next);
        Some(())
    }

    fn record(
        &self,
        state: &mut State,
        number: u8,
        mut active: Active,
        mut run: StepRun,
        call: &CallTerms,
        next: ControlFlow<StepEnd, StepWrite>,
    ) {
        let now = self.time(state, active.skew);
        active.maybe_applied = false;
        let asked = match next {
            ControlFlow::Continue(write) => {
                let (sent, condition) = (write.write().clone(), write.condition());
                run.write = Some(write);
                let view = CallView {
                    call,
                    now,
                    ran: true,
                    claims: active.claims,
                    releases: false,
                    renews: false,
                };
                let mut asked = Effect::Write(sent, condition);
                (self.rules.requests)(view, &mut asked);
                asked
            }
            ControlFlow::Break(end) => {
                run.ledger.recorded(end);
                run.passed += 1;
                state.calls[usize::from(number)].trace.lost_in_a_step |= end == StepEnd::ClaimLost;
                if end != StepEnd::Recorded {
                    active.steps = Some(Shared::new(run));
                    // A handler that can decide to undo does so here too, although it must not.
                    let endings = &self.bounds.deliveries[usize::from(number)].endings;
                    let decides = endings.contains(&Ending::Undoes);
                    let ending = if decides {
                        Ending::Undoes
                    } else {
                        Ending::Fails
                    };
                    self.end(state, number, active, ending);
                    return;
                }
                let (step, of) = (run.passed - 1, number.into());
                run.ledger.can_undo(NAMES[usize::from(step)]);
                state.see(number, now, What::StepUsed { step, of });
                Effect::Run
            }
        };
        active.steps = Some(Shared::new(run));
        active.asked = TimedRequest {
            by: number,
            at: EpochMillis::new(0),
            effect: Shared::new(asked),
        };
        state.calls[usize::from(number)].phase = Phase::Active(active);
    }
}

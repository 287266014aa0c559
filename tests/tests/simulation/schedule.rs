//! Plays one schedule: several processes and several deliveries of one key. Records the history.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_core::protocol::Source;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Circuit, Deadline, ErrorKind, Lookup, OnInProgress, OnStoreError, OnTimeout,
    Operation, Outcome, OutcomeKind, Run, Steps, with_backend,
};
use idempotency_testkit::history::{
    Basis, Bond, Given, HistoryEvent, Refused, Reported, Terms, What,
};
use idempotency_tests::{operation, ours};
use serde_json::json;

use super::executor::{Dice, Task, run, yield_now};
use super::recorder::{Recorded, number};
use super::world::{Faults, Process, World, unless_on_purpose};

/// The steps of a handler.
pub(crate) const STEPS: [&str; 2] = ["reserve", "charge"];

/// The timeout of an invocation.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// The window of a response, which no schedule outlives.
pub(crate) const WINDOW: Duration = Duration::from_secs(3_600);

/// How long a call may take after its deadline to release its claim.
const GRACE: Duration = Duration::from_secs(2);

/// Plays one schedule.
pub(crate) fn play(seed: u64, faults: &Faults) -> Recorded {
    let world = World::new(seed, faults);
    let operation = Rc::new(charge(&world.dice, faults));
    let call = |number, amount, process| Call {
        number,
        amount,
        process,
    };
    let deliver_one = |number, process| {
        let amount = if world.dice.percent(20) { 99 } else { 42 };
        let call = call(number, amount, process);
        deliver(call, Rc::clone(&operation), faults.clone())
    };
    let recorder = &world.recorder;
    let died = |_| recorder.count("crashed");
    let (process, calls) = world.play(faults, 4, deliver_one, || {}, died);
    // Long after every lease, but within the window: the key must not be stuck.
    world.time.advance(16_000);
    if !faults.hold {
        recorder.see(calls + 1, process.clock.at(), What::Calmed);
    }
    let clock = process.clock.clone();
    let last = call(calls + 1, 42, process);
    let faults = Faults {
        handler_fails: 0,
        handler_panics: 0,
        ..faults.clone()
    };
    let last = deliver(last, operation, faults);
    let mut last = vec![(calls + 1, recorder.polls(calls + 1, clock, last))];
    run(&mut last, &world.dice, &world.time, |_| false);
    recorder.take()
}

fn either<T>(is_first: bool, first: T, second: T) -> T {
    if is_first { first } else { second }
}

fn charge(dice: &Dice, faults: &Faults) -> Operation {
    operation()
        .key("order_id")
        .validate("amount")
        .local_cache(if dice.percent(50) { 8 } else { 0 })
        .lookup(either(
            faults.read_first,
            Lookup::ReadFirst,
            Lookup::ClaimFirst,
        ))
        .on_in_progress(either(
            dice.percent(50),
            OnInProgress::Wait,
            OnInProgress::Reject,
        ))
        .on_timeout(either(faults.hold, OnTimeout::Hold, OnTimeout::Rerun))
        .on_store_error(either(
            faults.unprotected,
            OnStoreError::RunUnprotected,
            OnStoreError::Fail,
        ))
        .circuit_breaker(faults.breaker)
        .steps(steps(faults))
        .lease(TIMEOUT)
        .renew(faults.renew)
        .expires_after(WINDOW)
        .build()
        .unwrap()
}

struct Call {
    number: usize,
    amount: u32,
    process: Process,
}

impl Call {
    fn see(&self, what: What) {
        let at = self.process.clock.at();
        self.process.recorder.see(self.number, at, what);
    }

    fn count(&self, name: &'static str) {
        self.process.recorder.count(name);
    }
}

/// Plays one delivery: the caller and the handler. The response names the run that produced it.
fn deliver(call: Call, operation: Rc<Operation>, faults: Faults) -> Task {
    Box::pin(async move {
        let (call, process) = (&call, &call.process);
        // Some calls start while a slow owner has outlived its lease.
        process.sleep_sometimes(50, 5_000).await;
        let deadline = process.clock.at().plus(TIMEOUT);
        call.see(What::Called(Terms {
            payload: Some(call.amount),
            holds: faults.hold,
            steps: steps(&faults),
            lease: Some(TIMEOUT),
            window: Some(WINDOW),
            answer_by: (faults.pauses == 0).then(|| deadline.plus(GRACE)),
            unfenced: false,
        }));
        let payload = json!({ "order_id": 1, "amount": call.amount });
        let known = either(faults.renew, Deadline::Inherited, Deadline::At(deadline));
        let handler = |handle: idempotency_lambda::Call| async move {
            call.began(handle.which_run(), deadline, &faults);
            yield_now().await;
            let names: &[_] = if faults.steps { &STEPS } else { &[] };
            for (step, name) in (0..).zip(names) {
                let ran = Cell::new(false);
                let result = handle.step(name, || async {
                    call.see(What::StepRan { step });
                    ran.set(true);
                    yield_now().await;
                    Ok::<_, BoxError>(call.number)
                });
                match result.await {
                    Ok(by) => {
                        if by != call.number {
                            call.count("resumed");
                        }
                        let of = number(by);
                        call.see(What::StepUsed { step, of });
                    }
                    Err(error) => {
                        if !ran.get() {
                            call.see(What::RunReported(Reported::Failed));
                        }
                        return Err(error);
                    }
                }
            }
            // A slow owner sometimes outlives its lease, because the process is not killed at its deadline.
            let slowest = if faults.renew { 15_000 } else { 4_500 };
            if faults.set_back > 0 && process.dice.percent(faults.set_back) {
                let back = i64::try_from(process.dice.below(10_000)).unwrap();
                process.clock.moved.back.store(back, Ordering::Relaxed);
            }
            process.sleep_sometimes(30, slowest).await;
            if faults.renew {
                call.counts_on_its_lease(&handle, &faults);
            }
            process.panic_sometimes(faults.handler_panics);
            if process.dice.percent(faults.handler_fails) {
                call.see(What::RunReported(Reported::Failed));
                Err(BoxError::from("declined"))
            } else {
                Ok(call.number)
            }
        };
        let outcome = operation.run(&payload, known, handler);
        let outcome = with_backend(process.backend.clone(), outcome);
        let Some(outcome) = unless_on_purpose(outcome).await else {
            return call.count("panicked");
        };
        if process.backend.circuit() != Circuit::Closed {
            call.count("circuits_open");
        }
        match outcome {
            Ok(outcome) => call.responded(outcome),
            Err(error) if error.is::<idempotency_lambda::Error>() => {
                call.refused(ours(&error).kind());
            }
            Err(_) => {}
        }
    })
}

impl Call {
    /// Notes until when the run counts on its lease. Other clocks may say that it has expired, unless all of them are right.
    fn counts_on_its_lease(&self, handle: &idempotency_lambda::Call, faults: &Faults) {
        let now = self.process.clock.at();
        match handle.time_left() {
            Some(Duration::ZERO) | None => self.count("lost"),
            Some(left) if faults.skew == 0 => {
                let until = now.plus(left);
                self.see(What::Holds { until });
            }
            Some(_) => {}
        }
    }

    fn began(&self, run: Run, deadline: EpochMillis, faults: &Faults) {
        let basis = match run {
            Run::Unprotected if faults.unprotected => Basis::Policy(Some(deadline)),
            Run::Unprotected => Basis::Nothing,
            _ => self.process.recorder.basis(self.number),
        };
        let first = run == Run::First;
        self.count("ran");
        let is_run = |event: &HistoryEvent| matches!(event.what, What::RunBegan { .. });
        if first && self.process.recorder.saw(is_run) {
            self.count("first_again");
        }
        self.see(What::RunBegan { basis, first });
    }

    fn responded(&self, outcome: Outcome<usize>) {
        let kind = outcome.kind().clone();
        let run = outcome.into_response();
        let bond = match kind {
            OutcomeKind::Bypassed(_) => {
                self.count("unprotected");
                Bond::None
            }
            _ => Bond::Stored,
        };
        if let OutcomeKind::Replayed(replay) = kind {
            self.count("replayed");
            if replay.source() == Source::ConcurrentCall {
                self.count("shared");
            }
        }
        let of = number(run);
        let ran = |event: &HistoryEvent| {
            usize::from(event.by) == self.number && matches!(event.what, What::RunBegan { .. })
        };
        if run != self.number && self.process.recorder.saw(ran) {
            self.count("late_responses");
        }
        let expires = None;
        self.see(What::Responded(Given { of, bond, expires }));
    }

    fn refused(&self, kind: ErrorKind) {
        match kind {
            ErrorKind::AlreadyInProgress => self.count("in_progress"),
            ErrorKind::CompletionUnknown | ErrorKind::StoreFailed => self.count("unknown"),
            ErrorKind::Unresolved => self.count("unresolved"),
            ErrorKind::LostOwnership => self.count("lost_ownership"),
            _ => {}
        }
        self.see(What::Refused(Refused::of(Some(kind))));
    }
}

fn steps(faults: &Faults) -> Steps {
    either(faults.steps, Steps::Keep, Steps::Off)
}

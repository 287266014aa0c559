//! Plays one schedule: several processes and several deliveries of one key. Records the history.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use idempotency_core::protocol::Source;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{
    BoxError, Circuit, Deadline, ErrorKind, Lookup, OnInProgress, OnStoreError, OnTimeout,
    Operation, OutcomeKind, Run, Steps, with_backend,
};
use idempotency_tests::{operation, ours};
use serde_json::json;

use super::executor::{Dice, Task, run, yield_now};
use super::world::{Faults, Process, World, unless_on_purpose};

/// One entry of the history: what callers and handlers can see of a call. The checker gets only these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) at: i64,
    pub(crate) call: usize,
    pub(crate) amount: u32,
    pub(crate) kind: EntryKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Called,
    /// The handler started, with this time left until its deadline, in milliseconds. It knows which run of the key it is.
    RunStarted {
        left: i64,
        run: Run,
    },
    RunEnded {
        responded: bool,
    },
    /// The effect of a step happened.
    StepRan {
        name: &'static str,
    },
    /// The handler got the result of a step. `by` is the call that ran the step.
    StepDone {
        name: &'static str,
        by: usize,
    },
    /// The handler panicked, and the caller saw the panic.
    Panicked,
    Responded {
        run: usize,
        amount: u32,
        replayed: bool,
        /// True if a concurrent call of the same process shared its response.
        shared: bool,
        /// True if the run had no confirmed claim.
        unprotected: bool,
    },
    /// The circuit was not closed when the call ended.
    CircuitOpen,
    HandlerError,
    Refused(ErrorKind),
    Crashed,
}

pub(crate) type History = Rc<RefCell<Vec<Entry>>>;

/// The steps of a handler.
const STEPS: [&str; 2] = ["reserve", "charge"];

/// The timeout of an invocation, in milliseconds.
pub(crate) const TIMEOUT: i64 = 3_000;

/// Plays one schedule.
pub(crate) fn play(seed: u64, faults: &Faults) -> Vec<Entry> {
    let world = World::new(seed, faults);
    let history: History = Rc::default();
    let operation = Rc::new(charge(&world.dice, faults));
    let call = |number, amount, process| Call {
        number,
        amount,
        process,
        history: Rc::clone(&history),
    };
    let deliver_one = |number, process| {
        let amount = if world.dice.percent(20) { 99 } else { 42 };
        let call = call(number, amount, process);
        deliver(call, Rc::clone(&operation), faults.clone())
    };
    let died = |call| {
        history.borrow_mut().push(Entry {
            at: world.time.now(),
            call,
            amount: 0,
            kind: EntryKind::Crashed,
        });
    };
    let (process, calls) = world.play(faults, 4, deliver_one, || {}, died);
    // Long after every lease, but within the window: the key must not be stuck.
    world.time.advance(2 * TIMEOUT + 10_000);
    let last = call(calls + 1, 42, process);
    let mut last = vec![(
        calls + 1,
        deliver(last, operation.clone(), Faults::default()),
    )];
    run(&mut last, &world.dice, &world.time, |_| false);
    history.take()
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
        .steps(either(faults.steps, Steps::Keep, Steps::Off))
        .expires_after(Duration::from_secs(3_600))
        .build()
        .unwrap()
}

struct Call {
    number: usize,
    amount: u32,
    process: Process,
    history: History,
}

impl Call {
    fn record(&self, kind: EntryKind) {
        self.history.borrow_mut().push(Entry {
            at: self.process.clock.time.now(),
            call: self.number,
            amount: self.amount,
            kind,
        });
    }
}

/// Plays one delivery: the caller and the handler. The response names the run that produced it.
fn deliver(call: Call, operation: Rc<Operation>, faults: Faults) -> Task {
    Box::pin(async move {
        let (call, process) = (&call, &call.process);
        // Some calls start while a slow owner has outlived its lease.
        process.sleep_sometimes(50, 5_000).await;
        let deadline = process.clock.now().get() + TIMEOUT;
        call.record(EntryKind::Called);
        let payload = json!({ "order_id": 1, "amount": call.amount });
        let handler = |handle: idempotency_lambda::Call| async move {
            call.record(EntryKind::RunStarted {
                left: deadline - process.clock.now().get(),
                run: handle.which_run(),
            });
            yield_now().await;
            let names: &[_] = if faults.steps { &STEPS } else { &[] };
            for name in names {
                let step = handle.step(name, || async {
                    call.record(EntryKind::StepRan { name });
                    yield_now().await;
                    Ok::<_, BoxError>(call.number)
                });
                match step.await {
                    Ok(by) => call.record(EntryKind::StepDone { name, by }),
                    Err(error) => {
                        call.record(EntryKind::RunEnded { responded: false });
                        return Err(error);
                    }
                }
            }
            // A slow owner sometimes outlives its lease, because the process is not killed at its deadline.
            process.sleep_sometimes(30, 4_500).await;
            process.panic_sometimes(faults.handler_panics);
            let responded = !process.dice.percent(faults.handler_fails);
            call.record(EntryKind::RunEnded { responded });
            if responded {
                Ok((call.number, call.amount))
            } else {
                Err(BoxError::from("declined"))
            }
        };
        let deadline = Deadline::At(EpochMillis::new(deadline));
        let outcome = operation.run(&payload, deadline, handler);
        let outcome = with_backend(process.backend.clone(), outcome);
        let Some(outcome) = unless_on_purpose(outcome).await else {
            return call.record(EntryKind::Panicked);
        };
        if process.backend.circuit() != Circuit::Closed {
            call.record(EntryKind::CircuitOpen);
        }
        call.record(match outcome {
            Ok(outcome) => {
                let unprotected = matches!(outcome.kind(), OutcomeKind::Bypassed(_));
                let replayed = matches!(outcome.kind(), OutcomeKind::Replayed(_));
                let shared = matches!(
                    outcome.kind(),
                    OutcomeKind::Replayed(replay) if replay.source() == Source::ConcurrentCall
                );
                let (run, amount) = outcome.into_response();
                EntryKind::Responded {
                    run,
                    amount,
                    replayed,
                    shared,
                    unprotected,
                }
            }
            Err(error) if error.is::<idempotency_lambda::Error>() => {
                EntryKind::Refused(ours(&error).kind())
            }
            Err(_) => EntryKind::HandlerError,
        });
    })
}

//! Plays one schedule: several processes and several deliveries of one key. Records the history.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::protocol::Source;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{
    Backend, BoxError, Circuit, Deadline, ErrorKind, Lookup, OnInProgress, OnStoreError, OnTimeout,
    Operation, OutcomeKind, Run, Steps, with_backend,
};
use idempotency_testkit::SeededRandom;
use idempotency_tests::{START, operation, ours, unless_it_panics};
use serde_json::json;

use super::executor::{Dice, SkewedClock, Task, Time, run, yield_now};
use super::network::Network;

/// How often each fault occurs, in percent.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) throttled: u64,
    pub(crate) slow: u64,
    /// How often the store never replies.
    pub(crate) hangs: u64,
    pub(crate) crash: u64,
    pub(crate) handler_fails: u64,
    /// How often the handler panics. A panic reports nothing.
    pub(crate) handler_panics: u64,
    /// The largest error of a clock, in milliseconds.
    pub(crate) skew: u64,
    pub(crate) hold: bool,
    /// True if calls read the record before they claim.
    pub(crate) read_first: bool,
    /// True if calls run unprotected when the store fails.
    pub(crate) unprotected: bool,
    /// True if calls ask the circuit breaker.
    pub(crate) breaker: bool,
    /// True if the handler has steps.
    pub(crate) steps: bool,
    /// True if the store checks the conditions of completions, releases and steps.
    pub(crate) fences: bool,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self {
            lost: 0,
            throttled: 0,
            slow: 0,
            hangs: 0,
            crash: 0,
            handler_fails: 0,
            handler_panics: 0,
            skew: 0,
            hold: false,
            read_first: false,
            unprotected: false,
            breaker: false,
            steps: false,
            fences: true,
        }
    }

    pub(crate) fn network() -> Self {
        Self {
            lost: 12,
            throttled: 5,
            slow: 10,
            hangs: 2,
            ..Self::none()
        }
    }

    pub(crate) fn crashes() -> Self {
        Self {
            crash: 2,
            handler_fails: 10,
            slow: 5,
            ..Self::none()
        }
    }

    pub(crate) fn everything() -> Self {
        Self {
            lost: 12,
            throttled: 5,
            slow: 15,
            hangs: 1,
            crash: 1,
            handler_fails: 10,
            handler_panics: 5,
            skew: 300,
            ..Self::none()
        }
    }

    pub(crate) fn under_hold(self) -> Self {
        Self { hold: true, ..self }
    }

    pub(crate) fn reading_first(self) -> Self {
        Self {
            read_first: true,
            ..self
        }
    }

    /// The store throttles most requests.
    pub(crate) fn in_an_outage(self) -> Self {
        Self {
            throttled: 85,
            ..self
        }
    }

    pub(crate) fn running_unprotected(self) -> Self {
        Self {
            unprotected: true,
            ..self
        }
    }

    pub(crate) fn with_breaker(self) -> Self {
        Self {
            breaker: true,
            ..self
        }
    }

    pub(crate) fn with_steps(self) -> Self {
        Self {
            steps: true,
            ..self
        }
    }

    pub(crate) fn without_fences(self) -> Self {
        Self {
            fences: false,
            ..self
        }
    }
}

/// One event of a call that callers and handlers can see. The checker gets only these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: i64,
    pub(crate) call: usize,
    pub(crate) amount: u32,
    pub(crate) kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
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
    /// The handler got the result of a step: the call that ran it.
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
        /// Shared by another call of its process.
        shared: bool,
        /// The response of a run without a confirmed claim.
        unprotected: bool,
    },
    /// The circuit was not closed when the call ended.
    CircuitOpen,
    HandlerError,
    Refused(ErrorKind),
    Crashed,
}

pub(crate) type History = Rc<RefCell<Vec<Event>>>;

/// The steps of a handler.
const STEPS: [&str; 2] = ["reserve", "charge"];

/// The timeout of an invocation, in milliseconds.
pub(crate) const TIMEOUT: i64 = 3_000;

/// Plays one schedule.
pub(crate) fn play(seed: u64, faults: &Faults) -> Vec<Event> {
    let dice = Dice::new(seed);
    let time = Time::starting_at(START);
    let network = Network::new(Dice::new(seed ^ 0x5eed), time.clone(), faults.clone());
    let history: History = Rc::default();
    let operation = Rc::new(charge(&dice, faults));
    let processes: Vec<_> = (0..3)
        .map(|number| process(number, seed, &dice, &time, &network, faults))
        .collect();

    let mut calls = 0;
    for _round in 0..3 {
        let deliveries = 1 + dice.below(4);
        let mut tasks: Vec<(usize, Task)> = (0..deliveries)
            .map(|_| {
                calls += 1;
                let (backend, clock) = processes[usize::try_from(dice.below(3)).unwrap()].clone();
                let amount = if dice.percent(20) { 99 } else { 42 };
                let call = Call {
                    number: calls,
                    amount,
                    clock,
                    dice: dice.clone(),
                    history: Rc::clone(&history),
                };
                (
                    calls,
                    deliver(call, Rc::clone(&operation), backend, faults.clone()),
                )
            })
            .collect();
        run(&mut tasks, &dice, &time, |call| {
            network.deliver_sometimes();
            let dies = dice.percent(faults.crash) && dice.percent(30);
            if dies {
                history.borrow_mut().push(Event {
                    at: time.now(),
                    call,
                    amount: 0,
                    kind: EventKind::Crashed,
                });
            }
            dies
        });
        // Lambda retries at once, or after the deadline of the first delivery.
        time.advance(i64::try_from(dice.below(2 * 3_000)).unwrap());
    }
    // Long after every lease, but within the window: the key must not be stuck.
    time.advance(2 * TIMEOUT + 10_000);
    calls += 1;
    let (backend, clock) = processes[0].clone();
    let call = Call {
        number: calls,
        amount: 42,
        clock,
        dice: dice.clone(),
        history: Rc::clone(&history),
    };
    let mut last = vec![(calls, deliver(call, operation, backend, Faults::none()))];
    run(&mut last, &dice, &time, |_| false);
    history.take()
}

fn charge(dice: &Dice, faults: &Faults) -> Operation {
    operation()
        .key("order_id")
        .validate("amount")
        .local_cache(if dice.percent(50) { 8 } else { 0 })
        .lookup(if faults.read_first {
            Lookup::ReadFirst
        } else {
            Lookup::ClaimFirst
        })
        .on_in_progress(if dice.percent(50) {
            OnInProgress::Wait
        } else {
            OnInProgress::Reject
        })
        .on_timeout(if faults.hold {
            OnTimeout::Hold
        } else {
            OnTimeout::Rerun
        })
        .on_store_error(if faults.unprotected {
            OnStoreError::RunUnprotected
        } else {
            OnStoreError::Fail
        })
        .circuit_breaker(faults.breaker)
        .steps(if faults.steps {
            Steps::Keep
        } else {
            Steps::Off
        })
        .expires_after(Duration::from_secs(3_600))
        .build()
        .unwrap()
}

pub(crate) fn process(
    number: u64,
    seed: u64,
    dice: &Dice,
    time: &Time,
    network: &Arc<Network>,
    faults: &Faults,
) -> (Backend, SkewedClock) {
    let skew = i64::try_from(dice.below(2 * faults.skew + 1)).unwrap()
        - i64::try_from(faults.skew).unwrap();
    let clock = SkewedClock {
        time: time.clone(),
        skew,
    };
    let random = SeededRandom::new(seed.wrapping_mul(31).wrapping_add(number + 1));
    (
        Backend::new(network.clone(), Arc::new(clock.clone()), Arc::new(random)),
        clock,
    )
}

struct Call {
    number: usize,
    amount: u32,
    clock: SkewedClock,
    dice: Dice,
    history: History,
}

impl Call {
    fn record(&self, kind: EventKind) {
        self.history.borrow_mut().push(Event {
            at: self.clock.time.now(),
            call: self.number,
            amount: self.amount,
            kind,
        });
    }
}

/// The payload of a deliberate panic.
pub(crate) struct OnPurpose;

/// Plays one delivery: the caller and the handler. The response names the run that produced it.
fn deliver(call: Call, operation: Rc<Operation>, backend: Backend, faults: Faults) -> Task {
    Box::pin(async move {
        let call = &call;
        if call.dice.percent(50) {
            // Some calls start while a slow owner has outlived its lease.
            call.clock
                .sleep(Duration::from_millis(call.dice.below(5_000)))
                .await;
        }
        let deadline = call.clock.now().get() + TIMEOUT;
        call.record(EventKind::Called);
        let payload = json!({ "order_id": 1, "amount": call.amount });
        let handler = |handle: idempotency_lambda::Call| async move {
            call.record(EventKind::RunStarted {
                left: deadline - call.clock.now().get(),
                run: handle.which_run(),
            });
            yield_now().await;
            let names: &[_] = if faults.steps { &STEPS } else { &[] };
            for name in names {
                let step = handle.step(name, || async {
                    call.record(EventKind::StepRan { name });
                    yield_now().await;
                    Ok::<_, BoxError>(call.number)
                });
                match step.await {
                    Ok(by) => call.record(EventKind::StepDone { name, by }),
                    Err(error) => {
                        call.record(EventKind::RunEnded { responded: false });
                        return Err(error);
                    }
                }
            }
            if call.dice.percent(30) {
                // A slow owner sometimes outlives its lease, because the process is not killed at its deadline.
                call.clock
                    .sleep(Duration::from_millis(call.dice.below(4_500)))
                    .await;
            }
            if call.dice.percent(faults.handler_panics) {
                // Does not call the panic hook, which would print each panic.
                resume_unwind(Box::new(OnPurpose));
            }
            let responded = !call.dice.percent(faults.handler_fails);
            call.record(EventKind::RunEnded { responded });
            if responded {
                Ok((call.number, call.amount))
            } else {
                Err(BoxError::from("declined"))
            }
        };
        let outcome = with_backend(
            backend.clone(),
            operation.run(&payload, Deadline::At(EpochMillis::new(deadline)), handler),
        );
        let outcome = match unless_it_panics(outcome).await {
            Ok(outcome) => outcome,
            Err(panic) if panic.is::<OnPurpose>() => return call.record(EventKind::Panicked),
            Err(panic) => resume_unwind(panic),
        };
        if backend.circuit() != Circuit::Closed {
            call.record(EventKind::CircuitOpen);
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
                EventKind::Responded {
                    run,
                    amount,
                    replayed,
                    shared,
                    unprotected,
                }
            }
            Err(error) if error.is::<idempotency_lambda::Error>() => {
                EventKind::Refused(ours(&error).kind())
            }
            Err(_) => EventKind::HandlerError,
        });
    })
}

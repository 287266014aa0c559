//! Schedules of calls whose handlers stage writes: the ledger must agree with the record and with what the callers got.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::operation::{Call, CompiledOperation};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::Status;
use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{BoxError, Error, ErrorKind};
use idempotency_tests::{START, unless_it_panics};
use serde_json::json;

use super::executor::{Dice, SkewedClock, Task, Time, run, yield_now};
use super::network::Network;
use super::schedule::{Faults, OnPurpose, TIMEOUT, process};

/// What the callers of one schedule got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// The runs whose response a caller got.
    pub(crate) responses: Vec<usize>,
    /// The calls that were rejected. A call and its run have one number.
    pub(crate) rejected: Vec<usize>,
    pub(crate) unknown: usize,
    pub(crate) crashed: usize,
    /// True if the writes were applied.
    pub(crate) applied: bool,
}

/// Plays one schedule, and checks its books.
///
/// # Errors
///
/// If the books do not agree.
pub(crate) fn play(seed: u64, faults: &Faults) -> Result<Ends, String> {
    let dice = Dice::new(seed);
    let time = Time::starting_at(START);
    let network = Network::new(Dice::new(seed ^ 0x5eed), time.clone(), faults.clone());
    network.table.set_balance("alice", 1);
    let ends: Rc<RefCell<Ends>> = Rc::default();
    let operation = Rc::new(transfer(faults));
    let processes: Vec<_> = (0..3)
        .map(|number| process(number, seed, &dice, &time, &network, faults))
        .collect();
    let mut calls = 0;
    for _round in 0..3 {
        let mut tasks: Vec<(usize, Task)> = (0..=dice.below(3))
            .map(|_| {
                calls += 1;
                let (backend, clock) = processes[usize::try_from(dice.below(3)).unwrap()].clone();
                let delivery = Delivery {
                    number: calls,
                    clock,
                    dice: dice.clone(),
                    ends: Rc::clone(&ends),
                };
                let task = delivery.play(Rc::clone(&operation), backend, faults.clone());
                (calls, task)
            })
            .collect();
        run(&mut tasks, &dice, &time, |_| {
            network.deliver_sometimes();
            // Another program takes the money, or brings some.
            if dice.percent(2) {
                let left = network.table.balance("alice");
                network.table.set_balance("alice", i64::from(left == 0));
            }
            let dies = dice.percent(faults.crash) && dice.percent(30);
            ends.borrow_mut().crashed += usize::from(dies);
            dies
        });
        time.advance(i64::try_from(dice.below(2 * 3_000)).unwrap());
    }
    network.deliver_all();
    let mut ends = ends.take();
    let balance = |account: String| network.table.balance(&account);
    ends.applied = balance("bob".to_owned()) == 1;
    let applied: i64 = (1..=calls).map(|run| balance(format!("run-{run}"))).sum();
    if applied != balance("bob".to_owned()) || applied > 1 {
        return Err(format!(
            "the writes of one key were applied {applied} times"
        ));
    }
    if let Some(run) = ends
        .responses
        .iter()
        .find(|run| balance(format!("run-{run}")) != 1)
    {
        return Err(format!(
            "a caller got the response of run {run}, which was not applied"
        ));
    }
    if let Some(run) = ends
        .rejected
        .iter()
        .find(|run| balance(format!("run-{run}")) != 0)
    {
        return Err(format!(
            "call {run} was rejected, and its writes were applied"
        ));
    }
    let id = operation
        .identify(&payload().to_string(), None)
        .map_err(|error| error.to_string())?;
    let record = id.key().and_then(|id| network.table.record(id));
    let completed = record.is_some_and(|record| record.status.value() == Some(&Status::Completed));
    if completed != ends.applied {
        return Err(format!(
            "completed: {completed}, and applied: {}",
            ends.applied
        ));
    }
    Ok(ends)
}

fn payload() -> serde_json::Value {
    json!({ "transfer": 1 })
}

fn transfer(faults: &Faults) -> CompiledOperation {
    let settings = Settings {
        key: Some("transfer".into()),
        key_prefix: Some("bank".into()),
        on_timeout: Some(if faults.hold {
            OnTimeout::Hold
        } else {
            OnTimeout::Rerun
        }),
        ..Settings::default()
    };
    CompiledOperation::new("bank::transfer", &settings, &Variables::default()).unwrap()
}

struct Delivery {
    number: usize,
    clock: SkewedClock,
    dice: Dice,
    ends: Rc<RefCell<Ends>>,
}

impl Delivery {
    /// Plays one delivery. The response names the run.
    fn play(self, operation: Rc<CompiledOperation>, backend: Backend, faults: Faults) -> Task {
        Box::pin(async move {
            if self.dice.percent(50) {
                let pause = Duration::from_millis(self.dice.below(5_000));
                self.clock.sleep(pause).await;
            }
            let deadline = EpochMillis::new(self.clock.now().get() + TIMEOUT);
            let identity = operation.identify(&payload().to_string(), None).unwrap();
            let this = &self;
            let faults = &faults;
            let handler = |call: Call| async move {
                let entries = [
                    LedgerEntry::add("alice", -1).at_least(0),
                    LedgerEntry::add("bob", 1),
                    LedgerEntry::add(format!("run-{}", this.number), 1),
                ];
                for entry in entries {
                    call.stage(|writes: &mut MemoryWrites| {
                        writes.push(entry);
                        Ok::<_, std::convert::Infallible>(())
                    })?;
                    yield_now().await;
                }
                if this.dice.percent(30) {
                    // A slow owner sometimes outlives its lease.
                    let pause = Duration::from_millis(this.dice.below(4_500));
                    this.clock.sleep(pause).await;
                }
                if this.dice.percent(faults.handler_panics) {
                    resume_unwind(Box::new(OnPurpose));
                }
                if this.dice.percent(faults.handler_fails) {
                    return Err(BoxError::from("declined"));
                }
                Ok(this.number)
            };
            let call = operation.run(
                &backend,
                &identity,
                Some(deadline),
                Codec::json(),
                Errors::new(BoxError::from),
                handler,
            );
            let ended = match unless_it_panics(call).await {
                Ok(ended) => ended,
                Err(panic) if panic.is::<OnPurpose>() => return,
                Err(panic) => resume_unwind(panic),
            };
            let mut ends = this.ends.borrow_mut();
            match ended {
                Ok(outcome) => ends.responses.push(outcome.into_response()),
                Err(error) => match error.downcast_ref().map(Error::kind) {
                    Some(ErrorKind::TransactionRejected) => ends.rejected.push(this.number),
                    Some(ErrorKind::CompletionUnknown | ErrorKind::LostOwnership) => {
                        ends.unknown += 1;
                    }
                    _ => {}
                },
            }
        })
    }
}

//! Schedules of calls whose handlers stage writes: the ledger must agree with the history.

use std::rc::Rc;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Codec, Errors};
use idempotency_core::operation::{Call, CompiledOperation};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::store::{LedgerEntry, MemoryTransaction, MemoryWrites};
use idempotency_core::time::Clock;
use idempotency_lambda::{BoxError, Error, ErrorKind, Run};
use idempotency_testkit::history::{Bond, Given, HistoryEvent, Reported, Terms, What};
use serde_json::json;

use super::executor::{Task, yield_now};
use super::recorder::{Recorded, number};
use super::schedule::{TIMEOUT, WINDOW};
use super::world::{Faults, Process, World, unless_on_purpose};

/// One schedule, and its ledger at the end.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) history: Recorded,
    /// How often the writes of the key were applied.
    balance: i64,
    /// The same for each call, by its number.
    runs: Vec<i64>,
}

/// Plays one schedule.
pub(crate) fn play(seed: u64, faults: &Faults) -> Played {
    let world = World::new(seed, faults);
    let (network, dice) = (&world.network, &world.dice);
    network.table.set_balance("alice", 1);
    let operation = Rc::new(transfer(faults));
    let deliver = |number, process| {
        let delivery = Delivery { number, process };
        delivery.play(Rc::clone(&operation), faults.clone())
    };
    let between = || {
        // Another program takes the money, or brings some.
        if dice.percent(2) {
            let left = network.table.balance("alice");
            network.table.set_balance("alice", i64::from(left == 0));
        }
    };
    let (_, calls) = world.play(faults, 3, deliver, between, |_| {});
    network.deliver_all();
    let balance = |account: &str| network.table.balance(account);
    Played {
        history: world.recorder.take(),
        balance: balance("bob"),
        runs: (0..=calls)
            .map(|call| balance(&format!("run-{call}")))
            .collect(),
    }
}

impl Played {
    /// Returns true if the writes of the key were applied at most once, and those of each call as often as the history says.
    pub(crate) fn ledger_is_right(&self) -> bool {
        let events = &self.history.events;
        let staged =
            |event: &&HistoryEvent| matches!(event.what, What::Completed { staged: true, .. });
        let applied = |call: usize| {
            let events = events.iter().filter(staged);
            let of_call = events.filter(|event| usize::from(event.by) == call);
            i64::try_from(of_call.count()).unwrap()
        };
        let applied: Vec<_> = (0..self.runs.len()).map(applied).collect();
        self.balance <= 1 && self.balance == self.runs.iter().sum::<i64>() && self.runs == applied
    }

    /// Returns true if the writes were applied.
    pub(crate) fn is_applied(&self) -> bool {
        self.balance > 0
    }

    /// Returns how often an event was counted.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.history.counts.get(name).copied().unwrap_or_default()
    }
}

fn payload() -> serde_json::Value {
    json!({ "transfer": 1 })
}

fn transfer(faults: &Faults) -> CompiledOperation {
    let settings = Settings {
        key: Some("transfer".into()),
        key_prefix: Some("bank".into()),
        expires_after: Some(WINDOW),
        on_timeout: faults.hold.then_some(OnTimeout::Hold),
        ..Settings::default()
    };
    CompiledOperation::new("bank::transfer", &settings, &Variables::default()).unwrap()
}

struct Delivery {
    number: usize,
    process: Process,
}

impl Delivery {
    /// Plays one delivery. The response names the run.
    fn play(self, operation: Rc<CompiledOperation>, faults: Faults) -> Task {
        Box::pin(async move {
            let (this, process, faults) = (&self, &self.process, &faults);
            process.sleep_sometimes(50, 5_000).await;
            let deadline = process.clock.now().plus(TIMEOUT);
            let see = |what| {
                process.recorder.see(this.number, process.clock.now(), what);
            };
            see(What::Called(Terms {
                holds: faults.hold,
                lease: Some(TIMEOUT),
                window: Some(WINDOW),
                ..Terms::default()
            }));
            let identity = operation.identify(&payload().to_string(), None).unwrap();
            let handler = |call: Call| async move {
                see(What::RunBegan {
                    basis: process.recorder.basis(this.number),
                    first: call.which_run() == Run::First,
                });
                if process.dice.percent(faults.opens) {
                    process.recorder.count("opened");
                    let begun = call.open_transaction::<Box<MemoryTransaction>>().await;
                    let mut open =
                        begun.inspect_err(|_| see(What::RunReported(Reported::Failed)))?;
                    // Another program can be first, and a slow owner sometimes outlives its lease.
                    process.sleep_sometimes(30, 4_500).await;
                    if open.balance("alice") < 1 {
                        see(What::RunReported(Reported::Failed));
                        return Err(BoxError::from("declined"));
                    }
                    open.add("alice", -1);
                    open.add("bob", 1);
                    open.add(&format!("run-{}", this.number), 1);
                    process.panic_sometimes(faults.handler_panics);
                    open.commit_with_response();
                    yield_now().await;
                    see(What::RunReported(Reported::Staged));
                    return Ok(this.number);
                }
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
                // A slow owner sometimes outlives its lease.
                process.sleep_sometimes(30, 4_500).await;
                process.panic_sometimes(faults.handler_panics);
                if process.dice.percent(faults.handler_fails) {
                    see(What::RunReported(Reported::Failed));
                    return Err(BoxError::from("declined"));
                }
                see(What::RunReported(Reported::Staged));
                Ok(this.number)
            };
            let call = operation.run(
                &process.backend,
                &identity,
                Some(deadline),
                Codec::json(),
                Errors::new(BoxError::from),
                handler,
            );
            let Some(ended) = unless_on_purpose(call).await else {
                return;
            };
            match ended {
                Ok(outcome) => see(What::Responded(Given {
                    of: number(outcome.into_response()),
                    bond: Bond::Stored,
                    expires: None,
                })),
                Err(error) => match error.downcast_ref().map(Error::kind) {
                    Some(ErrorKind::TransactionRejected) => {
                        process.recorder.count("rejected");
                        see(What::StagedEnded { applied: false });
                    }
                    Some(ErrorKind::CompletionUnknown | ErrorKind::LostOwnership) => {
                        process.recorder.count("unknown");
                    }
                    _ => {}
                },
            }
        })
    }
}

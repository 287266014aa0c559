//! Schedules of calls whose handlers stage writes: the ledger must agree with the record and with what the callers got.

use std::cell::RefCell;
use std::rc::Rc;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Codec, Errors};
use idempotency_core::operation::{Call, CompiledOperation};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::Status;
use idempotency_core::store::{LedgerEntry, MemoryWrites};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::{BoxError, Error, ErrorKind};
use serde_json::json;

use super::executor::{Task, yield_now};
use super::schedule::TIMEOUT;
use super::world::{Faults, Process, World, unless_on_purpose};

/// What the callers of one schedule got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// The runs whose response a caller got.
    pub(crate) responses: Vec<usize>,
    /// The calls that were rejected. A call and its run have one number.
    pub(crate) rejected: Vec<usize>,
    pub(crate) unknown: usize,
    /// True if the writes were applied.
    pub(crate) applied: bool,
}

/// Plays one schedule, and compares the ledger with the record and with what the callers got.
///
/// # Errors
///
/// If they do not agree.
pub(crate) fn play(seed: u64, faults: &Faults) -> Result<Ends, String> {
    let world = World::new(seed, faults);
    let (network, dice) = (&world.network, &world.dice);
    network.table.set_balance("alice", 1);
    let ends: Rc<RefCell<Ends>> = Rc::default();
    let operation = Rc::new(transfer(faults));
    let deliver = |number, process| {
        let ends = Rc::clone(&ends);
        let delivery = Delivery {
            number,
            process,
            ends,
        };
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
    let mut ends = ends.take();
    let balance = |account: String| network.table.balance(&account);
    ends.applied = balance("bob".to_owned()) == 1;
    let applied: i64 = (1..=calls).map(|run| balance(format!("run-{run}"))).sum();
    if applied != balance("bob".to_owned()) || applied > 1 {
        return Err(format!(
            "the writes of one key were applied {applied} times"
        ));
    }
    let has = |run: &usize, applied| balance(format!("run-{run}")) == applied;
    if let Some(run) = ends.responses.iter().find(|run| !has(run, 1)) {
        return Err(format!(
            "a caller got the response of run {run}, which was not applied"
        ));
    }
    if let Some(run) = ends.rejected.iter().find(|run| !has(run, 0)) {
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
        on_timeout: faults.hold.then_some(OnTimeout::Hold),
        ..Settings::default()
    };
    CompiledOperation::new("bank::transfer", &settings, &Variables::default()).unwrap()
}

struct Delivery {
    number: usize,
    process: Process,
    ends: Rc<RefCell<Ends>>,
}

impl Delivery {
    /// Plays one delivery. The response names the run.
    fn play(self, operation: Rc<CompiledOperation>, faults: Faults) -> Task {
        Box::pin(async move {
            let (this, process, faults) = (&self, &self.process, &faults);
            process.sleep_sometimes(50, 5_000).await;
            let deadline = EpochMillis::new(process.clock.now().get() + TIMEOUT);
            let identity = operation.identify(&payload().to_string(), None).unwrap();
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
                // A slow owner sometimes outlives its lease.
                process.sleep_sometimes(30, 4_500).await;
                process.panic_sometimes(faults.handler_panics);
                if process.dice.percent(faults.handler_fails) {
                    return Err(BoxError::from("declined"));
                }
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

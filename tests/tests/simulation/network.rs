//! A store behind a simulated network that is slow, loses messages and delivers them late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{
    Consistency, MemoryStore, MemoryWrites, OpenTransaction, RecordWrite, SendLog, Staged, Store,
    StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest, TransactionRequest, Write,
};
use idempotency_core::time::EpochMillis;
use idempotency_testkit::history::What;

use super::executor::{Dice, Time, yield_now};
use super::recorder::Recorder;
use super::schedule::STEPS;
use super::world::Faults;

/// How many of the last states of the record an eventual read may return.
const STALEST: u64 = 4;

/// A write in transit.
#[derive(Clone)]
struct WriteInTransit {
    /// The call that sent it, and when by its clock. Of a completion, when it was sent for the first time.
    by: (usize, EpochMillis),
    id: RecordId,
    write: Write,
    condition: Condition,
    /// The staged writes, and their token.
    staged: Option<(Staged, String)>,
}

impl WriteInTransit {
    /// Returns true if it is an open transaction, which is sent once.
    fn commits_once(&self) -> bool {
        let staged = self.staged.as_ref();
        staged.is_some_and(|(staged, _)| staged.downcast_ref::<MemoryWrites>().is_none())
    }
}

/// The table and the network between it and the processes.
pub(crate) struct Network {
    pub(crate) table: MemoryStore,
    dice: Dice,
    time: Time,
    faults: Faults,
    recorder: Recorder,
    /// The states of the only record, the latest last.
    states: Mutex<Vec<Option<Record>>>,
    /// Writes whose senders gave up. They may still arrive.
    late: Mutex<Vec<WriteInTransit>>,
    /// When each call first sent its completion.
    completed: Mutex<BTreeMap<usize, EpochMillis>>,
}

impl Network {
    pub(crate) fn new(dice: Dice, time: Time, faults: Faults, recorder: Recorder) -> Arc<Self> {
        Arc::new(Self {
            table: MemoryStore::new(),
            dice,
            time,
            faults,
            recorder,
            states: Mutex::default(),
            late: Mutex::default(),
            completed: Mutex::default(),
        })
    }

    /// Applies a late write, in one of ten calls.
    pub(crate) fn deliver_sometimes(&self) {
        let mut late = self.late.lock().unwrap();
        if !late.is_empty() && self.dice.percent(10) {
            let at = usize::try_from(self.dice.below(late.len() as u64)).unwrap();
            let sent = late.swap_remove(at);
            self.apply(&sent);
        }
    }

    /// Applies every late write.
    pub(crate) fn deliver_all(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        for sent in late {
            self.apply(&sent);
        }
    }

    fn apply(&self, sent: &WriteInTransit) -> StoreReply {
        let drops = match sent.write {
            Write::Step { .. } => self.faults.drops_steps,
            Write::Put(_) => self.faults.drops_claims,
            _ => false,
        };
        if drops {
            return StoreReply::applied();
        }
        let always = Condition::All(Vec::new());
        let condition = match &sent.write {
            Write::Update(_) | Write::Delete | Write::Step { .. } if self.faults.unfenced => {
                &always
            }
            _ => &sent.condition,
        };
        let record = RecordWrite {
            id: &sent.id,
            write: &sent.write,
            condition,
        };
        let request = match &sent.staged {
            None => StoreRequest::Write(record),
            Some((staged, token)) => StoreRequest::Transact(TransactionRequest {
                record: Some(record),
                staged,
                token,
            }),
        };
        let reply = ready(self.table.send(request, &SendLog::new()));
        if matches!(reply, StoreReply::Applied { .. }) {
            let (by, at) = sent.by;
            let what = What::of_write(&sent.write, sent.staged.is_some(), &STEPS);
            if matches!(what, What::Renewed { .. }) {
                self.recorder.count("renewed");
            }
            self.recorder.see(by, at, what);
        }
        let mut states = self.states.lock().unwrap();
        states.push(self.table.record(&sent.id));
        reply
    }

    /// Returns one of the last states of the record: as it is, or as it was before some of the last writes.
    fn earlier(&self) -> StoreReply {
        let states = self.states.lock().unwrap();
        let age = usize::try_from(self.dice.below(STALEST)).unwrap();
        let at = states.len().checked_sub(age + 1);
        StoreReply::found(at.and_then(|at| states[at].clone()))
    }

    async fn travel(&self) {
        if self.dice.percent(self.faults.hangs) {
            std::future::pending::<()>().await;
        }
        if self.dice.percent(self.faults.slow) {
            // Sometimes longer than any lease.
            self.time
                .sleep(Duration::from_millis(self.dice.below(4_000)))
                .await;
        } else {
            yield_now().await;
        }
    }

    async fn carry(&self, sent: WriteInTransit, log: SendLog) -> StoreReply {
        log.preparing();
        let mut lost = false;
        // Repeats a lost send within the same call, as the SDK does.
        for _ in 0..3 {
            log.sending();
            self.travel().await;
            if self.dice.percent(self.faults.throttled) {
                let why = StoreError::new(StoreErrorKind::Throttled, "throttled");
                log.ended(false, Some(why));
                // The caller may give up here, and knows that nothing was applied.
                self.travel().await;
                continue;
            }
            if self.dice.percent(self.faults.lost) {
                log.ended(true, None);
                lost = true;
                match self.dice.below(3) {
                    0 => {}
                    1 => drop(self.apply(&sent)),
                    _ => self.late.lock().unwrap().push(sent.clone()),
                }
                if sent.commits_once() {
                    break;
                }
                continue;
            }
            let reply = self.apply(&sent);
            self.travel().await;
            return if lost { reply.admit_earlier() } else { reply };
        }
        let error = StoreError::new(StoreErrorKind::Unreachable, "no send succeeded");
        StoreReply::Failed {
            error,
            maybe_applied: lost,
        }
    }

    async fn read(
        &self,
        request: StoreRequest<'_>,
        consistency: Consistency,
        log: &SendLog,
    ) -> StoreReply {
        self.travel().await;
        if self.dice.percent(self.faults.lost) {
            return StoreReply::failed(StoreError::new(StoreErrorKind::Unreachable, "lost"));
        }
        let reply = match consistency {
            Consistency::Strong => ready(self.table.send(request, log)),
            Consistency::Eventual => self.earlier(),
        };
        self.travel().await;
        reply
    }
}

/// Returns the output of a future of the memory store, which never waits.
fn ready<T>(future: BoxFuture<'_, T>) -> T {
    future.now_or_never().unwrap()
}

impl Store for Network {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let staged = match request {
            StoreRequest::Read(_, consistency) => {
                return Box::pin(self.read(request, consistency, log));
            }
            StoreRequest::Write(_) => None,
            StoreRequest::Transact(transaction) => {
                Some((transaction.staged.clone(), transaction.token.to_owned()))
            }
        };
        let record = request.record().unwrap();
        let (call, mut at) = self.recorder.polled();
        let what = What::of_write(record.write, staged.is_some(), &STEPS);
        if matches!(what, What::Completed { .. }) {
            at = *self.completed.lock().unwrap().entry(call).or_insert(at);
        }
        let sent = WriteInTransit {
            by: (call, at),
            id: record.id.clone(),
            write: record.write.clone(),
            condition: record.condition.clone(),
            staged,
        };
        Box::pin(self.carry(sent, log.clone()))
    }

    fn begin(&self, left: Option<Duration>) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        Box::pin(async move {
            self.travel().await;
            if self.dice.percent(self.faults.lost) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "lost"));
            }
            self.table.begin(left).await
        })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::NONE
    }

    fn name(&self) -> String {
        "simulated table".to_owned()
    }
}

//! A store around another store, which notes requests and injects faults.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::RecordId;
use idempotency_core::store::{
    Consistency, ReadOutcome, RecordWrite, SendLog, Store, StoreError, StoreErrorKind,
    TransactionRequest, Write, WriteOutcome,
};

use super::arrived::{Arrived, Delayed};
use super::history::History;
use super::{StoreCall, StoreOperation};

/// How a request to a [`FaultyStore`] fails.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::store::{FaultyStore, StoreExt, StoreFault, StoreOperation};
/// use idempotency_core::{record::RecordId, store::{MemoryStore, ReadOutcome}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(MemoryStore::new());
/// store.inject(StoreOperation::Read, 1, StoreFault::Throttle);
/// let ReadOutcome::Failed(error) = store.get(&RecordId::new("a#1")).await else { panic!("expected a throttled read") };
/// assert!(error.kind().is_transient());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreFault {
    /// The request is applied, but its reply is lost.
    LoseReply,
    /// The request is lost and never applied. The caller cannot distinguish this from [`LoseReply`](Self::LoseReply).
    LoseRequest,
    /// The reply is lost, and the request is applied when [`FaultyStore::deliver`] is called.
    Delay,
    /// The reply is lost and the SDK sends the request again. The caller gets the second outcome, with `maybe_applied` set.
    Resend,
    /// The store throttles the request. Nothing is applied.
    Throttle,
    /// The store throttles the request, and then pauses for longer than any caller waits. Nothing is applied, and the
    /// [`SendLog`] of the request says so.
    Backoff,
    /// The request gets no response and is never applied, as if the process was killed before it.
    ///
    /// The caller waits until its deadline, by its own clock, and then gives up. On a
    /// [`ManualClock::at`](crate::ManualClock::at) that is when the test moves the clock. On a
    /// [`ManualClock::auto_advancing`](crate::ManualClock::auto_advancing) it happens by itself, after [`FaultyStore::hung`]
    /// was ready. A test that drops its caller at that point works with both clocks.
    Hang,
    /// As [`Hang`](Self::Hang), but the request is applied, as if the process was killed after it.
    HangAfter,
    /// The record is too large. Nothing is applied.
    TooLarge,
    /// A transaction meets another one. Nothing is applied.
    Conflict,
    /// If the condition fails, the outcome contains no record.
    OmitItem,
}

/// A store that notes every request, and fails the ones that the test chooses.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::condition::Condition;
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{MemoryStore, WriteOutcome};
/// use idempotency_testkit::store::{FaultyStore, StoreExt, StoreFault, StoreOperation};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(MemoryStore::new());
/// store.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
/// let put = store.put(&RecordId::new("a#1"), &Record::default(), &Condition::NoRecord).await;
/// assert!(matches!(put, WriteOutcome::Failed { maybe_applied: true, .. }));
/// assert_eq!(store.inner().len(), 1);
/// assert_eq!(store.count(StoreOperation::Put), 1);
/// # }
/// ```
pub struct FaultyStore<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Vec<StoreCall>,
    faults: Vec<(StoreOperation, usize, StoreFault)>,
    delayed: Vec<Delayed>,
    history: History,
    hung: usize,
    watchers: Vec<Waker>,
}

impl<S: Store> FaultyStore<S> {
    /// Wraps `inner`, without faults.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            state: Mutex::default(),
        }
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Injects a fault into the `nth` request of this kind from now on, counted from 1.
    pub fn inject(&self, operation: StoreOperation, nth: usize, fault: StoreFault) {
        let mut state = self.state();
        let before = count(&state.calls, operation);
        state.faults.push((operation, before + nth, fault));
    }

    /// Makes eventual reads stale: from now on each returns the record as it was before the last `writes` writes to it. 0 ends
    /// this. Strong reads and conditions see the record as it is.
    ///
    /// Only writes through this store count, from this call on. A record that had fewer of them is returned as it was before
    /// the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::protocol::condition::Condition;
    /// use idempotency_core::record::{Record, RecordId};
    /// use idempotency_core::store::{Consistency, MemoryStore, ReadOutcome, SendLog, Store};
    /// use idempotency_testkit::store::{FaultyStore, StoreExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (store, id, log) = (FaultyStore::new(MemoryStore::new()), RecordId::new("a#1"), SendLog::new());
    /// store.lag(1);
    /// store.put(&id, &Record::default(), &Condition::NoRecord).await;
    /// assert!(matches!(store.read(&id, Consistency::Eventual, &log).await, ReadOutcome::NotFound));
    /// assert!(matches!(store.read(&id, Consistency::Strong, &log).await, ReadOutcome::Found(_)));
    /// # }
    /// ```
    pub fn lag(&self, writes: usize) {
        self.state().history = History::of_the_last(writes);
    }

    /// Returns every request so far, in order.
    pub fn calls(&self) -> Vec<StoreCall> {
        self.state().calls.clone()
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, operation: StoreOperation) -> usize {
        count(&self.state().calls, operation)
    }

    /// Waits until a request hangs after this call, so that a test can drop its caller at that point.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{record::RecordId, store::MemoryStore};
    /// # use idempotency_testkit::store::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let store = FaultyStore::new(MemoryStore::new());
    /// store.inject(StoreOperation::Read, 1, StoreFault::Hang);
    /// let id = RecordId::new("a#1");
    /// tokio::select! {
    ///     _ = store.get(&id) => unreachable!("the read hangs"),
    ///     () = store.hung() => {}
    /// }
    /// # }
    /// ```
    pub fn hung(&self) -> impl Future<Output = ()> {
        // Read now, not at the first poll, so that a request that hangs in between counts.
        let before = self.state().hung;
        poll_fn(move |context| {
            let mut state = self.state();
            if state.hung > before {
                return Poll::Ready(());
            }
            state.watchers.push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Reports to [`hung`](Self::hung) and never returns.
    async fn hang<T>(&self) -> T {
        {
            let mut state = self.state();
            state.hung += 1;
            state.watchers.drain(..).for_each(Waker::wake);
        }
        std::future::pending().await
    }

    /// Applies the writes that [`StoreFault::Delay`] held back, in order. Their outcomes are discarded.
    pub async fn deliver(&self) {
        let delayed = std::mem::take(&mut self.state().delayed);
        for delayed in &delayed {
            if let Some(arrived) = delayed.arrives() {
                self.forward(arrived, &SendLog::new()).await;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards a write, and remembers the record before it if eventual reads are stale.
    async fn forward(&self, arrived: Arrived<'_>, log: &SendLog) -> WriteOutcome {
        let is_kept = self.state().history.is_kept();
        let before = match arrived.record().filter(|_| is_kept) {
            Some(RecordWrite { id, .. }) => {
                let log = SendLog::new();
                Some((id, self.inner.read(id, Consistency::Strong, &log).await))
            }
            None => None,
        };
        let outcome = match arrived {
            Arrived::Alone(record) => {
                let RecordWrite {
                    id,
                    write,
                    condition,
                } = record;
                self.inner.write(id, write, condition, log).await
            }
            Arrived::Together(transaction) => self.inner.transact(transaction, log).await,
        };
        if let (WriteOutcome::Applied, Some((id, before))) = (&outcome, before) {
            self.state().history.note(id, before);
        }
        outcome
    }

    /// Forwards a read, or returns an earlier state of the record.
    async fn read_as_of(
        &self,
        id: &RecordId,
        consistency: Consistency,
        log: &SendLog,
    ) -> ReadOutcome {
        let earlier = match consistency {
            Consistency::Strong => None,
            Consistency::Eventual => self.state().history.earlier(id),
        };
        match earlier {
            Some(earlier) => earlier.map_or(ReadOutcome::NotFound, ReadOutcome::Found),
            None => self.inner.read(id, consistency, log).await,
        }
    }

    /// Notes a request and returns its fault.
    fn note(&self, call: StoreCall) -> Option<StoreFault> {
        let mut state = self.state();
        let operation = call.operation();
        state.calls.push(call);
        let nth = count(&state.calls, operation);
        let at = state
            .faults
            .iter()
            .position(|(on, when, _)| *on == operation && *when == nth)?;
        Some(state.faults.swap_remove(at).2)
    }

    /// Notes a throttled send, and pauses without end.
    async fn back_off<T>(&self, log: &SendLog) -> T {
        log.preparing();
        log.sending();
        log.ended(false, Some(injected(StoreErrorKind::Throttled)));
        self.hang().await
    }

    async fn faulty_write(&self, arrived: Arrived<'_>, log: &SendLog) -> WriteOutcome {
        let forward = || self.forward(arrived, log);
        let Some(fault) = self.note(arrived.call()) else {
            return forward().await;
        };
        match fault {
            StoreFault::LoseReply => {
                forward().await;
                failed(true, StoreErrorKind::Unreachable)
            }
            StoreFault::LoseRequest => failed(true, StoreErrorKind::Unreachable),
            StoreFault::Delay => {
                self.state().delayed.push(arrived.delayed());
                failed(true, StoreErrorKind::Unreachable)
            }
            StoreFault::Resend => {
                forward().await;
                match forward().await {
                    WriteOutcome::ConditionFailed { existing, .. } => {
                        WriteOutcome::ConditionFailed {
                            existing,
                            maybe_applied: true,
                        }
                    }
                    WriteOutcome::Rejected { rejection, .. } => WriteOutcome::Rejected {
                        rejection,
                        maybe_applied: true,
                    },
                    WriteOutcome::Failed { error, .. } => WriteOutcome::Failed {
                        maybe_applied: true,
                        error,
                    },
                    other => other,
                }
            }
            StoreFault::Throttle => failed(false, StoreErrorKind::Throttled),
            StoreFault::Conflict => failed(false, StoreErrorKind::Conflict),
            StoreFault::TooLarge => failed(false, StoreErrorKind::TooLarge),
            StoreFault::Backoff => self.back_off(log).await,
            StoreFault::Hang => self.hang().await,
            StoreFault::HangAfter => {
                forward().await;
                self.hang().await
            }
            StoreFault::OmitItem => match forward().await {
                WriteOutcome::ConditionFailed { maybe_applied, .. } => {
                    WriteOutcome::ConditionFailed {
                        existing: None,
                        maybe_applied,
                    }
                }
                other => other,
            },
        }
    }
}

fn count(calls: &[StoreCall], operation: StoreOperation) -> usize {
    calls
        .iter()
        .filter(|call| call.operation() == operation)
        .count()
}

fn failed(maybe_applied: bool, kind: StoreErrorKind) -> WriteOutcome {
    WriteOutcome::Failed {
        maybe_applied,
        error: injected(kind),
    }
}

fn injected(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, format!("an injected fault ({kind:?})"))
}

impl<S: Store> Store for FaultyStore<S> {
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        let record = RecordWrite {
            id,
            write,
            condition,
        };
        Box::pin(self.faulty_write(Arrived::Alone(record), log))
    }

    fn transact<'a>(
        &'a self,
        transaction: TransactionRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(self.faulty_write(Arrived::Together(transaction), log))
    }

    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        consistency: Consistency,
        log: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            let call = StoreCall::Read {
                id: id.clone(),
                consistency,
            };
            match self.note(call) {
                None | Some(StoreFault::OmitItem | StoreFault::Resend) => {
                    self.read_as_of(id, consistency, log).await
                }
                Some(StoreFault::Backoff) => self.back_off(log).await,
                Some(StoreFault::Hang) => self.hang().await,
                Some(StoreFault::HangAfter) => {
                    self.inner.read(id, consistency, log).await;
                    self.hang().await
                }
                Some(StoreFault::Throttle) => {
                    ReadOutcome::Failed(injected(StoreErrorKind::Throttled))
                }
                Some(_) => ReadOutcome::Failed(injected(StoreErrorKind::Unreachable)),
            }
        })
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

impl<S> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}

//! A store for tests that counts its requests and injects faults.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{
    Consistency, OpenTransaction, RecordWrite, SendLog, Staged, Store, StoreError, StoreErrorKind,
    StoreLimits, StoreReply, StoreRequest, TransactionRequest, Write,
};

use crate::lock::lock;

/// A write and a read, for every [`Store`]. Each has a [`SendLog`] of its own, without a time limit.
pub trait StoreExt: Store {
    /// Performs a write if the condition holds.
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: Write,
        condition: &'a Condition,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let request = StoreRequest::write(id, &write, condition);
            self.send(request, &SendLog::new()).await
        })
    }

    /// Reads the record.
    fn get<'a>(&'a self, id: &'a RecordId) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let request = StoreRequest::Read(id, Consistency::Strong);
            self.send(request, &SendLog::new()).await
        })
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// The kinds of requests to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreOperation {
    /// A claim, or the completion of an evicted claim.
    Put,
    /// A completion, a recorded failure, a takeover of a claim with steps, or a release that keeps steps.
    Update,
    /// A release.
    Delete,
    /// The result of a step.
    Step,
    /// A completion with staged writes.
    Transact,
    /// A read.
    Read,
}

impl StoreOperation {
    fn of(request: StoreRequest<'_>) -> Self {
        match request {
            StoreRequest::Read(..) => Self::Read,
            StoreRequest::Transact(_) => Self::Transact,
            StoreRequest::Write(record) => match record.write {
                Write::Put(_) => Self::Put,
                Write::Update(_) => Self::Update,
                Write::Delete => Self::Delete,
                Write::Step { .. } => Self::Step,
            },
        }
    }
}

/// A write that arrives later: that of a record, and the staged writes of a transaction with its token.
struct Delayed {
    record: Option<(RecordId, Write, Condition)>,
    staged: Option<(Staged, String)>,
}

impl Delayed {
    fn of(request: StoreRequest<'_>) -> Self {
        let record = request.record();
        Self {
            record: record.map(|it| (it.id.clone(), it.write.clone(), it.condition.clone())),
            staged: match request {
                StoreRequest::Transact(it) => Some((it.staged.clone(), it.token.to_owned())),
                _ => None,
            },
        }
    }

    fn request(&self) -> Option<StoreRequest<'_>> {
        let record = self.record.as_ref();
        let record = record.map(|(id, write, condition)| RecordWrite {
            id,
            write,
            condition,
        });
        match &self.staged {
            Some((staged, token)) => Some(StoreRequest::Transact(TransactionRequest {
                record,
                staged,
                token,
            })),
            None => record.map(StoreRequest::Write),
        }
    }
}

/// How a request to a [`FaultyStore`] fails.
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

/// A store that counts its requests, and fails the ones that the test chooses.
///
/// # Examples
///
/// ```
/// use idempotency_core::record::{Record, RecordId};
/// use idempotency_core::store::{Condition, MemoryStore, SendLog, Store, StoreReply, StoreRequest, Write};
/// use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = FaultyStore::new(MemoryStore::new());
/// store.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
/// let (id, put) = (RecordId::new("a#1"), Write::Put(Record::default()));
/// let reply = store.send(StoreRequest::write(&id, &put, &Condition::NoRecord), &SendLog::new()).await;
/// assert!(matches!(reply, StoreReply::Failed { maybe_applied: true, .. }));
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
    /// The number of requests of each kind.
    counts: HashMap<StoreOperation, usize>,
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
        let before = state.count(operation);
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
    /// use idempotency_core::record::{Record, RecordId};
    /// use idempotency_core::store::{Condition, Consistency, MemoryStore, SendLog, Store, StoreReply, StoreRequest, Write};
    /// use idempotency_testkit::store::FaultyStore;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (store, id, log) = (FaultyStore::new(MemoryStore::new()), RecordId::new("a#1"), SendLog::new());
    /// store.lag(1);
    /// let put = Write::Put(Record::default());
    /// store.send(StoreRequest::write(&id, &put, &Condition::NoRecord), &log).await;
    /// let eventual = store.send(StoreRequest::Read(&id, Consistency::Eventual), &log).await;
    /// assert!(matches!(eventual, StoreReply::Found { record: None, .. }));
    /// let strong = store.send(StoreRequest::Read(&id, Consistency::Strong), &log).await;
    /// assert!(matches!(strong, StoreReply::Found { record: Some(_), .. }));
    /// # }
    /// ```
    pub fn lag(&self, writes: usize) {
        self.state().history = History::of_the_last(writes);
    }

    /// Returns the number of requests of this kind.
    pub fn count(&self, operation: StoreOperation) -> usize {
        self.state().count(operation)
    }

    /// Waits until a request hangs after this call, so that a test can drop its caller at that point.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::record::RecordId;
    /// # use idempotency_core::store::{Consistency, MemoryStore, SendLog, Store, StoreRequest};
    /// # use idempotency_testkit::store::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let store = FaultyStore::new(MemoryStore::new());
    /// store.inject(StoreOperation::Read, 1, StoreFault::Hang);
    /// let (id, log) = (RecordId::new("a#1"), SendLog::new());
    /// tokio::select! {
    ///     _ = store.send(StoreRequest::Read(&id, Consistency::Strong), &log) => unreachable!("the read hangs"),
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
            if let Some(arrived) = delayed.request() {
                self.forward(arrived, &SendLog::new()).await;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Forwards a request. Remembers the record before a write, and returns an earlier state of it, if eventual reads are stale.
    async fn forward(&self, request: StoreRequest<'_>, log: &SendLog) -> StoreReply {
        if let StoreRequest::Read(id, Consistency::Eventual) = request
            && let Some(earlier) = self.state().history.earlier(id)
        {
            return StoreReply::found(earlier);
        }
        let is_kept = self.state().history.is_kept();
        let before = match request.record().filter(|_| is_kept) {
            Some(RecordWrite { id, .. }) => Some((id, self.inner.get(id).await)),
            None => None,
        };
        let reply = self.inner.send(request, log).await;
        if let (StoreReply::Applied { .. }, Some((id, before))) = (&reply, before) {
            self.state().history.note(id, before);
        }
        reply
    }

    /// Counts a request and returns its fault.
    fn count_in(&self, operation: StoreOperation) -> Option<StoreFault> {
        let mut state = self.state();
        *state.counts.entry(operation).or_default() += 1;
        let nth = state.count(operation);
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

    async fn send_with_fault(&self, request: StoreRequest<'_>, log: &SendLog) -> StoreReply {
        let forward = || self.forward(request, log);
        let lost = |kind| StoreReply::failed(injected(kind)).admit_earlier();
        let is_read = matches!(request, StoreRequest::Read(..));
        let Some(fault) = self.count_in(StoreOperation::of(request)) else {
            return forward().await;
        };
        match fault {
            StoreFault::OmitItem | StoreFault::Resend if is_read => forward().await,
            StoreFault::Throttle => StoreReply::failed(injected(StoreErrorKind::Throttled)),
            StoreFault::Backoff => self.back_off(log).await,
            StoreFault::Hang => self.hang().await,
            StoreFault::HangAfter => {
                forward().await;
                self.hang().await
            }
            StoreFault::LoseReply if !is_read => {
                forward().await;
                lost(StoreErrorKind::Unreachable)
            }
            StoreFault::Delay if !is_read => {
                self.state().delayed.push(Delayed::of(request));
                lost(StoreErrorKind::Unreachable)
            }
            StoreFault::Conflict if !is_read => {
                StoreReply::failed(injected(StoreErrorKind::Conflict))
            }
            StoreFault::TooLarge if !is_read => {
                StoreReply::failed(injected(StoreErrorKind::TooLarge))
            }
            StoreFault::Resend => {
                forward().await;
                forward().await.admit_earlier()
            }
            StoreFault::OmitItem => match forward().await {
                StoreReply::ConditionFailed { maybe_applied, .. } => StoreReply::ConditionFailed {
                    existing: None,
                    unreadable: None,
                    maybe_applied,
                },
                other => other,
            },
            // A lost read is a failure like any other.
            StoreFault::LoseRequest
            | StoreFault::LoseReply
            | StoreFault::Delay
            | StoreFault::Conflict
            | StoreFault::TooLarge => lost(StoreErrorKind::Unreachable),
        }
    }
}

impl State {
    fn count(&self, operation: StoreOperation) -> usize {
        self.counts.get(&operation).copied().unwrap_or_default()
    }
}

fn injected(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, format!("an injected fault ({kind:?})"))
}

impl<S: Store> Store for FaultyStore<S> {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(self.send_with_fault(request, log))
    }

    /// Begins a transaction of the inner store. This is not counted, and has no fault.
    fn begin(
        &self,
        left: Option<std::time::Duration>,
    ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        self.inner.begin(left)
    }

    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        self.inner.timeout_advice(was_sent)
    }
}

/// The states of each record before its last writes, the oldest first.
#[derive(Default)]
struct History {
    writes: usize,
    states: HashMap<RecordId, VecDeque<Option<Record>>>,
}

impl History {
    /// Returns a history that keeps this many states of each record. With 0 it keeps none.
    fn of_the_last(writes: usize) -> Self {
        Self {
            writes,
            states: HashMap::new(),
        }
    }

    /// Returns true if states are kept.
    fn is_kept(&self) -> bool {
        self.writes > 0
    }

    /// Notes the record before a write that was applied. A read that failed leaves a gap.
    fn note(&mut self, id: &RecordId, before: StoreReply) {
        let StoreReply::Found { record: before, .. } = before else {
            return;
        };
        let states = self.states.entry(id.clone()).or_default();
        states.push_back(before);
        if states.len() > self.writes {
            states.pop_front();
        }
    }

    /// Returns the oldest kept state of a record, or `None` if no write of it was noted.
    fn earlier(&self, id: &RecordId) -> Option<Option<Record>> {
        self.states.get(id)?.front().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_before_the_last_writes_is_kept_for_each_record() {
        let (id, other) = (RecordId::new("a#1"), RecordId::new("a#2"));
        let mut history = History::of_the_last(2);
        assert!(history.is_kept() && !History::default().is_kept());
        assert_eq!(history.earlier(&id), None);
        history.note(&id, StoreReply::found(None));
        assert_eq!(history.earlier(&id), Some(None));
        history.note(&id, StoreReply::found(Some(Record::default())));
        assert_eq!(history.earlier(&id), Some(None));
        history.note(&id, StoreReply::found(None));
        assert_eq!(history.earlier(&id), Some(Some(Record::default())));
        assert_eq!(history.earlier(&other), None);
    }
}

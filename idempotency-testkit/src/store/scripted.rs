//! A store that answers from a script.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::{
    Change, ReadOutcome, Store, StoreError, StoreErrorKind, WriteOutcome,
};

use super::StoreCall;

/// What a [`ScriptedStore`] answers to one request.
///
/// ```
/// use idempotency_core::store::{ReadOutcome, StoreError, StoreErrorKind, WriteOutcome};
/// use idempotency_testkit::store::{ScriptedAnswer, ScriptedStore};
/// let down = StoreError::new(StoreErrorKind::Unreachable, "no answer");
/// let script = [ScriptedAnswer::Write(WriteOutcome::Applied), ScriptedAnswer::Read(ReadOutcome::Failed(down))];
/// let store = ScriptedStore::new(script);
/// # let _ = store;
/// ```
#[derive(Debug)]
pub enum ScriptedAnswer {
    /// To a write.
    Write(WriteOutcome),
    /// To a read.
    Read(ReadOutcome),
    /// Never.
    Silence,
}

/// A store that gives prepared answers in their order and remembers what it was asked.
///
/// A request that the script does not foresee, or foresees as one of another kind, is answered with an error that says so.
///
/// ```
/// use idempotency_core::record::RecordId;
/// use idempotency_core::store::{ReadOutcome, Store};
/// use idempotency_testkit::store::{ScriptedAnswer, ScriptedStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = ScriptedStore::new([ScriptedAnswer::Read(ReadOutcome::NotFound)]);
/// assert!(matches!(store.read(&RecordId::new("a#1")).await, ReadOutcome::NotFound));
/// assert_eq!(store.calls().len(), 1);
/// # }
/// ```
#[derive(Debug)]
pub struct ScriptedStore(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    script: VecDeque<ScriptedAnswer>,
    calls: Vec<StoreCall>,
}

impl ScriptedStore {
    /// A store with this script.
    ///
    /// ```
    /// # use idempotency_testkit::store::ScriptedStore;
    /// assert!(ScriptedStore::new([]).calls().is_empty());
    /// ```
    pub fn new(script: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        Self(Mutex::new(Inner {
            script: script.into_iter().collect(),
            calls: Vec::new(),
        }))
    }

    /// What it was asked, in order.
    ///
    /// ```
    /// # use idempotency_testkit::store::ScriptedStore;
    /// assert!(ScriptedStore::new([]).calls().is_empty());
    /// ```
    pub fn calls(&self) -> Vec<StoreCall> {
        self.inner().calls.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, call: StoreCall) -> Option<ScriptedAnswer> {
        let mut inner = self.inner();
        inner.calls.push(call);
        inner.script.pop_front()
    }

    fn write(&self, call: StoreCall) -> BoxFuture<'_, WriteOutcome> {
        Box::pin(async move {
            match self.answer(call) {
                Some(ScriptedAnswer::Write(write)) => write,
                Some(ScriptedAnswer::Silence) => std::future::pending().await,
                Some(ScriptedAnswer::Read(_)) | None => WriteOutcome::Failed {
                    maybe_applied: false,
                    error: unforeseen(),
                },
            }
        })
    }
}

fn unforeseen() -> StoreError {
    StoreError::new(
        StoreErrorKind::Rejected,
        "the script does not foresee this request",
    )
}

impl Store for ScriptedStore {
    fn put<'a>(
        &'a self,
        id: &'a RecordId,
        record: &'a Record,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        self.write(StoreCall::put(id, record, condition))
    }

    fn update<'a>(
        &'a self,
        id: &'a RecordId,
        change: &'a Change,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        self.write(StoreCall::update(id, change, condition))
    }

    fn delete<'a>(
        &'a self,
        id: &'a RecordId,
        condition: &'a Condition,
    ) -> BoxFuture<'a, WriteOutcome> {
        self.write(StoreCall::delete(id, condition))
    }

    fn read<'a>(&'a self, id: &'a RecordId) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            match self.answer(StoreCall::Read { id: id.clone() }) {
                Some(ScriptedAnswer::Read(read)) => read,
                Some(ScriptedAnswer::Silence) => std::future::pending().await,
                Some(ScriptedAnswer::Write(_)) | None => ReadOutcome::Failed(unforeseen()),
            }
        })
    }

    fn name(&self) -> String {
        "scripted store".to_owned()
    }
}

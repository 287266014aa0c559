//! A store that notes the requests that it gets, around one that counts them and injects faults.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{RecordId, StoredEvent};
use idempotency_core::store::{
    Condition, Consistency, OpenTransaction, ScanPage, ScanRequest, SendLog, Store, StoreError,
    StoreLimits, StoreReply, StoreRequest, StoreScan, Write,
};
use idempotency_testkit::store::FaultyStore;

/// A request, as a [`NotingStore`] notes it.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a test notes few")]
pub enum NotedRequest {
    /// How current the record of a read had to be.
    Read(RecordId, Consistency),
    /// A write and its condition.
    Write(RecordId, Write, Condition),
    /// A transaction. Its record is `None` for a run without protection.
    Transact(Option<RecordId>),
}

impl NotedRequest {
    fn of(request: StoreRequest<'_>) -> Self {
        match request {
            StoreRequest::Read(id, consistency) => Self::Read(id.clone(), consistency),
            StoreRequest::Write(it) => {
                Self::Write(it.id.clone(), it.write.clone(), it.condition.clone())
            }
            StoreRequest::Transact(it) => Self::Transact(it.record.map(|it| it.id.clone())),
        }
    }

    /// Returns the id of its record.
    pub fn id(&self) -> Option<&RecordId> {
        match self {
            Self::Read(id, _) | Self::Write(id, ..) => Some(id),
            Self::Transact(id) => id.as_ref(),
        }
    }
}

/// A [`FaultyStore`] whose requests are noted before their faults.
pub struct NotingStore<S> {
    store: FaultyStore<S>,
    noted: Mutex<Vec<NotedRequest>>,
}

impl<S: Store> NotingStore<S> {
    /// Wraps `inner`, without faults.
    pub fn new(inner: S) -> Self {
        Self {
            store: FaultyStore::new(inner),
            noted: Mutex::default(),
        }
    }

    fn note(&self, request: NotedRequest) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.push(request);
    }

    /// Returns every request so far, in order.
    pub fn noted(&self) -> Vec<NotedRequest> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.clone()
    }
}

impl<S> Deref for NotingStore<S> {
    type Target = FaultyStore<S>;

    fn deref(&self) -> &FaultyStore<S> {
        &self.store
    }
}

impl<S: Store> Store for NotingStore<S> {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        // When the request is sent, not when its future is made.
        Box::pin(async move {
            self.note(NotedRequest::of(request));
            self.store.send(request, log).await
        })
    }

    fn begin(&self, left: Option<Duration>) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
        self.store.begin(left)
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    fn name(&self) -> String {
        self.store.name()
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        self.store.timeout_advice(was_sent)
    }
}

/// Lists the records of the inner store, and reads its events. This is not noted, and has no fault.
impl<S: StoreScan> StoreScan for NotingStore<S> {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        self.inner().scan(request)
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        self.inner().stored_event(id)
    }
}

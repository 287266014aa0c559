//! The records of a scenario without the embedded DynamoDB: in memory. Their requests pass the gate of their process, under the names
//! that DynamoDB has for them, so the points of a function are the same with both.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use idempotency_core::future::BoxFuture;
use idempotency_core::store::{
    MemoryStore, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
    Write,
};
use idempotency_lambda::ConfigurationError;

use super::RECORDS;
use super::effects::Items;
use super::gate::{FaultKind, Service, completion};
use super::plan::{Failure, Plan};
use super::process::{Process, RequestFate};
use super::world::World;
use crate::lock::lock;

/// Makes the stores of a check.
pub(super) struct Server;

/// The store of one scenario.
pub(super) struct Database {
    records: MemoryStore,
    /// When the record of the last claim expires, in seconds.
    expiration: Mutex<Option<i64>>,
}

impl Server {
    pub(super) fn start() -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Returns an empty store.
    pub(super) fn database(&self, _: &Plan) -> Result<Database, Failure> {
        Ok(Database {
            records: MemoryStore::new(),
            expiration: Mutex::default(),
        })
    }
}

impl Database {
    /// Returns the items of the function's own tables: there are none.
    pub(super) fn items(&self, _hidden: &str) -> Result<Items, Failure> {
        Ok(Items::new())
    }

    /// Returns when the record of the framework expires, in seconds.
    pub(super) fn expiration(&self) -> Result<Option<i64>, Failure> {
        Ok(*lock(&self.expiration))
    }
}

/// The store of a process.
struct GatedStore(Arc<Process>);

/// Returns the store of a process.
pub(super) fn store(world: &World) -> Result<Arc<dyn Store>, ConfigurationError> {
    Ok(Arc::new(GatedStore(Arc::clone(world.process()))))
}

impl GatedStore {
    async fn pass(&self, request: StoreRequest<'_>, log: &SendLog) -> StoreReply {
        let process = &self.0;
        if let Some((key, stored)) = completion(request) {
            process.gate.completes_with(key, stored);
        }
        if let Some(Write::Put(record)) = request.record().map(|record| record.write) {
            *lock(&process.shared.database.expiration) =
                record.expiration.value().map(|time| time.get());
        }
        let label = format!("{} {RECORDS}", operation(request));
        let refuses = |fault| fault == Some(FaultKind::Refused);
        let perform = |_| now(process.shared.database.records.send(request, log));
        let passed = process.pass(Service::DynamoDb, label, refuses, perform);
        let failed = |kind| StoreReply::failed(StoreError::new(kind, "a fault of `retry_safety`"));
        match passed.await {
            RequestFate::Done(Some(reply)) => reply,
            RequestFate::Refused => failed(StoreErrorKind::Throttled),
            RequestFate::Lost | RequestFate::Done(None) => {
                failed(StoreErrorKind::Unreachable).admit_earlier()
            }
        }
    }
}

impl Store for GatedStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(self.pass(request, log))
    }

    fn limits(&self) -> StoreLimits {
        self.0.shared.database.records.limits()
    }

    fn name(&self) -> String {
        self.0.shared.database.records.name()
    }
}

/// Returns the result of a future that does not wait. The store in memory never waits.
fn now<T>(mut future: BoxFuture<'_, T>) -> Option<T> {
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Returns what DynamoDB calls the operation.
fn operation(request: StoreRequest<'_>) -> &'static str {
    match request {
        StoreRequest::Read(..) => "GetItem",
        StoreRequest::Transact(_) => "TransactWriteItems",
        StoreRequest::Write(record) => match record.write {
            Write::Put(_) => "PutItem",
            Write::Update(_) | Write::Step { .. } => "UpdateItem",
            Write::Delete => "DeleteItem",
        },
    }
}

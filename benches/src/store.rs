//! A store that does nothing: what remains is the cost of the framework itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idempotency_core::future::BoxFuture;
use idempotency_core::record::Record;
use idempotency_core::store::{
    MemoryStore, RecordWrite, SendLog, Store, StoreLimits, StoreReply, StoreRequest,
};

/// What the store replies.
enum Mode {
    /// What a store in memory replies. It keeps the last record.
    Records(MemoryStore, Option<Record>),
    /// Each write is applied at once, and nothing is kept.
    Applies,
    /// Each write is refused with this record.
    Finds(Record),
}

/// The store. A clone is the same store.
#[derive(Clone)]
pub struct NoStore(Arc<Mutex<Mode>>);

impl Default for NoStore {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Mode::Applies)))
    }
}

impl NoStore {
    /// Applies each write from now on.
    pub fn apply_all(&self) {
        *self.mode() = Mode::Applies;
    }

    /// Keeps the records of the calls of `run`, and from then on refuses each write with the last one.
    pub fn find_record_of(&self, run: impl FnOnce()) {
        *self.mode() = Mode::Records(MemoryStore::new(), None);
        run();
        let mut mode = self.mode();
        let Mode::Records(_, Some(record)) = &*mode else {
            panic!("the calls stored no record");
        };
        *mode = Mode::Finds(record.clone());
    }

    fn mode(&self) -> MutexGuard<'_, Mode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for NoStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        Box::pin(async move {
            let Some(RecordWrite { id, .. }) = request.record() else {
                return StoreReply::found(None);
            };
            match &mut *self.mode() {
                Mode::Records(records, last) => {
                    let written = idempotency_core::example::ready(records.send(request, log));
                    *last = records.record(id);
                    written
                }
                // As a store that does not note its sends: an earlier one may have been applied.
                Mode::Applies => StoreReply::applied().admit_earlier(),
                Mode::Finds(record) => StoreReply::condition_failed(Some(record.clone())),
            }
        })
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits::NONE
    }

    fn name(&self) -> String {
        "nothing".to_owned()
    }
}

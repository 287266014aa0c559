//! What the processes of one scenario share: the world outside of them, and its time.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::time::EpochMillis;

use super::RECORDS;
use super::database::{Database, Items};
use super::provider::{Http, Listener};

/// The world of one scenario.
pub(super) struct Shared {
    pub(super) database: Database,
    /// The provider, if the check has one.
    pub(super) http: Option<Http>,
    fakes: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    now: AtomicI64,
    /// The items after each request, while they are watched.
    watched: Mutex<Option<Vec<Items>>>,
    /// Makes request ids differ between two faultless runs.
    pub(super) salt: &'static str,
    /// How long a process waits for its sockets, in real time, before virtual time moves. Zero if it has none.
    pub(super) settle: Duration,
}

impl Shared {
    pub(super) fn new(
        database: Database,
        http: Option<Http>,
        now: EpochMillis,
        salt: &'static str,
        settle: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            database,
            http,
            fakes: Mutex::default(),
            now: AtomicI64::new(now.get()),
            watched: Mutex::default(),
            salt,
            settle,
        })
    }

    /// Returns the part of the world of this type. The first call makes it.
    pub(super) fn fake<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut fakes = self.fakes.lock().unwrap_or_else(PoisonError::into_inner);
        let fake = fakes
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // Its key is its type, so this never makes another one.
        Arc::clone(fake).downcast().unwrap_or_default()
    }

    /// Returns the time of the world when no process runs.
    pub(super) fn now(&self) -> EpochMillis {
        EpochMillis::new(self.now.load(Ordering::Acquire))
    }

    pub(super) fn set_now(&self, now: EpochMillis) {
        self.now.fetch_max(now.get(), Ordering::AcqRel);
    }

    /// Moves the time of the world. No process may run meanwhile.
    pub(super) fn advance(&self, duration: Duration) {
        self.set_now(self.now().plus(duration));
    }

    /// Starts or ends the notes of the items in the course of a run.
    pub(super) fn watch(&self, watch: bool) -> Vec<Items> {
        let next = watch.then(Vec::new);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *watched, next).unwrap_or_default()
    }

    /// Notes the items, if they are watched. Called after each request.
    pub(super) fn note_items(&self) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = &mut *watched
            && let Ok(items) = self.database.items(RECORDS)
        {
            watched.push(items);
        }
    }

    /// Returns the place where the provider listens.
    pub(super) fn listener(&self) -> Option<&Listener> {
        self.http.as_ref().map(|http| &*http.listener)
    }
}

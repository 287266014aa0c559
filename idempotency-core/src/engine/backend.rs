//! The backend: what the operations of one process share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::single_flight::SingleFlight;
use crate::cache::LocalCache;
use crate::protocol::{Breaker, Circuit};
use crate::random::{Random, RandomError};
use crate::record::OwnerToken;
use crate::store::{Store, StoreError, StoreLimits};
use crate::time::Clock;

/// The store, clock, random source and local cache that operations work with, the leaders of their calls in progress, and the
/// circuit breaker of the store.
///
/// Operations hold configuration only. Two backends in one process share nothing, so parallel tests with a backend each are
/// isolated. A clone is a handle to the same backend.
///
/// # Examples
///
/// ```
/// use idempotency_core::engine::Backend;
/// use idempotency_core::store::MemoryStore;
/// use std::sync::Arc;
/// # let (clock, random) = (Arc::new(idempotency_core::example::Fixed), Arc::new(idempotency_core::example::Fixed));
/// let backend = Backend::new(Arc::new(MemoryStore::new()), clock, random);
/// assert_eq!(format!("{backend:?}"), r#"Backend { store: "memory", .. }"#);
/// ```
#[derive(Clone)]
pub struct Backend(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    /// Those of the store, so that a call need not ask it.
    limits: StoreLimits,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    cache: Arc<LocalCache>,
    single_flight: SingleFlight,
    breaker: Mutex<Breaker>,
    /// The rules of the operation that uses each key prefix.
    prefixes: Mutex<BTreeMap<String, String>>,
}

impl Backend {
    /// Returns a backend with an empty cache of its own.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self(Arc::new(Inner {
            limits: store.limits(),
            store,
            clock,
            random,
            cache: Arc::new(LocalCache::new()),
            single_flight: SingleFlight::default(),
            breaker: Mutex::default(),
            prefixes: Mutex::default(),
        }))
    }

    /// Returns a backend over another store, with the same clock and random source and an empty cache of its own: the
    /// responses of one store must not be replayed for another.
    #[must_use]
    pub fn with_store(&self, store: Arc<dyn Store>) -> Self {
        let Inner { clock, random, .. } = &*self.0;
        Self::new(store, Arc::clone(clock), Arc::clone(random))
    }

    /// Returns the store that holds the records.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Connects the store, and checks as far as it can that requests will succeed. A server calls it before it listens, so that a server
    /// with a wrong address or password does not replace one that works.
    ///
    /// # Errors
    ///
    /// If the store cannot be used. The text says what to do.
    ///
    /// # Examples
    ///
    /// ```
    /// # let backend = idempotency_core::example::backend();
    /// # idempotency_core::example::ready(async {
    /// backend.warm_up().await?;
    /// # Ok::<(), idempotency_core::store::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn warm_up(&self) -> Result<(), StoreError> {
        self.0.store.warm_up(false).await
    }

    /// Returns what the store accepts.
    pub(crate) fn limits(&self) -> StoreLimits {
        self.0.limits
    }

    /// Returns the clock that leases and windows are compared with.
    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Returns the local cache of confirmed responses.
    pub fn cache(&self) -> &Arc<LocalCache> {
        &self.0.cache
    }

    /// Returns the state of the circuit breaker, which the operations with `circuit_breaker` share.
    ///
    /// # Examples
    ///
    /// ```
    /// # let backend = idempotency_core::example::backend();
    /// use idempotency_core::protocol::Circuit;
    /// assert_eq!(backend.circuit(), Circuit::Closed);
    /// ```
    pub fn circuit(&self) -> Circuit {
        self.breaker().circuit()
    }

    /// Notes that an operation with these rules uses a key prefix. Returns false if one with other rules uses it: equal keys would not
    /// mean equal calls.
    #[doc(hidden)]
    pub fn claim_prefix(&self, prefix: &str, rules: &str) -> bool {
        let prefixes = self.0.prefixes.lock();
        let mut prefixes = prefixes.unwrap_or_else(PoisonError::into_inner);
        let known = prefixes.entry(prefix.to_owned());
        known.or_insert_with(|| rules.to_owned()) == rules
    }

    /// Returns the circuit breaker. A panic cannot leave it half written, so a poisoned lock is still good.
    pub(super) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.0
            .breaker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the leaders of the calls in progress.
    pub(super) fn single_flight(&self) -> &SingleFlight {
        &self.0.single_flight
    }

    /// Returns a token for a new call.
    pub(crate) fn owner_token(&self) -> Result<OwnerToken, RandomError> {
        self.random_bytes().map(OwnerToken::from_bytes)
    }

    /// Returns sixteen new random bytes.
    pub(super) fn random_bytes(&self) -> Result<[u8; 16], RandomError> {
        self.0.random.bytes()
    }

    /// Returns a random time between zero and `at_most` ("full jitter"), or `at_most` if the random source fails.
    pub(crate) fn jitter(&self, at_most: Duration) -> Duration {
        match self.0.random.bytes() {
            Ok([a, b, ..]) => {
                at_most.mul_f64(f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX))
            }
            Err(_) => at_most,
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("store", &self.0.store.name())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::Fixed;
    use crate::store::MemoryStore;

    /// A random source whose bytes are all the same, or that fails.
    struct Repeats(Option<u8>);

    impl Random for Repeats {
        fn bytes(&self) -> Result<[u8; 16], RandomError> {
            let byte = self.0.ok_or_else(|| RandomError::new("no entropy"))?;
            Ok([byte; 16])
        }
    }

    fn jitter(byte: Option<u8>) -> Duration {
        let store = Arc::new(MemoryStore::new());
        Backend::new(store, Arc::new(Fixed), Arc::new(Repeats(byte))).jitter(Duration::from_secs(1))
    }

    #[test]
    fn a_pause_is_anywhere_between_zero_and_its_maximum() {
        assert_eq!(jitter(Some(0)), Duration::ZERO);
        assert_eq!(jitter(Some(u8::MAX)), Duration::from_secs(1));
        let some = jitter(Some(64));
        assert!(some > Duration::from_millis(200) && some < Duration::from_millis(300));
        assert_eq!(jitter(None), Duration::from_secs(1));
    }
}

//! What a process lends to its operations: store, clock, randomness, and a memory of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::flights::Flights;
use crate::cache::LocalCache;
use crate::owner::{OwnerToken, Random, RandomError};
use crate::store::Store;
use crate::time::Clock;

/// The store, the clock, the source of randomness and the local cache that operations work with; and which of their calls
/// are under way, so that duplicates that meet here need not ask the store.
///
/// Operations hold configuration alone; two environments in one process never meet, so parallel tests do not either.
///
/// ```
/// use idempotency_core::engine::Environment;
/// use idempotency_core::owner::{Random, RandomError};
/// use idempotency_core::store::MemoryStore;
/// use idempotency_core::time::{BoxFuture, Clock, EpochMillis};
/// use std::sync::Arc;
/// # struct Fixed;
/// # impl Clock for Fixed {
/// #     fn now(&self) -> EpochMillis { EpochMillis::new(0) }
/// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
/// # }
/// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
/// let environment = Environment::new(Arc::new(MemoryStore::new()), Arc::new(Fixed), Arc::new(Fixed));
/// assert_eq!(environment.store().name(), "memory");
/// ```
#[derive(Clone)]
pub struct Environment {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    cache: Arc<LocalCache>,
    flights: Arc<Flights>,
}

impl Environment {
    /// An environment with an empty cache of its own.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # struct Fixed;
    /// # impl Clock for Fixed {
    /// #     fn now(&self) -> EpochMillis { EpochMillis::new(0) }
    /// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
    /// # }
    /// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
    /// let (clock, random) = (Arc::new(Fixed), Arc::new(Fixed));
    /// let environment = Environment::new(Arc::new(MemoryStore::new()), clock, random);
    /// assert_eq!(format!("{environment:?}"), r#"Environment { store: "memory", .. }"#);
    /// ```
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self {
            store,
            clock,
            random,
            cache: Arc::new(LocalCache::new()),
            flights: Arc::default(),
        }
    }

    /// The same clock and randomness over another store, with an empty cache of its own: what one store has answered
    /// must not be given for another.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # struct Fixed;
    /// # impl Clock for Fixed {
    /// #     fn now(&self) -> EpochMillis { EpochMillis::new(5) }
    /// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
    /// # }
    /// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
    /// # let environment = Environment::new(Arc::new(MemoryStore::new()), Arc::new(Fixed), Arc::new(Fixed));
    /// let other = environment.with_store(Arc::new(MemoryStore::new()));
    /// assert_eq!(other.clock().now(), environment.clock().now());
    /// ```
    #[must_use]
    pub fn with_store(&self, store: Arc<dyn Store>) -> Self {
        Self::new(store, Arc::clone(&self.clock), Arc::clone(&self.random))
    }

    /// The store that holds the records.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # struct Fixed;
    /// # impl Clock for Fixed {
    /// #     fn now(&self) -> EpochMillis { EpochMillis::new(5) }
    /// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
    /// # }
    /// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
    /// # let environment = Environment::new(Arc::new(MemoryStore::new()), Arc::new(Fixed), Arc::new(Fixed));
    /// assert_eq!(environment.store().name(), "memory");
    /// ```
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The clock that leases and windows are judged by.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # struct Fixed;
    /// # impl Clock for Fixed {
    /// #     fn now(&self) -> EpochMillis { EpochMillis::new(5) }
    /// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
    /// # }
    /// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
    /// # let environment = Environment::new(Arc::new(MemoryStore::new()), Arc::new(Fixed), Arc::new(Fixed));
    /// assert_eq!(environment.clock().now(), EpochMillis::new(5));
    /// ```
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The local cache of confirmed answers.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # struct Fixed;
    /// # impl Clock for Fixed {
    /// #     fn now(&self) -> EpochMillis { EpochMillis::new(5) }
    /// #     fn sleep(&self, _: std::time::Duration) -> BoxFuture<'static, ()> { Box::pin(std::future::ready(())) }
    /// # }
    /// # impl Random for Fixed { fn bytes(&self) -> Result<[u8; 16], RandomError> { Ok([7; 16]) } }
    /// # let environment = Environment::new(Arc::new(MemoryStore::new()), Arc::new(Fixed), Arc::new(Fixed));
    /// // What was remembered before a snapshot must not be given after it is restored.
    /// environment.cache().clear();
    /// ```
    pub fn cache(&self) -> &LocalCache {
        &self.cache
    }

    /// The local cache, for whoever must clear it later.
    ///
    /// ```
    /// # use idempotency_core::{engine::Environment, owner::*, store::MemoryStore, time::*};
    /// # use std::sync::Arc;
    /// # fn clear(environment: &Environment) {
    /// let cache = Arc::downgrade(environment.shared_cache());
    /// if let Some(cache) = cache.upgrade() {
    ///     cache.clear();
    /// }
    /// # }
    /// ```
    pub fn shared_cache(&self) -> &Arc<LocalCache> {
        &self.cache
    }

    /// The calls that are under way.
    pub(super) fn flights(&self) -> &Flights {
        &self.flights
    }

    /// A token for a new call.
    pub(crate) fn owner_token(&self) -> Result<OwnerToken, RandomError> {
        self.random.bytes().map(OwnerToken::from_bytes)
    }

    /// A random time between nothing and `at_most` ("full jitter"); `at_most` itself where randomness fails.
    pub(crate) fn jitter(&self, at_most: Duration) -> Duration {
        match self.random.bytes() {
            Ok([a, b, ..]) => {
                at_most.mul_f64(f64::from(u16::from_be_bytes([a, b])) / f64::from(u16::MAX))
            }
            Err(_) => at_most,
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("store", &self.store.name())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use crate::time::{BoxFuture, EpochMillis};

    /// A clock that stands still, and randomness that is always the same, or fails.
    struct Fixed(Option<u8>);

    impl Clock for Fixed {
        fn now(&self) -> EpochMillis {
            EpochMillis::new(0)
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    impl Random for Fixed {
        fn bytes(&self) -> Result<[u8; 16], RandomError> {
            let byte = self.0.ok_or_else(|| RandomError::new("no entropy"))?;
            Ok([byte; 16])
        }
    }

    fn jitter(random: Option<u8>) -> Duration {
        let clock = Arc::new(Fixed(None));
        Environment::new(Arc::new(MemoryStore::new()), clock, Arc::new(Fixed(random)))
            .jitter(Duration::from_secs(1))
    }

    #[test]
    fn a_pause_lies_anywhere_between_nothing_and_its_longest() {
        assert_eq!(jitter(Some(0)), Duration::ZERO);
        assert_eq!(jitter(Some(u8::MAX)), Duration::from_secs(1));
        let some = jitter(Some(64));
        assert!(some > Duration::from_millis(200) && some < Duration::from_millis(300));
        assert_eq!(jitter(None), Duration::from_secs(1));
    }
}

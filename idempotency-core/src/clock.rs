//! The clock: the only source of time.

use std::time::Duration;

use crate::future::BoxFuture;
use crate::time::EpochMillis;

/// Tells the time and sleeps. The caller supplies it, so tests control it.
///
/// # Examples
///
/// ```
/// use idempotency_core::clock::Clock;
/// use idempotency_core::future::BoxFuture;
/// use idempotency_core::time::EpochMillis;
/// use std::time::Duration;
///
/// /// A clock that stands still.
/// struct Still;
///
/// impl Clock for Still {
///     fn now(&self) -> EpochMillis {
///         EpochMillis::new(1_700_000_000_000)
///     }
///     fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
///         Box::pin(std::future::pending())
///     }
/// }
/// assert_eq!(Still.now().floor_to_seconds().get(), 1_700_000_000);
/// ```
pub trait Clock: Send + Sync {
    /// Returns the current time. A clock that is set before 1970 returns a negative value, which the engine refuses.
    fn now(&self) -> EpochMillis;

    /// Returns a future that completes once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

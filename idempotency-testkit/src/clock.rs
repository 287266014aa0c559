//! A clock and a random source controlled by the test.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use idempotency_core::future::BoxFuture;
use idempotency_core::random::{Random, RandomError};
use idempotency_core::time::{Clock, EpochMillis};

use crate::lock::lock;

/// Added to a duration so that truncation to milliseconds rounds it up.
const ROUND_UP: Duration = Duration::from_nanos(999_999);

/// A clock that moves only when the test moves it. Clones share the same time.
///
/// # Examples
///
/// ```
/// use idempotency_core::time::Clock;
/// use idempotency_core::time::EpochMillis;
/// use idempotency_testkit::ManualClock;
/// use std::time::Duration;
/// let clock = ManualClock::at(1_700_000_000_000);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), EpochMillis::new(1_700_000_001_000));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    now: EpochMillis,
    /// True if a sleep moves the clock instead of waiting for the test.
    auto_advance: bool,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// Creates a clock at this time, in milliseconds since the epoch. It stands still until the test moves it.
    pub fn at(milliseconds: i64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now: EpochMillis::new(milliseconds),
            auto_advance: false,
            sleepers: Vec::new(),
        })))
    }

    /// Creates a clock on which every sleep ends by itself and moves the clock by its duration: for code that waits and retries.
    ///
    /// Before a sleep ends, everything else in its task is polled twice. A request that hangs
    /// ([`StoreFault::Hang`](crate::store::StoreFault::Hang)) is therefore observed as hanging before its timeout ends.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::time::Clock;
    /// # use idempotency_testkit::ManualClock;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let clock = ManualClock::auto_advancing(0);
    /// clock.sleep(Duration::from_secs(60)).await;
    /// assert_eq!(clock.now().get(), 60_000);
    /// # }
    /// ```
    pub fn auto_advancing(milliseconds: i64) -> Self {
        let clock = Self::at(milliseconds);
        clock.inner().auto_advance = true;
        clock
    }

    /// Moves the clock forward. As in a sleep, a part of a millisecond counts as a whole one. So a sleep of `duration` that began
    /// just before the call has ended after it.
    pub fn advance(&self, duration: Duration) {
        let mut inner = self.inner();
        inner.now = inner.now.plus(duration.saturating_add(ROUND_UP));
        inner.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, milliseconds: i64) {
        let mut inner = self.inner();
        inner.now = EpochMillis::new(milliseconds);
        inner.sleepers.drain(..).for_each(Waker::wake);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

/// How many times a sleep on an auto-advancing clock yields before it ends. With two yields each other branch is polled at
/// least twice before the sleep ends, in any order in which `select!` polls its branches.
const YIELDS: u8 = 2;

impl Clock for ManualClock {
    fn now(&self) -> EpochMillis {
        self.inner().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // Rounded up, as the timers of a runtime are: otherwise a loop of short sleeps never ends.
        let until = self.now().plus(duration.saturating_add(ROUND_UP));
        let clock = self.clone();
        let mut yields = YIELDS;
        Box::pin(poll_fn(move |context| {
            let mut inner = clock.inner();
            if inner.now < until && inner.auto_advance {
                if yields > 0 {
                    yields -= 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                inner.now = until;
            }
            if inner.now >= until {
                return Poll::Ready(());
            }
            inner.sleepers.push(context.waker().clone());
            Poll::Pending
        }))
    }
}

/// Random bytes that are the same in every run with the same seed. Clones continue one sequence.
///
/// # Examples
///
/// ```
/// use idempotency_core::random::Random;
/// use idempotency_testkit::SeededRandom;
/// let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
/// assert_eq!(a.bytes().unwrap(), b.bytes().unwrap());
/// assert_ne!(a.bytes().unwrap(), SeededRandom::new(7).bytes().unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct SeededRandom(Arc<Mutex<fastrand::Rng>>);

impl SeededRandom {
    /// Creates the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }
}

impl Random for SeededRandom {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        let mut random = lock(&self.0);
        Ok(random.u128(..).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_of_a_millisecond_moves_an_auto_advancing_clock_by_a_whole_one() {
        let clock = ManualClock::auto_advancing(0);
        clock.sleep(Duration::from_nanos(1)).await;
        assert_eq!(clock.now().get(), 1);
        clock.sleep(Duration::from_millis(2)).await;
        assert_eq!(clock.now().get(), 3);
        clock.sleep(Duration::ZERO).await;
        assert_eq!(clock.now().get(), 3);
    }

    #[tokio::test]
    async fn moving_the_clock_by_the_duration_of_a_sleep_ends_the_sleep() {
        for duration in [1, 999_999, 1_000_000, 1_000_001].map(Duration::from_nanos) {
            let clock = ManualClock::at(0);
            let slept = clock.sleep(duration);
            clock.advance(duration);
            let ended = tokio::time::timeout(Duration::ZERO, slept).await;
            assert!(ended.is_ok(), "{duration:?}");
        }
    }
}

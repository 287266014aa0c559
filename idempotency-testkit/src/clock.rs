//! A clock and a source of randomness that tests hold in their hands.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_core::future::BoxFuture;
use idempotency_core::random::{Random, RandomError};
use idempotency_core::time::EpochMillis;

/// What rounds a duration up once its parts of a millisecond are dropped.
const A_MILLISECOND_LESS_A_PART: Duration = Duration::from_nanos(999_999);

/// A clock that stands still until it is moved. Clones show the same time.
///
/// ```
/// use idempotency_core::clock::Clock;
/// use idempotency_core::time::EpochMillis;
/// use idempotency_testkit::ManualClock;
/// use std::time::Duration;
/// let clock = ManualClock::at(1_700_000_000_000);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), EpochMillis::new(1_700_000_001_000));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<Inner>>);

struct Inner {
    now: EpochMillis,
    /// Whether a sleep passes by itself: then it moves the clock instead of waiting to be moved.
    rushes: bool,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// A clock that shows this time, in milliseconds since the epoch, until somebody moves it.
    ///
    /// ```
    /// # use idempotency_core::clock::Clock;
    /// # use idempotency_testkit::ManualClock;
    /// assert_eq!(ManualClock::at(5).now().get(), 5);
    /// ```
    pub fn at(milliseconds: i64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            now: EpochMillis::new(milliseconds),
            rushes: false,
            sleepers: Vec::new(),
        })))
    }

    /// A clock on which every sleep passes by itself and moves it by as much: for code that waits and retries.
    ///
    /// A sleep lets everything else of its task be polled twice before it passes. So a request that hangs
    /// ([`StoreFault::Hang`](crate::store::StoreFault::Hang)) is seen as hanging before the time that it may take is over.
    ///
    /// ```
    /// # use idempotency_core::clock::Clock;
    /// # use idempotency_testkit::ManualClock;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let clock = ManualClock::rushing(0);
    /// clock.sleep(Duration::from_secs(60)).await;
    /// assert_eq!(clock.now().get(), 60_000);
    /// # }
    /// ```
    pub fn rushing(milliseconds: i64) -> Self {
        let clock = Self::at(milliseconds);
        clock.inner().rushes = true;
        clock
    }

    /// Moves the clock on. A part of a millisecond counts as a whole one, as in a sleep: a sleep of `duration` that began now
    /// has then ended.
    ///
    /// ```
    /// # use idempotency_core::clock::Clock;
    /// # use idempotency_testkit::ManualClock;
    /// # use std::time::Duration;
    /// let clock = ManualClock::at(0);
    /// clock.advance(Duration::from_millis(3));
    /// assert_eq!(clock.now().get(), 3);
    /// ```
    pub fn advance(&self, duration: Duration) {
        let mut inner = self.inner();
        inner.now = inner
            .now
            .plus(duration.saturating_add(A_MILLISECOND_LESS_A_PART));
        inner.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Sets the clock, back as well as on.
    ///
    /// ```
    /// # use idempotency_core::clock::Clock;
    /// # use idempotency_testkit::ManualClock;
    /// let clock = ManualClock::at(10);
    /// clock.set(-1);
    /// assert_eq!(clock.now().get(), -1);
    /// ```
    pub fn set(&self, milliseconds: i64) {
        let mut inner = self.inner();
        inner.now = EpochMillis::new(milliseconds);
        inner.sleepers.drain(..).for_each(Waker::wake);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a sleep on a rushing clock lets its task go on before it passes. Two: in `select!`, which polls its branches in
/// any order, every other branch is then polled after the first of these.
const COURTESIES: u8 = 2;

impl Clock for ManualClock {
    fn now(&self) -> EpochMillis {
        self.inner().now
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // A part of a millisecond counts as a whole one, as with a runtime's timers: else a loop of short sleeps never ends.
        let until = self
            .now()
            .plus(duration.saturating_add(A_MILLISECOND_LESS_A_PART));
        let clock = self.clone();
        let mut courtesies = COURTESIES;
        Box::pin(poll_fn(move |context| {
            let mut inner = clock.inner();
            if inner.now < until && inner.rushes {
                if courtesies > 0 {
                    courtesies -= 1;
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

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({})", self.now())
    }
}

/// Random bytes that are the same in every run with the same seed. Clones go on with one sequence.
///
/// ```
/// use idempotency_core::random::Random;
/// use idempotency_testkit::SeededRandom;
/// let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
/// assert_eq!(a.bytes().unwrap(), b.bytes().unwrap());
/// assert_ne!(a.bytes().unwrap(), SeededRandom::new(7).bytes().unwrap());
/// ```
#[derive(Clone, Debug)]
pub struct SeededRandom(Arc<Mutex<u64>>);

impl SeededRandom {
    /// A sequence of its own for each seed.
    ///
    /// ```
    /// # use idempotency_core::random::Random;
    /// # use idempotency_testkit::SeededRandom;
    /// assert_ne!(SeededRandom::new(1).bytes().unwrap(), SeededRandom::new(2).bytes().unwrap());
    /// ```
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    /// The next word of the SplitMix64 sequence (Steele, Lea and Flood, OOPSLA 2014).
    fn word(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = *state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

impl Random for SeededRandom {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (high, low) = (Self::word(&mut state), Self::word(&mut state));
        Ok(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_of_a_millisecond_moves_a_rushing_clock_by_a_whole_one() {
        let clock = ManualClock::rushing(0);
        clock.sleep(Duration::from_nanos(1)).await;
        assert_eq!(clock.now().get(), 1);
        clock.sleep(Duration::from_millis(2)).await;
        assert_eq!(clock.now().get(), 3);
        clock.sleep(Duration::ZERO).await;
        assert_eq!(clock.now().get(), 3);
    }

    #[tokio::test]
    async fn a_clock_that_is_moved_by_a_sleeps_duration_ends_the_sleep() {
        for duration in [1, 999_999, 1_000_000, 1_000_001].map(Duration::from_nanos) {
            let clock = ManualClock::at(0);
            let slept = clock.sleep(duration);
            clock.advance(duration);
            let ended = tokio::time::timeout(Duration::ZERO, slept).await;
            assert!(ended.is_ok(), "{duration:?}");
        }
    }
}

//! The clock and the random source of the operating system, behind the feature `system`.
//!
//! Only a program's entry point may use them: everything else in this crate gets time and randomness as arguments.

#![allow(clippy::disallowed_methods)]

use std::future::pending;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::sleep_until;

use crate::future::BoxFuture;
use crate::random::{Random, RandomError};
use crate::time::{Clock, EpochMillis};

/// The longest timer. A timer that ends before those that are set wakes the thread that waits for them, by a system call. So the timers of two
/// requests should be equally long, and a request is given up after some seconds.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// The operating system's clock, with tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> EpochMillis {
        let now = SystemTime::now();
        let milliseconds = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // Before 1970. The engine refuses such a clock.
            Err(before) => i64::try_from(before.duration().as_millis())
                .map_or(i64::MIN, |milliseconds| -milliseconds.max(1)),
        };
        EpochMillis::new(milliseconds)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut now = tokio::time::Instant::now();
        Box::pin(async move {
            let Some(end) = now.checked_add(duration) else {
                return pending().await;
            };
            loop {
                sleep_until(end.min(now + LONGEST_TIMER)).await;
                now = tokio::time::Instant::now();
                if now >= end {
                    return;
                }
            }
        })
    }

    fn monotonic(&self) -> Option<Duration> {
        static BEGINNING: OnceLock<Instant> = OnceLock::new();
        Some(BEGINNING.get_or_init(Instant::now).elapsed())
    }
}

/// The operating system's random source. Processes that are restored from one snapshot get different bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| RandomError::new(error.to_string()))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_system_counts_from_the_epoch() {
        let since_the_epoch = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            EpochMillis::new(i64::try_from(since.as_millis()).unwrap())
        };
        let before = since_the_epoch();
        let now = SystemClock.now();
        assert!(before <= now && now <= since_the_epoch(), "{now}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_with_several_timers_takes_the_time_that_was_asked_for() {
        for milliseconds in [0, 1, 999, 1_000, 1_001, 2_500] {
            let (began, asked) = (
                tokio::time::Instant::now(),
                Duration::from_millis(milliseconds),
            );
            SystemClock.sleep(asked).await;
            assert_eq!(began.elapsed(), asked);
        }
        let for_ever =
            tokio::time::timeout(Duration::from_secs(3_600), SystemClock.sleep(Duration::MAX));
        assert!(for_ever.await.is_err());
    }

    #[test]
    fn the_monotonic_clock_of_the_system_is_never_set_back() {
        let before = SystemClock.monotonic();
        assert!(before.is_some() && before <= SystemClock.monotonic());
    }

    #[test]
    fn two_reads_of_the_random_source_differ() {
        assert_ne!(SystemRandom.bytes().unwrap(), SystemRandom.bytes().unwrap());
    }
}

//! The operating system's clock and randomness.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_core::clock::Clock;
use idempotency_core::future::BoxFuture;
use idempotency_core::random::{Random, RandomError};
use idempotency_core::time::EpochMillis;

/// The operating system's clock, and tokio's timers.
///
/// ```
/// use idempotency_lambda::SystemClock;
/// use idempotency_lambda::time::Clock;
/// assert!(SystemClock.now().get() > 1_700_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> EpochMillis {
        let now = SystemTime::now();
        let milliseconds = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // Before 1970: the engine refuses to work with such a clock.
            Err(before) => i64::try_from(before.duration().as_millis())
                .map_or(i64::MIN, |milliseconds| -milliseconds.max(1)),
        };
        EpochMillis::new(milliseconds)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The operating system's randomness: it differs between environments restored from one snapshot.
///
/// ```
/// use idempotency_lambda::SystemRandom;
/// use idempotency_lambda::random::Random;
/// assert_ne!(SystemRandom.bytes().unwrap(), SystemRandom.bytes().unwrap());
/// ```
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
    fn the_systems_clock_counts_from_the_epoch_whatever_time_is_shown_here() {
        let since_the_epoch = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            EpochMillis::new(i64::try_from(since.as_millis()).unwrap())
        };
        let before = since_the_epoch();
        let now = SystemClock.now();
        assert!(before <= now && now <= since_the_epoch(), "{now}");
    }
}

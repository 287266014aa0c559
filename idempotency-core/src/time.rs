//! Points in time: seconds and milliseconds since the epoch are different types.
//!
//! A record holds both units: `expiration` in seconds, as DynamoDB's TTL requires, and `in_progress_expiration` in
//! milliseconds. A comparison between the two does not compile.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use crate::future::BoxFuture;

/// A point in time, in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochSeconds(i64);

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
///
/// # Examples
///
/// ```
/// use idempotency_core::time::{EpochMillis, EpochSeconds};
/// use std::time::Duration;
/// let now = EpochMillis::new(1_700_000_000_999);
/// assert_eq!(now.floor_to_seconds(), EpochSeconds::new(1_700_000_000));
/// assert_eq!(now.ceil_to_seconds(), EpochSeconds::new(1_700_000_001));
/// assert_eq!(now.until(now.plus(Duration::from_millis(25))), Duration::from_millis(25));
/// assert_eq!(now.until(EpochMillis::new(0)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochMillis(i64);

impl EpochSeconds {
    /// Returns the point in time this many seconds after the epoch.
    pub const fn new(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Returns the number of seconds since the epoch.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl EpochMillis {
    /// Returns the point in time this many milliseconds after the epoch. Negative numbers are before 1970.
    pub const fn new(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Returns the number of milliseconds since the epoch.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the point in time `duration` later, in whole milliseconds. Saturates at the last point.
    pub fn plus(self, duration: Duration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add_unsigned(milliseconds))
    }

    /// Returns the time from this point until `later`, or zero if `later` is not later.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

#[doc(hidden)]
impl EpochSeconds {
    /// Returns the point in time `duration` later, in whole seconds. Saturates at the last point.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(duration.as_secs()))
    }
}

#[doc(hidden)]
impl EpochMillis {
    /// Returns the second that contains this point. The current time is rounded this way in every comparison with seconds.
    pub const fn floor_to_seconds(self) -> EpochSeconds {
        EpochSeconds(self.0.div_euclid(1_000))
    }

    /// Returns the first whole second that is not before this point. The end of a lease is rounded this way, so that a record
    /// never expires before its lease.
    pub const fn ceil_to_seconds(self) -> EpochSeconds {
        let floor = self.0.div_euclid(1_000);
        if self.0.rem_euclid(1_000) == 0 {
            EpochSeconds(floor)
        } else {
            EpochSeconds(floor + 1)
        }
    }

    /// Returns the time in UTC as RFC 3339 has it, such as `2023-11-14T22:13:20.500Z`. `None` after 9999, which that form
    /// does not have, and before 1970.
    pub fn rfc3339(self) -> Option<String> {
        /// The first millisecond of the year 10000.
        const END: u64 = 253_402_300_800_000;
        let milliseconds = u64::try_from(self.0).ok().filter(|at| *at < END)?;
        let at = UNIX_EPOCH + Duration::from_millis(milliseconds);
        Some(humantime::format_rfc3339_millis(at).to_string())
    }
}

/// Writes the time as [`EpochMillis::rfc3339`] does, or else the number of milliseconds.
impl fmt::Display for EpochMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rfc3339() {
            Some(text) => f.write_str(&text),
            None => write!(f, "{} ms since 1970", self.0),
        }
    }
}

/// A clock that can also sleep. The caller supplies it, so tests control it.
///
/// # Examples
///
/// ```
/// use idempotency_core::future::BoxFuture;
/// use idempotency_core::time::{Clock, EpochMillis};
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

    /// Returns the time since a fixed point, by a clock that is never set. `None` if there is no such clock, which is the default.
    ///
    /// A lease that is renewed counts as expired as soon as one of the two clocks says so: this one if [`now`](Self::now) was set back,
    /// and `now` if this one stood still while the machine slept.
    fn monotonic(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_has_the_same_direction_before_1970() {
        assert_eq!(
            EpochMillis::new(-1).floor_to_seconds(),
            EpochSeconds::new(-1)
        );
        assert_eq!(EpochMillis::new(-1).ceil_to_seconds(), EpochSeconds::new(0));
    }

    #[test]
    fn a_time_is_written_in_utc_within_the_range_of_the_format() {
        for (milliseconds, text) in [
            (1_700_000_000_500, "2023-11-14T22:13:20.500Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "253402300800000 ms since 1970"),
            (-1, "-1 ms since 1970"),
            (i64::MIN, "-9223372036854775808 ms since 1970"),
        ] {
            assert_eq!(EpochMillis::new(milliseconds).to_string(), text);
        }
    }

    #[test]
    fn adding_saturates_at_the_last_point() {
        assert_eq!(
            EpochMillis::new(i64::MAX).plus(Duration::MAX),
            EpochMillis::new(i64::MAX)
        );
        assert_eq!(
            EpochSeconds::new(1).plus(Duration::MAX),
            EpochSeconds::new(i64::MAX)
        );
    }
}

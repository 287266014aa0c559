//! Points in time: seconds and milliseconds since the epoch are different types.
//!
//! A record holds both units: `expiration` in seconds (DynamoDB's TTL wants that) and
//! `in_progress_expiration` in milliseconds. A comparison between the two does not compile.

use std::fmt;
use std::time::Duration;

/// A point in time, in whole seconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use idempotency_core::time::EpochSeconds;
/// assert!(EpochSeconds::new(1_700_000_000) < EpochSeconds::new(1_700_000_001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochSeconds(i64);

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use idempotency_core::time::{EpochMillis, EpochSeconds};
/// let now = EpochMillis::new(1_700_000_000_999);
/// assert_eq!(now.floor_to_seconds(), EpochSeconds::new(1_700_000_000));
/// assert_eq!(now.ceil_to_seconds(), EpochSeconds::new(1_700_000_001));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochMillis(i64);

impl EpochSeconds {
    /// A point in time from its count of seconds since the epoch.
    ///
    /// ```
    /// # use idempotency_core::time::EpochSeconds;
    /// assert_eq!(EpochSeconds::new(60).get(), 60);
    /// ```
    pub const fn new(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Its count of seconds since the epoch.
    ///
    /// ```
    /// # use idempotency_core::time::EpochSeconds;
    /// assert_eq!(EpochSeconds::new(60).get(), 60);
    /// ```
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This point moved later by the whole seconds of `duration`; stops at the last representable point.
    ///
    /// ```
    /// # use idempotency_core::time::EpochSeconds;
    /// # use std::time::Duration;
    /// assert_eq!(EpochSeconds::new(60).plus(Duration::from_millis(1_999)), EpochSeconds::new(61));
    /// ```
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(duration.as_secs()))
    }
}

impl EpochMillis {
    /// A point in time from its count of milliseconds since the epoch; negative before 1970.
    ///
    /// ```
    /// # use idempotency_core::time::EpochMillis;
    /// assert_eq!(EpochMillis::new(1_500).get(), 1_500);
    /// ```
    pub const fn new(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// Its count of milliseconds since the epoch.
    ///
    /// ```
    /// # use idempotency_core::time::EpochMillis;
    /// assert_eq!(EpochMillis::new(1_500).get(), 1_500);
    /// ```
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The second this point lies in. "Now" is rounded this way in every comparison with seconds.
    ///
    /// ```
    /// # use idempotency_core::time::*;
    /// assert_eq!(EpochMillis::new(1_999).floor_to_seconds(), EpochSeconds::new(1));
    /// ```
    pub const fn floor_to_seconds(self) -> EpochSeconds {
        EpochSeconds(self.0.div_euclid(1_000))
    }

    /// The first whole second not before this point. A lease's end is rounded this way, so that a
    /// record never expires before its lease.
    ///
    /// ```
    /// # use idempotency_core::time::*;
    /// assert_eq!(EpochMillis::new(1_001).ceil_to_seconds(), EpochSeconds::new(2));
    /// assert_eq!(EpochMillis::new(1_000).ceil_to_seconds(), EpochSeconds::new(1));
    /// ```
    pub const fn ceil_to_seconds(self) -> EpochSeconds {
        let floor = self.0.div_euclid(1_000);
        if self.0.rem_euclid(1_000) == 0 {
            EpochSeconds(floor)
        } else {
            EpochSeconds(floor + 1)
        }
    }

    /// This point moved later by `duration`; stops at the last representable point.
    ///
    /// ```
    /// # use idempotency_core::time::EpochMillis;
    /// # use std::time::Duration;
    /// assert_eq!(EpochMillis::new(5).plus(Duration::from_secs(1)), EpochMillis::new(1_005));
    /// ```
    pub fn plus(self, duration: Duration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add_unsigned(milliseconds))
    }

    /// How long it is from this point until `later`; zero if `later` is not later.
    ///
    /// ```
    /// # use idempotency_core::time::EpochMillis;
    /// # use std::time::Duration;
    /// assert_eq!(EpochMillis::new(5).until(EpochMillis::new(30)), Duration::from_millis(25));
    /// assert_eq!(EpochMillis::new(30).until(EpochMillis::new(5)), Duration::ZERO);
    /// ```
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl fmt::Display for EpochSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0)
    }
}

impl fmt::Display for EpochMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_goes_the_same_way_before_1970() {
        assert_eq!(
            EpochMillis::new(-1).floor_to_seconds(),
            EpochSeconds::new(-1)
        );
        assert_eq!(EpochMillis::new(-1).ceil_to_seconds(), EpochSeconds::new(0));
    }

    #[test]
    fn adding_stops_at_the_last_point_instead_of_wrapping() {
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

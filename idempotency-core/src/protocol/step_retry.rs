//! How often a step is tried in one run.

use std::time::Duration;

use super::lease::Lease;
use super::limits::REPLY_RESERVE;

/// The upper bound of the pause before the second try, unless it is set.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The upper bound of every pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often a step is tried in one run, and how long the pauses between the tries are.
///
/// A pause is random, between zero and its upper bound. The bound doubles with each pause, up to 5 s. A step is tried again only if
/// the pause and 200 ms are left of the claim's lease. If the lease is renewed, it must only last until the next try begins.
///
/// # Examples
///
/// ```
/// use idempotency_core::operation::StepRetry;
/// use std::time::Duration;
/// let retry = StepRetry::tries(3).first_pause(Duration::from_millis(50));
/// assert_eq!(format!("{retry:?}"), "StepRetry { tries: 3, first_pause: 50ms }");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRetry {
    tries: u32,
    first_pause: Duration,
}

impl StepRetry {
    /// Returns a policy with this number of tries in total. 0 counts as 1.
    pub fn tries(tries: u32) -> Self {
        Self {
            tries: tries.max(1),
            first_pause: FIRST_PAUSE,
        }
    }

    /// Sets the upper bound of the pause before the second try. The default is 100 ms.
    #[must_use]
    pub fn first_pause(self, first_pause: Duration) -> Self {
        Self {
            first_pause,
            ..self
        }
    }

    /// Returns the upper bound of the pause after the try with this number, counted from one. `None` if there is no further try.
    /// `left` is the time that is left; `None` if that is not known. A `lease` that is renewed lasts longer.
    pub(crate) fn pause(
        self,
        tried: u32,
        left: Option<Duration>,
        lease: Option<Lease>,
    ) -> Option<Duration> {
        if tried >= self.tries {
            return None;
        }
        let doublings = tried.saturating_sub(1).min(16);
        let pause = self.first_pause.saturating_mul(1 << doublings);
        let pause = pause.min(LONGEST_PAUSE);
        let needed = match lease {
            Some(Lease::Renewed { .. }) => Duration::ZERO,
            _ => pause + REPLY_RESERVE,
        };
        left.is_none_or(|left| left > needed).then_some(pause)
    }
}

impl Default for StepRetry {
    /// Returns the policy of one try.
    fn default() -> Self {
        Self::tries(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_step_is_tried_as_often_as_its_policy_says_while_the_pause_and_the_reply_reserve_are_left()
    {
        let three = StepRetry::tries(3);
        let long = StepRetry::tries(u32::MAX).first_pause(millis(1_500));
        for (retry, tried, left, pause) in [
            (StepRetry::default(), 1, None, None),
            (StepRetry::tries(0), 1, None, None),
            (three, 1, None, Some(100)),
            (three, 2, None, Some(200)),
            (three, 3, None, None),
            (three, 1, Some(301), Some(100)),
            (three, 1, Some(300), None),
            // A pause doubles up to five seconds.
            (long, 2, None, Some(3_000)),
            (long, 3, None, Some(5_000)),
            (long, u32::MAX - 1, None, Some(5_000)),
        ] {
            let found = retry.pause(tried, left.map(millis), None);
            assert_eq!(found, pause.map(millis), "{retry:?} {tried} {left:?}");
        }
        let (length, at_most) = (millis(3_000), millis(9_000));
        let renewed = Some(Lease::Renewed { length, at_most });
        for (left, is_tried) in [(0, false), (1, true)] {
            let found = StepRetry::tries(2).pause(1, Some(millis(left)), renewed);
            assert_eq!(found.is_some(), is_tried, "{left}");
        }
    }
}

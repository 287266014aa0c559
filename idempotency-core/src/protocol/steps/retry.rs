//! How often a step is tried again after an error of its own.

use std::time::Duration;

use super::super::limits::REPLY_RESERVE;

/// The pause before the second try, unless it is set.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often a step is tried in one run, and how long the pauses between the tries are.
///
/// A pause is random, between zero and its upper bound. The bound doubles with each pause, up to 5 s. A step is tried again only if
/// the pause and 200 ms are left of the claim's lease.
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
    /// Returns a policy of so many tries in all. 0 counts as 1.
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
    /// `left` is the time that is left; `None` if that is not known.
    pub(crate) fn pause(self, tried: u32, left: Option<Duration>) -> Option<Duration> {
        if tried >= self.tries {
            return None;
        }
        let doublings = tried.saturating_sub(1).min(16);
        let pause = self.first_pause.saturating_mul(1 << doublings);
        let pause = pause.min(LONGEST_PAUSE);
        left.is_none_or(|left| left > pause + REPLY_RESERVE)
            .then_some(pause)
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
    fn a_step_is_tried_as_often_as_its_policy_says() {
        assert_eq!(StepRetry::default().pause(1, None), None);
        assert_eq!(StepRetry::tries(0), StepRetry::tries(1));
        let retry = StepRetry::tries(3);
        assert_eq!(retry.pause(1, None), Some(millis(100)));
        assert_eq!(retry.pause(2, None), Some(millis(200)));
        assert_eq!(retry.pause(3, None), None);
    }

    #[test]
    fn a_pause_doubles_up_to_five_seconds() {
        let retry = StepRetry::tries(u32::MAX).first_pause(millis(1_500));
        assert_eq!(retry.pause(2, None), Some(millis(3_000)));
        assert_eq!(retry.pause(3, None), Some(millis(5_000)));
        assert_eq!(retry.pause(u32::MAX - 1, None), Some(millis(5_000)));
    }

    #[test]
    fn a_step_is_tried_again_only_if_the_pause_and_the_reply_reserve_are_left() {
        let retry = StepRetry::tries(2);
        assert_eq!(retry.pause(1, Some(millis(301))), Some(millis(100)));
        assert_eq!(retry.pause(1, Some(millis(300))), None);
    }
}

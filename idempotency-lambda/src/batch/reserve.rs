//! The time that a record needs before the deadline.

use std::time::Duration;

use crate::invocation::Deadline;

/// The longest reserve that is taken without a setting. Storing a response and sending the batch's response take less.
const DEFAULT: Duration = Duration::from_secs(1);

/// The part of the invocation that is kept without a setting, if that is less than [`DEFAULT`]: so a function with a short
/// timeout still starts records.
const PART: u32 = 10;

/// Decides if a record can still start. It learns how long records take from those that ended.
#[derive(Debug)]
pub(super) struct Reserve {
    deadline: Deadline,
    /// The time that is left for the rest of the invocation.
    rest: Duration,
    /// The longest time that a record of this batch took.
    longest: Duration,
}

/// The time that was left when a record started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started(Option<Duration>);

impl Reserve {
    /// Returns the reserve of a batch that starts now.
    pub(super) fn new(deadline: Deadline, setting: Option<Duration>) -> Self {
        let part = |left: Duration| DEFAULT.min(left / PART);
        let rest = setting.unwrap_or_else(|| deadline.time_left().map_or(DEFAULT, part));
        Self {
            deadline,
            rest,
            longest: Duration::ZERO,
        }
    }

    /// Returns the start of a record, or `None` if it would not end before the deadline.
    pub(super) fn start(&self) -> Option<Started> {
        let left = self.deadline.time_left();
        let needed = self.rest.saturating_add(self.longest);
        left.is_none_or(|left| left > needed)
            .then_some(Started(left))
    }

    /// Returns true if no record that took any time has ended.
    pub(super) fn is_untried(&self) -> bool {
        self.longest.is_zero()
    }

    /// Returns the time that is left, if it is known, and the time that is kept.
    pub(super) fn times(&self) -> (Option<Duration>, Duration) {
        (self.deadline.time_left(), self.rest)
    }

    /// Learns from a record that ended.
    pub(super) fn learn(&mut self, Started(before): Started) {
        if let (Some(before), Some(after)) = (before, self.deadline.time_left()) {
            self.longest = self.longest.max(before.saturating_sub(after));
        }
    }
}

#[cfg(test)]
mod tests;

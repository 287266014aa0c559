//! The time that a record needs before the deadline.

use std::time::Duration;

use crate::invocation::Deadline;

/// The longest reserve if none is set. Storing a response and sending the batch's response take less.
const DEFAULT: Duration = Duration::from_secs(1);

/// Without a setting, the reserve is the time that is left divided by this number, if that is less than [`DEFAULT`]. So a function with
/// a short timeout still starts records.
const PART: u32 = 10;

/// Decides if a record can still start. It learns how long records take from those that ended.
#[derive(Debug)]
pub(super) struct Reserve {
    deadline: Deadline,
    /// The time that is left for the rest of the invocation.
    rest: Duration,
    /// The longest time that a handler of this batch took, with storing its response.
    longest: Duration,
}

/// A record that started.
#[derive(Debug)]
pub(super) struct RecordStart {
    deadline: Deadline,
    /// The time that it needs.
    needed: Duration,
    /// The time that was left when its handler started. `None` if it did not, or if no deadline is known.
    left: Option<Duration>,
}

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
    pub(super) fn start(&self) -> Option<RecordStart> {
        let started = RecordStart {
            deadline: self.deadline.clone(),
            needed: self.rest.saturating_add(self.longest),
            left: None,
        };
        started.has(started.deadline.time_left()).then_some(started)
    }

    /// Returns true if no handler that took any time has ended.
    pub(super) fn is_untried(&self) -> bool {
        self.longest.is_zero()
    }

    /// Returns the time that is left, if it is known, and the time that is kept.
    pub(super) fn times(&self) -> (Option<Duration>, Duration) {
        (self.deadline.time_left(), self.rest)
    }

    /// Learns from a record that ended.
    pub(super) fn learn(&mut self, started: &RecordStart) {
        if let (Some(before), Some(after)) = (started.left, self.deadline.time_left()) {
            self.longest = self.longest.max(before.saturating_sub(after));
        }
    }
}

impl RecordStart {
    /// Starts the handler. Returns false if it would not end before the deadline, because the call waited for another one.
    pub(super) fn run(&mut self) -> bool {
        let left = self.deadline.time_left();
        // The wait for the other call is not counted: the next records need not wait as long.
        self.left = left;
        self.has(left)
    }

    fn has(&self, left: Option<Duration>) -> bool {
        left.is_none_or(|left| left > self.needed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use idempotency_core::engine::Backend;
    use idempotency_core::future::BoxFuture;
    use idempotency_core::store::MemoryStore;
    use idempotency_core::time::{Clock, EpochMillis};

    use super::*;
    use crate::{SystemRandom, with_backend};

    /// A clock that the test sets.
    #[derive(Default)]
    struct ManualClock(AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> EpochMillis {
            EpochMillis::new(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// Runs a test at time 0, with a function that sets the time.
    async fn with_clock(test: impl AsyncFnOnce(&dyn Fn(i64))) {
        let clock = Arc::new(ManualClock::default());
        let store = Arc::new(MemoryStore::new());
        let backend = Backend::new(store, clock.clone(), Arc::new(SystemRandom));
        let set = |now| clock.0.store(now, Ordering::Relaxed);
        with_backend(backend, test(&set)).await;
    }

    fn ends_at(milliseconds: i64) -> Deadline {
        Deadline::At(EpochMillis::new(milliseconds))
    }

    #[tokio::test]
    async fn the_reserve_is_what_is_set_or_a_second_or_a_tenth_of_a_short_invocation() {
        let two_seconds = Some(Duration::from_millis(2_000));
        with_clock(async |set| {
            for (end, setting, last) in [
                (30_000, None, 28_999),
                (3_000, None, 2_699),
                (10, None, 8),
                (3_000, two_seconds, 999),
            ] {
                set(0);
                let reserve = Reserve::new(ends_at(end), setting);
                set(last);
                assert!(reserve.start().is_some(), "{end}");
                set(last + 1);
                assert!(reserve.start().is_none(), "{end}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_handler_does_not_start_after_a_wait_that_took_its_time_and_the_wait_is_not_learned()
    {
        with_clock(async |set| {
            let mut reserve = Reserve::new(ends_at(10_000), None);
            for (waits_until, runs) in [(8_999, true), (9_000, false)] {
                set(0);
                let mut started = reserve.start().unwrap();
                set(waits_until);
                assert_eq!(started.run(), runs);
                reserve.learn(&started);
                assert!(reserve.is_untried());
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_record_starts_if_the_longest_handler_so_far_would_end_in_time() {
        with_clock(async |set| {
            let mut reserve = Reserve::new(ends_at(10_000), None);
            for (begin, end) in [(0, 2_000), (2_000, 5_000), (5_000, 5_100)] {
                set(begin);
                let mut started = reserve.start().unwrap();
                assert!(started.run());
                set(end);
                reserve.learn(&started);
                assert!(!reserve.is_untried());
            }
            // The longest took three seconds, and one is kept.
            set(5_999);
            assert!(reserve.start().is_some());
            set(6_000);
            assert!(reserve.start().is_none());
        })
        .await;
    }

    #[tokio::test]
    async fn a_clock_that_goes_back_teaches_nothing() {
        with_clock(async |set| {
            set(5_000);
            let mut reserve = Reserve::new(ends_at(10_000), Some(Duration::ZERO));
            let mut started = reserve.start().unwrap();
            assert!(started.run());
            set(1_000);
            reserve.learn(&started);
            set(9_999);
            assert!(reserve.start().is_some());
        })
        .await;
    }

    #[tokio::test]
    async fn without_a_deadline_every_record_starts() {
        let mut reserve = Reserve::new(Deadline::Inherited, None);
        let mut started = reserve.start().unwrap();
        assert!(started.run());
        reserve.learn(&started);
        assert!(reserve.start().is_some());
    }

    #[tokio::test]
    async fn the_times_are_those_of_the_deadline_and_of_the_setting() {
        with_clock(async |set| {
            let kept = Duration::from_millis(300);
            let reserve = Reserve::new(ends_at(10_000), Some(kept));
            set(4_000);
            let left = Some(Duration::from_secs(6));
            assert_eq!(reserve.times(), (left, kept));
        })
        .await;
    }
}

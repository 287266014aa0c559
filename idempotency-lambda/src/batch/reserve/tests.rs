use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use idempotency_core::clock::Clock;
use idempotency_core::engine::Backend;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::MemoryStore;
use idempotency_core::time::EpochMillis;

use super::*;
use crate::{SystemRandom, with_backend};

/// A clock that the test sets.
#[derive(Default)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Runs a test at time 0, with a function that sets the time.
async fn with_clock(test: impl AsyncFnOnce(&dyn Fn(i64))) {
    let clock = Arc::new(Hand::default());
    let store = Arc::new(MemoryStore::new());
    let backend = Backend::new(store, clock.clone(), Arc::new(SystemRandom));
    let set = |now| clock.0.store(now, Ordering::Relaxed);
    with_backend(backend, test(&set)).await;
}

fn ends_at(milliseconds: i64) -> Deadline {
    Deadline::At(EpochMillis::new(milliseconds))
}

#[tokio::test]
async fn the_reserve_is_a_second_or_a_tenth_of_a_short_invocation() {
    with_clock(async |set| {
        for (end, last) in [(30_000, 28_999), (3_000, 2_699), (10, 8)] {
            set(0);
            let reserve = Reserve::new(ends_at(end), None);
            set(last);
            assert!(reserve.start().is_some(), "{end}");
            set(last + 1);
            assert!(reserve.start().is_none(), "{end}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_reserve_that_is_set_is_taken_as_it_is() {
    with_clock(async |set| {
        let reserve = Reserve::new(ends_at(3_000), Some(Duration::from_millis(2_000)));
        set(999);
        assert!(reserve.start().is_some());
        set(1_000);
        assert!(reserve.start().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_reserve_learns_the_longest_time_of_the_records_before() {
    with_clock(async |set| {
        let mut reserve = Reserve::new(ends_at(10_000), Some(Duration::ZERO));
        for (start, end) in [(0, 3_000), (3_000, 3_100)] {
            set(start);
            let started = reserve.start().unwrap();
            set(end);
            reserve.learn(started);
        }
        set(6_999);
        assert!(reserve.start().is_some());
        set(7_000);
        assert!(reserve.start().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_goes_back_teaches_nothing() {
    with_clock(async |set| {
        set(5_000);
        let mut reserve = Reserve::new(ends_at(10_000), Some(Duration::ZERO));
        let started = reserve.start().unwrap();
        set(1_000);
        reserve.learn(started);
        set(9_999);
        assert!(reserve.start().is_some());
    })
    .await;
}

#[tokio::test]
async fn without_a_deadline_every_record_starts() {
    let mut reserve = Reserve::new(Deadline::Inherited, None);
    let started = reserve.start().unwrap();
    reserve.learn(started);
    assert!(reserve.start().is_some());
}

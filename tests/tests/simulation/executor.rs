//! Random choices from a seed, a virtual clock, and an executor that polls tasks in a random order.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idempotency_core::future::BoxFuture;
use idempotency_core::random::Random;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_testkit::SeededRandom;

/// A random source that gives the same choices for the same seed.
#[derive(Clone)]
pub(crate) struct Dice(SeededRandom);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0.bytes().unwrap();
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) % end
    }

    /// Returns true in `chance` of 100 calls, on average.
    pub(crate) fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The time of the simulation in milliseconds, and the times at which sleepers wake.
#[derive(Clone, Default)]
pub(crate) struct Time {
    now: Arc<AtomicI64>,
    sleepers: Arc<Mutex<Vec<i64>>>,
}

impl Time {
    pub(crate) fn starting_at(now: i64) -> Self {
        let time = Self::default();
        time.now.store(now, Ordering::Relaxed);
        time
    }

    pub(crate) fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, milliseconds: i64) {
        self.now.fetch_add(milliseconds, Ordering::Relaxed);
    }

    pub(crate) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let until = self.now() + milliseconds(duration);
        self.wakes_at(until);
        let time = self.clone();
        Box::pin(poll_fn(move |_| ready_if(time.now() >= until)))
    }

    /// Notes that a task goes on at this time.
    fn wakes_at(&self, until: i64) {
        self.sleepers.lock().unwrap().push(until);
    }

    /// Advances to the time at which the next sleeper wakes. Returns false if no task sleeps.
    fn jump(&self) -> bool {
        let now = self.now();
        let mut sleepers = self.sleepers.lock().unwrap();
        sleepers.retain(|until| *until > now);
        let Some(next) = sleepers.iter().min() else {
            return false;
        };
        self.now.store(*next, Ordering::Relaxed);
        true
    }
}

/// The clocks of one process: the simulation's time plus an error in milliseconds, and a monotonic clock, which timers follow.
#[derive(Clone)]
pub(crate) struct SkewedClock {
    pub(crate) time: Time,
    pub(crate) skew: i64,
    /// False if the process has no monotonic clock.
    pub(crate) has_monotonic: bool,
    pub(crate) moved: Arc<Moved>,
}

/// What happened to the clocks of a process, in milliseconds.
#[derive(Default)]
pub(crate) struct Moved {
    /// By how much the wall clock was set back, for the call that is polled.
    pub(crate) back: AtomicI64,
    /// For how long the monotonic clock stood still.
    still: AtomicI64,
    /// When the pause of the process ends.
    paused_until: AtomicI64,
}

impl SkewedClock {
    /// Returns the time by this process, also while its wall clock is set back.
    pub(crate) fn at(&self) -> EpochMillis {
        EpochMillis::new(self.time.now() + self.skew)
    }

    /// Lets the process stand still, and if `sleeps` its monotonic clock too.
    pub(crate) fn pause(&self, milliseconds: i64, sleeps: bool) {
        let until = self.time.now() + milliseconds;
        let before = self.moved.paused_until.fetch_max(until, Ordering::Relaxed);
        if sleeps {
            let longer = until - before.max(self.time.now());
            self.moved.still.fetch_add(longer.max(0), Ordering::Relaxed);
        }
        self.time.wakes_at(until);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.time.now() < self.moved.paused_until.load(Ordering::Relaxed)
    }

    fn passed(&self) -> i64 {
        self.time.now() - self.moved.still.load(Ordering::Relaxed)
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> EpochMillis {
        let back = self.moved.back.load(Ordering::Relaxed);
        EpochMillis::new(self.at().get() - back)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (clock, until) = (self.clone(), self.passed() + milliseconds(duration));
        let mut wakes = None;
        Box::pin(poll_fn(move |_| {
            let left = until - clock.passed();
            let at = clock.time.now() + left;
            if left > 0 && wakes.replace(at) != Some(at) {
                clock.time.wakes_at(at);
            }
            ready_if(left <= 0)
        }))
    }

    fn monotonic(&self) -> Option<Duration> {
        let passed = u64::try_from(self.passed()).unwrap();
        self.has_monotonic.then(|| Duration::from_millis(passed))
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

/// Returns to the executor once, so that another task can run.
pub(crate) fn yield_now() -> impl Future<Output = ()> {
    let yielded = Cell::new(false);
    poll_fn(move |_| ready_if(yielded.replace(true)))
}

fn ready_if(is_ready: bool) -> Poll<()> {
    if is_ready {
        Poll::Ready(())
    } else {
        Poll::Pending
    }
}

/// A call in progress.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Polls random tasks until all are done. `crashes` returns true if the task that was just polled dies.
pub(crate) fn run(
    tasks: &mut Vec<(usize, Task)>,
    dice: &Dice,
    time: &Time,
    mut crashes: impl FnMut(usize) -> bool,
) {
    let mut context = Context::from_waker(Waker::noop());
    let mut idle = 0;
    while !tasks.is_empty() {
        let at = usize::try_from(dice.below(tasks.len() as u64)).unwrap();
        let (call, task) = &mut tasks[at];
        let done = task.as_mut().poll(&mut context).is_ready();
        let dies = !done && crashes(*call);
        if done || dies {
            drop(tasks.swap_remove(at));
            idle = 0;
            continue;
        }
        idle += 1;
        // Every task was polled several times and waits for time to pass.
        if idle > tasks.len() * 8 {
            assert!(time.jump(), "every task waits, but none sleeps");
            idle = 0;
        }
    }
}

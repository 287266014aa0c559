//! What a fake holds: a mutex whose locks are points, so that a fault falls between two uses of a fake that never waits.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{self, Arc, LockResult, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Process;

/// How long a lock waits for a process that stands still, in real time.
const PATIENCE: Duration = Duration::from_secs(2);

/// A mutex for what a fake holds. It is used as that of the standard library, and each [`lock`](Self::lock) in a function under
/// test is a point where faults happen: before it, and after its guard is dropped.
///
/// What happens under one lock is one step, as one request to the real service. So lock it once for each request that the fake
/// stands for, and not across an await.
///
/// In a process that was killed, a lock gives another value, which starts as the default. So nothing that a destructor does can be
/// seen. Outside of `retry_safety` it is a plain mutex.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::retry_safety::Mutex;
///
/// #[derive(Default)]
/// struct Bank(Mutex<Vec<u64>>);
///
/// impl Bank {
///     fn charge(&self, amount: u64) {
///         self.0.lock().unwrap().push(amount);
///     }
/// }
/// # let bank = Bank::default();
/// # bank.charge(1);
/// # assert_eq!(bank.0.lock().unwrap().len(), 1);
/// ```
#[derive(Default)]
pub struct Mutex<T> {
    seen: sync::Mutex<T>,
    /// What a process has whose effects must not be seen.
    aside: sync::Mutex<T>,
}

/// A locked [`Mutex`]. Dropping it unlocks.
#[must_use = "the lock ends when this is dropped"]
pub struct FakeGuard<'a, T> {
    // Fields are dropped in this order: unlocked first, then killed.
    value: sync::MutexGuard<'a, T>,
    _killed_after: KilledAfter,
}

/// The process that is killed after this use.
struct KilledAfter(Option<Arc<Process>>);

impl<T: Default> Mutex<T> {
    /// Returns a mutex with this value.
    pub fn new(value: T) -> Self {
        Self {
            seen: sync::Mutex::new(value),
            aside: sync::Mutex::default(),
        }
    }
}

impl<T> Mutex<T> {
    /// Locks the value.
    ///
    /// # Errors
    ///
    /// Never: it returns what the mutex of the standard library returns, so that one can stand for the other.
    ///
    /// # Panics
    ///
    /// If a process that stands still for a fault has it locked, and so would never unlock it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<FakeGuard<'_, T>> {
        // The caller of `lock`: inside of a closure it would be the closure.
        let caller = Location::caller();
        let process = Process::current();
        let killed_after = process.as_ref().is_some_and(|process| {
            let file = caller.file().rsplit(['/', '\\']).next();
            let label = format!("fake at {}:{}", file.unwrap_or_default(), caller.line());
            !process.is_aside() && process.use_fake(label)
        });
        let is_aside = process.as_ref().is_some_and(|process| process.is_aside());
        Ok(FakeGuard {
            value: wait_for(if is_aside { &self.aside } else { &self.seen }),
            _killed_after: KilledAfter(process.filter(|_| killed_after)),
        })
    }
}

#[track_caller]
fn wait_for<T>(value: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    let started = Instant::now();
    loop {
        match value.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) if started.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => {
                panic!(
                    "a fake stays locked: do not hold its lock across an await or another request"
                )
            }
        }
    }
}

impl<T> Deref for FakeGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for FakeGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl Drop for KilledAfter {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.kill_here();
        }
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for FakeGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeGuard").finish_non_exhaustive()
    }
}

//! The world that the function under test gets, and the mutex for what its fakes hold. Each lock of the mutex is a point, so that a
//! fault can fall between two uses of a fake that never waits.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{self, Arc, LockResult, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use idempotency_core::time::EpochMillis;
use idempotency_lambda::{Backend, ConfigurationError, Context};

use super::process::{Process, ProcessClock, TIMEOUT};
use super::store;
use crate::clock::SeededRandom;

/// The world of one delivery: clients of its database, its provider, its fakes, its time.
///
/// Take the clients of the function from here: their requests are the points where faults happen. What a [`fake`](Self::fake)
/// holds outlives the process, as a real service does. Everything else that the function makes ends with its process.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::retry_safety::{Mutex, World};
///
/// /// The mails that were sent.
/// #[derive(Default)]
/// struct Outbox(Mutex<Vec<String>>);
///
/// async fn send(world: &World, text: &str) {
///     let outbox = world.fake::<Outbox>();
///     outbox.0.lock().unwrap().push(text.to_owned());
/// }
/// ```
#[derive(Clone)]
pub struct World {
    process: Arc<Process>,
}

impl World {
    pub(super) fn new(process: &Arc<Process>) -> Self {
        Self {
            process: Arc::clone(process),
        }
    }

    /// Returns the process of this delivery.
    #[cfg(any(not(feature = "dynamodb"), feature = "postgres"))]
    pub(super) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Returns the address of the provider, such as `http://127.0.0.1:1234`.
    ///
    /// # Panics
    ///
    /// If the check has no provider: set it with [`RetrySafety::provider`](super::RetrySafety::provider).
    pub fn url(&self) -> String {
        match self.process.shared.listener() {
            Some(listener) => format!("http://{}", listener.address),
            None => panic!("the check has no provider: set it with `.provider(..)`"),
        }
    }

    /// Returns the fake of this type, which all deliveries of one scenario share. It starts as its default.
    ///
    /// Let it hold what it knows in a [`Mutex`](super::Mutex) of this module, so that faults happen at each use of it.
    pub fn fake<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.process.shared.fake()
    }

    /// Returns the number of this delivery, from 1.
    pub fn delivery(&self) -> u32 {
        self.process.delivery
    }

    /// Returns the context of the invocation: a request id, which differs in each delivery, and a deadline.
    ///
    /// A handler that gets an empty context, such as `Context::default()`, has this deadline too.
    pub fn context(&self) -> Context {
        let mut context = Context::default();
        let (salt, delivery) = (self.process.shared.salt, self.process.delivery);
        context.request_id = format!("{salt}-{delivery}");
        let deadline = self.process.shared.now().plus(TIMEOUT).get();
        context.deadline = u64::try_from(deadline).unwrap_or_default();
        context
    }

    /// Returns the time of this world: it moves with the timers of the function.
    pub fn now(&self) -> EpochMillis {
        self.process.now()
    }

    /// Returns the backend of this process, over the table of the framework.
    pub(super) fn backend(&self) -> Result<Backend, ConfigurationError> {
        // Each process has owner tokens of its own.
        let random = SeededRandom::new(self.process.delivery.into());
        let clock = ProcessClock(Arc::clone(&self.process));
        #[cfg(feature = "postgres")]
        if let Some(schema) = &self.process.shared.postgres {
            let store = super::postgres::store(schema, &self.process)?;
            return Ok(Backend::new(store, Arc::new(clock), Arc::new(random)));
        }
        Ok(Backend::new(
            store(self)?,
            Arc::new(clock),
            Arc::new(random),
        ))
    }
}

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
    /// The value for a process whose effects must not be seen.
    aside: sync::Mutex<T>,
}

/// A locked [`Mutex`].
struct FakeGuard<'a, T> {
    // Fields are dropped in this order: unlocked first, then killed.
    value: sync::MutexGuard<'a, T>,
    _kill: KillOnDrop,
}

/// Kills this process, if there is one, when it is dropped.
struct KillOnDrop(Option<Arc<Process>>);

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
    /// Locks the value, until what it returns is dropped.
    ///
    /// # Errors
    ///
    /// Never: it returns what the mutex of the standard library returns, so that one can stand for the other.
    ///
    /// # Panics
    ///
    /// If a process that stands still for a fault has it locked, and so would never unlock it.
    #[track_caller]
    pub fn lock(&self) -> LockResult<impl DerefMut<Target = T>> {
        // Read before the closure, because inside of it the caller would be the closure.
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
            _kill: KillOnDrop(process.filter(|_| killed_after)),
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

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(process) = &self.0 {
            process.kill_here();
        }
    }
}

/// Shows no value: a fake can hold what a function was sent.
impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_of_a_fake_shows_no_value() {
        let sent = Mutex::<Vec<&str>>::default();
        sent.lock().unwrap().push("s3cr3t");
        assert_eq!(format!("{sent:?}"), "Mutex { .. }");
    }
}

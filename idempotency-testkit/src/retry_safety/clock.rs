//! The clock of a process: the time of its world, which moves with the paused timers of the process's runtime.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_core::future::BoxFuture;
use idempotency_core::time::EpochMillis;
use tokio::time::{Instant, sleep};

use super::process::Process;

/// Relates the time of the world to the timers of one runtime.
#[derive(Default)]
pub(super) struct Epoch(Mutex<Option<(EpochMillis, Instant)>>);

impl Epoch {
    /// Sets the time of the world that it is now.
    pub(super) fn set(&self, now: EpochMillis) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Instant::now()));
    }

    /// Returns the time of the world. `None` before the runtime has started.
    pub(super) fn now(&self) -> Option<EpochMillis> {
        let (then, since) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        // Rounded up, as the timers of the runtime are.
        Some(
            then.plus(
                since
                    .elapsed()
                    .saturating_add(Duration::from_nanos(999_999)),
            ),
        )
    }
}

/// The clock of the backend of a process.
pub(super) struct ProcessClock(pub(super) std::sync::Arc<Process>);

impl Clock for ProcessClock {
    fn now(&self) -> EpochMillis {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(sleep(duration))
    }
}

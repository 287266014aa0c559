//! The observers of the process. They are its only global state here: a list that grows, read without a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use super::summary::CallSummary;

static FIRST: OnceLock<Box<Observer>> = OnceLock::new();

struct Observer {
    observe: Box<dyn Fn(&CallSummary<'_>) + Send + Sync>,
    next: OnceLock<Box<Observer>>,
}

/// Adds an observer of this process: `observer` gets the summary of each call that ends from now on, of every operation.
///
/// Use it to count calls in a metrics system of your own. It is called after the outcome event, on the thread on which the
/// call ended, before the caller gets its result. So it must be fast and must not block. A panic in it is caught, and changes
/// neither the call nor other observers. An observer cannot be removed. Without an observer a call pays one atomic load.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use idempotency_core::event::{CallOutcome, observe};
///
/// static DUPLICATES: AtomicU64 = AtomicU64::new(0);
///
/// observe(|call| {
///     if call.outcome() == CallOutcome::Replayed {
///         DUPLICATES.fetch_add(1, Ordering::Relaxed);
///     }
/// });
/// ```
pub fn observe(observer: impl Fn(&CallSummary<'_>) + Send + Sync + 'static) {
    let mut place = &FIRST;
    let mut added = Box::new(Observer {
        observe: Box::new(observer),
        next: OnceLock::new(),
    });
    while let Err(refused) = place.set(added) {
        added = refused;
        // A place that refuses a value has one.
        let Some(taken) = place.get() else { return };
        place = &taken.next;
    }
}

impl CallSummary<'_> {
    /// Calls each observer.
    pub(super) fn notify(&self) {
        let mut place = &FIRST;
        while let Some(observer) = place.get() {
            let called = catch_unwind(AssertUnwindSafe(|| (observer.observe)(self)));
            if called.is_err() {
                tracing::error!("an observer of calls panicked; the call goes on");
            }
            place = &observer.next;
        }
    }
}

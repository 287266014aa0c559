//! The end of a call, for operators: one `tracing` event and one span for every call, and a summary for observers.
//!
//! `docs/reference/events.md` of the repository describes it as an interface: fields, values and levels. All entry points (the
//! attribute, `Operation`, layers) use it:
//!
//! - [`CompiledOperation::run`](crate::operation::CompiledOperation::run) emits the event of each call that it gets.
//! - [`refused`] is for an entry point whose call ends before it, such as one that has no identity.
//!
//! An [`Error`] records that its event was emitted. A second [`refused`] with the same error emits nothing.
//!
//! | file | what it holds |
//! |---|---|
//! | `report` | collects the facts of a call while it runs |
//! | `summary` | the facts of a call that has ended |
//! | `emit` | the outcome event with its level, and the span of a call |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tracing::Span;

use crate::error::Error;

mod emit;
mod report;
mod summary;

pub use crate::protocol::{ClaimEnd, StagedEnd};
#[doc(hidden)]
pub use emit::milliseconds;
pub(crate) use report::{Meter, Report};
pub use summary::{CallOutcome, CallSummary, CircuitChange, HandlerProgress};

/// The target of the outcome event and of the span.
#[doc(hidden)]
pub const TARGET: &str = "idempotency";

/// The message of the outcome event, and the name of the span.
#[doc(hidden)]
pub const MESSAGE: &str = "idempotent call";

/// Emits the outcome event of a call that ends with `error` before it reaches
/// [`CompiledOperation::run`](crate::operation::CompiledOperation::run), and returns the error.
///
/// It emits nothing if the event of this error was emitted before.
#[doc(hidden)]
#[must_use = "return the error to the caller"]
pub fn refused(mut error: Error) -> Error {
    if error.mark_emitted() {
        let summary = CallSummary::new(error.operation(), error.key()).with_error(&error);
        summary.publish(&emit::span(summary.operation, summary.key));
    }
    error
}

impl CallSummary<'_> {
    /// Emits the outcome event, ends the call's span and calls the observers.
    fn publish(&self, span: &Span) {
        self.emit();
        self.record(span);
        self.notify();
    }
}

static FIRST_OBSERVER: OnceLock<Box<Observer>> = OnceLock::new();

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
    let mut link = &FIRST_OBSERVER;
    let mut added = Box::new(Observer {
        observe: Box::new(observer),
        next: OnceLock::new(),
    });
    while let Err(refused) = link.set(added) {
        added = refused;
        // A link refuses a value only if it has one already.
        let Some(taken) = link.get() else { return };
        link = &taken.next;
    }
}

impl CallSummary<'_> {
    /// Calls each observer.
    fn notify(&self) {
        let mut link = &FIRST_OBSERVER;
        while let Some(observer) = link.get() {
            let called = catch_unwind(AssertUnwindSafe(|| (observer.observe)(self)));
            if called.is_err() {
                tracing::error!("an observer of calls panicked; the call goes on");
            }
            link = &observer.next;
        }
    }
}

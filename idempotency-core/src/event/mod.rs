//! The end of a call, for operators: one `tracing` event and one span for every call, and a summary for observers.
//!
//! `docs/reference/events.md` of the repository describes it as an interface: fields, values and levels. All entry points (the
//! attribute, `Operation`, layers) use it:
//!
//! - [`CompiledOperation::run`](crate::operation::CompiledOperation::run) emits the event of each call that it gets.
//! - [`CompiledOperation::identify`](crate::operation::CompiledOperation::identify) emits the event if it refuses the call, because no run
//!   follows.
//! - [`refused`] is for an entry point whose call ends before either of them.
//!
//! An [`Error`] records that its event was emitted. A second [`refused`] with the same error emits nothing.
//!
//! | file | what it holds |
//! |---|---|
//! | `report` | collects the facts of a call while it runs |
//! | `summary` | the facts of a call that has ended |
//! | `emit` | the outcome event and its level |
//! | `span` | the span of a call |
//! | `observer` | the observers of the process |

mod emit;
mod observer;
mod report;
mod span;
mod summary;

pub use crate::protocol::{Circuit, ClaimEnd, StagedEnd};
pub use observer::observe;
pub(crate) use report::{Meter, Report};
pub use summary::{CallOutcome, CallSummary, CircuitChange, HandlerProgress};

use crate::error::Error;
use tracing::Span;

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
///
/// # Examples
///
/// ```
/// use idempotency_core::error::{Error, ErrorKind};
/// use idempotency_core::event;
/// let error = Error::new(ErrorKind::Configuration, "charge").with_detail("set IDEMPOTENCY_TABLE");
/// let error = event::refused(error);
/// assert_eq!(event::refused(error).kind(), ErrorKind::Configuration);
/// ```
#[doc(hidden)]
#[must_use = "return the error to the caller"]
pub fn refused(mut error: Error) -> Error {
    if error.mark_emitted() {
        let summary = CallSummary::new(error.operation(), error.key()).with_error(&error);
        summary.publish(&span::span(summary.operation, summary.key));
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

//! The outcome event: one `tracing` event for every call, with the same target, message and fields.
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

mod report;
mod summary;

pub(crate) use report::Report;
pub use summary::{MESSAGE, TARGET};

use crate::error::Error;
use summary::{Ended, Summary};

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
#[must_use = "return the error to the caller"]
pub fn refused(mut error: Error) -> Error {
    if error.mark_emitted() {
        Summary {
            operation: error.operation(),
            key: error.key(),
            ended: Ended::Error(&error),
            handler: None,
            claim: None,
            note: None,
            store_requests: 0,
            store_time: std::time::Duration::ZERO,
            handler_time: std::time::Duration::ZERO,
        }
        .emit();
    }
    error
}

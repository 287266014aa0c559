//! The outcome event: one `tracing` event for every call, with the same target, message and fields.
//!
//! `docs/reference/events.md` of the repository describes it as an interface: fields, values and levels. All entry points (the
//! attribute, the functional form, layers) end here:
//!
//! - [`Operation::run`](crate::operation::Operation::run) tells the outcome of each call that it is given;
//! - [`Operation::identify`](crate::operation::Operation::identify) tells a refusal of its own, since no run follows it;
//! - [`refused`] is for an entry point whose call ends before either of them.
//!
//! An [`Error`] remembers that its event was emitted, so handing it to [`refused`] again does nothing.

mod report;
mod summary;

pub(crate) use report::Report;
pub use summary::{MESSAGE, TARGET};

use crate::error::Error;
use summary::{Ended, Summary};

/// Emits the outcome event of a call that ends with `error` before it reaches
/// [`Operation::run`](crate::operation::Operation::run), and returns the error.
///
/// It does nothing if the event of this error was emitted before.
///
/// ```
/// use idempotency_core::error::{Error, ErrorKind};
/// use idempotency_core::event;
/// let error = Error::new(ErrorKind::Configuration, "charge").with_detail("set IDEMPOTENCY_TABLE");
/// let error = event::refused(error);
/// assert_eq!(event::refused(error).kind(), ErrorKind::Configuration);
/// ```
#[must_use = "the caller is still to be given the error"]
pub fn refused(mut error: Error) -> Error {
    if error.mark_told() {
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

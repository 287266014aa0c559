//! How a record ended: acknowledged or returned, and why.
//!
//! A record is acknowledged if its work is known to be done: the handler returned `Ok` in this call and the writes that it staged were
//! applied, or an earlier call with its key is complete. Any other record is returned. So a record is never lost, and never runs again
//! for nothing.
//! An `Ok` after a step that found its claim gone does not count. That step had no result. If the other call does not finish the work,
//! only a redelivery does.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use idempotency_core::error::{Error, ErrorKind};

use crate::diagnostic::{BoxError, chain};

/// How a record ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Acknowledged: its work is done.
    Done(Done),
    /// Returned: the source delivers it again.
    Returned(Why),
}

/// Why a record is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// Its own call has a response: the handler's, or a stored one.
    Responded,
    /// The handler returned a response that is not stored, so the next record with its key is a call of its own.
    Unstored,
    /// Its work is done, but its call ended in this error.
    Despite(ErrorKind),
    /// A record of the same batch with the same key is done.
    Duplicate,
}

/// Why a record is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The handler returned an error.
    Failed(Failure),
    /// The handler panicked.
    Panicked,
    /// The handler returned `Ok`, but by policy its response is not stored, so the writes that it staged are dropped.
    Dropped,
    /// The call was refused.
    Refused(ErrorKind),
    /// Its body cannot be read.
    Undecodable,
    /// A record of the same batch with the same key was returned.
    Duplicate,
    /// It would not end before the deadline.
    NoTime,
    /// A record before it, in its group or shard, was returned.
    Behind,
}

/// What is logged of a handler's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The name under which the error of a single call reaches Lambda.
    pub(super) name: String,
    /// The texts of the error and its causes, if the user wants them, or the text of an error of this framework.
    pub(super) chain: Option<String>,
}

/// Returns an error of a handler with the name that Lambda would show for it after a single call.
pub(crate) type ErrorNaming<E> = fn(E) -> (BoxError, String);

/// The error of one record's call.
pub(super) enum CallError<E> {
    /// The handler's own.
    Handler(E),
    /// This framework's.
    Framework(Error),
    /// The handler did not start: the call waited until the time was too short.
    NoTime,
}

impl Verdict {
    /// Returns the verdict of a call that ended in an error of this framework. `succeeded` is true if the handler returned `Ok`.
    pub(super) fn of(error: &Error, succeeded: bool) -> Self {
        // If staged writes were not applied, or may not have been, the work is not done.
        let lacks_writes =
            error.has_unconfirmed_writes() || error.kind() == ErrorKind::TransactionRejected;
        let is_done = succeeded && !error.has_unfinished_steps() && !lacks_writes;
        // An earlier call with the key is complete. A batch needs no response, so it does not matter that the stored one cannot be had.
        let is_complete = matches!(
            error.kind(),
            ErrorKind::ResponseUnavailable | ErrorKind::ResponseTypeChanged
        );
        if is_done || is_complete {
            Self::Done(Done::Despite(error.kind()))
        } else {
            Self::Returned(Why::Refused(error.kind()))
        }
    }

    /// Returns the verdict of a call whose handler returned an error. The texts of the error are logged if `log_errors` is true.
    pub(super) fn failed<E>(error: E, named: ErrorNaming<E>, log_errors: bool) -> Self {
        // The texts of an error come from the user's code, which can panic.
        let failure = catch_call(|| {
            let (error, name) = named(error);
            let chain = log_errors.then(|| chain(&*error));
            // It quotes no body, and says what to do.
            let chain = chain.or_else(|| Some(error.downcast_ref::<Error>()?.to_string()));
            Failure { name, chain }
        });
        Self::Returned(failure.map_or(Why::Panicked, Why::Failed))
    }

    /// Returns true if the record is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl Why {
    /// Returns the reason's name, for events.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Panicked => "panicked",
            Self::Dropped => "writes_dropped",
            Self::Refused(_) => "refused",
            Self::Undecodable => "undecodable",
            Self::Duplicate => "duplicate",
            Self::NoTime => "no_time",
            Self::Behind => "behind",
        }
    }

    /// Returns the name of the error, if there is one.
    pub(super) fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(failure) => Some(&failure.name),
            Self::Refused(kind) => Some(kind.name()),
            Self::Undecodable => Some(ErrorKind::InvalidPayload.name()),
            Self::Panicked | Self::Dropped | Self::Duplicate | Self::NoTime | Self::Behind => None,
        }
    }

    /// Returns the texts of the handler's error that are logged.
    pub(super) fn chain(&self) -> Option<&str> {
        match self {
            Self::Failed(failure) => failure.chain.as_deref(),
            _ => None,
        }
    }
}

/// Polls the future to its end. Returns `None` if it panics.
///
/// The panic's message was written by the panic hook. The future is not polled again, and what it held is dropped.
pub(super) async fn catch<F: Future>(mut future: Pin<Box<F>>) -> Option<F::Output> {
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}

/// Calls the function. Returns `None` if it panics.
pub(super) fn catch_call<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::named;

    /// Every kind of error; true if its record is acknowledged without an `Ok` of the handler; true if it is acknowledged after an `Ok`.
    const KINDS: [(ErrorKind, bool, bool); 25] = [
        (ErrorKind::AlreadyInProgress, false, true),
        (ErrorKind::PayloadMismatch, false, true),
        (ErrorKind::KeyMissing, false, true),
        (ErrorKind::InvalidPayload, false, true),
        (ErrorKind::ExpressionFailed, false, true),
        (ErrorKind::Unresolved, false, true),
        (ErrorKind::CorruptRecord, false, true),
        (ErrorKind::ResponseTypeChanged, true, true),
        (ErrorKind::Contended, false, true),
        (ErrorKind::NoTimeLeft, false, true),
        (ErrorKind::ResponseUnavailable, true, true),
        (ErrorKind::ResponseNotSerializable, false, true),
        (ErrorKind::LostOwnership, false, true),
        (ErrorKind::CompletionUnknown, false, true),
        (ErrorKind::TransactionRejected, false, false),
        (ErrorKind::StoreFailed, false, true),
        (ErrorKind::StepRefused, false, true),
        (ErrorKind::StepNoTimeLeft, false, true),
        (ErrorKind::StepNotRecorded, false, true),
        (ErrorKind::StepNotUndone, false, true),
        (ErrorKind::StepTypeChanged, false, true),
        (ErrorKind::Configuration, false, true),
        (ErrorKind::Environment, false, true),
        (ErrorKind::UnknownInvocation, false, true),
        (ErrorKind::Internal, false, true),
    ];

    fn verdict(kind: ErrorKind, succeeded: bool, change: fn(Error) -> Error) -> Verdict {
        Verdict::of(&change(Error::new(kind, "shop")), succeeded)
    }

    #[test]
    fn a_record_is_acknowledged_only_if_its_work_is_known_to_be_done() {
        for (kind, alone, after_success) in KINDS {
            for (succeeded, acknowledged) in [(false, alone), (true, after_success)] {
                let expected = if acknowledged {
                    Verdict::Done(Done::Despite(kind))
                } else {
                    Verdict::Returned(Why::Refused(kind))
                };
                assert_eq!(verdict(kind, succeeded, |error| error), expected);
            }
        }
    }

    #[test]
    fn an_ok_whose_steps_are_not_finished_does_not_acknowledge() {
        for kind in [
            ErrorKind::LostOwnership,
            ErrorKind::StepNotUndone,
            ErrorKind::CompletionUnknown,
            ErrorKind::Unresolved,
        ] {
            let returned = Verdict::Returned(Why::Refused(kind));
            assert_eq!(verdict(kind, true, Error::with_unfinished_steps), returned);
        }
    }

    /// An error of the user's with a cause. Its text panics if it is `panics`.
    #[derive(Debug)]
    struct PaymentError(&'static str, std::io::Error);

    impl std::fmt::Display for PaymentError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            assert_ne!(self.0, "panics");
            f.write_str(self.0)
        }
    }

    impl std::error::Error for PaymentError {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn a_handlers_error_is_named_by_its_type_and_its_texts_are_logged_on_demand() {
        let failed = |name: &str, chain: Option<&str>| {
            let (name, chain) = (name.to_owned(), chain.map(str::to_owned));
            Verdict::Returned(Why::Failed(Failure { name, chain }))
        };
        let payment = |text| PaymentError(text, std::io::Error::other("card 4242"));
        for (log_errors, chain) in [(false, None), (true, Some("refused: card 4242"))] {
            let verdict = Verdict::failed(payment("refused"), named, log_errors);
            assert_eq!(verdict, failed("PaymentError", chain));
            // The type of a boxed error is not known.
            let verdict = Verdict::failed(BoxError::from(payment("refused")), named, log_errors);
            assert_eq!(verdict, failed("Error", chain));
        }
        // Such as that of `call.begin()`.
        let ours = Error::new(ErrorKind::Contended, "inner");
        let text = ours.to_string();
        let verdict = Verdict::failed(BoxError::from(ours), named, false);
        assert_eq!(verdict, failed("IdempotencyContended", Some(&text)));
        // The text ends with that of its cause, which is not repeated.
        let verdict = Verdict::failed(payment("refused: card 4242"), named, true);
        assert_eq!(verdict, failed("PaymentError", Some("refused: card 4242")));
        let verdict = Verdict::failed(payment("panics"), named, true);
        assert_eq!(verdict, Verdict::Returned(Why::Panicked));
    }
}

//! Runs the handler: its response, its error, its panic.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::{Codec, Errors, Written};
use crate::event::Report;
use crate::key::{Budget, Expression, Json};
use crate::outcome::{Bypass, Ending, Outcome, Panic};
use crate::protocol::HandlerResult;
use crate::record::Data;

/// The handler's own result.
pub(super) enum Finished<R, E> {
    Returned(R),
    /// The text says why the error does not report the handler's end, if it does not.
    Failed(E, Option<&'static str>),
    Panicked(Panic),
}

/// The policy `store_when`: an expression over the response, if the operation has one.
pub(crate) struct StoreWhen<'a> {
    pub(crate) expression: Option<&'a Expression>,
    /// The limit in bytes for the values of the response and of the expression.
    pub(crate) memory_limit: usize,
}

/// Runs the handler under a claim. A panic is caught, so that the protocol decides on the claim before the panic
/// resumes.
pub(super) async fn run<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    codec: Codec<R>,
    errors: Errors<E>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> (HandlerResult, Finished<R, E>) {
    match timed(handler, report).await {
        Ok(Ok(response)) => (
            serialized(&response, codec, store_when, report),
            Finished::Returned(response),
        ),
        Ok(Err(error)) => {
            // Only the name of the type: an error's text may quote the payload.
            let name = std::any::type_name::<E>().to_owned();
            let unreported = (errors.unreported)(&error);
            let result = match unreported {
                None if (errors.not_started)(&error) => HandlerResult::NotStarted,
                None => HandlerResult::Failed(name),
                Some(_) => HandlerResult::Unreported(name),
            };
            (result, Finished::Failed(error, unreported))
        }
        Err(panic) => (HandlerResult::Panicked, Finished::Panicked(panic)),
    }
}

/// Runs the handler of a call that could not claim its key. A response is not stored, so it is not serialised.
pub(super) async fn run_unclaimed<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    report: &mut Report<'_>,
) -> (HandlerResult, Finished<R, E>) {
    match timed(handler, report).await {
        Ok(Ok(response)) => (HandlerResult::NotStored, Finished::Returned(response)),
        Ok(Err(error)) => {
            let name = std::any::type_name::<E>().to_owned();
            (HandlerResult::Failed(name), Finished::Failed(error, None))
        }
        Err(panic) => (HandlerResult::Panicked, Finished::Panicked(panic)),
    }
}

/// Runs a handler that has no claim. A panic is caught, so that the outcome is reported before the panic resumes.
pub(crate) async fn run_unprotected<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    why: Bypass,
    report: &mut Report<'_>,
) -> Result<Outcome<R>, Ending<E>> {
    match timed(handler, report).await {
        Ok(Ok(response)) => Ok(Outcome::bypassed(response, why)),
        Ok(Err(error)) => Err(Ending::Failed(error, Some(why))),
        Err(panic) => Err(Ending::Panicked(panic, Some(why))),
    }
}

async fn timed<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    report: &mut Report<'_>,
) -> Result<Result<R, E>, Panic> {
    report.handler_started();
    let result = caught(handler).await;
    report.handler_ended(&result);
    result
}

/// Returns the response as the record will hold it.
///
/// A panic in `Serialize` counts as a response that cannot be written, and a panic in `Deserialize` as one that cannot be
/// read back.
fn serialized<R>(
    response: &R,
    codec: Codec<R>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> HandlerResult {
    let written = catch_unwind(AssertUnwindSafe(|| (codec.write)(response)));
    match written {
        Ok(Written::Text(text)) if !store_when.allows(&text, report) => HandlerResult::NotStored,
        Ok(Written::Text(text)) if codec.proves(&text) => {
            HandlerResult::Returned(Data::of_json(text))
        }
        // For example, a NaN becomes null. Such a response must not be stored as if duplicates could get it.
        Ok(Written::Text(text)) if !can_be_read(&text, codec) => {
            report.note(format!(
                "a response of type `{}` cannot be read back from its own JSON: duplicates do not get it",
                std::any::type_name::<R>()
            ));
            HandlerResult::NotDeserializable
        }
        Ok(Written::Text(text)) if codec.is_json() => HandlerResult::Returned(Data::of_json(text)),
        Ok(Written::Text(text)) => HandlerResult::Returned(Data::new(text)),
        Ok(Written::Release) => HandlerResult::NotStored,
        Ok(Written::ReleaseWithWarning(why)) => {
            report.note(why);
            HandlerResult::Unstorable
        }
        Ok(Written::OwnCallerOnly(why)) => {
            report.note(why);
            HandlerResult::NotDeserializable
        }
        Ok(Written::Failed(why)) => {
            report.note(why);
            HandlerResult::Unreported(std::any::type_name::<R>().to_owned())
        }
        Ok(Written::NotSerializable) | Err(_) => HandlerResult::NotSerializable,
    }
}

/// Returns false if the policy is that the response of a handler is not stored. The handler ran unprotected and staged writes: they
/// are applied if they would be applied under a claim.
pub(crate) fn keeps_writes<R>(
    response: &R,
    codec: Codec<R>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> bool {
    match catch_unwind(AssertUnwindSafe(|| (codec.write)(response))) {
        Ok(Written::Text(text)) => store_when.decide(&text).unwrap_or_else(|| {
            report.note("`store_when` failed on this response, so the staged writes are applied");
            true
        }),
        Ok(Written::Release | Written::Failed(_)) => false,
        // Under a claim the key is completed without the response.
        Ok(
            Written::ReleaseWithWarning(_) | Written::OwnCallerOnly(_) | Written::NotSerializable,
        )
        | Err(_) => true,
    }
}

/// Returns true if the response can be read back from its JSON text.
///
/// A panic in `Deserialize` must not end the call here: the effect has happened, and the record would stay in progress.
fn can_be_read<R>(text: &str, codec: Codec<R>) -> bool {
    catch_unwind(AssertUnwindSafe(|| codec.read(text).is_ok())).unwrap_or(false)
}

impl StoreWhen<'_> {
    /// Returns true if the response must be stored. If the expression fails, the effect has still happened, so the response
    /// is stored.
    fn allows(&self, response: &str, report: &mut Report<'_>) -> bool {
        self.decide(response).unwrap_or_else(|| {
            report.note("`store_when` failed on this response, so the response is stored");
            true
        })
    }

    /// Returns whether the response must be stored. `None` if the expression fails.
    fn decide(&self, response: &str) -> Option<bool> {
        let Some(expression) = self.expression else {
            return Some(true);
        };
        let mut budget = Budget::new(self.memory_limit);
        let response = Json::parse_within(response.as_bytes(), &mut budget).ok()?;
        expression.holds_within(&response, &mut budget).ok()
    }
}

async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(
        |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        },
    )
    .await
}

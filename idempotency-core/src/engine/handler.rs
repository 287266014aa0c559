//! Running the handler: its answer, its failure, its panic.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use super::{Codec, Ending};
use crate::event::Report;
use crate::key::{Budget, Expression, Json};
use crate::outcome::{Bypass, Outcome};
use crate::protocol::HandlerResult;
use crate::record::Data;

/// A panic's payload.
pub(crate) type Panic = Box<dyn Any + Send>;

/// What the handler itself came to.
pub(super) enum Finished<R, E> {
    Answered(R),
    Failed(E),
    Panicked(Panic),
}

/// The policy `store_when`: an expression over the response, where there is one.
pub(crate) struct StoreWhen<'a> {
    pub(crate) expression: Option<&'a Expression>,
    /// How many bytes the response's values, and what the expression makes of them, may take.
    pub(crate) memory_limit: usize,
}

/// Runs the handler. A panic is caught, so that the protocol can decide on the claim before the panic goes on.
pub(super) async fn run<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    codec: Codec<R>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> (HandlerResult, Finished<R, E>) {
    match timed(handler, report).await {
        Ok(Ok(answer)) => (
            represent(&answer, codec, store_when, report),
            Finished::Answered(answer),
        ),
        Ok(Err(error)) => {
            // The type's name alone: an error's text may quote the payload.
            let name = std::any::type_name::<E>().to_owned();
            (HandlerResult::Failed(name), Finished::Failed(error))
        }
        Err(panic) => (HandlerResult::Panicked, Finished::Panicked(panic)),
    }
}

/// Runs a handler that has no claim. Its panic is caught, so that the outcome is told before it goes on.
pub(crate) async fn run_unprotected<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    why: Bypass,
    report: &mut Report<'_>,
) -> Result<Outcome<R>, Ending<E>> {
    match timed(handler, report).await {
        Ok(Ok(answer)) => Ok(Outcome::bypassed(answer, why)),
        Ok(Err(error)) => Err(Ending::Failed(error, Some(why))),
        Err(panic) => Err(Ending::Panicked(panic, Some(why))),
    }
}

async fn timed<R, E>(
    handler: impl Future<Output = Result<R, E>>,
    report: &mut Report<'_>,
) -> Result<Result<R, E>, Panic> {
    report.handler_started();
    let came_to = caught(handler).await;
    report.handler_ended(&came_to);
    came_to
}

/// The answer as the record will hold it. A panic in a `Serialize` counts as an answer that cannot be written, and one in
/// a `Deserialize` as an answer that cannot be read back.
fn represent<R>(
    answer: &R,
    codec: Codec<R>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> HandlerResult {
    let written = catch_unwind(AssertUnwindSafe(|| (codec.write)(answer)));
    match written {
        Ok(Ok(text)) if !store_when.allows(&text, report) => HandlerResult::NotStored,
        // What duplicates could not be given must not be stored as if they could: a NaN becomes null, say.
        Ok(Ok(text)) if !can_be_read(&text, codec) => {
            report.note(format!(
                "a response of type `{}` cannot be read back from its own JSON: duplicates are not given it",
                std::any::type_name::<R>()
            ));
            HandlerResult::NotDeserializable
        }
        Ok(Ok(text)) => HandlerResult::Returned(Data::new(text)),
        Ok(Err(_)) | Err(_) => HandlerResult::NotSerializable,
    }
}

/// Returns whether a duplicate could be given the response. A panic of its `Deserialize` must not end the call here: the
/// effect has happened, and the record would stay in progress.
fn can_be_read<R>(text: &str, codec: Codec<R>) -> bool {
    catch_unwind(AssertUnwindSafe(|| (codec.read)(text).is_ok())).unwrap_or(false)
}

impl StoreWhen<'_> {
    /// Whether the answer is to be stored. Where the expression fails the effect has still happened, so it is stored.
    fn allows(&self, answer: &str, report: &mut Report<'_>) -> bool {
        let Some(expression) = self.expression else {
            return true;
        };
        let mut budget = Budget::new(self.memory_limit);
        let verdict = Json::parse_within(answer.as_bytes(), &mut budget)
            .ok()
            .and_then(|answer| expression.holds_within(&answer, &mut budget).ok());
        verdict.unwrap_or_else(|| {
            report.note("`store_when` failed on this response, so the response is stored");
            true
        })
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

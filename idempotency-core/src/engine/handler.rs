//! Runs the handler: its response, its error, its panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::call::OpenCall;
use super::{Codec, Errors, Written, proof};
use crate::event::Report;
use crate::key::{Budget, Expression, Json};
use crate::outcome::Panic;
use crate::protocol::HandlerResult;
use crate::record::Data;

/// The policy `store_when`: an expression over the response, if the operation has one.
pub(crate) struct StoreWhen<'a> {
    pub(crate) expression: Option<&'a Expression>,
    /// The limit in bytes for the values of the response and of the expression.
    pub(crate) memory_limit: usize,
}

/// What a handler returned, or its panic.
pub(super) type HandlerOutput<R, E> = Result<Result<R, E>, Panic>;

/// Runs the handler to its end. A panic is caught, so that the protocol decides on the claim, and the outcome is reported, before the
/// panic resumes.
pub(super) async fn output_of<R, E>(
    call: &OpenCall,
    handler: impl Future<Output = Result<R, E>>,
    report: &mut Report<'_>,
) -> HandlerOutput<R, E> {
    report.handler_started();
    let output = call.caught(handler).await;
    report.handler_ended(&output);
    output
}

/// Returns what the protocol needs of the output of a handler.
pub(super) fn result_of<R, E>(
    output: &HandlerOutput<R, E>,
    codec: Codec<R>,
    errors: Errors<E>,
    store_when: &StoreWhen<'_>,
    report: &mut Report<'_>,
) -> HandlerResult {
    // Only the name of the type: an error's text may quote the payload.
    let name = || std::any::type_name::<E>().to_owned();
    match output {
        Ok(Ok(response)) => serialized(response, codec, store_when, report),
        Ok(Err(error)) if (errors.unreported)(error).is_some() => HandlerResult::Unreported(name()),
        Ok(Err(error)) if (errors.not_started)(error) => HandlerResult::NotStarted,
        Ok(Err(_)) => HandlerResult::Failed(name()),
        Err(_) => HandlerResult::Panicked,
    }
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
        // For example, a NaN becomes null. Duplicates could not get such a response, so it is not stored.
        Ok(Written::Text(text)) if !codec.proves(&text) && !can_be_read(&text, codec) => {
            report.note(format!(
                "a response of type `{}` cannot be read back from its own JSON: duplicates do not get it",
                std::any::type_name::<R>()
            ));
            HandlerResult::NotDeserializable
        }
        Ok(Written::Text(text)) if codec.is_json() => HandlerResult::Returned(Data::of_json(text)),
        Ok(Written::Text(text)) => HandlerResult::Returned(Data::new(text)),
        Ok(Written::Release) => HandlerResult::NotStored,
        Ok(Written::Failed(why)) => {
            report.note(why);
            HandlerResult::Unreported(std::any::type_name::<R>().to_owned())
        }
        // It would not be stored either if it could be written.
        _ if store_when.is_never() => HandlerResult::NotStored,
        Ok(Written::ReleaseWithWarning(why)) => {
            report.note(why);
            HandlerResult::Unstorable
        }
        Ok(Written::OwnCallerOnly(why)) => {
            report.note(why);
            HandlerResult::NotDeserializable
        }
        Ok(Written::NotSerializable) | Err(_) => HandlerResult::NotSerializable,
    }
}

/// Returns true if the staged writes of a run without a record must be applied. The rules are those of a run under a claim.
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
        _ if store_when.is_never() => false,
        // Under a claim the key is completed without the response.
        Ok(
            Written::ReleaseWithWarning(_) | Written::OwnCallerOnly(_) | Written::NotSerializable,
        )
        | Err(_) => true,
    }
}

/// Returns true if the response can be read back from its JSON text.
///
/// An object with a mark of `serde_json` can be read as another value, so such a response is written again and compared.
///
/// A panic in `Deserialize` must not end the call here: the effect has happened, and the record would stay in progress.
fn can_be_read<R>(text: &str, codec: Codec<R>) -> bool {
    let reads = || match codec.read(text) {
        Ok(read) if text.contains(proof::MARK) => {
            matches!((codec.write)(&read), Written::Text(again) if again == text)
        }
        read => read.is_ok(),
    };
    catch_unwind(AssertUnwindSafe(reads)).unwrap_or(false)
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

    /// Returns true if no response of the operation is stored.
    pub(crate) fn is_never(&self) -> bool {
        self.expression.is_some_and(Expression::is_literal) && self.decide("") == Some(false)
    }

    /// Returns true if the response must be stored, or `None` if the expression fails.
    fn decide(&self, response: &str) -> Option<bool> {
        let Some(expression) = self.expression else {
            return Some(true);
        };
        let mut budget = Budget::new(self.memory_limit);
        if expression.is_literal() {
            return expression.holds_within(&Json::Null, &mut budget).ok();
        }
        let response = Json::parse_within(response.as_bytes(), &mut budget).ok()?;
        expression.holds_within(&response, &mut budget).ok()
    }
}

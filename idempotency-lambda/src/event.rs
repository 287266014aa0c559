//! What a call's payload, deadline and tenant are, for each kind of parameter.

use idempotency_core::error::Error;
use idempotency_core::operation::{Identity, Operation};
use idempotency_core::time::EpochMillis;
use lambda_runtime::{Context, LambdaEvent};
use serde::Serialize;

use crate::raw::Raw;

/// Something a key can be taken from: any `Serialize`, or an event that kept its own text ([`Raw`]).
///
/// ```
/// use idempotency_lambda::Payload;
/// use idempotency_lambda::core::{config::*, operation::Operation};
/// use serde_json::json;
///
/// let operation = Operation::new("orders::place", &Settings::default(), &Variables::default())?;
/// let first = json!({"id": 7, "note": "fast"}).identity(&operation, None)?;
/// assert_eq!(first, json!({"note": "fast", "id": 7}).identity(&operation, None)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a key cannot be taken from `{Self}`",
    label = "this payload cannot be written as JSON",
    note = "derive `serde::Serialize` for it, or keep the event's own text with `Raw<T>`"
)]
pub trait Payload {
    /// The identity of a call with this payload.
    ///
    /// # Errors
    /// If no identity can be computed; the handler has not run.
    fn identity(&self, operation: &Operation, tenant: Option<&str>) -> Result<Identity, Error>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Payload for T {
    fn identity(&self, operation: &Operation, tenant: Option<&str>) -> Result<Identity, Error> {
        operation.identify_value(self, tenant)
    }
}

impl<T> Payload for Raw<T> {
    fn identity(&self, operation: &Operation, tenant: Option<&str>) -> Result<Identity, Error> {
        operation.identify(self.text(), tenant)
    }
}

/// The parameter of a Lambda handler: a payload with an invocation's context.
///
/// ```
/// use idempotency_lambda::{Context, Event, LambdaEvent};
///
/// fn request_id<E: Event>(event: &E) -> &str {
///     &event.context().request_id
/// }
/// let mut context = Context::default();
/// context.request_id = "r-1".to_owned();
/// assert_eq!(request_id(&LambdaEvent::new("an order", context)), "r-1");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Lambda event",
    label = "write `LambdaEvent<T>` here",
    note = "for any other function say what the payload is: `#[idempotent(payload = <expression over the parameters>)]`"
)]
pub trait Event {
    /// What the event carries.
    type Payload: Payload;

    /// The payload.
    fn payload(&self) -> &Self::Payload;

    /// The invocation's context.
    fn context(&self) -> &Context;
}

impl<T: Payload> Event for LambdaEvent<T> {
    type Payload = T;

    fn payload(&self) -> &T {
        &self.payload
    }

    fn context(&self) -> &Context {
        &self.context
    }
}

/// The year 2001: no invocation of ours ended before it.
const EARLIEST: u64 = 1_000_000_000_000;

/// When the invocation ends, where the context knows. One made by hand has no deadline, which is written as 0;
/// `cargo lambda watch` (1.9) always writes 600000, ten minutes into 1970. A claim needs a lease in either case, so such
/// a deadline counts as not known, and the configured lease is written.
pub(crate) fn deadline_of(context: &Context) -> Option<EpochMillis> {
    (context.deadline >= EARLIEST)
        .then(|| EpochMillis::new(i64::try_from(context.deadline).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(milliseconds: u64) -> Option<i64> {
        let mut context = Context::default();
        context.deadline = milliseconds;
        deadline_of(&context).map(EpochMillis::get)
    }

    #[test]
    fn a_deadline_that_cannot_be_one_counts_as_not_known() {
        assert_eq!(deadline(0), None);
        assert_eq!(deadline(600_000), None);
    }

    #[test]
    fn a_deadline_that_has_passed_is_a_deadline() {
        assert_eq!(deadline(1_600_000_000_000), Some(1_600_000_000_000));
    }
}

//! The traits of what a key is taken from: a [`Payload`], and an `Event`, the parameter of a handler.

use std::io::{self, Write};

use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::operation::{CompiledOperation, Identity};
use idempotency_core::typed::{self, ReadError};
use lambda_runtime::{Context, LambdaEvent};
use serde::Serialize;
use serde_json::Value;

use crate::plain_event;
use crate::raw::{Raw, RawError};

/// A value that a key can be taken from: any `Serialize`, or an event that kept its own text ([`Raw`]).
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{Deadline, Error, Operation, Payload, Raw};
/// use serde_json::json;
///
/// fn key<P: Payload>(payload: &P) -> Result<String, Error> {
///     let operation = Operation::builder("orders::place").key("id").build()?;
///     let call = operation.identify(payload, Deadline::Inherited)?;
///     Ok(call.key().map(ToString::to_string).unwrap_or_default())
/// }
/// let raw: Raw<serde_json::Value> = serde_json::from_str(r#"{"note": "fast", "id": 7}"#).unwrap();
/// assert_eq!(key(&json!({"id": 7}))?, key(&raw)?);
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a key cannot be taken from `{Self}`",
    label = "this payload cannot be written as JSON",
    note = "derive `serde::Serialize` for it, or keep the event's own text with `Raw<T>`"
)]
pub trait Payload {
    /// Returns the identity of a call with this payload.
    ///
    /// # Errors
    ///
    /// If no identity can be computed. The handler has not run.
    #[doc(hidden)]
    fn identity(
        &self,
        operation: &CompiledOperation,
        tenant: Option<&str>,
    ) -> Result<Identity, Error>;

    /// Returns the payload as a JSON value, if its text has at most this many bytes.
    #[doc(hidden)]
    fn json_within(&self, _bytes: usize) -> Option<Value> {
        None
    }

    /// Checks that no array of the text, from which this was read, was read as a type with named fields.
    ///
    /// # Errors
    ///
    /// If an array was. A payload whose key is taken from the text has no such error.
    #[doc(hidden)]
    fn arrays_stay(&self, _: &str) -> Result<(), ReadError> {
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Payload for T {
    fn identity(
        &self,
        operation: &CompiledOperation,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        if !operation.is_disabled() {
            plain_event::check(self).map_err(|error| {
                let error = RawError(error).to_string();
                let invalid = Error::new(ErrorKind::InvalidPayload, operation.key_prefix());
                invalid.with_detail(error)
            })?;
        }
        operation.identify_value(self, tenant)
    }

    fn json_within(&self, bytes: usize) -> Option<Value> {
        json_within(self, bytes)
    }

    fn arrays_stay(&self, text: &str) -> Result<(), ReadError> {
        typed::arrays_stay(self, text)
    }
}

impl<T> Payload for Raw<T> {
    fn identity(
        &self,
        operation: &CompiledOperation,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        operation.identify(self.text(), tenant)
    }

    fn json_within(&self, bytes: usize) -> Option<Value> {
        let text = Some(self.text()).filter(|text| text.len() <= bytes);
        serde_json::from_str(text?).ok()
    }
}

/// Returns the value as JSON, if its text has at most this many bytes.
fn json_within<T: Serialize + ?Sized>(value: &T, bytes: usize) -> Option<Value> {
    let mut text = Within {
        text: Vec::new(),
        bytes,
    };
    serde_json::to_writer(&mut text, value).ok()?;
    // A read of bytes would be a second instance of serde_json's parser in each function.
    serde_json::from_str(std::str::from_utf8(&text.text).ok()?).ok()
}

/// A text that refuses to become longer.
struct Within {
    text: Vec<u8>,
    bytes: usize,
}

impl Write for Within {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.text.len() + more.len() > self.bytes {
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The parameter of a Lambda handler: a payload with the context of its invocation. It is a trait for the compiler's message about
/// another parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a Lambda event",
    label = "write `LambdaEvent<T>` here",
    note = "for any other function say what the payload is: `#[idempotent(payload = <expression over the parameters>)]`"
)]
pub trait Event {
    /// The type of the payload.
    type Payload: Payload;

    /// Returns the payload.
    fn payload(&self) -> &Self::Payload;

    /// Returns the context of the invocation.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_longer_text_is_not_made() {
        for (length, is_made) in [(22, true), (23, false)] {
            let job = serde_json::json!({ "job": "x".repeat(length) });
            let raw: Raw<Value> = serde_json::from_str(&job.to_string()).unwrap();
            let expected = is_made.then_some(&job);
            assert_eq!(json_within(&job, 32).as_ref(), expected);
            assert_eq!(Payload::json_within(&raw, 32).as_ref(), expected);
        }
    }
}

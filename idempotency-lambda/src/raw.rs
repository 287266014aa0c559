//! `Raw<T>`: a typed value with the JSON text that was sent.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use idempotency_core::typed::{self, ReadError};
use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A value with the JSON text that it was read from.
///
/// Keys are taken from the text, not from the value: `10` stays `10` although the field is an `f64`, and fields that the type
/// does not have still count.
///
/// A test makes one with `serde_json::from_str`. The error of a text that does not fit the type says where, and never quotes the payload.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{LambdaEvent, Raw, idempotent};
/// # use serde::Deserialize;
/// #[derive(Deserialize)]
/// struct Payment {
///     amount: f64,
/// }
///
/// #[idempotent(key = "order_id")]
/// async fn handler(event: LambdaEvent<Raw<Payment>>) -> Result<f64, idempotency_lambda::BoxError> {
///     Ok(event.payload.amount)
/// }
/// # let raw: Raw<Payment> = serde_json::from_str(r#"{"order_id": 1, "amount": 10}"#).unwrap();
/// # assert_eq!(raw.amount, 10.0);
/// # let _ = handler;
/// ```
#[derive(Clone)]
pub struct Raw<T> {
    value: T,
    text: Box<str>,
}

impl<T> Raw<T> {
    /// Returns the text as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value without the text.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: DeserializeOwned> Raw<T> {
    fn read(text: &str) -> Result<Self, RawError> {
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        let value = typed::read(text).map_err(RawError)?;
        let text = text.into();
        Ok(Self { value, text })
    }
}

/// The name under which a [`Raw`] asks its deserializer for a text.
pub(crate) const RAW: &str = "idempotency_lambda::Raw";

impl<'de, T: DeserializeOwned> Deserialize<'de> for Raw<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW, RawVisitor(PhantomData))
    }
}

struct RawVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for RawVisitor<T> {
    type Value = Raw<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON text")
    }

    /// Reads the text of a deserializer that knows [`RAW`].
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Raw<T>, E> {
        Raw::read(text).map_err(E::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, json: D) -> Result<Raw<T>, D::Error> {
        let text = Box::<RawValue>::deserialize(json)?;
        Raw::read(text.get()).map_err(D::Error::custom)
    }
}

impl<T> Deref for Raw<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Writes the type and the length, never the payload.
impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Raw<{}>({} bytes)",
            std::any::type_name::<T>(),
            self.text().len()
        )
    }
}

/// The error of a text that does not fit its type. It says where the fault is and never quotes the payload.
pub(crate) struct RawError(pub(crate) ReadError);

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kept_as_it_was_sent() {
        let raw: Raw<f64> = serde_json::from_str(" 10 ").unwrap();
        assert_eq!((raw.text(), *raw), ("10", 10.0));
    }

    #[test]
    fn neither_debug_nor_errors_show_the_payload() {
        let raw: Raw<String> = serde_json::from_str(r#""s3cr3t""#).unwrap();
        assert!(!format!("{raw:?}").contains("s3cr3t"));
        let error = serde_json::from_str::<Raw<u8>>(r#""s3cr3t""#).unwrap_err();
        let text = "the event does not fit its type (line 1, column 8)";
        assert_eq!(error.to_string(), text);
    }
}

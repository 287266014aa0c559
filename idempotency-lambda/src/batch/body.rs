//! The body of a record, as a type.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idempotency_core::error::Error;
use idempotency_core::operation::{CompiledOperation, Identity};
use idempotency_core::typed;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use crate::event::Payload;

/// A type that a record's body can be read as: any type that is read from JSON and written as JSON, or [`RawBody`].
///
/// Implement it for a type that is not JSON, such as a message of Protocol Buffers. If the type is `Serialize`, a key can be
/// taken from it.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::batch::{Body, Undecodable};
/// use serde::Serialize;
///
/// /// One line of a CSV file.
/// #[derive(Serialize)]
/// struct Line {
///     columns: Vec<String>,
/// }
///
/// impl Body for Line {
///     fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
///         let text = str::from_utf8(bytes).map_err(|_| Undecodable::new("is not UTF-8"))?;
///         Ok(Self { columns: text.split(',').map(str::to_owned).collect() })
///     }
/// }
/// # assert_eq!(Line::decode(b"a,b").unwrap().columns, ["a", "b"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "the body of a record cannot be read as `{Self}`",
    label = "this type is not read from JSON and written as JSON",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it: the key is taken from the body as JSON; or take `RawBody`, or implement `batch::Body`"
)]
pub trait Body: Payload + Sized {
    /// Reads the body.
    ///
    /// # Errors
    ///
    /// If the bytes are no such body. The record is then reported as failed, and the others still run.
    fn decode(bytes: &[u8]) -> Result<Self, Undecodable>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + Payload> Body for T {
    fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
        let text = str::from_utf8(bytes).map_err(|_| {
            Undecodable::new(if bytes.starts_with(&KPL) {
                "is an aggregate of the Kinesis Producer Library (it begins with F3 89 9A C2), which has several records: set \
                `AggregationEnabled` of the producer to false"
            } else {
                "is not UTF-8"
            })
        })?;
        typed::read_and_check(text, T::arrays_stay).map_err(|error| {
            Undecodable::new(match pointer(text) {
                Some(class) => format!(
                    "is a pointer of the SQS extended client (`{class}`), because the message is in S3: take `RawBody`, and read \
                    the object"
                ),
                None => error.to_string(),
            })
        })
    }
}

/// How an aggregate of the Kinesis Producer Library begins.
const KPL: [u8; 4] = [0xf3, 0x89, 0x9a, 0xc2];

/// The classes that the extended client of SQS names in a pointer to S3, in its versions since 2 and 1.
const POINTERS: [&str; 2] = [
    "software.amazon.payloadoffloading.PayloadS3Pointer",
    "com.amazon.sqs.javamessaging.MessageS3Pointer",
];

/// Returns the class of a pointer of the SQS extended client: an array with this class and the place of the message.
fn pointer(text: &str) -> Option<&'static str> {
    let (class, _) = serde_json::from_str::<(String, IgnoredAny)>(text).ok()?;
    POINTERS.into_iter().find(|known| *known == class)
}

/// The error of a body that cannot be read.
///
/// Its text goes to the log as the end of a sentence, "the body ..". It must not contain a part of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable(String);

impl Undecodable {
    /// Returns the error with this text, such as `is not UTF-8`.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Undecodable {}

/// A body that is not read: its bytes as they were sent.
///
/// Its key, if the operation has a `key` expression, is taken from the body as one JSON text. `powertools_json(@)` reads it.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::batch::RawBody;
/// let body = RawBody::from(b"hello".to_vec());
/// assert_eq!((body.as_str(), body.as_bytes()), (Some("hello"), b"hello".as_slice()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RawBody(Vec<u8>);

impl RawBody {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text, or `None` if the bytes are not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }

    /// Returns the bytes without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl From<Vec<u8>> for RawBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Payload for RawBody {
    fn identity(
        &self,
        operation: &CompiledOperation,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        match self.as_str() {
            Some(text) => operation.identify_value(text, tenant),
            None => operation.identify_value(&self.0, tenant),
        }
    }
}

impl Body for RawBody {
    fn decode(bytes: &[u8]) -> Result<Self, Undecodable> {
        Ok(Self(bytes.to_vec()))
    }
}

/// Writes the length, never the body.
impl fmt::Debug for RawBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawBody({} bytes)", self.0.len())
    }
}

/// A body in the document of its record. Other bodies than JSON are accepted too, for key expressions that do not look at the body.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum BodyOrText<'a> {
    /// JSON that is copied, so that its numbers do not change.
    Json(&'a RawValue),
    Text(&'a str),
    Base64(String),
}

impl<'a> From<&'a [u8]> for BodyOrText<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        let Ok(text) = str::from_utf8(bytes) else {
            return Self::Base64(STANDARD.encode(bytes));
        };
        serde_json::from_str(text).map_or(Self::Text(text), Self::Json)
    }
}

/// A payload that is JSON text already: the id of a record, or the whole record.
pub(super) struct Text(pub(super) String);

impl Payload for Text {
    fn identity(
        &self,
        operation: &CompiledOperation,
        tenant: Option<&str>,
    ) -> Result<Identity, Error> {
        operation.identify(&self.0, tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Serialize, Deserialize)]
    struct Order {
        #[allow(dead_code)]
        amount: u8,
    }

    #[test]
    fn the_error_of_a_body_names_the_place_and_not_the_content() {
        for (body, wrong) in [
            (
                r#"{"amount": "s3cr3t"}"#,
                "does not fit its type at `amount` (line 1, column 19)",
            ),
            ("s3cr3t", "is not JSON (line 1, column 1)"),
            ("", "ends too early (line 1, column 0)"),
            (
                "{}",
                "does not fit its type (no field `amount`) (line 1, column 2)",
            ),
        ] {
            let error = Order::decode(body.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), wrong);
        }
        let error = Order::decode(&[0xff]).unwrap_err();
        assert_eq!(error.to_string(), "is not UTF-8");
    }

    #[test]
    fn an_array_is_no_struct_and_what_other_programs_put_into_a_body_is_named() {
        let extended_client =
            r#"["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3Key": "s3cr3t"}]"#;
        for (body, wrong) in [
            (
                "[1]".as_bytes(),
                "does not fit its type (an array, where the type has named fields)",
            ),
            (
                extended_client.as_bytes(),
                "is a pointer of the SQS extended client",
            ),
            (
                r#"["s3cr3t", {}]"#.as_bytes(),
                "does not fit its type (an array, where",
            ),
            (
                &[0xf3, 0x89, 0x9a, 0xc2, 0x0a],
                "is an aggregate of the Kinesis Producer Library",
            ),
        ] {
            let error = Order::decode(body).unwrap_err().to_string();
            assert!(
                error.starts_with(wrong) && !error.contains("s3cr3t"),
                "{error}"
            );
        }
        let pointer = <(String, serde_json::Value)>::decode(extended_client.as_bytes());
        assert!(pointer.is_ok(), "a tuple is a sequence");
    }

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Order),
        Many(Vec<Order>),
    }

    #[test]
    fn an_array_that_serde_keeps_before_it_knows_the_type_is_no_struct() {
        assert!(OneOrMany::decode(br#"[{"amount": 1}]"#).is_ok());
        assert!(OneOrMany::decode(b"[1]").is_err());
    }

    #[test]
    fn a_raw_body_accepts_any_bytes_and_shows_none() {
        let body = RawBody::decode(&[0xff, 0x00]).unwrap();
        assert_eq!(body.as_str(), None);
        assert_eq!(format!("{body:?}"), "RawBody(2 bytes)");
        assert_eq!(body.into_bytes(), [0xff, 0x00]);
    }
}

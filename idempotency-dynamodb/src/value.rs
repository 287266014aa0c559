//! The values of attributes: borrowed, as a request has them, and in the form of the SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::RecordedSteps;

/// An attribute: its name in the table, and its value.
pub(crate) type NamedValue<'a> = (&'a str, Value<'a>);

/// A value of an attribute or of a placeholder. It has no `Debug` outside of tests, because it can be a response.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Value<'a> {
    /// A text: type `S`.
    Text(&'a str),
    /// A whole number: type `N`.
    Number(i64),
    /// Bytes: type `B`. They are a piece of a response, or a compressed response, event or result of a step. In DynamoDB's JSON they are
    /// base64; an item's size counts them as they are.
    Bytes(&'a [u8]),
    /// The results of steps: type `M`, with a text for each.
    Steps(&'a RecordedSteps),
}

/// An item, as the SDK represents it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// Converts attributes, or the values of placeholders, to those of the SDK.
pub(crate) fn to_item<'a, 'v>(attributes: impl IntoIterator<Item = (&'a str, Value<'v>)>) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| (name.to_owned(), to_value(value)))
        .collect()
}

/// Converts a value to that of the SDK.
pub(crate) fn to_value(value: Value<'_>) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.to_owned()),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Steps(steps) => {
            let steps = steps.iter();
            let steps = steps.map(|(name, result)| (name, Value::Text(result.as_str())));
            AttributeValue::M(to_item(steps))
        }
    }
}

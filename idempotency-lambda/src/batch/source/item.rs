//! An item of a DynamoDB stream as plain JSON, for expressions and for the order of items.
//!
//! `serde_dynamo` would read a number as a float if it has a fraction, or more digits than a `u64`, so that two keys become one. It
//! has no JSON for binary values.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_dynamo::{AttributeValue, Item};
use serde_json::value::RawValue;

/// An item that is written without the names of DynamoDB's types. Its attributes are sorted, so that one item has one text.
///
/// Numbers keep all their digits, and binary values are base64.
pub(super) struct Plain<'a>(pub(super) &'a Item);

struct Attribute<'a>(&'a AttributeValue);

/// A number as DynamoDB writes it.
struct Number<'a>(&'a str);

impl Plain<'_> {
    /// Returns the JSON text, or `None` if a number of the item is none.
    pub(super) fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes: BTreeMap<_, _> = self.0.inner().iter().collect();
        let attributes = attributes.into_iter();
        serializer.collect_map(attributes.map(|(name, value)| (name, Attribute(value))))
    }
}

impl Serialize for Attribute<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            AttributeValue::N(number) => Number(number).serialize(serializer),
            AttributeValue::S(text) => serializer.serialize_str(text),
            AttributeValue::Bool(value) => serializer.serialize_bool(*value),
            AttributeValue::B(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            AttributeValue::Null(_) => serializer.serialize_unit(),
            AttributeValue::M(map) => {
                let map: BTreeMap<_, _> = map.iter().collect();
                serializer.collect_map(
                    map.into_iter()
                        .map(|(name, value)| (name, Attribute(value))),
                )
            }
            AttributeValue::L(list) => serializer.collect_seq(list.iter().map(Attribute)),
            AttributeValue::Ss(set) => serializer.collect_seq(set),
            AttributeValue::Ns(set) => serializer.collect_seq(set.iter().map(|text| Number(text))),
            AttributeValue::Bs(set) => {
                serializer.collect_seq(set.iter().map(|bytes| STANDARD.encode(bytes)))
            }
        }
    }
}

impl Serialize for Number<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match serde_json::from_str::<&RawValue>(self.0) {
            Ok(number) if is_number => number.serialize(serializer),
            _ => Err(S::Error::custom("it is not a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(item: serde_json::Value) -> Option<String> {
        Plain(&serde_json::from_value(item).unwrap()).text()
    }

    #[test]
    fn an_item_is_plain_json_with_exact_numbers_and_sorted_names() {
        let item = json!({
            "s": { "S": "a\"b" }, "n": { "N": "12345678901234567890.5" }, "b": { "B": "/wA=" }, "t": { "BOOL": true },
            "z": { "NULL": true }, "m": { "M": { "y": { "N": "-1" }, "x": { "L": [{ "N": "1E+40" }, { "S": "" }] } } },
            "ss": { "SS": ["p", "q"] }, "ns": { "NS": ["1", "2.5"] }, "bs": { "BS": ["/wA="] },
        });
        let expected = concat!(
            r#"{"b":"/wA=","bs":["/wA="],"m":{"x":[1E+40,""],"y":-1},"n":12345678901234567890.5,"ns":[1,2.5],"#,
            r#""s":"a\"b","ss":["p","q"],"t":true,"z":null}"#
        );
        assert_eq!(text(item).as_deref(), Some(expected));
    }

    #[test]
    fn a_number_that_is_none_has_no_json() {
        for number in ["", "NaN", "true", "\"1\"", "1 2", "0x1"] {
            assert_eq!(text(json!({ "n": { "N": number } })), None, "{number}");
        }
    }
}

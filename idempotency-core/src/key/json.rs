//! A JSON value that keeps every digit, every character and the order of members of the event.

use std::fmt;

use super::budget::heap;
use super::{Float, Integer, Object, Text};

/// A JSON value, with every digit, every character and the order of members as in its text.
///
/// A [`Float`] may also be infinite or not-a-number, as in the JSON that Python reads and writes. `Debug` shows only the type,
/// never the payload.
// The format fixes the variants, so this enum is exhaustive. Each takes at most 16 bytes besides the capacity of an array,
// so that a value takes 24 bytes: an event can hold millions of values.
#[derive(Clone, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction or an exponent.
    Int(Integer),
    /// A number with a fraction or an exponent.
    Float(Float),
    /// A string.
    Str(Text),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

impl Json {
    /// Returns the name of the value's type in JMESPath, such as `number`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Int(_) | Self::Float(_) => "number",
            Self::Str(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Returns the member of an object; `None` if the object lacks it or the value is not an object.
    pub fn member(&self, name: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.get(name.as_bytes()),
            _ => None,
        }
    }

    /// Returns how many bytes a copy takes on the heap.
    pub(crate) fn heap(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 0,
            Self::Int(integer) => heap(integer.digits_beyond_64_bits()),
            Self::Float(float) => heap(float.digits_beyond_64_bits()),
            Self::Str(text) => heap(text.as_bytes().len()),
            Self::Array(elements) => {
                heap(size_of_val(elements.as_slice()))
                    + elements.iter().map(Self::heap).sum::<usize>()
            }
            Self::Object(members) => members.heap(),
        }
    }

    /// Returns the text of a string; `None` for other values and for a string with lone surrogates.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => text.as_str(),
            _ => None,
        }
    }
}

/// Returns true if a selected value cannot be a key: null, `""`, or an array or object that is empty or holds only nulls.
pub fn is_absent_key(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Bool(_) | Json::Int(_) | Json::Float(_) => false,
        Json::Str(text) => text.is_empty(),
        Json::Array(elements) => elements.iter().all(|element| matches!(element, Json::Null)),
        Json::Object(members) => members.values().all(|member| matches!(member, Json::Null)),
    }
}

/// Returns true if a selected value is nothing that can be compared: null, or an array or object that holds only nulls. An empty one is
/// a value: it differs from others.
pub(crate) fn is_nothing(json: &Json) -> bool {
    match json {
        Json::Str(_) => false,
        Json::Array(elements) => !elements.is_empty() && is_absent_key(json),
        Json::Object(members) => members.values().next().is_some() && is_absent_key(json),
        _ => is_absent_key(json),
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({})", self.type_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_value_takes_24_bytes_and_a_member_40() {
        assert_eq!(size_of::<Json>(), 24);
        assert_eq!(size_of::<(Text, Json)>(), 40);
    }

    #[test]
    fn debug_shows_no_payload() {
        let json = Json::parse("[\"secret\", 4242]").unwrap();
        assert_eq!(format!("{json:?}"), "Json(array)");
    }

    #[test]
    fn a_copy_takes_the_blocks_of_its_parts() {
        for (text, blocks) in [
            ("null", vec![]),
            ("true", vec![]),
            ("1.5", vec![]),
            ("1700000000.1234567891", vec![21]),
            ("9223372036854775807", vec![]),
            ("9223372036854775808", vec![19]),
            (r#""""#, vec![]),
            (r#""text""#, vec![4]),
            ("[]", vec![]),
            (r#"[1, "text", 9223372036854775808]"#, vec![3 * 24, 4, 19]),
            (r#"[["text"], ["texts"]]"#, vec![2 * 24, 24, 4, 24, 5]),
            ("{}", vec![]),
        ] {
            let expected: usize = blocks.into_iter().map(heap).sum();
            assert_eq!(Json::parse(text).unwrap().heap(), expected, "{text}");
        }
    }

    #[test]
    fn only_strings_have_a_text_and_only_objects_have_members() {
        let object = Json::parse(r#"{"a": "b"}"#).unwrap();
        assert_eq!(object.as_str(), None);
        assert_eq!(object.member("a").and_then(Json::as_str), Some("b"));
        assert_eq!(object.member("b"), None);
        assert_eq!(Json::Null.member("a"), None);
    }
}

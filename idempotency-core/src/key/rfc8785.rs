//! The digest of JSON that is compared as RFC 8785 (JCS) does, without members that a retry may change.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use idempotency_expression::is_json_pointer;

use super::{Budget, Float, HashAlgorithm, Integer, Json, Object};

/// The place of a value in JSON, as RFC 6901 writes it, such as `/order/note`. `~1` is a slash in a name, `~0` a tilde.
///
/// # Examples
///
/// ```
/// use idempotency_core::key::JsonPointer;
///
/// assert!("/context".parse::<JsonPointer>().is_ok());
/// assert!("context".parse::<JsonPointer>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonPointer(Vec<String>);

/// A text that is not the place of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAJsonPointer;

impl FromStr for JsonPointer {
    type Err = NotAJsonPointer;

    /// Parses a pointer. The pointer to the whole value is refused: nothing would be left.
    fn from_str(text: &str) -> Result<Self, NotAJsonPointer> {
        if !is_json_pointer(text) {
            return Err(NotAJsonPointer);
        }
        let names = text.split('/').skip(1);
        let names = names.map(|name| name.replace("~1", "/").replace("~0", "~"));
        Ok(Self(names.collect()))
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| {
            let name = name.replace('~', "~0").replace('/', "~1");
            write!(f, "/{name}")
        })
    }
}

impl fmt::Debug for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonPointer({self})")
    }
}

impl fmt::Display for NotAJsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not the JSON pointer of a member, such as `/context`")
    }
}

impl std::error::Error for NotAJsonPointer {}

impl HashAlgorithm {
    /// Returns the digest of a JSON text without some of its members, in lower-case hex. Two texts have one digest if RFC 8785 writes
    /// them as one: 1, 1.0 and 1e0 are one number, and null is not a missing member.
    ///
    /// Numbers are compared as doubles, with two exceptions, which RFC 8785 does not carry: an integer without fraction and exponent
    /// keeps every digit, and so does a number beyond the range of doubles. A pointer that finds nothing removes nothing.
    ///
    /// Returns `None` if the text is not JSON, if an object has two members of one name, or if its values take more than
    /// `memory_limit` bytes.
    pub fn hex_of_rfc8785(
        &self,
        text: &str,
        without: &[JsonPointer],
        memory_limit: usize,
    ) -> Option<String> {
        // Two members of one name are none of RFC 8785.
        self.hex_of_distinct_json(text, memory_limit)?;
        let mut budget = Budget::new(memory_limit);
        let mut json = Json::parse_within(text.as_bytes(), &mut budget).ok()?;
        let without: Vec<&[String]> = without.iter().map(|pointer| &*pointer.0).collect();
        reduce(&mut json, &without);
        Some(self.hex_of(&json))
    }
}

/// Gives equal numbers one form, and removes members. `without` are the names of each, from this value on.
fn reduce(json: &mut Json, without: &[&[String]]) {
    match json {
        Json::Int(integer) => {
            if let Some(float) = beyond_64_bits(integer) {
                *json = Json::Float(float.into());
            }
        }
        Json::Float(float) => {
            if let Some(number) = nearest(float) {
                *json = number;
            }
        }
        Json::Array(elements) => {
            let mut place = 0_usize;
            elements.retain_mut(|element| {
                let name = match without {
                    [] => String::new(),
                    _ => place.to_string(),
                };
                place += 1;
                stays(element, name.as_bytes(), without)
            });
        }
        Json::Object(members) => {
            let mut entries = std::mem::take(members).into_entries();
            entries.retain_mut(|(name, value)| stays(value, name.as_bytes(), without));
            *members = Object::from_entries(entries);
        }
        Json::Null | Json::Bool(_) | Json::Str(_) => {}
    }
}

/// Returns true if a member or an element stays. Reduces what is in it.
fn stays(value: &mut Json, name: &[u8], without: &[&[String]]) -> bool {
    let inside = without.iter().filter_map(|names| match names {
        [first, rest @ ..] if first.as_bytes() == name => Some(rest),
        _ => None,
    });
    let inside: Vec<_> = inside.collect();
    let stays = !inside.iter().any(|rest| rest.is_empty());
    if stays {
        reduce(value, &inside);
    }
    stays
}

/// Returns an integer beyond 64 bits as a float, if the float has each of its digits.
fn beyond_64_bits(integer: &Integer) -> Option<f64> {
    if integer.as_i64().is_some() {
        return None;
    }
    let float = integer.to_f64()?;
    (integer.compare_f64(float) == Some(Ordering::Equal)).then_some(float)
}

/// Returns the nearest double of a number: as an integer if it is one of 64 bits. `None` if doubles do not reach the number.
fn nearest(float: &Float) -> Option<Json> {
    // From here on an `i64` is full.
    const END: f64 = 9_223_372_036_854_775_808.0;
    let double = float.to_f64();
    let is_exact = float.digits_beyond_64_bits() == 0;
    if !double.is_normal() && !is_exact {
        return None;
    }
    Some(if double.fract() == 0.0 && (-END..END).contains(&double) {
        Json::Int(Integer::from(double as i64))
    } else {
        Json::Float(double.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str, without: &[&str]) -> Option<String> {
        let without: Vec<_> = without.iter().map(|text| text.parse().unwrap()).collect();
        HashAlgorithm::Sha256.hex_of_rfc8785(text, &without, usize::MAX)
    }

    #[test]
    fn numbers_are_one_if_they_are_one_double_and_integers_keep_their_digits() {
        for (one, other, is_one) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("1", "10e-1", true),
            ("0", "-0", true),
            ("0", "-0.0", true),
            ("0.1", "0.10000000000000001", true),
            ("1.5", "15e-1", true),
            ("1.5", "1.50", true),
            ("9007199254740992", "9007199254740992.0", true),
            ("100000000000000000000", "1e20", true),
            ("-100000000000000000000", "-1e20", true),
            ("1", "2", false),
            ("1", "1.0000000000000002", false),
            ("1", "-1", false),
            ("1", "\"1\"", false),
            ("1", "true", false),
            ("9007199254740992", "9007199254740993", false),
            ("18446744073709551617", "18446744073709551618", false),
            ("18446744073709551617", "18446744073709551616", false),
            ("1e400", "1e401", false),
            ("1e400", "-1e400", false),
            ("1e-400", "0", false),
            ("1e-400", "1e-401", false),
        ] {
            for of in ["@", "[@]", r#"{"a": {"b": [1, @]}}"#] {
                let [a, b] = [one, other].map(|number| hex(&of.replace('@', number), &[]));
                assert!(a.is_some() && b.is_some(), "{one} {other}");
                assert_eq!(a == b, is_one, "{one} {other} in {of}");
            }
        }
    }

    #[test]
    fn values_are_one_if_they_differ_in_white_space_order_escapes_and_removed_members_alone() {
        let note = &["/note", "/push/auth/token", "/a~1b/~0", "/list/1/id"][..];
        for (one, other, without, is_one) in [
            (
                r#"{"a":1,"b":2}"#,
                r#"{ "b": 2, "\u0061": 1 }"#,
                &[][..],
                true,
            ),
            (r#"{"a":null}"#, "{}", &[], false),
            ("[1,2]", "[2,1]", &[], false),
            (r#"{"a":"x"}"#, r#"{"a":"x "}"#, &[], false),
            (
                r#"{"a":1,"note":1}"#,
                r#"{"a":1,"note":{"b":2}}"#,
                note,
                true,
            ),
            (r#"{"a":1,"note":1}"#, r#"{"a":1}"#, note, true),
            (r#"{"a":1,"note":1}"#, r#"{"a":2,"note":1}"#, note, false),
            // Only the member of this place, not each of the name.
            (r#"{"a":{"note":1}}"#, r#"{"a":{"note":2}}"#, note, false),
            (r#"[{"note":1}]"#, r#"[{"note":2}]"#, note, false),
            (
                r#"{"push":{"auth":{"token":1,"s":1}}}"#,
                r#"{"push":{"auth":{"s":1.0}}}"#,
                note,
                true,
            ),
            (
                r#"{"push":{"auth":{"token":1}}}"#,
                r#"{"push":{}}"#,
                note,
                false,
            ),
            (
                r#"{"push":{"auth":1}}"#,
                r#"{"push":{"auth":2}}"#,
                note,
                false,
            ),
            (r#"{"a/b":{"~":1}}"#, r#"{"a/b":{"~":2}}"#, note, true),
            (
                r#"{"list":[{"id":1},{"id":2}]}"#,
                r#"{"list":[{"id":1},{"id":3}]}"#,
                note,
                true,
            ),
            (
                r#"{"list":[{"id":1},{"id":2}]}"#,
                r#"{"list":[{"id":2},{"id":2}]}"#,
                note,
                false,
            ),
            ("[0,1]", "[0,2]", &["/1"], true),
            ("[0,1]", "[1,1]", &["/1"], false),
            ("1", "2", &["/"], false),
        ] {
            let [a, b] = [one, other].map(|text| hex(text, without));
            assert!(a.is_some() && b.is_some(), "{one} {other}");
            assert_eq!(a == b, is_one, "{one} {other}");
        }
        for none in ["", "{", r#"{"a":1,"a":1}"#, r#"[{"a":1,"\u0061":2}]"#] {
            assert_eq!(hex(none, note), None, "{none}");
        }
        let limited = HashAlgorithm::Sha256.hex_of_rfc8785("[1, 2, 3, 4]", &[], 16);
        assert_eq!(limited, None);
    }

    #[test]
    fn a_pointer_is_read_as_it_is_written_or_refused() {
        for text in ["/a", "/", "/a/b", "//", "/a~1b/~0~1", "/0"] {
            assert_eq!(text.parse::<JsonPointer>().unwrap().to_string(), text);
        }
        for wrong in ["", "a", "a/b", "/a~", "/~2", "/a~~01", "#/a"] {
            assert_eq!(
                wrong.parse::<JsonPointer>(),
                Err(NotAJsonPointer),
                "{wrong}"
            );
        }
    }
}

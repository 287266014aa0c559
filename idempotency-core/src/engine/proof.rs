//! Which types prove that a response can be read back, so that it is not read once more before it is stored.
//!
//! A type is in the list only if each of its values can be read back from its own JSON. A struct is not in it: its `Serialize` and
//! `Deserialize` can differ, and a NaN becomes null, in one response and not in the next. So earlier responses prove nothing.
//!
//! A `RawValue` is not in it either: a `Deserializer` that is not of `serde_json` can make one of any text.

use std::any::TypeId;

use serde_json::{Map, Value};

use crate::key::scan;

/// The most levels of a value that is certain to be read. `serde_json` reads up to 127; deeper ones are read before they are
/// stored.
const DEPTH: usize = 100;
/// The beginning of the names with which `serde_json` marks its own values. It reads an object with such a name as the marked value,
/// or fails.
pub(super) const MARK: &str = "$serde_json::private::";

/// Returns true if every value of the type can be read back from the JSON text that `serde_json` wrote of it. `text` is the
/// text of one value.
pub(super) fn of<R>(text: &str) -> bool {
    // For a type with lifetimes, `typeid` returns the id with `'static` ones. None of the types below has a lifetime.
    let id = typeid::of::<R>();
    let is_any_of = |ids: &[TypeId]| ids.contains(&id);
    is_any_of(&[
        TypeId::of::<()>(),
        TypeId::of::<bool>(),
        TypeId::of::<String>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ]) || is_any_of(&[
        TypeId::of::<Value>(),
        TypeId::of::<Map<String, Value>>(),
        TypeId::of::<Vec<Value>>(),
    ]) && is_readable(text.as_bytes())
}

/// Returns true if a JSON text has at most [`DEPTH`] levels of arrays and objects, and no string that begins with [`MARK`].
fn is_readable(text: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH {
                    return false;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' if text
                .get(at..)
                .is_some_and(|rest| rest.starts_with(MARK.as_bytes())) =>
            {
                return false;
            }
            b'"' => loop {
                at += scan::plain(text.get(at..).unwrap_or_default());
                match text.get(at) {
                    Some(b'\\') => at += 2,
                    _ => break at += 1,
                }
            },
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::read;
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    fn proves<R: Serialize + DeserializeOwned>(response: &R) -> bool {
        let text = serde_json::to_string(response).unwrap();
        let proved = of::<R>(&text);
        assert!(!proved || read::<R>(&text).is_ok());
        proved
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |value, level| match level % 2 {
            0 => Value::Array(vec![value]),
            _ => serde_json::json!({ "\"[{": value }),
        })
    }

    #[test]
    fn a_type_that_is_always_read_back_is_a_proof() {
        assert!(proves(&()) && proves(&true) && proves(&"\"\u{0}é".to_owned()));
        assert!(proves(&i32::MIN) && proves(&i64::MIN) && proves(&u32::MAX));
        assert!(proves(&u64::MAX) && proves(&usize::MAX));
        assert!(proves(
            &serde_json::json!([1.5, -0.0, 1e300, "]", {"a": null}])
        ));
        assert!(proves(&vec![Value::Null]) && proves(&Map::new()));
    }

    #[test]
    fn a_value_with_a_mark_of_serde_json_is_no_proof() {
        for mark in ["RawValue", "Number"] {
            let name = format!("$serde_json::private::{mark}");
            for value in [Value::from("1"), Value::from("no JSON"), Value::from(5)] {
                let marked: Map<_, _> = [(name.clone(), value)].into_iter().collect();
                assert!(!proves(&marked) && !proves(&vec![Value::Object(marked.clone())]));
                assert!(!proves(&serde_json::json!({ "a": [marked] })));
            }
        }
        // A mark counts only at the beginning of a string.
        assert!(proves(
            &serde_json::json!({ "\"$serde_json::private::RawValue": "$serde_json" })
        ));
    }

    #[test]
    fn any_other_type_is_no_proof() {
        let raw = serde_json::value::RawValue::from_string("1".to_owned()).unwrap();
        assert!(!proves(&raw));
        #[derive(serde::Deserialize, Serialize)]
        struct Paid {
            amount: u64,
        }
        assert!(
            !proves(&1.5) && !proves(&Some(1)) && !proves(&vec![1]) && !proves(&Paid { amount: 1 })
        );
    }

    #[test]
    fn a_deep_value_is_no_proof() {
        assert!(proves(&nested(DEPTH)));
        for levels in [DEPTH + 1, 127] {
            assert!(!proves(&nested(levels)), "{levels}");
        }
        // This one cannot be read back.
        let text = serde_json::to_string(&nested(200)).unwrap();
        assert!(!of::<Value>(&text) && read::<Value>(&text).is_err());
        // Brackets that are closed again, and those in strings, do not count.
        assert!(proves(&Value::Array(vec![nested(3); 200])));
        assert!(proves(&Value::from("[{\\\"[".repeat(200))));
    }
}

//! Helpers for JSON values.

use serde::Serialize;
use serde_json::{Map, Value};

/// Writes a value of a test as JSON text.
///
/// # Panics
///
/// If the value cannot be written as JSON.
pub(super) fn json_text<T: Serialize + ?Sized>(value: &T) -> String {
    json_value(value).to_string()
}

/// Turns a value of a test into JSON.
///
/// # Panics
///
/// If the value cannot be written as JSON.
pub(super) fn json_value<T: Serialize + ?Sized>(value: &T) -> Value {
    match serde_json::to_value(value) {
        Ok(value) => value,
        Err(error) => panic!("the value cannot be written as JSON: {error}"),
    }
}

/// Returns the text at a JSON pointer of each record of a batch, in order.
pub(super) fn identifiers(event: &Value, pointer: &str) -> Vec<String> {
    let records = event["Records"].as_array().into_iter().flatten();
    let identifiers = records.filter_map(|record| record.pointer(pointer)?.as_str());
    identifiers.map(str::to_owned).collect()
}

/// Sets the value at a JSON pointer, and creates the objects on the way.
///
/// # Panics
///
/// If a list on the way has no such item.
pub(super) fn set(target: &mut Value, pointer: &str, value: Value) {
    let mut place = target;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let is_list = place.is_array();
        place = match part.parse::<usize>() {
            Ok(index) if is_list => &mut place[index],
            _ => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                // An index of an object creates the field.
                &mut place[part]
            }
        };
    }
    *place = value;
}

/// Makes an object of pairs. The last value of a name counts.
pub(super) fn object<V: Into<Value>>(pairs: impl IntoIterator<Item = (String, V)>) -> Value {
    let pairs = pairs.into_iter().map(|(name, value)| (name, value.into()));
    Value::Object(pairs.collect())
}

/// Makes an object of pairs, or `null` if there are none.
pub(super) fn object_or_null<V: Into<Value>>(
    pairs: impl IntoIterator<Item = (String, V)>,
) -> Value {
    match object(pairs) {
        Value::Object(fields) if fields.is_empty() => Value::Null,
        object => object,
    }
}

/// Puts a field into an object if the value is not `null`: AWS leaves such a field out of the event.
pub(super) fn put(target: &mut Value, name: &str, value: Value) {
    if !value.is_null() {
        target[name] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pointer_creates_objects_and_finds_items() {
        let mut event = json!({"Records": [{"a": 1}], "none": null});
        set(&mut event, "/Records/0/a", json!(2));
        set(&mut event, "/none/x/y~1z", json!(3));
        set(&mut event, "/map/0", json!(4));
        assert_eq!(
            event,
            json!({"Records": [{"a": 2}], "none": {"x": {"y/z": 3}}, "map": {"0": 4}})
        );
    }
}

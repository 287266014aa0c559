//! Compares the arrays of a text with those of the value that was read from it.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{ARRAY, ReadError};

/// Checks that no array of the text became an object of the value.
///
/// It is for the places where serde keeps a part of the text before it knows the type. Members are compared by the names that the value
/// is written with.
///
/// # Errors
///
/// If an array became an object, and they are not both empty; also if the two cannot be compared.
///
/// # Examples
///
/// ```
/// use idempotency_core::typed::arrays_stay;
/// use serde_json::json;
/// assert!(arrays_stay(&json!({"lines": [1]}), r#"{"lines": [1]}"#).is_ok());
/// assert!(arrays_stay(&json!({"lines": {"price": 1}}), r#"{"lines": [1]}"#).is_err());
/// ```
pub fn arrays_stay<T: Serialize + ?Sized>(value: &T, text: &str) -> Result<(), ReadError> {
    let compared = serde_json::from_str(text).and_then(|arrays: Arrays| {
        let written = serde_json::to_string(value)?;
        let mut json = serde_json::Deserializer::from_str(&written);
        Written(&arrays).deserialize(&mut json)
    });
    compared.map_err(|_| ReadError::of_array())
}

/// The arrays in a value.
#[derive(Default)]
enum Arrays {
    #[default]
    None,
    /// An array: the elements that have arrays, with their places.
    Array {
        is_empty: bool,
        within: Vec<(usize, Arrays)>,
    },
    /// An object: the members that have arrays.
    Object(HashMap<String, Arrays>),
}

/// Writes the methods of a visitor for a value that has no array.
macro_rules! scalars {
    ($($method:ident $kind:ty),+) => {$(
        fn $method<E: Error>(self, _: $kind) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    )+};
}

impl<'de> Deserialize<'de> for Arrays {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Find)
    }
}

/// Finds the arrays of a text.
struct Find;

impl<'de> Visitor<'de> for Find {
    type Value = Arrays;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars! { visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str }

    fn visit_unit<E: Error>(self) -> Result<Arrays, E> {
        Ok(Arrays::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Arrays, A::Error> {
        let mut within = Vec::new();
        let mut count = 0;
        while let Some(element) = access.next_element()? {
            if !matches!(element, Arrays::None) {
                within.push((count, element));
            }
            count += 1;
        }
        let is_empty = count == 0;
        Ok(Arrays::Array { is_empty, within })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Arrays, A::Error> {
        let mut members = HashMap::new();
        while let Some((name, member)) = access.next_entry::<String, Arrays>()? {
            // Of two members with one name, the last one counts.
            match member {
                Arrays::None => drop(members.remove(&name)),
                member => drop(members.insert(name, member)),
            }
        }
        Ok(if members.is_empty() {
            Arrays::None
        } else {
            Arrays::Object(members)
        })
    }
}

/// Reads what was written of the value, and fails where an array became an object.
struct Written<'a>(&'a Arrays);

impl<'de> DeserializeSeed<'de> for Written<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Arrays::None => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Written<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    scalars! { visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let mut within = match self.0 {
            Arrays::Array { within, .. } => within.iter().peekable(),
            _ => [].iter().peekable(),
        };
        for place in 0.. {
            let arrays = within.next_if(|(at, _)| *at == place);
            let arrays = arrays.map_or(&Arrays::None, |(_, arrays)| arrays);
            if access.next_element_seed(Written(arrays))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(name) = access.next_key::<String>()? {
            let arrays = match self.0 {
                Arrays::Array { .. } => return Err(A::Error::custom(ARRAY)),
                Arrays::Object(members) => members.get(&name).unwrap_or(&Arrays::None),
                Arrays::None => &Arrays::None,
            };
            access.next_value_seed(Written(arrays))?;
        }
        match self.0 {
            Arrays::Array {
                is_empty: false, ..
            } => Err(A::Error::custom(ARRAY)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;
    use crate::typed::{read, read_checked};

    #[derive(Serialize, Deserialize)]
    struct Order {
        id: String,
        #[serde(default)]
        details: Value,
    }

    #[derive(Serialize, Deserialize)]
    struct Unit;

    #[derive(Serialize, Deserialize)]
    struct Wrapped(Order);

    #[derive(Serialize, Deserialize)]
    struct Pair(String, Value);

    #[derive(Serialize, Deserialize)]
    struct Lines {
        lines: Vec<Order>,
    }

    #[derive(Serialize, Deserialize)]
    enum Command {
        Ping,
        Named { id: String },
        Place(Order),
        Both(String, u8),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "type")]
    enum Inside {
        Ping,
        Place(Order),
        Named { id: String },
        All { lines: Vec<Inside> },
    }

    #[derive(Serialize, Deserialize)]
    #[serde(tag = "type", content = "value")]
    enum Beside {
        Place(Order),
        Both(String, u8),
    }

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        One(Order),
        Many(Vec<Order>),
        Point(f64, f64),
        Settings {
            #[serde(default)]
            size: u8,
        },
        Tags {
            tags: Vec<String>,
        },
        Members(BTreeMap<String, u8>),
    }

    #[derive(Serialize, Deserialize)]
    struct Flat {
        tags: Vec<String>,
        #[serde(flatten)]
        order: Order,
        #[serde(flatten)]
        others: BTreeMap<String, Untagged>,
    }

    /// A type by hand that reads an array or an object.
    #[derive(Serialize)]
    struct Either(usize);

    impl<'de> Deserialize<'de> for Either {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(Self(match Value::deserialize(deserializer)? {
                Value::Array(elements) => elements.len(),
                _ => 0,
            }))
        }
    }

    /// One order or several. It writes a list of one as the order, or as a list.
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(Order),
        Many(#[serde(serialize_with = "one_as_itself")] Vec<Order>),
    }

    fn one_as_itself<S: serde::Serializer>(orders: &[Order], to: S) -> Result<S::Ok, S::Error> {
        match orders {
            [only] => only.serialize(to),
            several => several.serialize(to),
        }
    }

    fn reads<T: Serialize + DeserializeOwned>(text: &str) -> bool {
        let checked = read_checked::<T>(text);
        if let Err(error) = &checked {
            assert!(
                error.to_string().contains("does not fit its type"),
                "{error}"
            );
        }
        checked.is_ok()
    }

    const POINTER: &str =
        r#"["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3Key": "k"}]"#;

    #[test]
    fn a_type_with_fields_is_read_from_an_object_alone() {
        assert!(reads::<Order>(r#"{"id": "a", "details": [["b"]]}"#));
        assert!(!reads::<Order>(POINTER));
        assert!(!reads::<Order>(r#"["a"]"#));
        assert!(!reads::<Wrapped>(r#"["a"]"#));
        assert!(!reads::<Option<Box<Order>>>(POINTER));
        assert!(!reads::<(u8, Order)>(r#"[1, ["a"]]"#));
        assert!(!reads::<[Order; 1]>(r#"[["a"]]"#));
        assert!(reads::<Lines>(r#"{"lines": [{"id": "a"}]}"#));
        assert!(!reads::<Lines>(r#"[[{"id": "a"}]]"#));
        assert!(!reads::<Lines>(r#"{"lines": [["a"]]}"#));
        assert!(!reads::<BTreeMap<String, Option<Order>>>(r#"{"x": ["a"]}"#));
        assert!(!reads::<Unit>("[]"));
        assert!(!reads::<()>("[]"));
        assert!(!reads::<BTreeMap<String, u8>>("[]"));
    }

    #[test]
    fn a_sequence_is_read_from_an_array() {
        assert!(reads::<Pair>(POINTER));
        assert!(reads::<(String, Value)>(POINTER));
        assert!(reads::<Value>(POINTER));
        assert!(reads::<Box<RawValue>>(POINTER));
        assert!(reads::<Vec<Value>>(POINTER));
        assert!(reads::<[[u8; 2]; 1]>("[[1, 2]]"));
        assert!(reads::<BTreeSet<String>>(r#"["a"]"#));
        assert!(reads::<Either>(POINTER));
        // Beyond the end of a tuple, `serde_json` calls the text wrong.
        assert!(!reads::<(u8,)>("[1, 2]"));
    }

    #[test]
    fn each_form_of_an_enum_keeps_arrays_and_objects_apart() {
        assert!(reads::<Command>(r#""Ping""#));
        assert!(reads::<Command>(r#"{"Both": ["a", 1]}"#));
        assert!(reads::<Command>(r#"{"Named": {"id": "a"}}"#));
        assert!(!reads::<Command>(r#"{"Named": ["a"]}"#));
        assert!(!reads::<Command>(r#"{"Place": ["a"]}"#));
        assert!(reads::<Inside>(
            r#"{"type": "All", "lines": [{"type": "Ping"}]}"#
        ));
        assert!(reads::<Inside>(
            r#"{"type": "Place", "id": "a", "details": [[1]]}"#
        ));
        for text in [
            r#"["Ping"]"#,
            r#"["Place", {"id": "a"}]"#,
            r#"["Named", "a"]"#,
            r#"{"type": "All", "lines": [["Ping"]]}"#,
            r#"{"type": "All", "lines": [{"type": "Ping"}, ["Place", {"id": "a"}]]}"#,
        ] {
            assert!(!reads::<Inside>(text), "{text}");
        }
        // Without a tag in an array, also what cannot be compared is refused.
        assert!(read::<Inside>(r#"["Ping"]"#).is_err());
        assert!(reads::<Beside>(r#"{"type": "Both", "value": ["a", 1]}"#));
        assert!(reads::<Beside>(
            r#"{"value": {"id": "a"}, "type": "Place"}"#
        ));
        for text in [
            r#"["Both", ["a", 1]]"#,
            r#"{"type": "Place", "value": ["a"]}"#,
            r#"{"value": ["a"], "type": "Place"}"#,
        ] {
            assert!(!reads::<Beside>(text), "{text}");
        }
    }

    #[test]
    fn what_serde_keeps_before_it_knows_the_type_is_compared_with_its_text() {
        for (text, expected) in [
            (r#"{"id": "a", "details": [1, [2]]}"#, true),
            (r#"[{"id": "a", "details": []}, {"id": "b"}]"#, true),
            ("[1.5, 2.5]", true),
            (r#"{"tags": ["a"]}"#, true),
            ("[]", true),
            (POINTER, false),
            (r#"["a"]"#, false),
            (r#"[{"id": "a"}, ["b"]]"#, false),
        ] {
            assert_eq!(reads::<Untagged>(text), expected, "{text}");
        }
        // What it writes does not show that the list was read as one.
        assert!(reads::<OneOrMany>(r#"{"id": "a"}"#));
        assert!(reads::<OneOrMany>(r#"[{"id": "a"}, {"id": "b"}]"#));
        assert!(!reads::<OneOrMany>(r#"[{"id": "a"}]"#));
        for (text, expected) in [
            (r#"{"id": "a", "tags": ["b"]}"#, true),
            (r#"{"id": "a", "tags": [], "details": {"b": [1]}}"#, true),
            (
                r#"{"id": "a", "tags": [], "x": [{"id": "a"}], "y": {"z": 1}}"#,
                true,
            ),
            (r#"{"id": "a", "tags": [], "x": ["a"]}"#, false),
            (r#"{"id": "a", "tags": [], "x": 1, "x": [["a"]]}"#, false),
            (r#"["a", ["b"]]"#, false),
        ] {
            assert_eq!(reads::<Flat>(text), expected, "{text}");
        }
    }

    #[test]
    fn the_error_says_that_it_is_an_array_and_where() {
        let error = read::<Lines>(r#"{"lines": [["4242"]]}"#).err().unwrap();
        assert_eq!(
            error.to_string(),
            "does not fit its type (an array, where the type has named fields) at `lines[0]` (line 1, column 12)"
        );
        let error = read_checked::<Untagged>(POINTER).err().unwrap();
        assert_eq!(
            error.to_string(),
            "does not fit its type (an array, where the type has named fields)"
        );
    }
}

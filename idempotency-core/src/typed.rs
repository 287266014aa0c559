//! Reads a typed value from JSON text. Its error names the place of the fault and never quotes the text.
//!
//! A name is shown only if it is a field of a type: the members of a map are named by the text.
//!
//! serde reads a struct from an array too, by position. Then `["a", 1]` is an `Order`, and texts that mean something else have its key.
//! So an array is refused where a type has fields. Where serde keeps a part of the text before it knows the type (`untagged`,
//! `flatten`, a tag inside), a read cannot tell, and the value is compared with its text: [`arrays_stay`].

mod arrays;

use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny,
    IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

pub use arrays::arrays_stay;

/// Reads a value from JSON text.
///
/// # Errors
///
/// If the text is not JSON or does not fit the type. The error has the path of the field, line and column, never a part of the
/// text.
///
/// # Examples
///
/// ```
/// use idempotency_core::typed::read;
/// assert_eq!(read("[1, 2]"), Ok(vec![1, 2]));
/// let error = read::<Vec<u8>>(r#"[1, "4242 4242"]"#).unwrap_err();
/// assert_eq!(error.to_string(), "does not fit its type at `[1]` (line 1, column 15)");
/// ```
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    read_and_check(text, |_, _| Ok(()))
}

/// Reads a value from JSON text, and checks it if it has arrays that the read could not judge. `check` is [`arrays_stay`] for a type
/// that is written as JSON.
///
/// # Errors
///
/// As for [`read`], and the error of `check`.
///
/// # Examples
///
/// ```
/// use idempotency_core::typed::{arrays_stay, read_and_check};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(untagged)]
/// enum Orders {
///     One { id: String },
///     Many(Vec<Orders>),
/// }
/// let read = |text| read_and_check(text, arrays_stay::<Orders>);
/// assert!(read(r#"[{"id": "a"}]"#).is_ok());
/// assert!(read(r#"["a"]"#).is_err());
/// ```
pub fn read_and_check<T: DeserializeOwned>(
    text: &str,
    check: fn(&T, &str) -> Result<(), ReadError>,
) -> Result<T, ReadError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let (read, unsure) = read_by_name(&mut json);
    match read.and_then(|value| json.end().map(|()| value)) {
        Ok(value) if unsure => check(&value, text).map(|()| value),
        Ok(value) => Ok(value),
        Err(error) => Err(located::<T>(text, error)),
    }
}

/// Reads a value of a type that is also written as JSON, and compares its arrays with those of the text.
pub(crate) fn read_checked<T: Serialize + DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    read_and_check(text, arrays_stay)
}

/// Reads a value from a deserializer, and refuses a list where the type has fields. Returns also if the value has a list that the read
/// could not judge.
///
/// # Errors
///
/// Those of the deserializer.
///
/// # Examples
///
/// ```
/// # use idempotency_core::typed::read_by_name;
/// let mut json = serde_json::Deserializer::from_str("[1, 2]");
/// let (read, unsure) = read_by_name::<(u8, u8), _>(&mut json);
/// assert_eq!((read.unwrap(), unsure), ((1, 2), false));
/// ```
pub fn read_by_name<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> (Result<T, D::Error>, bool) {
    let trail = Trail::default();
    let read = T::deserialize(Tracker::<_, false>::new(deserializer, &trail));
    (read, trail.unsure.get())
}

/// Returns the error of a text that was not read, with its path. The path costs time, so it is looked for only after a failure.
fn located<T: DeserializeOwned>(text: &str, error: serde_json::Error) -> ReadError {
    let trail = Trail::default();
    let mut json = serde_json::Deserializer::from_str(text);
    // It fails again, and leaves its trail.
    drop(T::deserialize(Tracker::<_, true>::new(&mut json, &trail)));
    let Notes { path, fields } = trail.notes.into_inner();
    let message = error.to_string();
    let missing = missing_field(&message).filter(|name| fields.contains(name));
    let mut located = ReadError {
        missing: missing.map(str::to_owned),
        path: path_text(&path),
        ..ReadError::from(error)
    };
    // A list with more elements than the type has is a syntax error for `serde_json`.
    if located.what == NOT_JSON && serde_json::from_str::<IgnoredAny>(text).is_ok() {
        located.what = NO_FIT;
    }
    located
}

/// The error of a text that does not fit its type. It says where the fault is and never quotes the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    what: &'static str,
    /// The name of a field that the text does not have.
    missing: Option<String>,
    /// True if it is an array where the type has fields.
    array: bool,
    /// The path of the field. Empty if it is the whole value, or not known.
    path: String,
    line: usize,
    column: usize,
}

impl ReadError {
    /// Returns the error of an array that became an object. Its place is not known.
    fn of_array() -> Self {
        Self {
            array: true,
            what: NO_FIT,
            missing: None,
            path: String::new(),
            line: 0,
            column: 0,
        }
    }

    /// Writes the missing field and the path, if they are known.
    fn write_field(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.missing {
            write!(f, " (no field `{field}`)")?;
        }
        if self.array {
            write!(f, " ({ARRAY})")?;
        }
        if !self.path.is_empty() {
            write!(f, " at `{}`", self.path)?;
        }
        Ok(())
    }

    /// Displays the place alone: the field, line and column.
    pub(crate) fn place(&self) -> impl fmt::Display + '_ {
        struct Place<'a>(&'a ReadError);

        impl fmt::Display for Place<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_field(f)?;
                match self.0.line {
                    0 => Ok(()),
                    line => write!(f, ", line {line}, column {}", self.0.column),
                }
            }
        }

        Place(self)
    }
}

const NO_FIT: &str = "does not fit its type";
const NOT_JSON: &str = "is not JSON";
/// Why a value is refused that serde would read by position.
const ARRAY: &str = "an array, where the type has named fields";

/// Without a path and the name of a missing field: only [`read`] finds them.
impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        Self {
            what: match error.classify() {
                // serde_json has no kind of its own for it.
                Category::Syntax if error.to_string().starts_with("recursion limit exceeded") => {
                    "has more than 127 levels of arrays and objects"
                }
                Category::Data => NO_FIT,
                Category::Eof => "ends too early",
                Category::Syntax | Category::Io => NOT_JSON,
            },
            missing: None,
            array: error.to_string().starts_with(ARRAY),
            path: String::new(),
            line: error.line(),
            column: error.column(),
        }
    }
}

/// Writes what is wrong and where, for a sentence whose subject is the text: "the event does not fit its type ..".
impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        self.write_field(f)?;
        match self.line {
            // The place of the error is not known.
            0 => Ok(()),
            line => write!(f, " (line {line}, column {})", self.column),
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns the name in serde's message about a missing field. Only a hint: a `Deserialize` that is written by hand can put a name from
/// the text into such a message.
fn missing_field(message: &str) -> Option<&str> {
    message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next())
}

/// The longest path that an error shows, in bytes.
const LONGEST_PATH: usize = 200;

/// Returns the text of a path, from its innermost segment to the outermost one. A longer one is cut.
fn path_text(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path.iter().rev() {
        if text.len() > LONGEST_PATH {
            return text + "..";
        }
        match segment {
            Segment::Index(index) => text += &format!("[{index}]"),
            Segment::Name(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text += name;
            }
        }
    }
    text
}

/// A part of a path.
enum Segment {
    /// An element of a list.
    Index(usize),
    /// A field or a variant of a type, or `?` for a member of a map.
    Name(&'static str),
}

/// What a read leaves behind.
#[derive(Default)]
struct Trail {
    notes: RefCell<Notes>,
    /// True if serde kept a list before it knew the type.
    unsure: Cell<bool>,
}

/// What a failed read leaves behind.
#[derive(Default)]
struct Notes {
    /// Where the read failed: the innermost segment first.
    path: Vec<Segment>,
    /// The fields of the innermost type with fields in which it failed.
    fields: &'static [&'static str],
}

impl Trail {
    /// Adds the segment to the path if this is a failure.
    fn at<const PATH: bool, T, E>(
        &self,
        result: Result<T, E>,
        segment: impl FnOnce() -> Segment,
    ) -> Result<T, E> {
        if PATH && result.is_err() {
            self.notes.borrow_mut().path.push(segment());
        }
        result
    }

    /// Notes the fields of a type if this is a failure, and no part of the type has noted a segment.
    fn within<const PATH: bool, T, E>(
        &self,
        fields: &'static [&'static str],
        result: Result<T, E>,
    ) -> Result<T, E> {
        if PATH && result.is_err() {
            let mut notes = self.notes.borrow_mut();
            if notes.path.is_empty() {
                notes.fields = fields;
            }
        }
        result
    }
}

/// Wraps a deserializer, a visitor or another part of a read. It refuses a list where the type has fields, and notes where the read
/// fails if `PATH` is true.
struct Tracker<'t, I, const PATH: bool> {
    inner: I,
    trail: &'t Trail,
    /// The names of the fields or variants that the type has here.
    names: &'static [&'static str],
    /// The name of the present member, or the number of elements before the present one.
    name: &'static str,
    index: usize,
    /// What the visitor does with a list.
    lists: Lists,
}

/// What a visitor does with a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// It reads it: a list is what it asked for.
    Asked,
    /// It would read named fields from it, by position.
    Fields,
    /// It asked for any value, and may keep the list until it knows the type.
    Any,
}

impl<'t, I, const PATH: bool> Tracker<'t, I, PATH> {
    fn new(inner: I, trail: &'t Trail) -> Self {
        Self {
            inner,
            trail,
            names: &[],
            name: UNKNOWN,
            index: 0,
            lists: Lists::Asked,
        }
    }

    fn lists(self, lists: Lists) -> Self {
        Self { lists, ..self }
    }

    fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    /// Wraps another part of the read, which belongs to the same type.
    fn with<J>(&self, inner: J) -> Tracker<'t, J, PATH> {
        Tracker::new(inner, self.trail).named(self.names)
    }

    /// Wraps a part of the read that belongs to another type.
    fn inside<J>(&self, inner: J) -> Tracker<'t, J, PATH> {
        Tracker::new(inner, self.trail)
    }
}

/// The name of a member that the type does not name.
const UNKNOWN: &str = "?";

macro_rules! forward_deserialize {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.inside(visitor);
            self.inner.$method($($argument,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>, const PATH: bool> Deserializer<'de> for Tracker<'_, D, PATH> {
    type Error = D::Error;

    forward_deserialize! {
        deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string() deserialize_bytes()
        deserialize_byte_buf() deserialize_option() deserialize_unit() deserialize_seq() deserialize_map()
        deserialize_identifier() deserialize_ignored_any() deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str) deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor).lists(Lists::Any);
        self.inner.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor).named(fields).lists(Lists::Fields);
        let read = self.inner.deserialize_struct(name, fields, visitor);
        self.trail.within::<PATH, _, _>(fields, read)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor).named(variants);
        self.inner.deserialize_enum(name, variants, visitor)
    }
}

macro_rules! forward_visit {
    ($($method:ident($type:ty))*) => {$(
        fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>, const PATH: bool> Visitor<'de> for Tracker<'_, V, PATH> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    forward_visit! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_i128(i128) visit_u128(u128) visit_f64(f64) visit_str(&str)
        visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8])
        visit_byte_buf(Vec<u8>)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.inside(inner);
        self.inner.visit_some(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.inside(inner);
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        match self.lists {
            Lists::Asked => {}
            Lists::Any if type_name::<V::Value>() == type_name::<serde_json::Value>() => {}
            // The visitor of an enum with its tag inside takes the first element for the tag.
            Lists::Any if !type_name::<V>().contains("TaggedContentVisitor") => {
                self.trail.unsure.set(true);
            }
            Lists::Fields | Lists::Any => return Err(A::Error::custom(ARRAY)),
        }
        let access = self.with(access);
        self.inner.visit_seq(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.with(access);
        self.inner.visit_map(access)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.with(access);
        self.inner.visit_enum(access)
    }
}

impl<'de, S: DeserializeSeed<'de>, const PATH: bool> DeserializeSeed<'de> for Tracker<'_, S, PATH> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let inner = self.inside(inner);
        self.inner.deserialize(inner)
    }
}

impl<'de, A: SeqAccess<'de>, const PATH: bool> SeqAccess<'de> for Tracker<'_, A, PATH> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.inside(seed);
        let element = self.inner.next_element_seed(seed);
        let index = self.index;
        self.index += 1;
        self.trail
            .at::<PATH, _, _>(element, || Segment::Index(index))
    }
}

impl<'de, A: MapAccess<'de>, const PATH: bool> MapAccess<'de> for Tracker<'_, A, PATH> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let key = if !PATH || self.names.is_empty() {
            self.inner.next_key_seed(seed)
        } else {
            let key = self.inner.next_key::<String>();
            key.and_then(|key| {
                key.map(|key| {
                    self.name = known(self.names, &key);
                    seed.deserialize(key.into_deserializer())
                })
                .transpose()
            })
        };
        self.trail.at::<PATH, _, _>(key, || Segment::Name(UNKNOWN))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.inside(seed);
        let value = self.inner.next_value_seed(seed);
        self.trail
            .at::<PATH, _, _>(value, || Segment::Name(self.name))
    }
}

impl<'de, 't, A: EnumAccess<'de>, const PATH: bool> EnumAccess<'de> for Tracker<'t, A, PATH> {
    type Error = A::Error;
    type Variant = Tracker<'t, A::Variant, PATH>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let trail = self.trail;
        if !PATH {
            let seed = self.inside(seed);
            let (value, access) = self.inner.variant_seed(seed)?;
            return Ok((value, Tracker::new(access, trail)));
        }
        let (name, access) = self.inner.variant::<String>()?;
        let variant = Tracker {
            name: known(self.names, &name),
            ..Tracker::new(access, trail)
        };
        Ok((seed.deserialize(name.into_deserializer())?, variant))
    }
}

impl<'de, A: VariantAccess<'de>, const PATH: bool> VariantAccess<'de> for Tracker<'_, A, PATH> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.inside(seed);
        let value = self.inner.newtype_variant_seed(seed);
        self.trail
            .at::<PATH, _, _>(value, || Segment::Name(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.inside(visitor);
        let value = self.inner.tuple_variant(len, visitor);
        self.trail
            .at::<PATH, _, _>(value, || Segment::Name(self.name))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.inside(visitor).named(fields).lists(Lists::Fields);
        let value = self.inner.struct_variant(fields, visitor);
        let value = self.trail.within::<PATH, _, _>(fields, value);
        self.trail
            .at::<PATH, _, _>(value, || Segment::Name(self.name))
    }
}

/// Returns the name as the type has it, or `?` if the type does not have it.
fn known(names: &[&'static str], name: &str) -> &'static str {
    let mut names = names.iter().copied();
    names.find(|known| *known == name).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::shared::check_each;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, Deserialize)]
    struct Receipt {
        #[allow(dead_code)]
        lines: Vec<Line>,
    }

    #[derive(Debug, Deserialize)]
    struct Line {
        #[allow(dead_code)]
        price: u8,
    }

    fn error_of(text: &str) -> String {
        read::<Receipt>(text).unwrap_err().to_string()
    }

    #[test]
    fn the_path_of_the_field_is_named_and_its_value_is_not() {
        let error = error_of(r#"{"lines": [{"price": 1}, {"price": "s3cr3t"}]}"#);
        let expected = "does not fit its type at `lines[1].price` (line 1, column 43)";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_missing_field_is_named_with_the_value_that_lacks_it() {
        let error = error_of(r#"{"lines": [{"cost": 1}]}"#);
        let expected = "does not fit its type (no field `price`) at `lines[0]`";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_name_from_the_text_is_not_quoted() {
        let error = read::<BTreeMap<String, u8>>(r#"{"4242-4242": "x"}"#).unwrap_err();
        assert!(error.to_string().contains("at `?` ("), "{error}");
        assert_eq!(error.place().to_string(), " at `?`, line 1, column 17");
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    #[serde(deny_unknown_fields)]
    struct Strict {
        kind: Kind,
        cards: BTreeMap<String, Line>,
        next: Option<Box<Strict>>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    enum Kind {
        Cash,
        Card(u8),
        Bank { number: u8 },
        Both(u8, u8),
    }

    /// A type by hand whose message quotes the text, in the form of serde's own.
    #[derive(Debug)]
    struct QuotesText;

    impl<'de> Deserialize<'de> for QuotesText {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            Err(serde::de::Error::custom(format!("missing field `{text}`")))
        }
    }

    #[test]
    fn names_of_the_type_are_shown_and_no_name_of_the_text() {
        let of = |text: &str| read::<Strict>(text).unwrap_err().to_string();
        check_each(include_str!("typed/places.txt"), |text| {
            let error = of(text);
            assert!(!error.contains("s3cr3t"));
            error
        });
        let quoting = read::<Vec<QuotesText>>(r#"["s3cr3t"]"#).unwrap_err();
        let text = quoting.to_string();
        assert!(text.starts_with("does not fit its type at `[0]`"), "{text}");
        let quoting = serde_json::from_str::<QuotesText>(r#""s3cr3t""#).unwrap_err();
        assert!(!ReadError::from(quoting).to_string().contains("s3cr3t"));
        let deep = format!("{}{}{}", r#"{"next": "#.repeat(100), "1", "}".repeat(100));
        let error = of(&deep);
        assert!(error.len() < 300 && error.contains("next.."), "{error}");
    }

    #[test]
    fn a_text_that_is_not_json_has_a_place_too() {
        assert_eq!(error_of("{"), "ends too early at `?` (line 1, column 1)");
        assert!(error_of("{]").starts_with("is not JSON"));
        let deep = read::<serde_json::Value>(&"[".repeat(128)).unwrap_err();
        let deep = deep.to_string();
        assert!(
            deep.starts_with("has more than 127 levels of arrays and objects"),
            "{deep}"
        );
        assert!(deep.ends_with(" (line 1, column 128)"), "{deep}");
        let error: serde_json::Error = serde::de::Error::custom("no place");
        assert_eq!(ReadError::from(error).to_string(), "does not fit its type");
    }
}

//! Takes what an expression looks at from a typed value, as if the value's JSON text were read.
//!
//! What is not looked at is not written at all. The results are those of `serde_json`'s text: the keys of maps are strings, an enum is an object or a string, a raw value is its text. What this does not write itself
//! is [`Unfit::Text`], and the caller writes the text.

use std::fmt::{self, Display};

use idempotency_expression::MAX_DEPTH;
use serde::Serialize;
use serde::ser::{
    Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::budget::List;
use super::needs::Elements;
use super::{Budget, BudgetError, Float, Integer, Json, Needs, Object, Text};

/// Why a value is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The value must be written as text, which shows the value or the error.
    Text,
    /// It has a float that other numbers became too: the text does not show it.
    Number,
}

/// Why a float is refused that other numbers became too.
pub(crate) const LOST: &str = "a number has lost its digits: an integer beyond 64 bits, or a float that is not finite, has the same form as \
    other numbers; take the payload as `Raw<_>`, or send the number as a text";

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "the value must be written as text",
            Self::Number => LOST,
        })
    }
}

impl std::error::Error for Unfit {}

impl serde::ser::Error for Unfit {
    fn custom<T: Display>(_: T) -> Self {
        Self::Text
    }
}

/// Returns true if other numbers become this float when they are read: an integer beyond 64 bits is a float in a `serde_json::Value`. A
/// float that is not finite is null in the text of a value.
fn is_lost(float: f64) -> bool {
    // Exact: 2^64 and -2^63.
    const ABOVE: f64 = 18_446_744_073_709_551_616.0;
    const BELOW: f64 = -9_223_372_036_854_775_808.0;
    !float.is_finite() || float >= ABOVE || float <= BELOW
}

type Result<T> = std::result::Result<T, Unfit>;

impl From<BudgetError> for Unfit {
    fn from(_: BudgetError) -> Self {
        Self::Text
    }
}

impl Needs {
    /// Takes what is looked at from a value, as if its JSON text were read.
    ///
    /// # Errors
    ///
    /// [`Unfit::Text`] if the value must be written as text, which then has the error, if there is one; [`Unfit::Number`] if it has a
    /// float that other numbers became too.
    pub(crate) fn take<T: Serialize + ?Sized>(
        &self,
        from: &T,
        budget: &mut Budget,
    ) -> Result<Json> {
        from.serialize(Taker {
            needs: self,
            budget,
            depth: 0,
        })
    }

    /// Returns what is looked at in the member with this name; `None` if it is left out.
    fn member_of(&self, name: &[u8]) -> Option<&Self> {
        match self {
            Self::Kind => None,
            Self::All => Some(self),
            Self::Parts(parts) => parts.member(name),
        }
    }
}

/// Writes methods of a serializer that differ only in the type that they take.
macro_rules! scalars {
    ($own:ident: $($method:ident $scalar:ty),+) => {$(
        fn $method(self, scalar: $scalar) -> Result<Self::Ok> {
            self.$own(scalar)
        }
    )+};
}

/// Takes one value.
struct Taker<'n, 'b> {
    needs: &'n Needs,
    budget: &'b mut Budget,
    /// In how many arrays and objects the value is.
    depth: usize,
}

impl<'n, 'b> Taker<'n, 'b> {
    fn integer(self, number: impl TryInto<i64> + Copy + Display) -> Result<Json> {
        let integer = match number.try_into() {
            Ok(small) => Integer::from(small),
            Err(_) => Integer::from_digits(&number.to_string()),
        };
        self.budget.allocate(integer.digits_beyond_64_bits())?;
        Ok(Json::Int(integer))
    }

    /// Returns the depth inside this array or object. [`Unfit::Text`] if it is too deep.
    fn inner_depth(&self) -> Result<usize> {
        (self.depth < MAX_DEPTH)
            .then_some(self.depth + 1)
            .ok_or(Unfit::Text)
    }

    fn elements(self, length: Option<usize>) -> Result<Array<'n, 'b>> {
        let depth = self.inner_depth()?;
        let wanted = self.needs.elements();
        let length = match wanted {
            // The places are counted from the end.
            Elements::Last(_) => Some(length.ok_or(Unfit::Text)?),
            _ => None,
        };
        Ok(Array {
            wanted,
            length,
            count: 0,
            elements: List::new(),
            budget: self.budget,
            depth,
            around: None,
        })
    }

    fn members(self) -> Result<Members<'n, 'b>> {
        let depth = self.inner_depth()?;
        let needs = match self.needs {
            Needs::Parts(parts) if !parts.has_members() => &Needs::Kind,
            needs => needs,
        };
        Ok(Members::new(needs, self.budget, depth))
    }

    /// Steps into the object of one member that is written around the value of a variant.
    fn variant(self, variant: &'static str) -> Result<(Self, Variant)> {
        let depth = self.inner_depth()?;
        let found = self.needs.member_of(variant.as_bytes());
        if found.is_some() {
            self.budget.allocate(variant.len())?;
            // The list of one member. `Object::charged` charges the object around it.
            self.budget.allocate(size_of::<(Text, Json)>())?;
        }
        let within = Taker {
            needs: found.unwrap_or(&Needs::Kind),
            budget: self.budget,
            depth,
        };
        Ok((within, Variant(found.map(|_| variant))))
    }
}

/// The object around the value of a variant; without the name if it is left out.
#[derive(Clone, Copy)]
struct Variant(Option<&'static str>);

impl Variant {
    fn around(self, value: Json, budget: &mut Budget) -> Result<Json> {
        Ok(Json::Object(match self.0 {
            Some(name) => Object::charged(vec![(name.into(), value)], budget)?,
            None => Object::default(),
        }))
    }
}

impl<'n, 'b> Serializer for Taker<'n, 'b> {
    type Ok = Json;
    type Error = Unfit;
    type SerializeSeq = Array<'n, 'b>;
    type SerializeTuple = Array<'n, 'b>;
    type SerializeTupleStruct = Array<'n, 'b>;
    type SerializeTupleVariant = Array<'n, 'b>;
    type SerializeMap = Members<'n, 'b>;
    type SerializeStruct = Members<'n, 'b>;
    type SerializeStructVariant = Members<'n, 'b>;

    scalars! {
        integer: serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_i128 i128, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32,
        serialize_u64 u64, serialize_u128 u128
    }

    fn serialize_bool(self, truth: bool) -> Result<Json> {
        Ok(Json::Bool(truth))
    }

    /// The text of an `f32` has fewer digits than that of the same `f64`, and is read as another number.
    fn serialize_f32(self, number: f32) -> Result<Json> {
        if *self.needs == Needs::Kind || is_lost(number.into()) {
            return self.serialize_f64(number.into());
        }
        let text = serde_json::to_string(&number).map_err(|_| Unfit::Text)?;
        Float::parse(&text).map(Json::Float).ok_or(Unfit::Text)
    }

    fn serialize_f64(self, number: f64) -> Result<Json> {
        // Of a value that is not looked at, the type is kept.
        if *self.needs == Needs::All && is_lost(number) {
            return Err(Unfit::Number);
        }
        Ok(if number.is_finite() {
            Json::Float(number.into())
        } else {
            Json::Null
        })
    }

    fn serialize_char(self, character: char) -> Result<Json> {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<Json> {
        if *self.needs != Needs::All {
            return Ok(Json::Str(Text::default()));
        }
        self.budget.allocate(text.len())?;
        Ok(Json::Str(text.into()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Json> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Json> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Json> {
        Ok(Json::Null)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Json> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Json> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Json> {
        let (within, around) = self.variant(variant)?;
        if around.0.is_none() {
            return around.around(Json::Null, within.budget);
        }
        let value = value.serialize(Taker {
            budget: &mut *within.budget,
            ..within
        })?;
        around.around(value, within.budget)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Array<'n, 'b>> {
        self.elements(length)
    }

    fn serialize_tuple(self, length: usize) -> Result<Array<'n, 'b>> {
        self.elements(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<Array<'n, 'b>> {
        self.elements(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Array<'n, 'b>> {
        let (within, around) = self.variant(variant)?;
        let mut array = within.elements(Some(length))?;
        array.around = Some(around);
        Ok(array)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'n, 'b>> {
        self.members()
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'n, 'b>> {
        if is_raw(name) {
            let raw = Some(Raw {
                needs: self.needs,
                value: None,
            });
            return Ok(Members {
                raw,
                ..Members::new(&Needs::Kind, self.budget, self.depth)
            });
        }
        self.members()
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Members<'n, 'b>> {
        let (within, around) = self.variant(variant)?;
        let mut members = within.members()?;
        members.around = Some(around);
        Ok(members)
    }
}

/// Implements a trait of `serde` for what is inside an array or an object: each call takes one more value.
macro_rules! compound {
    ($kind:ident: $($method:ident of $trait:ident calls $own:ident($($name:ident: $named:ty)?);)+) => {$(
        impl $trait for $kind<'_, '_> {
            type Ok = Json;
            type Error = Unfit;

            fn $method<T: Serialize + ?Sized>(&mut self, $($name: $named,)? value: &T) -> Result<()> {
                self.$own($($name,)? value)
            }

            fn end(self) -> Result<Json> {
                self.finish()
            }
        }
    )+};
}

/// An array that is being taken.
struct Array<'n, 'b> {
    wanted: &'n Elements,
    /// The length that was promised, if places are counted from the end.
    length: Option<usize>,
    /// How many elements came.
    count: usize,
    elements: List<Json>,
    budget: &'b mut Budget,
    depth: usize,
    around: Option<Variant>,
}

impl Array<'_, '_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let found = self.wanted.at(self.count, self.length.unwrap_or(0));
        self.count += 1;
        let Some(needs) = found else {
            return Ok(());
        };
        let element = value.serialize(Taker {
            needs,
            budget: &mut *self.budget,
            depth: self.depth,
        })?;
        Ok(self.elements.push(element, self.budget)?)
    }

    fn finish(self) -> Result<Json> {
        // A length that was promised and not kept would move all places.
        if self.length.is_some_and(|length| length != self.count) {
            return Err(Unfit::Text);
        }
        let array = Json::Array(self.elements.finish(self.budget)?);
        match self.around {
            Some(around) => around.around(array, self.budget),
            None => Ok(array),
        }
    }
}

compound! {
    Array:
    serialize_element of SerializeSeq calls element();
    serialize_element of SerializeTuple calls element();
    serialize_field of SerializeTupleStruct calls element();
    serialize_field of SerializeTupleVariant calls element();
}

/// An object that is being taken.
struct Members<'n, 'b> {
    needs: &'n Needs,
    members: List<(Text, Json)>,
    /// The key of a map whose value comes next.
    next: Option<(Text, &'n Needs)>,
    budget: &'b mut Budget,
    depth: usize,
    around: Option<Variant>,
    raw: Option<Raw<'n>>,
}

/// A value that `serde_json` writes as it is: a `RawValue`, or a number if the program keeps its digits.
struct Raw<'n> {
    needs: &'n Needs,
    value: Option<Json>,
}

/// Returns true for the names that `serde_json` gives to structs whose one field is written as it is.
fn is_raw(name: &'static str) -> bool {
    matches!(
        name,
        "$serde_json::private::RawValue" | "$serde_json::private::Number"
    )
}

impl<'n, 'b> Members<'n, 'b> {
    fn new(needs: &'n Needs, budget: &'b mut Budget, depth: usize) -> Self {
        Self {
            needs,
            members: List::new(),
            next: None,
            budget,
            depth,
            around: None,
            raw: None,
        }
    }

    fn value<T: Serialize + ?Sized>(
        &mut self,
        name: Text,
        needs: &'n Needs,
        value: &T,
    ) -> Result<()> {
        let value = value.serialize(Taker {
            needs,
            budget: &mut *self.budget,
            depth: self.depth,
        })?;
        Ok(self.members.push((name, value), self.budget)?)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        if let Some(raw) = &mut self.raw {
            // An enum that writes its tag first makes another struct of it, which `serde_json` refuses.
            if !is_raw(name) || raw.value.is_some() {
                return Err(Unfit::Text);
            }
            let value = value.serialize(TextSerializer(|text: &str| {
                let needs = raw.needs;
                let value = needs.read_within(text.as_bytes(), self.depth, self.budget);
                value.map_err(|_| Unfit::Text)
            }))?;
            raw.value = Some(value);
            return Ok(());
        }
        let Some(needs) = self.needs.member_of(name.as_bytes()) else {
            return Ok(());
        };
        self.budget.allocate(name.len())?;
        self.value(name.into(), needs, value)
    }

    fn finish(self) -> Result<Json> {
        if let Some(raw) = self.raw {
            return raw.value.ok_or(Unfit::Text);
        }
        let members = self.members.finish(self.budget)?;
        let object = Json::Object(Object::charged(members, self.budget)?);
        match self.around {
            Some(around) => around.around(object, self.budget),
            None => Ok(object),
        }
    }
}

compound! {
    Members:
    serialize_field of SerializeStruct calls field(name: &'static str);
    serialize_field of SerializeStructVariant calls field(name: &'static str);
}

impl SerializeMap for Members<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    // A loop over a map calls it for each member.
    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.next = match self.needs {
            Needs::Kind => None,
            needs => key.serialize(TextSerializer(|name: &str| {
                let Some(needs) = needs.member_of(name.as_bytes()) else {
                    return Ok(None);
                };
                self.budget.allocate(name.len())?;
                Ok(Some((name.into(), needs)))
            }))?,
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        match self.next.take() {
            Some((name, needs)) => self.value(name, needs, value),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

/// Serializes a key or a raw value to the text that `serde_json` makes of it, and hands the text to a function.
///
/// Keys that are rare (floats, options, booleans) are [`Unfit::Text`]: the text decides about them.
struct TextSerializer<F>(F);

impl<T, F: FnOnce(&str) -> Result<T>> TextSerializer<F> {
    fn written(self, key: impl Display) -> Result<T> {
        (self.0)(&key.to_string())
    }
}

/// Writes the methods of a serializer that refuse what they are called with.
macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $kind:ident;)+) => {$(
        fn $method(self, $(_: $argument),*) -> Result<Self::$kind> {
            Err(Unfit::Text)
        }
    )+};
}

impl<T, F: FnOnce(&str) -> Result<T>> Serializer for TextSerializer<F> {
    type Ok = T;
    type Error = Unfit;
    type SerializeSeq = Impossible<T, Unfit>;
    type SerializeTuple = Impossible<T, Unfit>;
    type SerializeTupleStruct = Impossible<T, Unfit>;
    type SerializeTupleVariant = Impossible<T, Unfit>;
    type SerializeMap = Impossible<T, Unfit>;
    type SerializeStruct = Impossible<T, Unfit>;
    type SerializeStructVariant = Impossible<T, Unfit>;

    scalars! {
        written: serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_i128 i128, serialize_u8 u8, serialize_u16 u16, serialize_u32 u32,
        serialize_u64 u64, serialize_u128 u128
    }

    refused! {
        serialize_bool(bool) -> Ok;
        serialize_f32(f32) -> Ok;
        serialize_f64(f64) -> Ok;
        serialize_bytes(&[u8]) -> Ok;
        serialize_none() -> Ok;
        serialize_unit() -> Ok;
        serialize_unit_struct(&'static str) -> Ok;
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }

    fn serialize_str(self, name: &str) -> Result<T> {
        (self.0)(name)
    }

    fn serialize_char(self, character: char) -> Result<T> {
        (self.0)(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<T> {
        (self.0)(variant)
    }

    fn serialize_newtype_struct<V: Serialize + ?Sized>(
        self,
        _: &'static str,
        key: &V,
    ) -> Result<T> {
        key.serialize(self)
    }

    fn serialize_some<V: Serialize + ?Sized>(self, _: &V) -> Result<T> {
        Err(Unfit::Text)
    }

    fn serialize_newtype_variant<V: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &V,
    ) -> Result<T> {
        Err(Unfit::Text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;

    use super::*;
    use crate::key::Expression;
    use crate::key::needs::tests::value;

    /// Returns the canonical text of what is taken.
    fn taken(needs: &Needs, value: &(impl Serialize + ?Sized)) -> Result<String> {
        let taken = needs.take(value, &mut Budget::unbounded());
        taken.map(|json| json.to_canonical())
    }

    /// Checks that a value is taken whole as its text is read.
    fn check(value: &impl Serialize) {
        let text = serde_json::to_string(value).unwrap();
        let read = Json::parse(&text).unwrap().to_canonical();
        assert_eq!(taken(&Needs::All, value), Ok(read), "{text}");
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[derive(Serialize)]
    struct Order {
        id: u64,
        price: f32,
        total: f64,
        raw: Box<RawValue>,
        /// A map whose keys are not strings or numbers cannot be written as JSON.
        unwritable: BTreeMap<(u8, u8), u8>,
    }

    #[test]
    fn a_value_is_taken_as_its_text_would_be_read() {
        let text = r#"{"b": 12345678901234567890123, "c": [1]}"#;
        let order = Order {
            id: u64::MAX,
            price: 0.1,
            total: 2.5,
            raw: raw(text),
            unwritable: [((1, 2), 3)].into(),
        };
        for (text, value) in [
            ("id", Ok("18446744073709551615")),
            ("[price, total]", Ok("[0.1, 2.5]")),
            ("raw.b", Ok("12345678901234567890123")),
            ("raw", Ok(text)),
            ("type(raw)", Ok(r#""object""#)),
            // The text has the error.
            ("unwritable", Err(Unfit::Text)),
            ("@", Err(Unfit::Text)),
        ] {
            let expression = Expression::compile(text).unwrap();
            let parts = expression.needs().take(&order, &mut Budget::unbounded());
            let found = parts.map(|parts| expression.evaluate(&parts).unwrap().to_canonical());
            assert_eq!(found, value.map(str::to_owned), "{text}");
        }
    }

    /// A number as `serde_json` writes it in a program that keeps the digits of numbers.
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::Number")]
    struct Digits {
        #[serde(rename = "$serde_json::private::Number")]
        digits: &'static str,
    }

    #[derive(Serialize)]
    #[serde(tag = "t")]
    enum Tagged {
        #[serde(rename = "1")]
        Raw(Box<RawValue>),
    }

    #[test]
    fn a_number_of_many_digits_and_a_raw_value_are_read_as_they_are_written() {
        for digits in ["12345678901234567890123", "1.50", "1e400", "-0"] {
            let read = Json::parse(digits).unwrap().to_canonical();
            assert_eq!(taken(&Needs::All, &Digits { digits }), Ok(read));
        }
        let nested = raw(&format!("{}7{}", "[".repeat(127), "]".repeat(127)));
        check(&[&nested]);
        assert_eq!(taken(&Needs::All, &[[&nested]]), Err(Unfit::Text));
        // `serde_json` refuses a raw value with a tag.
        let tagged = Tagged::Raw(raw("{}"));
        assert!(serde_json::to_string(&tagged).is_err());
        assert_eq!(taken(&Needs::All, &tagged), Err(Unfit::Text));
    }

    #[test]
    fn a_float_is_taken_as_its_text_is_read() {
        check(&[0.1_f32, 16_777_217.0, 1e10, f32::MIN_POSITIVE, -0.0]);
        check(&[0.1, 1e19, -9e18, 1e-300, -0.0]);
    }

    #[test]
    fn a_float_that_other_numbers_became_too_is_refused_where_it_is_looked_at() {
        for text in [
            "18446744073709551616",
            "18446744073709551617",
            "-9223372036854775809",
            "123456789012345678901234567890",
            "1e300",
        ] {
            let lost: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(taken(&Needs::All, &lost), Err(Unfit::Number), "{text}");
            assert!(taken(&Needs::Kind, &lost).is_ok());
        }
        for kept in ["18446744073709551615", "-9223372036854775808", "1e15"] {
            check(&serde_json::from_str::<serde_json::Value>(kept).unwrap());
        }
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(taken(&Needs::All, &[float]), Err(Unfit::Number));
            assert_eq!(taken(&Needs::All, &[float as f32]), Err(Unfit::Number));
        }
        check(&(u128::MAX, i128::MIN, u64::MAX));
    }

    /// An array that says another length than it has.
    struct WrongLength(usize, Vec<u8>);

    impl Serialize for WrongLength {
        fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
            let mut seq = to.serialize_seq(Some(self.0))?;
            for element in &self.1 {
                seq.serialize_element(element)?;
            }
            seq.end()
        }
    }

    #[test]
    fn places_from_the_end_of_a_value_need_its_length() {
        let last = Needs::element(-2, Needs::All);
        for (promised, kept) in [(3, true), (2, false), (4, false), (0, false)] {
            let array = WrongLength(promised, vec![4, 5, 6]);
            let elements = kept.then(|| "[5, 6]".to_owned()).ok_or(Unfit::Text);
            assert_eq!(taken(&last, &array), elements, "{promised}");
        }
    }

    #[derive(Serialize)]
    enum Forms {
        Unit,
        Newtype(Vec<u8>),
        Tuple(u8, u128),
        Struct { a: i128, b: Option<char> },
    }

    #[test]
    fn each_form_of_an_enum_is_taken_as_its_text_is_read() {
        let forms = [
            Forms::Unit,
            Forms::Newtype(vec![1, 2]),
            Forms::Tuple(1, u128::MAX),
            Forms::Struct {
                a: i128::MIN,
                b: Some('é'),
            },
        ];
        let text = serde_json::to_string(&forms).unwrap();
        let whole = Json::parse(&text).unwrap();
        let keys = "@; [0]; [1].Newtype[1]; [1].Newtype[-1]; [2].Tuple; [-1].Struct.a; [*].Struct.b; [*].type(@); \
            [*].type(Tuple); [1].Tuple; [*].Newtype";
        for key in keys.split("; ") {
            let expression = Expression::compile(key).unwrap();
            let part = expression.needs().take(&forms, &mut Budget::unbounded());
            let expected = value(&Expression::looking_at_all(key), &whole);
            assert_eq!(value(&expression, &part.unwrap()), expected, "{key}");
        }
    }

    #[test]
    fn the_keys_of_maps_are_the_names_in_their_text() {
        check(&BTreeMap::from([(u128::MAX, 1), (0, 2)]));
        check(&BTreeMap::from([(i128::MIN, 1), (-1, 2)]));
        check(&BTreeMap::from([(u64::MAX, 1), (7, 2)]));
        check(&BTreeMap::from([(i64::MIN, 1), (7, 2)]));
        check(&BTreeMap::from([(i8::MIN, 1), (7, 2)]));
        check(&BTreeMap::from([('é', 1), ('"', 2)]));
        check(&BTreeMap::from([("\u{1}\"", 1), ("", 2)]));
        // The text decides about a key that is seldom one.
        let truth = BTreeMap::from([(true, 1)]);
        assert_eq!(taken(&Needs::All, &truth), Err(Unfit::Text));
    }

    #[test]
    fn a_value_beyond_the_budget_or_too_deep_is_written_as_text() {
        let long = "x".repeat(1000);
        assert_eq!(
            Needs::All.take(&long, &mut Budget::new(1000)),
            Err(Unfit::Text)
        );
        assert!(Needs::Kind.take(&long, &mut Budget::new(0)).is_ok());
        let mut nested = serde_json::Value::Null;
        for _ in 0..128 {
            nested = serde_json::Value::Array(vec![nested]);
        }
        check(&nested);
        assert_eq!(taken(&Needs::All, &[nested]), Err(Unfit::Text));
    }
}

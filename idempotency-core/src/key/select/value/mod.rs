//! Takes what an expression looks at from a typed value, as if the value's JSON text were read.
//!
//! What is not looked at is not written at all. The results are those of `serde_json`'s text: a float that is not finite is
//! null, the keys of maps are strings, an enum is an object or a string, a raw value is its text. What this does not write itself
//! is [`Unfit`], and the caller writes the text.

mod elements;
mod members;
mod name;

use std::fmt;

use serde::ser::{self, Serialize, Serializer};

use super::needs::{Elements, Needs, Parts};
use crate::key::parse::MAX_DEPTH;
use crate::key::{Budget, Exhausted, Float, Integer, Json, Object, Text};
use elements::Array;
use members::Members;

/// The error for a value that must be written as text: the text has the error, or the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfit;

type Result<T> = std::result::Result<T, Unfit>;

impl From<Exhausted> for Unfit {
    fn from(_: Exhausted) -> Self {
        Self
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is written as text")
    }
}

impl std::error::Error for Unfit {}

impl ser::Error for Unfit {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

pub(super) fn take<T: Serialize + ?Sized>(
    from: &T,
    needs: &Needs,
    budget: &mut Budget,
) -> Result<Json> {
    from.serialize(Taker {
        needs,
        budget,
        depth: 0,
    })
}

/// Takes one value.
struct Taker<'n, 'b> {
    needs: &'n Needs,
    budget: &'b mut Budget,
    /// In how many arrays and objects the value is.
    depth: usize,
}

/// What is looked at in the members of an object.
#[derive(Clone, Copy)]
enum Wanted<'n> {
    None,
    Some(&'n Parts),
    All,
}

impl<'n> Wanted<'n> {
    fn of(needs: &'n Needs) -> Self {
        match needs {
            Needs::All => Self::All,
            Needs::Parts(parts) if parts.has_members() => Self::Some(parts),
            _ => Self::None,
        }
    }

    /// Returns what is looked at in the member with this name; `None` if it is left out.
    fn member(self, name: &[u8]) -> Option<&'n Needs> {
        match self {
            Self::None => None,
            Self::Some(parts) => parts.of_member(name),
            Self::All => Some(&Needs::All),
        }
    }
}

impl<'n, 'b> Taker<'n, 'b> {
    fn int(self, small: i64) -> Result<Json> {
        Ok(Json::Int(small.into()))
    }

    fn long(self, digits: &str) -> Result<Json> {
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits),
        };
        let integer = Integer::from_digits(negative, digits);
        self.budget.allocate(integer.digits_beyond_64_bits())?;
        Ok(Json::Int(integer))
    }

    /// Steps into an array or object.
    fn nested(&self) -> Result<usize> {
        (self.depth < MAX_DEPTH)
            .then_some(self.depth + 1)
            .ok_or(Unfit)
    }

    fn elements(self, length: Option<usize>) -> Result<Array<'n, 'b>> {
        let depth = self.nested()?;
        Array::new(self.needs, length, self.budget, depth)
    }

    fn members(self) -> Result<Members<'n, 'b>> {
        let depth = self.nested()?;
        Ok(Members::new(Wanted::of(self.needs), self.budget, depth))
    }

    /// Returns an object with one member, `variant`, whose value `take` takes.
    fn variant<T>(
        self,
        variant: &'static str,
        take: impl FnOnce(Taker<'n, 'b>, Variant) -> Result<T>,
    ) -> Result<T> {
        let depth = self.nested()?;
        let found = Wanted::of(self.needs).member(variant.as_bytes());
        if found.is_some() {
            self.budget.allocate(variant.len())?;
            // The list of one member, and the object around it.
            self.budget.allocate(size_of::<(Text, Json)>())?;
        }
        let taker = Taker {
            needs: found.unwrap_or(&Needs::Kind),
            budget: self.budget,
            depth,
        };
        take(taker, Variant(found.map(|_| variant)))
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

    fn serialize_bool(self, truth: bool) -> Result<Json> {
        Ok(Json::Bool(truth))
    }

    fn serialize_i8(self, number: i8) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_i16(self, number: i16) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_i32(self, number: i32) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_i64(self, number: i64) -> Result<Json> {
        self.int(number)
    }

    fn serialize_i128(self, number: i128) -> Result<Json> {
        self.long(&number.to_string())
    }

    fn serialize_u8(self, number: u8) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_u16(self, number: u16) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_u32(self, number: u32) -> Result<Json> {
        self.int(number.into())
    }

    fn serialize_u64(self, number: u64) -> Result<Json> {
        match i64::try_from(number) {
            Ok(small) => self.int(small),
            Err(_) => self.long(&number.to_string()),
        }
    }

    fn serialize_u128(self, number: u128) -> Result<Json> {
        self.long(&number.to_string())
    }

    /// The text of an `f32` has fewer digits than that of the same `f64`, and is read as another number.
    fn serialize_f32(self, number: f32) -> Result<Json> {
        if !number.is_finite() {
            return Ok(Json::Null);
        }
        let text = serde_json::to_string(&number).map_err(|_| Unfit)?;
        Float::parse(&text).map(Json::Float).ok_or(Unfit)
    }

    fn serialize_f64(self, number: f64) -> Result<Json> {
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
        self.variant(variant, |taker, around| {
            let Taker {
                needs,
                budget,
                depth,
            } = taker;
            let value = match around.0 {
                None => Json::Null,
                Some(_) => value.serialize(Taker {
                    needs,
                    budget: &mut *budget,
                    depth,
                })?,
            };
            around.around(value, budget)
        })
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
        self.variant(variant, |taker, around| {
            Ok(taker.elements(Some(length))?.inside(around))
        })
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Members<'n, 'b>> {
        self.members()
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members<'n, 'b>> {
        if members::is_raw(name) {
            return Ok(Members::raw(self.needs, self.budget, self.depth));
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
        self.variant(variant, |taker, around| Ok(taker.members()?.inside(around)))
    }
}

#[cfg(test)]
mod tests;

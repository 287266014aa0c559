//! The names of members that are keys of a map in a value, and the text of a value that is written as it is.

use std::fmt::Display;

use serde::ser::{Impossible, Serialize, Serializer};

use super::{Result, Unfit};

/// Hands the name that `serde_json` makes of a key to a function.
///
/// Keys that are rare (floats, options, booleans) are [`Unfit`]: the text decides about them.
pub(super) struct Name<F>(pub(super) F);

impl<T, F: FnOnce(&str) -> Result<T>> Name<F> {
    fn of(self, key: impl Display) -> Result<T> {
        (self.0)(&key.to_string())
    }
}

impl<T, F: FnOnce(&str) -> Result<T>> Serializer for Name<F> {
    type Ok = T;
    type Error = Unfit;
    type SerializeSeq = Impossible<T, Unfit>;
    type SerializeTuple = Impossible<T, Unfit>;
    type SerializeTupleStruct = Impossible<T, Unfit>;
    type SerializeTupleVariant = Impossible<T, Unfit>;
    type SerializeMap = Impossible<T, Unfit>;
    type SerializeStruct = Impossible<T, Unfit>;
    type SerializeStructVariant = Impossible<T, Unfit>;

    fn serialize_str(self, name: &str) -> Result<T> {
        (self.0)(name)
    }

    fn serialize_char(self, character: char) -> Result<T> {
        (self.0)(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_i8(self, number: i8) -> Result<T> {
        self.of(number)
    }

    fn serialize_i16(self, number: i16) -> Result<T> {
        self.of(number)
    }

    fn serialize_i32(self, number: i32) -> Result<T> {
        self.of(number)
    }

    fn serialize_i64(self, number: i64) -> Result<T> {
        self.of(number)
    }

    fn serialize_i128(self, number: i128) -> Result<T> {
        self.of(number)
    }

    fn serialize_u8(self, number: u8) -> Result<T> {
        self.of(number)
    }

    fn serialize_u16(self, number: u16) -> Result<T> {
        self.of(number)
    }

    fn serialize_u32(self, number: u32) -> Result<T> {
        self.of(number)
    }

    fn serialize_u64(self, number: u64) -> Result<T> {
        self.of(number)
    }

    fn serialize_u128(self, number: u128) -> Result<T> {
        self.of(number)
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

    fn serialize_bool(self, _: bool) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_f32(self, _: f32) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_f64(self, _: f64) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_none(self) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_some<V: Serialize + ?Sized>(self, _: &V) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_unit(self) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_newtype_variant<V: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &V,
    ) -> Result<T> {
        Err(Unfit)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq> {
        Err(Unfit)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple> {
        Err(Unfit)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        Err(Unfit)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        Err(Unfit)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap> {
        Err(Unfit)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct> {
        Err(Unfit)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        Err(Unfit)
    }
}

//! Random values with every form that serde knows, to compare ways of writing them.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::strategies::words;

/// A value of one of the forms of serde's data model.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Bool(bool),
    I8(i8),
    I64(i64),
    I128(i128),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    Option(Option<Box<Shape>>),
    Unit,
    UnitVariant,
    Newtype(Box<Shape>),
    NewtypeVariant(Box<Shape>),
    /// The elements, and true if the serializer gets their number.
    Seq(Vec<Shape>, bool),
    Tuple(Vec<Shape>),
    TupleStruct(Vec<Shape>),
    TupleVariant(Vec<Shape>),
    Map(Vec<(Shape, Shape)>),
    Struct(Vec<(&'static str, Shape)>),
    StructVariant(Vec<(&'static str, Shape)>),
    Displayed(u8),
    Flattened(BTreeMap<String, i32>),
}

#[derive(serde::Serialize)]
struct Flattened<'a> {
    a: u8,
    #[serde(flatten)]
    others: &'a BTreeMap<String, i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u8>,
}

impl Serialize for Shape {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(truth) => to.serialize_bool(*truth),
            Self::I8(number) => to.serialize_i8(*number),
            Self::I64(number) => to.serialize_i64(*number),
            Self::I128(number) => to.serialize_i128(*number),
            Self::U64(number) => to.serialize_u64(*number),
            Self::U128(number) => to.serialize_u128(*number),
            Self::F32(number) => to.serialize_f32(*number),
            Self::F64(number) => to.serialize_f64(*number),
            Self::Char(character) => to.serialize_char(*character),
            Self::Str(text) => to.serialize_str(text),
            Self::Bytes(bytes) => to.serialize_bytes(bytes),
            Self::Option(None) => to.serialize_none(),
            Self::Option(Some(inner)) => to.serialize_some(inner),
            Self::Unit => to.serialize_unit_struct("Unit"),
            Self::UnitVariant => to.serialize_unit_variant("Enum", 0, "a"),
            Self::Newtype(inner) => to.serialize_newtype_struct("Newtype", inner),
            Self::NewtypeVariant(inner) => to.serialize_newtype_variant("Enum", 1, "b", inner),
            Self::Seq(elements, sized) => {
                let mut seq = to.serialize_seq(sized.then_some(elements.len()))?;
                elements
                    .iter()
                    .try_for_each(|element| seq.serialize_element(element))?;
                seq.end()
            }
            Self::Tuple(elements) => {
                let mut tuple = to.serialize_tuple(elements.len())?;
                elements
                    .iter()
                    .try_for_each(|element| tuple.serialize_element(element))?;
                tuple.end()
            }
            Self::TupleStruct(elements) => {
                let mut tuple = to.serialize_tuple_struct("Tuple", elements.len())?;
                elements
                    .iter()
                    .try_for_each(|element| tuple.serialize_field(element))?;
                tuple.end()
            }
            Self::TupleVariant(elements) => {
                let mut tuple = to.serialize_tuple_variant("Enum", 2, "c", elements.len())?;
                elements
                    .iter()
                    .try_for_each(|element| tuple.serialize_field(element))?;
                tuple.end()
            }
            Self::Map(members) => {
                let mut map = to.serialize_map(None)?;
                members
                    .iter()
                    .try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Self::Struct(fields) => {
                let mut state = to.serialize_struct("Struct", fields.len())?;
                fields
                    .iter()
                    .try_for_each(|(name, value)| state.serialize_field(name, value))?;
                state.end()
            }
            Self::StructVariant(fields) => {
                let mut state = to.serialize_struct_variant("Enum", 3, "a", fields.len())?;
                fields
                    .iter()
                    .try_for_each(|(name, value)| state.serialize_field(name, value))?;
                state.end()
            }
            Self::Displayed(number) => to.collect_str(&format_args!("a{number}")),
            Self::Flattened(others) => Flattened {
                a: 1,
                others,
                skipped: None,
            }
            .serialize(to),
        }
    }
}

/// Returns keys of maps. `serde_json` refuses some.
fn key() -> impl Strategy<Value = Shape> {
    let name = || words("a b c headers X-Key").prop_map(Shape::Str);
    prop_oneof![
        12 => name(),
        1 => any::<i64>().prop_map(Shape::I64),
        1 => any::<u128>().prop_map(Shape::U128),
        1 => prop::sample::select(vec!['a', 'é']).prop_map(Shape::Char),
        1 => any::<bool>().prop_map(Shape::Bool),
        1 => any::<f64>().prop_map(Shape::F64),
        1 => Just(Shape::UnitVariant),
        1 => name().prop_map(|name| Shape::Newtype(Box::new(name))),
        1 => proptest::option::of(name().prop_map(Box::new)).prop_map(Shape::Option),
        1 => Just(Shape::Unit),
    ]
}

fn fields(
    inner: impl Strategy<Value = Shape>,
) -> impl Strategy<Value = Vec<(&'static str, Shape)>> {
    vec(
        (prop::sample::select(vec!["a", "b", "c", "headers"]), inner),
        0..5,
    )
}

/// Returns values of all forms.
pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Shape::Bool),
        any::<i8>().prop_map(Shape::I8),
        any::<i64>().prop_map(Shape::I64),
        any::<i128>().prop_map(Shape::I128),
        any::<u64>().prop_map(Shape::U64),
        any::<u128>().prop_map(Shape::U128),
        any::<u32>().prop_map(|bits| Shape::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Shape::F64(f64::from_bits(bits))),
        prop::sample::select(vec![0.0, -0.0, 1.0, 1e16, 0.1, f64::NAN, f64::INFINITY])
            .prop_map(Shape::F64),
        any::<char>().prop_map(Shape::Char),
        prop_oneof!["[a-c]", any::<String>(), Just("{\"a\":[1]}".to_owned())].prop_map(Shape::Str),
        vec(any::<u8>(), 0..4).prop_map(Shape::Bytes),
        Just(Shape::Option(None)),
        Just(Shape::Unit),
        Just(Shape::UnitVariant),
        any::<u8>().prop_map(Shape::Displayed),
        proptest::collection::btree_map("[a-c]", any::<i32>(), 0..3).prop_map(Shape::Flattened),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        let many = || vec(inner.clone(), 0..5);
        let one = || inner.clone().prop_map(Box::new);
        prop_oneof![
            1 => one().prop_map(|inner| Shape::Option(Some(inner))),
            1 => one().prop_map(Shape::Newtype),
            1 => one().prop_map(Shape::NewtypeVariant),
            1 => (many(), any::<bool>()).prop_map(|(elements, sized)| Shape::Seq(elements, sized)),
            1 => many().prop_map(Shape::Tuple),
            1 => many().prop_map(Shape::TupleStruct),
            1 => many().prop_map(Shape::TupleVariant),
            4 => vec((key(), inner.clone()), 0..5).prop_map(Shape::Map),
            4 => fields(inner.clone()).prop_map(Shape::Struct),
            1 => fields(inner.clone()).prop_map(Shape::StructVariant),
        ]
    })
}

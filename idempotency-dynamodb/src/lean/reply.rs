//! Reads the body of a response, in the JSON of DynamoDB.
//!
//! What a body contains never becomes part of an error.

use std::fmt;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::item::Item;

/// What the store needs of a body.
#[derive(Default)]
pub(super) struct Body {
    /// The item of a read, the one that a put replaced, or the present one after a failed condition.
    pub(super) item: Option<Item>,
    /// The error code, with its namespace.
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

/// Reads a body. `None` if it is not one of DynamoDB. An empty one is an empty object.
pub(super) fn read(bytes: &[u8]) -> Option<Body> {
    if bytes.is_empty() {
        return Some(Body::default());
    }
    serde_json::from_slice(bytes).ok()
}

/// Returns an error code without its namespace and without the address of its documentation.
pub(super) fn short_code(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or_default();
    code.split_once('#').map_or(code, |(_, code)| code)
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        let mut body = Body::default();
        let (mut code, mut kind) = (None, None);
        while let Some(name) = map.next_key::<Name>()? {
            match name {
                Name::Item => {
                    body.item = map.next_value::<Option<ItemReader>>()?.map(|item| item.0)
                }
                Name::Code => code = map.next_value::<MaybeText>()?.0,
                Name::Type => kind = map.next_value::<MaybeText>()?.0,
                Name::Message => body.message = map.next_value::<MaybeText>()?.0,
                Name::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        body.code = code.or(kind);
        Ok(body)
    }
}

/// The name of a member of a body.
enum Name {
    Item,
    Code,
    Type,
    Message,
    Other,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                Ok(match name {
                    "Item" | "Attributes" => Name::Item,
                    "code" => Name::Code,
                    "__type" => Name::Type,
                    "message" | "Message" | "errorMessage" => Name::Message,
                    _ => Name::Other,
                })
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// A text. `None` for a value of another type, which a proxy could send.
struct MaybeText(Option<String>);

impl<'de> Deserialize<'de> for MaybeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Some(text),
            _ => None,
        }))
    }
}

struct ItemReader(Item);

impl<'de> Deserialize<'de> for ItemReader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;
        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = ItemReader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ItemReader, A::Error> {
                let mut item = Item::with_capacity(map.size_hint().unwrap_or(10));
                while let Some(name) = map.next_key()? {
                    item.insert(name, map.next_value::<ValueReader>()?.0);
                }
                Ok(ItemReader(item))
            }
        }
        deserializer.deserialize_map(ItemVisitor)
    }
}

/// Reads a value: an object with one member, whose name is the type.
struct ValueReader(AttributeValue);

impl<'de> Deserialize<'de> for ValueReader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = ValueReader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of DynamoDB")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ValueReader, A::Error> {
        let mut value = None;
        while let Some(kind) = map.next_key::<Kind>()? {
            let read = match kind {
                Kind::S => map.next_value::<Option<_>>()?.map(AttributeValue::S),
                Kind::N => map.next_value::<Option<_>>()?.map(AttributeValue::N),
                Kind::Bool => map.next_value::<Option<_>>()?.map(AttributeValue::Bool),
                Kind::Null => map.next_value::<Option<_>>()?.map(AttributeValue::Null),
                Kind::B => map
                    .next_value::<Option<Binary>>()?
                    .map(|it| AttributeValue::B(it.0)),
                Kind::Ss => map.next_value::<Option<_>>()?.map(AttributeValue::Ss),
                Kind::Ns => map.next_value::<Option<_>>()?.map(AttributeValue::Ns),
                Kind::Bs => {
                    let set = map.next_value::<Option<Vec<Binary>>>()?;
                    set.map(|set| AttributeValue::Bs(set.into_iter().map(|it| it.0).collect()))
                }
                Kind::L => map
                    .next_value::<Option<List>>()?
                    .map(|it| AttributeValue::L(it.0)),
                Kind::M => map
                    .next_value::<Option<ItemReader>>()?
                    .map(|it| AttributeValue::M(it.0)),
                Kind::Other => {
                    map.next_value::<IgnoredAny>()?;
                    Some(unknown())
                }
            };
            if read.is_some() && value.is_some() {
                return Err(A::Error::custom("a value has two types"));
            }
            value = read.or(value);
        }
        Ok(ValueReader(value.unwrap_or_else(unknown)))
    }
}

/// Returns a value for one of a type that this version does not know. An attribute with it is present and not readable: no
/// attribute of a record is a set.
fn unknown() -> AttributeValue {
    AttributeValue::Ss(Vec::new())
}

/// The type of a value.
enum Kind {
    S,
    N,
    Bool,
    Null,
    B,
    Ss,
    Ns,
    Bs,
    L,
    M,
    Other,
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KindVisitor;
        impl Visitor<'_> for KindVisitor {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a type")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Kind, E> {
                Ok(match name {
                    "S" => Kind::S,
                    "N" => Kind::N,
                    "BOOL" => Kind::Bool,
                    "NULL" => Kind::Null,
                    "B" => Kind::B,
                    "SS" => Kind::Ss,
                    "NS" => Kind::Ns,
                    "BS" => Kind::Bs,
                    "L" => Kind::L,
                    "M" => Kind::M,
                    _ => Kind::Other,
                })
            }
        }
        deserializer.deserialize_str(KindVisitor)
    }
}

struct Binary(Blob);

impl<'de> Deserialize<'de> for Binary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = aws_smithy_types::base64::decode(text.as_ref());
        let bytes = bytes.map_err(|_| D::Error::custom("a binary value is not base64"))?;
        Ok(Self(Blob::new(bytes)))
    }
}

struct List(Vec<AttributeValue>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = List;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element::<ValueReader>()? {
                    values.push(value.0);
                }
                Ok(List(values))
            }
        }
        deserializer.deserialize_seq(ListVisitor)
    }
}

#[cfg(test)]
mod tests;

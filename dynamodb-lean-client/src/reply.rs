//! Reads the body of a response, in the JSON of DynamoDB.
//!
//! A body that cannot be read is `None`, so no error quotes it. Of a readable one an error has only the code and the message.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::sign::CONTENT_TYPE;

/// An item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// Returns true if a response comes from DynamoDB: it has a request id, as every response of DynamoDB and of its emulators.
pub(crate) fn is_of_dynamodb(response: &HttpResponse) -> bool {
    let id = response.headers().get("x-amzn-requestid");
    id.is_some_and(|id| !id.is_empty())
}

/// Returns true if a response is a success of DynamoDB, apart from its body. Any server can respond with 200 and a JSON object.
pub(crate) fn is_success(response: &HttpResponse) -> bool {
    let kind = response.headers().get("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    response.status().as_u16() == 200
        && kind.eq_ignore_ascii_case(CONTENT_TYPE)
        && is_of_dynamodb(response)
}

/// What a caller needs of a body.
#[derive(Default)]
pub(crate) struct Body {
    /// True if there is a body. It is an object.
    pub(crate) is_object: bool,
    /// The item of a read, or the current one after a failed condition.
    pub(crate) item: Option<Item>,
    /// The item that a write replaced.
    pub(crate) attributes: Option<Item>,
    /// The error code, with its namespace.
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

impl Body {
    /// Returns the error code without its namespace.
    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref().map(short_code)
    }
}

/// Reads a body. `None` if it is not one of DynamoDB. An empty one is an empty object.
pub(crate) fn read(bytes: &[u8]) -> Option<Body> {
    if bytes.is_empty() {
        return Some(Body::default());
    }
    // The parser does not look at the text of members that it skips.
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str(text).ok()
}

/// Returns an error code without its namespace and without the address of its documentation.
fn short_code(code: &str) -> &str {
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
        let mut body = Body {
            is_object: true,
            ..Body::default()
        };
        let (mut code, mut kind) = (None, None);
        while let Some(name) = map.next_key::<Name>()? {
            match name {
                Name::Item => {
                    body.item = map.next_value::<Option<ItemReader>>()?.map(|item| item.0)
                }
                Name::Attributes => {
                    let item = map.next_value::<Option<ItemReader>>()?;
                    body.attributes = item.map(|item| item.0);
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
#[derive(Deserialize)]
#[serde(field_identifier)]
enum Name {
    Item,
    Attributes,
    #[serde(rename = "code")]
    Code,
    #[serde(rename = "__type")]
    Type,
    #[serde(rename = "message", alias = "Message", alias = "errorMessage")]
    Message,
    #[serde(other)]
    Other,
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
                Kind::L => {
                    let list = map.next_value::<Option<Vec<ValueReader>>>()?;
                    list.map(|list| AttributeValue::L(list.into_iter().map(|it| it.0).collect()))
                }
                Kind::M => map
                    .next_value::<Option<ItemReader>>()?
                    .map(|it| AttributeValue::M(it.0)),
                // The attribute is present, and equals no value of DynamoDB, which returns no empty set.
                Kind::Other => {
                    map.next_value::<IgnoredAny>()?;
                    Some(AttributeValue::Ss(Vec::new()))
                }
            };
            if read.is_some() && value.is_some() {
                return Err(A::Error::custom("a value has two types"));
            }
            value = read.or(value);
        }
        let value = value.ok_or_else(|| A::Error::custom("a value has no type"))?;
        Ok(ValueReader(value))
    }
}

/// The type of a value.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "UPPERCASE")]
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
    #[serde(other)]
    Other,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn item(text: &str) -> Option<Item> {
        read(text.as_bytes()).unwrap().item
    }

    fn value(text: &str) -> AttributeValue {
        let mut item = item(&format!(r#"{{"Item":{{"a":{text}}}}}"#)).unwrap();
        item.remove("a").unwrap()
    }

    #[test]
    fn a_success_of_dynamodb_has_a_request_id_and_its_content_type() {
        let id = ("x-amzn-requestid", "1");
        let kind = |kind| ("content-type", kind);
        let of_dynamodb = kind("application/x-amz-json-1.0");
        for (status, headers, is_success) in [
            (200, vec![id, of_dynamodb], true),
            (
                200,
                vec![id, kind("Application/X-Amz-Json-1.0 ; charset=utf-8")],
                true,
            ),
            (201, vec![id, of_dynamodb], false),
            (204, vec![id, of_dynamodb], false),
            (200, vec![("x-amzn-requestid", ""), of_dynamodb], false),
            (200, vec![of_dynamodb], false),
            // API Gateway has such a request id.
            (200, vec![id, kind("application/json")], false),
            (200, vec![id], false),
        ] {
            let status = u16::try_from(status).unwrap().try_into().unwrap();
            let mut response = HttpResponse::new(status, "{}".into());
            for (name, value) in &headers {
                response.headers_mut().insert(*name, *value);
            }
            assert_eq!(
                self::is_success(&response),
                is_success,
                "{status} {headers:?}"
            );
        }
    }

    #[test]
    fn every_type_of_dynamodb_is_read() {
        let string = |text: &str| AttributeValue::S(text.to_owned());
        let blob = |bytes: &[u8]| Blob::new(bytes);
        for (text, expected) in [
            (r#"{"S":"a\"\u00e9\n"}"#, string("a\"é\n")),
            (r#"{"N":"1.50"}"#, AttributeValue::N("1.50".to_owned())),
            (r#"{"BOOL":false}"#, AttributeValue::Bool(false)),
            (r#"{"NULL":true}"#, AttributeValue::Null(true)),
            (r#"{"B":"AP8="}"#, AttributeValue::B(blob(&[0, 255]))),
            (r#"{"SS":["a"]}"#, AttributeValue::Ss(vec!["a".to_owned()])),
            (r#"{"NS":["1"]}"#, AttributeValue::Ns(vec!["1".to_owned()])),
            (r#"{"BS":["AA=="]}"#, AttributeValue::Bs(vec![blob(&[0])])),
            (
                r#"{"L":[{"S":"x"},{"L":[]}]}"#,
                AttributeValue::L(vec![string("x"), AttributeValue::L(Vec::new())]),
            ),
            (
                r#"{"M":{"k":{"S":"v"}}}"#,
                AttributeValue::M(HashMap::from([("k".to_owned(), string("v"))])),
            ),
            (r#"{"N":null,"S":"x"}"#, string("x")),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn a_value_of_an_unknown_type_is_present_and_equals_no_value_of_dynamodb() {
        let value = value(r#"{"DATE":{"deep":[1]}}"#);
        assert!(matches!(value, AttributeValue::Ss(_)));
    }

    #[test]
    fn an_item_is_read_from_each_kind_of_response() {
        let some = || Some(Item::new());
        for (text, item, attributes) in [
            ("{}", None, None),
            ("", None, None),
            (r#"{"Item":null,"Attributes":null}"#, None, None),
            (
                r#"{"ConsumedCapacity":{"TableName":"t"},"Item":{}}"#,
                some(),
                None,
            ),
            (r#"{"Attributes":{}}"#, None, some()),
        ] {
            let body = read(text.as_bytes()).unwrap();
            assert_eq!((body.item, body.attributes), (item, attributes), "{text}");
            assert_eq!(body.is_object, !text.is_empty(), "{text}");
        }
    }

    #[test]
    fn an_error_is_read_with_its_code_and_message() {
        let throttled = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}"#;
        let documented = r#"{"code":"A:http://docs","__type":"B","Message":"m"}"#;
        let of_proxy = r#"{"code":7,"message":["x"]}"#;
        for (text, code, message) in [
            (throttled, Some("ThrottlingException"), Some("slow down")),
            (documented, Some("A"), Some("m")),
            (of_proxy, None, None),
        ] {
            let body = read(text.as_bytes()).unwrap();
            assert_eq!(body.code(), code, "{text}");
            assert_eq!(body.message.as_deref(), message, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_body_of_dynamodb_is_refused() {
        for text in [
            "<html>",
            "[]",
            "{",
            "{} x",
            r#"{"Item":[]}"#,
            r#"{"Item":{"a":"b"}}"#,
            r#"{"Item":{"a":{"S":1}}}"#,
            r#"{"Item":{"a":{"B":"?"}}}"#,
            r#"{"Item":{"a":{"S":"x","N":"1"}}}"#,
            r#"{"Item":{"a":{}}}"#,
            r#"{"Item":{"a":{"S":null}}}"#,
        ] {
            assert!(read(text.as_bytes()).is_none(), "{text}");
        }
        assert!(read(b"{\"other\":\"\xff\",\"__type\":\"a#b\"}").is_none());
    }

    #[test]
    fn a_body_nested_without_end_is_refused() {
        let deep = format!(r#"{{"Item":{{"a":{}"#, r#"{"L":["#.repeat(100_000));
        assert!(read(deep.as_bytes()).is_none());
    }

    /// Returns the JSON of a value.
    fn json(value: &AttributeValue) -> Value {
        let base64 = |blob: &Blob| aws_smithy_types::base64::encode(blob);
        match value {
            AttributeValue::S(text) => json!({ "S": text }),
            AttributeValue::N(text) => json!({ "N": text }),
            AttributeValue::Bool(is) => json!({ "BOOL": is }),
            AttributeValue::Null(is) => json!({ "NULL": is }),
            AttributeValue::B(blob) => json!({ "B": base64(blob) }),
            AttributeValue::Ss(set) => json!({ "SS": set }),
            AttributeValue::Ns(set) => json!({ "NS": set }),
            AttributeValue::Bs(set) => json!({ "BS": set.iter().map(base64).collect::<Vec<_>>() }),
            AttributeValue::L(list) => json!({ "L": list.iter().map(json).collect::<Vec<_>>() }),
            AttributeValue::M(map) => {
                let members = map.iter().map(|(name, value)| (name.clone(), json(value)));
                json!({ "M": members.collect::<serde_json::Map<_, _>>() })
            }
            other => panic!("{other:?} is never made"),
        }
    }

    fn any_value() -> impl Strategy<Value = AttributeValue> {
        let blob = || any::<Vec<u8>>().prop_map(Blob::new);
        let leaf = prop_oneof![
            any::<String>().prop_map(AttributeValue::S),
            "-?[0-9]{1,38}".prop_map(AttributeValue::N),
            any::<bool>().prop_map(AttributeValue::Bool),
            any::<bool>().prop_map(AttributeValue::Null),
            blob().prop_map(AttributeValue::B),
            any::<Vec<String>>().prop_map(AttributeValue::Ss),
            any::<Vec<String>>().prop_map(AttributeValue::Ns),
            proptest::collection::vec(blob(), 0..3).prop_map(AttributeValue::Bs),
        ];
        // DynamoDB nests values 32 levels deep.
        leaf.prop_recursive(32, 64, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
                proptest::collection::hash_map(any::<String>(), inner, 0..3)
                    .prop_map(AttributeValue::M),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_item_reads_back(item in proptest::collection::hash_map(any::<String>(), any_value(), 0..4)) {
            let members = item.iter().map(|(name, value)| (name.clone(), json(value)));
            let body = json!({ "Item": members.collect::<serde_json::Map<_, _>>() });
            let read = read(body.to_string().as_bytes());
            prop_assert_eq!(read.and_then(|body| body.item), Some(item));
        }

        #[test]
        fn no_text_breaks_the_reader(text in "[\\[\\]{}\":,a-zA-Z0-9 \\\\]{0,60}") {
            let _ = read(text.as_bytes());
        }
    }

    #[test]
    fn the_deepest_value_of_dynamodb_reads_back() {
        let deepest = (0..32).fold(AttributeValue::Bool(true), |inner, _| {
            AttributeValue::M(HashMap::from([("a".to_owned(), inner)]))
        });
        assert_eq!(value(&json(&deepest).to_string()), deepest);
    }
}

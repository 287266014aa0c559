//! Checks the reader of responses.

use std::collections::HashMap;

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
fn a_value_of_an_unknown_type_is_present_and_no_type_of_a_record() {
    for text in [r#"{"DATE":{"deep":[1]}}"#, "{}"] {
        assert!(matches!(value(text), AttributeValue::Ss(_)), "{text}");
    }
}

#[test]
fn an_item_is_read_from_each_kind_of_response() {
    assert_eq!(item("{}"), None);
    assert_eq!(item(""), None);
    assert_eq!(item(r#"{"Item":null}"#), None);
    assert_eq!(
        item(r#"{"ConsumedCapacity":{"TableName":"t"},"Item":{}}"#),
        Some(Item::new())
    );
    assert_eq!(item(r#"{"Attributes":{}}"#), Some(Item::new()));
}

#[test]
fn an_error_is_read_with_its_code_and_message() {
    let error = |text: &str| {
        let body = read(text.as_bytes()).unwrap();
        let code = body.code.as_deref().map(short_code);
        (code.map(str::to_owned), body.message)
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        error(
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}"#
        ),
        (text("ThrottlingException"), text("slow down"))
    );
    assert_eq!(
        error(r#"{"code":"A:http://docs","__type":"B","Message":"m"}"#),
        (text("A"), text("m"))
    );
    // A proxy's own error.
    assert_eq!(error(r#"{"code":7,"message":["x"]}"#), (None, None));
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
    ] {
        assert!(read(text.as_bytes()).is_none(), "{text}");
    }
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

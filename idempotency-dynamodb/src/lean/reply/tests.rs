use std::collections::HashMap;

use super::*;

fn item(text: &str) -> Option<Item> {
    read(text.as_bytes())
        .expect("it is a body of DynamoDB")
        .item
}

fn value(text: &str) -> AttributeValue {
    let mut item = item(&format!(r#"{{"Item":{{"a":{text}}}}}"#)).expect("there is an item");
    item.remove("a").expect("there is an attribute")
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
        let body = read(text.as_bytes()).expect("it is a body of DynamoDB");
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

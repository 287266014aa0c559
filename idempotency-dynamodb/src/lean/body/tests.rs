//! Checks the bodies of requests.

use idempotency_core::protocol::condition::Condition;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::attribute_names::AttributeNames;
use crate::request::Shapes;

/// Returns the body of a put of this item.
fn put(item: Vec<Attribute<'_>>, returns_existing: bool) -> Json {
    let request = Request::Put {
        item,
        expressions: Shapes::default().condition(&AttributeNames::default(), &Condition::NoRecord),
        returns_replaced: false,
        returns_existing,
    };
    serde_json::from_slice(&write("t", &request).unwrap()).unwrap()
}

#[test]
fn a_put_that_asks_for_nothing_has_this_body() {
    let item = vec![("id", Value::Text("a")), ("b", Value::Bytes(&[0, 255, 7]))];
    let expected = json!({
        "TableName": "t",
        "Item": { "id": { "S": "a" }, "b": { "B": "AP8H" } },
        "ConditionExpression": "attribute_not_exists(#a)",
        "ExpressionAttributeNames": { "#a": "id" }
    });
    assert_eq!(put(item, false), expected);
}

proptest! {
    #[test]
    fn every_value_is_written_so_that_it_reads_back(
        name in any::<String>(),
        text in any::<String>(),
        number in any::<i64>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..99),
    ) {
        let name = name.as_str();
        for (value, written) in [
            (Value::Text(&text), json!({ "S": text })),
            (Value::Number(number), json!({ "N": number.to_string() })),
            (Value::Bytes(&bytes), json!({ "B": base64::encode(&bytes) })),
        ] {
            let mut expected = serde_json::Map::new();
            expected.insert(name.to_owned(), written);
            prop_assert_eq!(&put(vec![(name, value)], true)["Item"], &Json::from(expected));
        }
    }
}

//! Both clients read each body alike, also one that a proxy or a fault has changed, unless one of them refuses it.

use proptest::prelude::*;

use super::Kind;
use super::same_wire::{RequestKind, ended};

/// Bodies of DynamoDB: items with each type, and errors.
const BODIES: &[&str] = &[
    r#"{"Item":{"status":{"S":"COMPLETED"},"data":{"S":"\"\u00e9\ud83e\udd80\n\""},"expiration":{"N":"1893456000"}}}"#,
    r#"{"Item":{"status":{"S":"INPROGRESS"},"in_progress_expiration":{"N":"1893456000000"},"owner":{"B":"AQIDBAUGBwgJCgsMDQ4PEA=="}}}"#,
    r#"{"Item":{"a":{"M":{"b":{"L":[{"NULL":true},{"BOOL":false},{"NS":["1","-2.5"]},{"SS":["x"]},{"BS":["AA=="]}]}}}}}"#,
    r#"{"ConsumedCapacity":{"TableName":"payments","CapacityUnits":0.5},"Item":{}}"#,
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"status":{"S":"COMPLETED"},"data":{"S":"1"}}}"#,
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}"#,
    r#"{"code":"ValidationException","Message":"Item size has exceeded the maximum allowed size"}"#,
];

/// A change of one place of a body.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, char),
    Insert(usize, &'static str),
    Delete(usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = 0..220_usize;
    let text = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "\\u00e9",
        "null",
        "true",
        "1e400",
        "-0",
        " ",
        "\n",
        "\u{feff}",
        "é",
        "{\"S\":\"x\"}",
        "\"S\":\"y\",",
        "{\"DATE\":\"x\"}",
        "\"Item\":{},",
        "\"__type\":\"b\",",
    ]);
    prop_oneof![
        (place.clone(), any::<char>()).prop_map(|(at, letter)| Change::Replace(at, letter)),
        (place.clone(), text).prop_map(|(at, text)| Change::Insert(at, text)),
        (place.clone(), 1..12_usize).prop_map(|(at, length)| Change::Delete(at, length)),
        place.prop_map(Change::Cut),
    ]
}

fn changed(body: &str, changes: &[Change]) -> String {
    let mut letters: Vec<char> = body.chars().collect();
    for change in changes {
        let length = letters.len();
        match change {
            Change::Replace(at, letter) if *at < length => letters[*at] = *letter,
            Change::Insert(at, text) if *at <= length => {
                letters.splice(at..at, text.chars());
            }
            Change::Delete(at, count) if *at < length => {
                letters.drain(*at..length.min(at + count));
            }
            Change::Cut(at) => letters.truncate(*at),
            _ => {}
        }
    }
    letters.into_iter().collect()
}

proptest! {
    #[test]
    fn a_changed_body_ends_alike(
        body in prop::sample::select(BODIES),
        changes in prop::collection::vec(change(), 0..3),
        status in prop::sample::select(vec![200_u16, 400]),
    ) {
        let body = changed(body, &changes);
        // A read has no condition that can fail.
        let request = if status == 200 { RequestKind::Get } else { RequestKind::Put };
        let reply = vec![(status, Vec::new(), body.clone()); 3];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let [sdk, lean] = Kind::ALL.map(|kind| runtime.block_on(ended(kind, request, reply.clone())).0);
        let refuses = |end: &str| end.contains("is not from DynamoDB");
        prop_assert!(lean == sdk || refuses(&lean) != refuses(&sdk), "{lean}\n{sdk}\n{status} {body}");
    }
}

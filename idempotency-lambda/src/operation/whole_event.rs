//! Finds a function whose key is a whole payload that is no key: an event in which nothing changes, so that each one after the first is a
//! replay, or an event that is another one in each delivery.

use std::any::type_name;
use std::sync::atomic::Ordering;

use idempotency_expression::event_type_in;
use serde_json::Value;

use super::Operation;
use crate::event::Payload;
use crate::process::warn;

/// The most bytes of an event that is looked at. An input that is written by hand is shorter.
const LOOKED_AT: usize = 4 * 1024;

/// The ends of names whose values differ from event to event.
const CHANGING: [&str; 19] = [
    "id",
    "ids",
    "uuid",
    "guid",
    "key",
    "token",
    "nonce",
    "time",
    "timestamp",
    "date",
    "day",
    "month",
    "at",
    "number",
    "no",
    "ref",
    "reference",
    "sequence",
    "version",
];

/// Warns once if the key of this operation is a whole payload that is no key. `is_event` is true for the payload of an event.
pub(crate) fn look_at<P: Payload + ?Sized>(operation: &Operation, payload: &P, is_event: bool) {
    let compiled = operation.compiled();
    let is_whole = compiled.key_expression().is_none() && !compiled.is_disabled();
    if !is_whole || operation.0.has_seen_event.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(why) = advice(payload, is_event) {
        let prefix = compiled.key_prefix();
        warn(&format!("{prefix}: {why} (this warning is logged once)"));
    }
}

fn advice<P: Payload + ?Sized>(payload: &P, is_event: bool) -> Option<String> {
    // The attribute refuses these types where it sees their names.
    if let Some(name) = event_type_in(type_name::<P>()) {
        return Some(format!(
            "a whole `{name}` is the key, and it is another one in each delivery or request, so that a retry runs again: write a `key` \
             that stays the same, or protect a function of one record (`sqs`, `kinesis`, `dynamodb_stream`) or of a request (`http`)"
        ));
    }
    let is_constant = is_event
        && payload
            .json_within(LOOKED_AT)
            .is_some_and(|event| is_constant(&event));
    is_constant.then(|| {
        "the whole event is the key, and nothing in this event looks like an id or a time: until the window ends, an equal event gets \
         the response of this one without a run, as each event of a schedule with a constant input does; write a `key` with what \
         changes, or add it to the input"
            .to_owned()
    })
}

/// Returns true if an event is an object without a member that looks like an id or a time.
fn is_constant(event: &Value) -> bool {
    matches!(event, Value::Object(members) if !members.is_empty()) && !changes(event)
}

fn changes(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| names_a_change(name) && !is_empty(value) || changes(value)),
        Value::Array(elements) => elements.iter().any(changes),
        // A UUID, a date, a time in seconds.
        Value::String(text) => text.bytes().filter(u8::is_ascii_digit).count() >= 6,
        Value::Number(number) => number.to_string().len() >= 6,
        Value::Null | Value::Bool(_) => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns true if the last word of a name, such as `orderId`, `order_id` or `detail-id`, is one of those that change.
fn names_a_change(name: &str) -> bool {
    let start = name.rfind(['_', '-', '.', ':', ' ']).map_or(0, |at| at + 1);
    let last = &name[start..];
    let capital = last.rfind(|letter: char| letter.is_ascii_uppercase());
    let word = capital.map_or(last, |at| &last[at..]);
    // `orderID` has its last word in capitals.
    let is_last = |word: &str| CHANGING.contains(&word.to_ascii_lowercase().as_str());
    is_last(last) || is_last(word) || last.ends_with("ID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_an_id_or_a_time_is_constant() {
        for (event, expected) in [
            (r#"{"job": "nightly"}"#, true),
            (
                r#"{"job": "nightly", "retries": 3, "tables": ["a", "b"], "dry": false}"#,
                true,
            ),
            (
                r#"{"job": {"kind": "report", "valid": true}, "paid": "no"}"#,
                true,
            ),
            (r#"{"job": "nightly", "id": null, "time": ""}"#, true),
            (r#"{"job": "nightly", "ids": [], "key": {}}"#, true),
            (r#"{"order_id": "a"}"#, false),
            (r#"{"orderId": 1}"#, false),
            (r#"{"eventID": "a"}"#, false),
            (r#"{"detail": [{"Key": "a"}]}"#, false),
            (r#"{"at": "noon"}"#, false),
            (r#"{"job": "nightly", "run": "2026-11-26"}"#, false),
            (r#"{"job": "nightly", "run": 1700000000}"#, false),
            // The event itself can be the id, and an empty one is no key.
            (r#""nightly""#, false),
            ("7", false),
            ("[]", false),
            ("{}", false),
        ] {
            let event = serde_json::from_str(event).unwrap();
            assert_eq!(is_constant(&event), expected, "{event}");
        }
    }

    #[test]
    fn an_operation_with_several_stores_looks_at_one_event() {
        use std::sync::Arc;

        use idempotency_core::store::MemoryStore;

        let operation = Operation::builder("whole").build().unwrap();
        let [one, other] = [(); 2].map(|()| operation.with_store(Arc::new(MemoryStore::new())));
        look_at(&one, &serde_json::json!({ "job": "nightly" }), true);
        assert!(other.0.has_seen_event.load(Ordering::Relaxed));
    }

    #[cfg(feature = "batch")]
    #[test]
    fn a_whole_event_of_a_queue_is_advised_against_and_a_payload_that_the_program_chose_is_not() {
        type Renamed = aws_lambda_events::sqs::SqsEvent;
        for is_event in [true, false] {
            let advice = advice(&Renamed::default(), is_event).unwrap();
            assert!(
                advice.starts_with("a whole `SqsEvent` is the key"),
                "{advice}"
            );
        }
        let job = serde_json::json!({ "job": "nightly" });
        assert!(advice(&job, true).is_some());
        assert_eq!(advice(&job, false), None);
        assert_eq!(advice("nightly", true), None);
    }
}

//! Events as AWS sends them, for the tests of a function.
//!
//! Each function starts an event with all its fields set. Methods change what a test is about. The result is JSON text
//! ([`to_string`](ToString)), a [`serde_json::Value`] (`to_value`), or any type that reads the event (`parse`).
//!
//! | function | event | type of `aws_lambda_events` |
//! |---|---|---|
//! | [`api_gateway_v2`] | API Gateway HTTP API, payload format 2.0 | `ApiGatewayV2httpRequest` |
//! | [`api_gateway_v1`] | API Gateway REST API, payload format 1.0 | `ApiGatewayProxyRequest` |
//! | [`alb`] | Application Load Balancer | `AlbTargetGroupRequest` |
//! | [`function_url`] | function URL | `LambdaFunctionUrlRequest` |
//! | [`sqs`] | a batch of SQS messages, standard or FIFO | `SqsEvent` |
//! | [`kinesis`] | a batch of Kinesis records | `KinesisEvent` |
//! | [`dynamodb_stream`] | a batch of changes of a DynamoDB table | `dynamodb::Event` |
//! | [`event_bridge`] | one event of an EventBridge bus | `EventBridgeEvent` |
//!
//! Two events that are made in the same way are equal: times are fixed, and ids are computed from the content. So an event
//! that is made twice is a retry. Every event has the method `with`, which sets any field that no other method sets.
//!
//! # Examples
//!
//! ```
//! use idempotency_testkit::events;
//! use serde_json::json;
//!
//! let request = events::api_gateway_v2("POST", "/payments")
//!     .header("Idempotency-Key", "k-1")
//!     .claim("sub", "u-1")
//!     .json(&json!({"order_id": "o-1", "amount": 42}));
//! let event = request.to_value();
//! assert_eq!(event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"], "u-1");
//! assert_eq!(event["body"], r#"{"amount":42,"order_id":"o-1"}"#);
//! ```
//!
//! A batch, with a message that was sent twice:
//!
//! ```
//! use idempotency_testkit::events;
//! use serde_json::{Value, json};
//!
//! let order = json!({"order_id": "o-1"});
//! let event: Value = events::sqs("orders").json(&order).json(&order).parse()?;
//! assert_eq!(event["Records"][0]["body"], event["Records"][1]["body"]);
//! assert_ne!(event["Records"][0]["messageId"], event["Records"][1]["messageId"]);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! With the [local Lambda](crate::lambda), an event is passed as it is: `lambda.invoke(events::sqs("orders").json(&order))`.

use md5::Md5;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

mod batch;
mod event;

pub use batch::{AwsBatch, AwsRecord, dynamodb_stream, kinesis, sqs};
pub use event::{AwsEvent, alb, api_gateway_v1, api_gateway_v2, event_bridge, function_url};

/// Reads a template and puts values in the place of the names in braces.
fn filled(template: &str, values: &[(&str, &str)]) -> Value {
    let mut event = match serde_json::from_str(template) {
        Ok(event) => event,
        Err(error) => panic!("a template of this crate is not JSON: {error}"),
    };
    fill(&mut event, values);
    event
}

fn fill(target: &mut Value, values: &[(&str, &str)]) {
    match target {
        Value::String(text) if text.contains('{') => {
            // Piece by piece: a value may contain braces.
            let mut filled = String::new();
            let mut rest = &**text;
            while let Some((before, (name, after))) = split(rest) {
                let value = values.iter().find(|(other, _)| *other == name);
                filled += before;
                filled += value.map_or(name, |(_, value)| value);
                rest = after;
            }
            *text = filled + rest;
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, values)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, values)),
        _ => {}
    }
}

/// Splits a text at its first name in braces.
fn split(text: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = text.split_once('{')?;
    Some((before, rest.split_once('}')?))
}

/// Turns a value of a test into JSON.
///
/// # Panics
///
/// If the value cannot be written as JSON.
fn json_value<T: Serialize + ?Sized>(value: &T) -> Value {
    match serde_json::to_value(value) {
        Ok(value) => value,
        Err(error) => panic!("the value cannot be written as JSON: {error}"),
    }
}

/// Sets the values at JSON pointers, and creates the objects on the way.
///
/// # Panics
///
/// If a list on the way has no such item.
fn set_all(target: &mut Value, changes: &[(String, Value)]) {
    for (pointer, value) in changes {
        let mut place = &mut *target;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            place = match part.parse::<usize>() {
                Ok(index) if place.is_array() => &mut place[index],
                _ => {
                    if !place.is_object() {
                        *place = Value::Object(Map::new());
                    }
                    // An index of an object creates the field.
                    &mut place[part]
                }
            };
        }
        *place = value.clone();
    }
}

/// Sets a value that is computed, unless the test has set it.
fn default(place: &mut Value, value: impl FnOnce() -> String) {
    if place.is_null() {
        *place = Value::String(value());
    }
}

/// Returns the MD5 digest, which SQS sends with each message.
fn md5(bytes: &[u8]) -> String {
    hex(Md5::digest(bytes).as_slice())
}

/// Returns the SHA-256 digest, which a FIFO queue with content-based deduplication uses.
fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..])
}

/// Returns an id in the form of a UUID of version 4. Equal parts have equal ids.
fn uuid(parts: &[&str]) -> String {
    let id = hex32(parts);
    let (a, b, c, d) = (&id[..8], &id[8..12], &id[13..16], &id[17..20]);
    format!("{a}-{b}-4{c}-8{d}-{}", &id[20..])
}

/// Returns 32 hexadecimal digits. The length of each part counts, so `["ab", "c"]` and `["a", "bc"]` differ.
fn hex32(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| format!("{}:{part}", part.len()));
    sha256(parts.collect::<String>().as_bytes())[..32].to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_in_the_place_of_a_name_may_contain_braces() {
        let event = filled(r#"{"a": ["{x} {y}!", 1]}"#, &[("x", "{y}"), ("y", "2")]);
        assert_eq!(event, json!({"a": ["{y} 2!", 1]}));
    }

    #[test]
    fn a_pointer_creates_objects_and_finds_items() {
        let mut event = json!({"Records": [{"a": 1}], "none": null});
        let changes = [("/Records/0/a", 2), ("/none/x/y~1z", 3), ("/map/0", 4)];
        let changes = changes.map(|(pointer, value)| (pointer.to_owned(), json!(value)));
        set_all(&mut event, &changes);
        let expected = json!({"Records": [{"a": 2}], "none": {"x": {"y/z": 3}}, "map": {"0": 4}});
        assert_eq!(event, expected);
    }

    #[test]
    fn digests_are_those_of_known_texts() {
        assert_eq!(md5(b"Test message."), "e4e68fb7bd0e697a0ae8f1bb342846b3");
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn an_id_has_the_form_of_a_uuid_and_depends_on_each_part() {
        let id = uuid(&["ab", "c"]);
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_ne!(id, uuid(&["a", "bc"]));
        assert_eq!(id, uuid(&["ab", "c"]));
    }
}

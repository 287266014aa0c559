//! Every event has the fields that AWS sends, and the types of `aws_lambda_events` read it without a loss.

#![allow(clippy::unwrap_used)]

mod batches;
mod http;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an event as `T`, writes it again, and returns the paths that were lost or changed.
pub(crate) fn lost<T: DeserializeOwned + Serialize>(event: &Value) -> Vec<String> {
    let typed: T = serde_json::from_value(event.clone()).unwrap();
    let mut lost = Vec::new();
    compare("", event, &serde_json::to_value(typed).unwrap(), &mut lost);
    lost
}

fn compare(path: &str, sent: &Value, read: &Value, lost: &mut Vec<String>) {
    match (sent, read) {
        (Value::Object(sent), _) => {
            for (name, value) in sent {
                compare(&format!("{path}/{name}"), value, &read[name], lost);
            }
        }
        (Value::Array(sent), _) => {
            for (index, value) in sent.iter().enumerate() {
                compare(&format!("{path}/{index}"), value, &read[index], lost);
            }
        }
        // A type may write an absent field as an empty one.
        (Value::Null, Value::Null) => {}
        (Value::Null, Value::Object(fields)) if fields.is_empty() => {}
        (sent, read)
            if sent == read || sent.as_f64().is_some() && sent.as_f64() == read.as_f64() => {}
        _ => lost.push(path.to_owned()),
    }
}

pub(crate) fn names(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

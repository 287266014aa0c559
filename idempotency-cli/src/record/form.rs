//! The form of a response: its JSON types and the names of its members, never a value.

use idempotency_core::record::{Attribute, RecordId, Status};
use idempotency_core::store::{Condition, Operand, ScanRequest, StoreReply};
use serde_json::Value;

use super::{failed, read};
use crate::connection::Connection;
use crate::exit::Failure;
use crate::terminal::visible;

/// How many items of the table are read to find another record: at most one page.
const MOST_ITEMS: usize = 1_000;

/// How many records are read, if their responses cannot be.
const MOST_READS: usize = 5;

/// The most members of an object that are named.
const MOST_MEMBERS: usize = 20;

/// Below this level only the type is named.
const DEPTH: usize = 3;

/// Returns two lines for the prompt of a decision: the form of this response, and that of another one of the operation.
pub(super) async fn compared(id: &RecordId, response: &str, connection: &Connection) -> String {
    let other = match another(id, connection).await {
        Ok(Some((other, response))) => format!("{}  (that of {other})", of(&response)),
        Ok(None) => {
            let prefix = id.prefix();
            format!("not found: no response of `{prefix}` among {MOST_ITEMS} items")
        }
        Err(failure) => format!("not known: {}", failure.message),
    };
    // Another program can have written the names of members.
    let (this, other) = (of(response), visible(&other));
    let this = visible(&this);
    format!("{:<12} {this}\n{:<12} {other}\n", "response", "others hold")
}

/// Returns another record of the operation that a run has completed, and its response. `None` if the first items have none.
async fn another(
    id: &RecordId,
    connection: &Connection,
) -> Result<Option<(RecordId, String)>, Failure> {
    let prefix = format!("{}#", id.prefix());
    // The response of an operator can be as wrong as the one that is about to be given.
    let by_a_run = Condition::All(vec![
        Condition::Equals(Attribute::Status, Operand::status(&Status::Completed)),
        Condition::Missing(Attribute::Decision),
    ]);
    let request = ScanRequest {
        prefix: &prefix,
        filter: Some(&by_a_run),
        limit: MOST_ITEMS,
        ..ScanRequest::default()
    };
    let page = connection.records()?.scan(request).await;
    let page = page.map_err(|error| failed(StoreReply::failed(error), ""))?;
    let ids = page.records.into_iter().map(|(other, _)| other);
    let ids = ids.filter(|other| other != id && other.prefix() == id.prefix());
    for other in ids.take(MOST_READS) {
        let record = read(&other, connection).await?.map(|found| found.record);
        if let Some(data) = record.as_ref().and_then(|record| record.data.value()) {
            return Ok(Some((other, data.as_str().to_owned())));
        }
    }
    Ok(None)
}

/// Returns the form of a JSON text, such as `object {items: list of number, paid: true or false}`.
fn of(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(value) => shown(&value, DEPTH),
        Err(_) => "no JSON".to_owned(),
    }
}

fn shown(value: &Value, depth: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(elements) => match elements.first() {
            Some(first) if depth > 0 => format!("list of {}", shown(first, depth - 1)),
            Some(_) => "list".to_owned(),
            None => "empty list".to_owned(),
        },
        Value::Object(members) if depth == 0 || members.is_empty() => "object".to_owned(),
        Value::Object(members) => {
            let named = members.iter().take(MOST_MEMBERS);
            let named = named.map(|(name, value)| format!("{name}: {}", shown(value, depth - 1)));
            let mut named: Vec<_> = named.collect();
            if members.len() > MOST_MEMBERS {
                named.push(format!("{} more", members.len() - MOST_MEMBERS));
            }
            format!("object {{{}}}", named.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_types_and_names_and_no_value() {
        let many: serde_json::Map<_, _> = (0..22)
            .map(|number| (format!("m{number:02}"), Value::Null))
            .collect();
        let many = Value::Object(many).to_string();
        for (json, form) in [
            ("\"s3cr3t\"", "text"),
            ("17", "number"),
            ("true", "true or false"),
            ("null", "null"),
            ("[]", "empty list"),
            ("{}", "object"),
            ("[17, \"s3cr3t\"]", "list of number"),
            (
                r#"{"id": "s3cr3t", "items": [{"price": 7}], "paid": true}"#,
                "object {id: text, items: list of object {price: number}, paid: true or false}",
            ),
            (
                r#"{"a": {"b": {"c": {"s3cr3t": 1}}}}"#,
                "object {a: object {b: object {c: object}}}",
            ),
            ("{s3cr3t", "no JSON"),
        ] {
            assert_eq!(of(json), form, "{json}");
        }
        let form = of(&many);
        assert!(
            form.contains("m19: null, 2 more") && !form.contains("m20"),
            "{form}"
        );
    }
}

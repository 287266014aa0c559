//! The records of the stand-in.
//!
//! It does what the benchmark needs and no more. A PutItem with a condition is refused if the item exists, and returns it.
//! An UpdateItem applies its `SET` and `REMOVE` clauses. Conditions are not evaluated: within a run no record expires, and no
//! two calls of one key overlap.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;

type Item = BTreeMap<String, Box<RawValue>>;

#[derive(Default)]
pub struct Table {
    items: Mutex<HashMap<String, Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request<'a> {
    #[serde(default)]
    item: Option<Item>,
    #[serde(default)]
    key: Option<Item>,
    #[serde(default, borrow)]
    condition_expression: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    update_expression: Option<Cow<'a, str>>,
    #[serde(default)]
    expression_attribute_names: HashMap<String, String>,
    #[serde(default)]
    expression_attribute_values: HashMap<String, Box<RawValue>>,
}

impl Table {
    /// Performs a request, and returns status and body of the response.
    pub fn apply(&self, operation: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.perform(operation, body).unwrap_or_else(|text| {
            let error = serde_json::json!({
                "__type": "com.amazon.coral.validate#ValidationException",
                "message": text,
            });
            (400, error.to_string().into_bytes())
        })
    }

    fn perform(&self, operation: &str, body: &[u8]) -> Result<(u16, Vec<u8>), String> {
        let request: Request<'_> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let key = request.item.as_ref().or(request.key.as_ref());
        let key = key
            .and_then(|key| key.get("id"))
            .ok_or("the key `id` is missing")?;
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        match operation {
            "PutItem" => {
                if request.condition_expression.is_some()
                    && let Some(current) = items.get(key.get())
                {
                    return Ok((400, refused(current)));
                }
                let key = key.get().to_owned();
                items.insert(key, request.item.unwrap_or_default());
            }
            "UpdateItem" => {
                let item = items.get_mut(key.get()).ok_or("there is no such item")?;
                set(item, &request)?;
            }
            "DeleteItem" => drop(items.remove(key.get())),
            "GetItem" => {
                if let Some(item) = items.get(key.get()) {
                    let item = serde_json::to_string(item).map_err(|error| error.to_string())?;
                    return Ok((200, format!("{{\"Item\":{item}}}").into_bytes()));
                }
            }
            other => return Err(format!("the stand-in has no {other}")),
        }
        Ok((200, b"{}".to_vec()))
    }
}

/// Returns the body of a failed condition, with the current item.
fn refused(current: &Item) -> Vec<u8> {
    let mut body =
        br#"{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":"#
            .to_vec();
    body.extend(serde_json::to_vec(current).unwrap_or_default());
    body.push(b'}');
    body
}

/// Applies an expression such as `SET #a = :a, b = :b REMOVE c`.
fn set(item: &mut Item, request: &Request<'_>) -> Result<(), String> {
    let expression = request
        .update_expression
        .as_deref()
        .unwrap_or_default()
        .trim();
    let name = |name: &str| {
        let names = &request.expression_attribute_names;
        names
            .get(name.trim())
            .map_or(name.trim(), String::as_str)
            .to_owned()
    };
    let (sets, removes) = match expression.split_once("REMOVE ") {
        Some((sets, removes)) => (sets, Some(removes)),
        None => (expression, None),
    };
    let sets = sets
        .trim()
        .strip_prefix("SET ")
        .ok_or("no `SET` in the update expression")?;
    for set in sets.split(',') {
        let (attribute, value) = set.split_once('=').ok_or("no `=` in a `SET`")?;
        let value = request.expression_attribute_values.get(value.trim());
        item.insert(name(attribute), value.ok_or("no such value")?.clone());
    }
    for removed in removes.iter().flat_map(|removes| removes.split(',')) {
        item.remove(&name(removed));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(table: &Table, operation: &str, request: &str) -> (u16, String) {
        let (status, body) = table.apply(operation, request.as_bytes());
        (status, String::from_utf8(body).unwrap())
    }

    const PUT: &str = r#"{"Item":{"id":{"S":"a"},"status":{"S":"INPROGRESS"}},"ConditionExpression":"attribute_not_exists(id)"}"#;

    #[test]
    fn a_second_claim_is_refused_and_brings_the_updated_item_back() {
        let table = Table::default();
        assert_eq!(body(&table, "PutItem", PUT), (200, "{}".to_owned()));
        let update = r##"{"Key":{"id":{"S":"a"}},"UpdateExpression":"SET #s = :s, data = :d REMOVE owner","ExpressionAttributeNames":{"#s":"status"},"ExpressionAttributeValues":{":s":{"S":"COMPLETED"},":d":{"S":"1"}}}"##;
        assert_eq!(body(&table, "UpdateItem", update).0, 200);
        let (status, refused) = body(&table, "PutItem", PUT);
        assert_eq!(status, 400);
        assert!(
            refused.ends_with(
                r#""Item":{"data":{"S":"1"},"id":{"S":"a"},"status":{"S":"COMPLETED"}}}"#
            ),
            "{refused}"
        );
    }

    #[test]
    fn an_update_without_an_item_is_an_error() {
        let update = r#"{"Key":{"id":{"S":"a"}},"UpdateExpression":"SET a = :a","ExpressionAttributeValues":{":a":{"S":"1"}}}"#;
        let (status, error) = body(&Table::default(), "UpdateItem", update);
        assert_eq!(status, 400);
        assert!(error.contains("there is no such item"), "{error}");
    }
}

//! What a response and an item both say, such as the number of a receipt.
//!
//! A value that differs between two faultless runs, and is in the response and in an item of each, belongs together. If they
//! differ after a fault, the response is that of one run and the item that of another.

use serde_json::Value;

use super::Snapshot;
use super::expectation::Expectation;

/// A value that a response and an item share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    table: String,
    key: String,
    attribute: String,
    /// Its place in the response, a JSON pointer.
    pointer: String,
}

impl Expectation {
    /// Returns the first value that the response and an item share in a faultless run and do not share here.
    pub(in super::super) fn disagreement(
        &self,
        actual: &Snapshot,
        response: &Value,
    ) -> Option<String> {
        self.shared().into_iter().find_map(|shared| {
            let item = actual.items.get(&shared.table)?.get(&shared.key)?;
            let stored = text(item.get(&shared.attribute)?)?;
            let responded = leaf(response.pointer(&shared.pointer)?)?;
            (stored != responded).then(|| {
                format!(
                    "the response has `{responded}` at `{}`, but `{}` of `{}` in the table `{}` is `{stored}`",
                    shared.pointer, shared.attribute, shared.key, shared.table
                )
            })
        })
    }

    /// Returns what the response and the items share in both faultless runs, and what differs between these.
    fn shared(&self) -> Vec<Shared> {
        let mut found = Vec::new();
        let (Some(first), Some(second)) = &self.responses else {
            return found;
        };
        let mut leaves = Vec::new();
        collect(first, String::new(), &mut leaves);
        for (table, items) in &self.after.items {
            for (key, item) in items {
                let again = self.again.items.get(table).and_then(|items| items.get(key));
                let names = item.as_object().into_iter().flat_map(|item| item.keys());
                for name in names {
                    let of = |item: Option<&Value>| text(item?.get(name)?);
                    let (Some(one), Some(two)) = (of(Some(item)), of(again)) else {
                        continue;
                    };
                    if one == two {
                        continue;
                    }
                    let is_same = |(pointer, text): &&(String, String)| {
                        let other = second.pointer(pointer).and_then(leaf);
                        *text == one && other.as_ref() == Some(&two)
                    };
                    found.extend(leaves.iter().filter(is_same).map(|(pointer, _)| Shared {
                        table: table.clone(),
                        key: key.clone(),
                        attribute: name.clone(),
                        pointer: pointer.clone(),
                    }));
                }
            }
        }
        found
    }
}

/// Returns the text of a string or number attribute.
fn text(typed: &Value) -> Option<String> {
    let value = typed.get("S").or_else(|| typed.get("N"))?;
    value.as_str().map(str::to_owned)
}

/// Returns the text of a string or number in a response.
fn leaf(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn collect(value: &Value, pointer: String, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(member, format!("{pointer}/{name}"), leaves);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                collect(element, format!("{pointer}/{index}"), leaves);
            }
        }
        other => leaves.extend(leaf(other).map(|text| (pointer, text))),
    }
}

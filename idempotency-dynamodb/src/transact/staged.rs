//! One staged write: its table, its key, its size, and its name in errors.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use super::LimitError;
use crate::item::Item;
use crate::item::size;

/// A staged write, as the parts that its limits are about.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    kind: &'static str,
    table: &'a str,
    /// The key of an update, a delete or a check; the whole item of a put.
    attributes: &'a Item,
    is_put: bool,
    values: Option<&'a HashMap<String, AttributeValue>>,
}

/// Returns the name of a table that a request names by its name or its ARN.
fn table_name(table: &str) -> &str {
    table.rsplit_once(":table/").map_or(table, |(_, name)| name)
}

impl<'a> Write<'a> {
    /// Returns the write of an item of a transaction. `None` if it has none, or more than one.
    pub(super) fn of(item: &'a TransactWriteItem) -> Option<Self> {
        let put = item.put().map(|put| Self {
            kind: "put into",
            table: put.table_name(),
            attributes: put.item(),
            is_put: true,
            values: put.expression_attribute_values(),
        });
        let update = item.update().map(|update| Self {
            kind: "update of",
            table: update.table_name(),
            attributes: update.key(),
            is_put: false,
            values: update.expression_attribute_values(),
        });
        let delete = item.delete().map(|delete| Self {
            kind: "delete from",
            table: delete.table_name(),
            attributes: delete.key(),
            is_put: false,
            values: delete.expression_attribute_values(),
        });
        let check = item.condition_check().map(|check| Self {
            kind: "check of",
            table: check.table_name(),
            attributes: check.key(),
            is_put: false,
            values: check.expression_attribute_values(),
        });
        let mut writes = [put, update, delete, check].into_iter().flatten();
        let first = writes.next();
        first.filter(|_| writes.next().is_none())
    }

    /// Checks the table, the key and the size of the write, the `number`th, counted from one.
    pub(super) fn check(&self, number: usize) -> Result<(), LimitError> {
        let refuse = |what: String| {
            Err(LimitError::new(format!(
                "write {number} ({}) {what}",
                self.name()
            )))
        };
        if self.table.is_empty() {
            return refuse("names no table".to_owned());
        }
        if self.attributes.is_empty() {
            return refuse("has no key".to_owned());
        }
        if !self.is_put && self.attributes.values().any(is_empty) {
            return refuse("has an empty value in its key".to_owned());
        }
        let bytes = item_bytes(self.attributes);
        if bytes > size::LARGEST {
            return refuse(format!(
                "has {bytes} bytes, and an item has at most {}",
                size::LARGEST
            ));
        }
        Ok(())
    }

    /// Returns the name of the table.
    pub(super) fn table(&self) -> &'a str {
        table_name(self.table)
    }

    /// Returns the key, unless it is hidden in the item of a put.
    pub(super) fn key(&self) -> Option<&'a Item> {
        (!self.is_put).then_some(self.attributes)
    }

    /// Returns true if both writes have the same item, by the names of the key attributes.
    pub(super) fn is_at(&self, other: &Self, key_names: &[&str]) -> bool {
        self.has(other.table, other.attributes, key_names)
    }

    /// Returns true if the write has the item with this key.
    pub(super) fn has(&self, table: &str, key: &Item, key_names: &[&str]) -> bool {
        let same = |name: &&str| match (self.attributes.get(*name), key.get(*name)) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => false,
        };
        self.table() == table_name(table) && key_names.iter().all(same)
    }

    /// Returns the estimated size of the write: what the request contains. The size of the item that an update leaves is not known.
    pub(super) fn bytes(&self) -> usize {
        item_bytes(self.attributes) + self.values.map_or(0, item_bytes)
    }

    /// Returns the name of the write in errors, such as ``update of table `accounts` ``.
    pub(super) fn name(&self) -> impl fmt::Display + use<> {
        format!("{} table `{}`", self.kind, self.table)
    }
}

fn is_empty(value: &AttributeValue) -> bool {
    match value {
        AttributeValue::S(text) => text.is_empty(),
        AttributeValue::B(bytes) => bytes.as_ref().is_empty(),
        _ => false,
    }
}

/// Returns the size of attributes, as DynamoDB counts it.
fn item_bytes(item: &HashMap<String, AttributeValue>) -> usize {
    let attributes = item.iter();
    attributes
        .map(|(name, value)| name.len() + value_bytes(value))
        .sum()
}

fn value_bytes(value: &AttributeValue) -> usize {
    /// The bytes of a list or a map, and of each of its elements.
    const NESTED: usize = 3;
    const ELEMENT: usize = 1;
    let number = |digits: &String| digits.len().div_ceil(2) + 1;
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => number(digits),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(number).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(list) => {
            let elements = list.iter().map(|value| value_bytes(value) + ELEMENT);
            NESTED + elements.sum::<usize>()
        }
        AttributeValue::M(map) => NESTED + map.len() * ELEMENT + item_bytes(map),
        // Booleans and null, and what a later SDK adds.
        _ => 1,
    }
}

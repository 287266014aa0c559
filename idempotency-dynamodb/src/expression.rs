//! Renders conditions and changes as DynamoDB expressions.
//!
//! DynamoDB rejects names or values that are declared and not used, and duplicate parentheses. All uses of an attribute share
//! one placeholder, and so do all uses of a value.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::record::Attribute;

use crate::attribute_names::AttributeNames;
use crate::item;

/// The placeholder of the key. No attribute has this default name, so no other placeholder is equal.
const KEY: &str = "#id";

/// The expressions of one request, with the names and values of their placeholders.
pub(crate) struct Expressions<'a> {
    names: &'a AttributeNames,
    used: HashMap<String, String>,
    values: Vec<AttributeValue>,
}

impl<'a> Expressions<'a> {
    pub(crate) fn new(names: &'a AttributeNames) -> Self {
        Self {
            names,
            used: HashMap::new(),
            values: Vec::new(),
        }
    }

    /// Returns the names of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
    pub(crate) fn names(&self) -> Option<HashMap<String, String>> {
        (!self.used.is_empty()).then(|| self.used.clone())
    }

    /// Returns the values of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
    pub(crate) fn values(self) -> Option<HashMap<String, AttributeValue>> {
        let values = self.values.into_iter().enumerate();
        let values: HashMap<_, _> = values
            .map(|(index, value)| (format!(":v{index}"), value))
            .collect();
        (!values.is_empty()).then_some(values)
    }

    /// Renders a condition expression.
    pub(crate) fn condition(&mut self, condition: &Condition) -> String {
        self.render(condition, false)
    }

    /// Renders an update expression. `None` for an empty change.
    pub(crate) fn update(
        &mut self,
        set: Vec<(Attribute, AttributeValue)>,
        remove: &[Attribute],
    ) -> Option<String> {
        let mut sets = Vec::new();
        for (attribute, value) in set {
            // DynamoDB rejects two clauses on one attribute. The removal takes precedence.
            if !remove.contains(&attribute) {
                sets.push(format!("{} = {}", self.name(attribute), self.value(value)));
            }
        }
        let mut removals: Vec<_> = remove
            .iter()
            .map(|attribute| self.name(*attribute))
            .collect();
        removals.sort_unstable();
        removals.dedup();
        let clauses = [("SET", sets), ("REMOVE", removals)];
        let clauses = clauses.iter().filter(|(_, parts)| !parts.is_empty());
        let clauses: Vec<_> = clauses
            .map(|(verb, parts)| format!("{verb} {}", parts.join(", ")))
            .collect();
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    /// Renders a condition. `inside` is true if it is an operand of another one and may need parentheses.
    fn render(&mut self, condition: &Condition, inside: bool) -> String {
        match condition {
            Condition::NoRecord => format!("attribute_not_exists({})", self.key()),
            Condition::Exists(attribute) => format!("attribute_exists({})", self.name(*attribute)),
            Condition::Missing(attribute) => {
                format!("attribute_not_exists({})", self.name(*attribute))
            }
            Condition::Equals(attribute, operand) => self.compare(*attribute, "=", operand, inside),
            Condition::Differs(attribute, operand) => {
                self.compare(*attribute, "<>", operand, inside)
            }
            Condition::Below(attribute, operand) => self.compare(*attribute, "<", operand, inside),
            Condition::All(conditions) => self.join(conditions, "AND", inside),
            Condition::Any(conditions) => self.join(conditions, "OR", inside),
        }
    }

    fn join(&mut self, conditions: &[Condition], operator: &str, inside: bool) -> String {
        match conditions {
            [] => self.constant(operator == "AND", inside),
            [only] => self.render(only, inside),
            several => {
                let parts: Vec<_> = several
                    .iter()
                    .map(|condition| self.render(condition, true))
                    .collect();
                parenthesised(parts.join(&format!(" {operator} ")), inside)
            }
        }
    }

    /// Renders a comparison. An attribute is compared only with an operand of its own unit; DynamoDB would compare any two
    /// numbers.
    fn compare(
        &mut self,
        attribute: Attribute,
        operator: &str,
        operand: &Operand,
        inside: bool,
    ) -> String {
        let value = match (attribute, operand) {
            (Attribute::Expiration, Operand::Seconds(at)) => item::seconds(*at),
            (Attribute::InProgressExpiration, Operand::Millis(at)) => item::millis(*at),
            (Attribute::Expiration | Attribute::InProgressExpiration, _)
            | (_, Operand::Seconds(_) | Operand::Millis(_)) => {
                return self.constant(operator == "<>", inside);
            }
            (_, Operand::Text(text)) => AttributeValue::S(text.clone()),
        };
        format!("{} {operator} {}", self.name(attribute), self.value(value))
    }

    /// Renders a condition that always or never holds. DynamoDB has no literal for it.
    fn constant(&mut self, holds: bool, inside: bool) -> String {
        let (key, operator) = (self.key(), if holds { "OR" } else { "AND" });
        let text = format!("attribute_exists({key}) {operator} attribute_not_exists({key})");
        parenthesised(text, inside)
    }

    fn key(&mut self) -> String {
        self.used.insert(KEY.to_owned(), self.names.key.clone());
        KEY.to_owned()
    }

    fn name(&mut self, attribute: Attribute) -> String {
        let placeholder = format!("#{}", attribute.default_name());
        let name = self.names.of(attribute).to_owned();
        self.used.insert(placeholder.clone(), name);
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let index = self
            .values
            .iter()
            .position(|known| *known == value)
            .unwrap_or_else(|| {
                self.values.push(value);
                self.values.len() - 1
            });
        format!(":v{index}")
    }
}

fn parenthesised(text: String, inside: bool) -> String {
    if inside { format!("({text})") } else { text }
}

#[cfg(test)]
mod tests;

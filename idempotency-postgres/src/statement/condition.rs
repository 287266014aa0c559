//! A condition of the protocol as an expression that is true if it holds, and false or NULL if not.

use std::fmt::Write as _;

use idempotency_core::store::{Condition, Operand};

use super::parameters::Parameters;
use crate::columns::{Value, stored};

/// Writes the condition on the row of a record. Its operands become parameters.
pub(super) fn render(condition: &Condition, text: &mut String, parameters: &mut Parameters) {
    let (attribute, operand, operator) = match condition {
        // There is a row.
        Condition::NoRecord => return text.push_str("FALSE"),
        Condition::Exists(attribute) => {
            text.push_str(attribute.default_name());
            return text.push_str(" IS NOT NULL");
        }
        Condition::Missing(attribute) => {
            text.push_str(attribute.default_name());
            return text.push_str(" IS NULL");
        }
        Condition::All(conditions) => return joined(conditions, "AND", "TRUE", text, parameters),
        Condition::Any(conditions) => return joined(conditions, "OR", "FALSE", text, parameters),
        Condition::Equals(attribute, operand) => (attribute, operand, "="),
        Condition::Differs(attribute, operand) => (attribute, operand, "IS DISTINCT FROM"),
        Condition::Below(attribute, operand) => (attribute, operand, "<"),
    };
    // Two types are never equal, and none is below the other.
    if !operand.fits(*attribute) {
        let differs = matches!(condition, Condition::Differs(..));
        return text.push_str(if differs { "TRUE" } else { "FALSE" });
    }
    parameters.add(match operand {
        Operand::Text(text) => Value::Text(stored(text)),
        Operand::Seconds(at) => Value::Number(at.get()),
        Operand::Millis(at) => Value::Number(at.get()),
    });
    let (name, number) = (attribute.default_name(), parameters.len());
    // A `String` takes every text.
    let _ = write!(text, "{name} {operator} ${number}");
}

fn joined(
    conditions: &[Condition],
    operator: &str,
    of_none: &str,
    text: &mut String,
    parameters: &mut Parameters,
) {
    if conditions.is_empty() {
        return text.push_str(of_none);
    }
    for (position, condition) in conditions.iter().enumerate() {
        for part in if position == 0 {
            ["(", "", ""]
        } else {
            [" ", operator, " "]
        } {
            text.push_str(part);
        }
        render(condition, text, parameters);
    }
    text.push(')');
}

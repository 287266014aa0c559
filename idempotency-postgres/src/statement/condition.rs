//! A condition of the protocol as an expression that is true or false, never NULL.

use idempotency_core::record::Attribute;
use idempotency_core::store::{Condition, Operand};

use super::parameters::Parameters;
use crate::columns::{Value, stored};

/// Returns the condition on the row of a record. Its operands are parameters.
pub(super) fn render(condition: &Condition, parameters: &mut Parameters) -> String {
    match condition {
        // There is a row.
        Condition::NoRecord => "FALSE".to_owned(),
        Condition::Exists(attribute) => format!("{} IS NOT NULL", attribute.default_name()),
        Condition::Missing(attribute) => format!("{} IS NULL", attribute.default_name()),
        Condition::Equals(attribute, operand) => {
            compared(*attribute, operand, "IS NOT DISTINCT FROM", parameters)
                .unwrap_or_else(|| "FALSE".to_owned())
        }
        Condition::Differs(attribute, operand) => {
            compared(*attribute, operand, "IS DISTINCT FROM", parameters)
                .unwrap_or_else(|| "TRUE".to_owned())
        }
        Condition::Below(attribute, operand) => compared(*attribute, operand, "<", parameters)
            .map_or_else(
                || "FALSE".to_owned(),
                |below| format!("coalesce({below}, FALSE)"),
            ),
        Condition::All(conditions) => joined(conditions, " AND ", "TRUE", parameters),
        Condition::Any(conditions) => joined(conditions, " OR ", "FALSE", parameters),
    }
}

/// Returns a comparison; `None` if the two have different types.
fn compared(
    attribute: Attribute,
    operand: &Operand,
    operator: &str,
    parameters: &mut Parameters,
) -> Option<String> {
    if !operand.fits(attribute) {
        return None;
    }
    let value = match operand {
        Operand::Text(text) => Value::Text(stored(text)),
        Operand::Seconds(at) => Value::Number(at.get()),
        Operand::Millis(at) => Value::Number(at.get()),
    };
    let value = parameters.add(value);
    Some(format!("{} {operator} {value}", attribute.default_name()))
}

fn joined(
    conditions: &[Condition],
    operator: &str,
    of_none: &str,
    parameters: &mut Parameters,
) -> String {
    if conditions.is_empty() {
        return of_none.to_owned();
    }
    let all: Vec<_> = conditions
        .iter()
        .map(|condition| render(condition, parameters))
        .collect();
    format!("({})", all.join(operator))
}

//! The size of an item, as DynamoDB counts it.

use idempotency_core::record::Attribute;

use crate::names::AttributeNames;
use crate::value::{NamedValue, Value};

/// Returns an upper bound of the size of the attributes that an update keeps, in bytes: those of a claim that it does not set itself.
/// Not counted: a recorded failure (a claim replaces it), steps (a completion removes them), an event (removed if its room is needed).
pub(crate) fn kept(names: &AttributeNames, set: &[(Attribute, Value<'_>)]) -> usize {
    let largest = [
        // Ten digits, thirteen digits.
        (Attribute::Expiration, 7),
        (Attribute::InProgressExpiration, 8),
        (Attribute::Status, "INPROGRESS".len()),
        // The longest digest, in hexadecimal digits.
        (Attribute::Validation, 128),
        (Attribute::Owner, 32),
        (Attribute::Operation, 128),
    ];
    let kept = largest
        .iter()
        .filter(|(field, _)| !set.iter().any(|(known, _)| known == field));
    kept.map(|(field, bytes)| names.of(*field).len() + bytes)
        .sum()
}

/// Returns the size of these attributes, in bytes: their names and texts in UTF-8, and their bytes as they are.
pub(crate) fn of<'a>(attributes: impl IntoIterator<Item = NamedValue<'a>>) -> usize {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| name.len() + value_size(value))
        .sum()
}

fn value_size(value: Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        // Three bytes for a map, and one for each of its members.
        Value::Steps(steps) => {
            let members = steps.iter();
            let members = members.map(|(name, result)| name.len() + result.as_str().len() + 1);
            3 + members.sum::<usize>()
        }
        // One byte for two digits, plus one byte. A sign counts as a digit.
        Value::Number(number) => {
            let digits = number.unsigned_abs().checked_ilog10().unwrap_or_default() + 1;
            (digits as usize + usize::from(number < 0)).div_ceil(2) + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::{Data, RecordedSteps};

    use super::*;

    #[test]
    fn an_update_keeps_what_a_claim_has_set_and_it_does_not() {
        let (names, long) = (AttributeNames::default(), "f".repeat(128));
        let claim = [
            // One byte more than the digits need.
            (Attribute::Expiration, Value::Number(170_000_000_000)),
            (
                Attribute::InProgressExpiration,
                Value::Number(1_700_000_000_000),
            ),
            (Attribute::Status, Value::Text("INPROGRESS")),
            (Attribute::Validation, Value::Text(&long)),
            (Attribute::Owner, Value::Text(&long[..32])),
            (Attribute::Operation, Value::Text(&long)),
        ];
        for (number, (attribute, value)) in claim.into_iter().enumerate() {
            let before = of(claim[..number]
                .iter()
                .map(|(it, value)| (names.of(*it), *value)));
            assert_eq!(kept(&names, &claim[number..]), before);
            let alone = of([(names.of(attribute), value)]);
            assert_eq!(kept(&names, &claim[number + 1..]), before + alone);
        }
    }

    #[test]
    fn names_and_values_count_in_bytes_of_utf8() {
        assert_eq!(of([("data", Value::Text("é"))]), 6);
        assert_eq!(of([("n", Value::Number(1_700_000_000))]), 7);
        assert_eq!(of([("b", Value::Bytes(&[0, 255]))]), 3);
        let mut steps = RecordedSteps::default();
        assert_eq!(of([("steps", Value::Steps(&steps))]), 5 + 3);
        steps.insert("a", Data::new("42"));
        steps.insert("bc", Data::new("7"));
        assert_eq!(of([("steps", Value::Steps(&steps))]), 5 + 3 + 4 + 4);
        assert_eq!(
            of([("data", Value::Text("é")), ("n", Value::Number(0))]),
            6 + 3
        );
        for number in [0, 9, 10, 99, 100, -1, -9, -10, i64::MAX, i64::MIN] {
            let digits = number.to_string().len();
            assert_eq!(value_size(Value::Number(number)), digits.div_ceil(2) + 1);
        }
    }
}

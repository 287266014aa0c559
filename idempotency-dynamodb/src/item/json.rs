//! Converts responses that another language stored as native DynamoDB values to JSON text.

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

/// Returns the JSON text of a native value. Object keys are in order of their code points, and numbers keep their digits.
/// `None` for binary values and sets, which JSON does not have.
pub(crate) fn text(value: &AttributeValue) -> Option<String> {
    let mut text = String::new();
    write(&mut text, value)?;
    Some(text)
}

/// Writes a value. The recursion is bounded: DynamoDB nests values at most 32 levels deep.
fn write(out: &mut String, value: &AttributeValue) -> Option<()> {
    match value {
        AttributeValue::S(text) => string(out, text)?,
        AttributeValue::N(number) if is_number(number) => out.push_str(number),
        AttributeValue::Bool(value) => write!(out, "{value}").ok()?,
        AttributeValue::Null(_) => out.push_str("null"),
        AttributeValue::L(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write(out, value)?;
            }
            out.push(']');
        }
        AttributeValue::M(values) => {
            let mut entries: Vec<_> = values.iter().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (index, (name, value)) in entries.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                string(out, name)?;
                out.push(':');
                write(out, value)?;
            }
            out.push('}');
        }
        _ => return None,
    }
    Some(())
}

fn string(out: &mut String, text: &str) -> Option<()> {
    out.push_str(&serde_json::to_string(text).ok()?);
    Some(())
}

/// Returns true if the text is a number in JSON's grammar. DynamoDB's numbers are; an emulator's may not be.
fn is_number(text: &str) -> bool {
    matches!(text.as_bytes(), [b'-' | b'0'..=b'9', ..])
        && serde_json::from_str::<&serde_json::value::RawValue>(text)
            .is_ok_and(|raw| raw.get() == text)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn number(text: &str) -> AttributeValue {
        AttributeValue::N(text.to_owned())
    }

    #[test]
    fn a_map_becomes_an_object_with_its_keys_in_order() {
        let value = AttributeValue::M(HashMap::from([
            ("z".to_owned(), AttributeValue::Null(true)),
            ("a\"b".to_owned(), AttributeValue::S("line\nend".to_owned())),
            (
                "list".to_owned(),
                AttributeValue::L(vec![
                    AttributeValue::Bool(false),
                    AttributeValue::M(HashMap::new()),
                ]),
            ),
        ]));
        assert_eq!(
            text(&value).as_deref(),
            Some(r#"{"a\"b":"line\nend","list":[false,{}],"z":null}"#)
        );
    }

    #[test]
    fn numbers_keep_their_digits() {
        for digits in [
            "12345678901234567890123456789012345678",
            "-0.10",
            "1E+5",
            "0",
            "1e-130",
        ] {
            assert_eq!(text(&number(digits)).as_deref(), Some(digits));
        }
    }

    #[test]
    fn a_number_that_is_not_valid_json_is_unreadable() {
        for digits in ["+5", ".5", "007", "5.", "", "-", "NaN", "1 ", "0x10"] {
            assert_eq!(text(&number(digits)), None, "{digits}");
        }
    }

    #[test]
    fn binary_values_and_sets_are_unreadable_at_any_depth() {
        let set = AttributeValue::Ss(vec!["a".to_owned()]);
        assert_eq!(text(&set), None);
        assert_eq!(text(&AttributeValue::L(vec![set])), None);
        let binary = AttributeValue::B(aws_sdk_dynamodb::primitives::Blob::new(*b"x"));
        assert_eq!(
            text(&AttributeValue::M(HashMap::from([(
                "b".to_owned(),
                binary
            )]))),
            None
        );
    }
}

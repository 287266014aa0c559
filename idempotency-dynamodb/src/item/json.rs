//! Converts native values of DynamoDB to JSON text: a library in another language may store a response as such a value.

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

/// Returns true if the text is a number in JSON's grammar. DynamoDB returns no others; an emulator may.
fn is_number(text: &str) -> bool {
    matches!(text.as_bytes(), [b'-' | b'0'..=b'9', ..])
        && serde_json::from_str::<&serde_json::value::RawValue>(text)
            .is_ok_and(|raw| raw.get() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> AttributeValue {
        AttributeValue::N(text.to_owned())
    }

    fn map<const N: usize>(entries: [(&str, AttributeValue); N]) -> AttributeValue {
        AttributeValue::M(entries.map(|(name, value)| (name.to_owned(), value)).into())
    }

    #[test]
    fn a_map_becomes_an_object_with_its_keys_in_order() {
        let list = AttributeValue::L(vec![AttributeValue::Bool(false), map([])]);
        let value = map([
            ("z", AttributeValue::Null(true)),
            ("a\"b", AttributeValue::S("line\nend".to_owned())),
            ("list", list),
        ]);
        let expected = r#"{"a\"b":"line\nend","list":[false,{}],"z":null}"#;
        assert_eq!(text(&value).as_deref(), Some(expected));
    }

    #[test]
    fn numbers_keep_their_digits_and_one_that_is_not_valid_json_is_unreadable() {
        let long = "12345678901234567890123456789012345678";
        for digits in [long, "-0.10", "1E+5", "0", "1e-130"] {
            assert_eq!(text(&number(digits)).as_deref(), Some(digits));
        }
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
        assert_eq!(text(&map([("b", binary)])), None);
    }
}

//! The size of an item, as DynamoDB counts it.

use aws_sdk_dynamodb::types::AttributeValue;

/// The largest item, in bytes: 400 KB, attribute names included.
pub(crate) const LARGEST: usize = 400 * 1024;

/// Returns the size of one attribute, in bytes: its name and its value in UTF-8. Supports the types that a record is written
/// with.
pub(crate) fn attribute(name: &str, value: &AttributeValue) -> usize {
    name.len()
        + match value {
            AttributeValue::S(text) => text.len(),
            // One byte for two digits, plus one byte.
            AttributeValue::N(number) => number.len().div_ceil(2) + 1,
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_count_in_bytes_of_utf8() {
        assert_eq!(attribute("data", &AttributeValue::S("é".to_owned())), 6);
        assert_eq!(
            attribute("n", &AttributeValue::N("1700000000".to_owned())),
            7
        );
    }
}

//! How large an item is, as DynamoDB counts.

use aws_sdk_dynamodb::types::AttributeValue;

/// The largest item, in bytes: 400 KB, names included.
pub(crate) const LARGEST: usize = 400 * 1024;

/// The size of one attribute, in bytes: its name and its value, both as UTF-8. Counts the types that a record is
/// written with.
pub(crate) fn attribute(name: &str, value: &AttributeValue) -> usize {
    name.len()
        + match value {
            AttributeValue::S(text) => text.len(),
            // A byte for two digits, and one more.
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

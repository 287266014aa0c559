//! Converts a record to an item and back. The stored format is frozen: the tests compare it as DynamoDB JSON.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::compression::decompress;
use idempotency_core::record::{
    Attribute, Columns, Data, Field, FieldValue, Record, RecordedSteps,
};

use crate::limits::LARGEST_RESPONSE;
use crate::names::AttributeNames;
use crate::value::{Item, Value};

mod json;
pub(crate) mod size;

/// The capacity that is reserved for the attributes of a write besides the key. No write of the protocol has more.
pub(crate) const MOST_ATTRIBUTES: usize = 10;

/// Returns the attributes of a record that have a value.
pub(crate) fn attributes(record: &Record) -> impl Iterator<Item = (Attribute, Value<'_>)> {
    record.fields().map(|(attribute, value)| {
        let value = match value {
            FieldValue::Seconds(at) => Value::Number(at.get()),
            FieldValue::Millis(at) => Value::Number(at.get()),
            FieldValue::Text(text) => Value::Text(text),
            FieldValue::Data(data) => Value::Text(data.as_str()),
            FieldValue::Event(event) => Value::Text(event.stored()),
            FieldValue::Steps(steps) => Value::Steps(steps),
        };
        (attribute, value)
    })
}

/// Reads a record from an item of this framework, or of Powertools in another language.
pub(crate) fn record(item: Item, names: &AttributeNames) -> Record {
    Record::read(&mut ItemColumns { item, names })
}

/// The attributes of an item that were not read yet. The event stays unread: no rule asks for it, so no call pays for it.
struct ItemColumns<'a> {
    item: Item,
    names: &'a AttributeNames,
}

impl ItemColumns<'_> {
    /// Reads an attribute. It is unreadable if `read` returns `None`.
    fn take<T>(
        &mut self,
        attribute: Attribute,
        read: impl FnOnce(AttributeValue) -> Option<T>,
    ) -> Field<T> {
        Field::from(self.item.remove(self.names.of(attribute))).and_then(read)
    }
}

impl Columns for ItemColumns<'_> {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.take(attribute, |value| match value {
            AttributeValue::N(text) => floor(&text),
            _ => None,
        })
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        self.take(attribute, |value| match value {
            AttributeValue::S(text) => Some(text),
            // JSON text from this framework and from Python, a native value from TypeScript.
            native if attribute == Attribute::Data => json::text(&native),
            _ => None,
        })
    }

    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
        self.take(attribute, steps)
    }
}

/// Takes bytes out of an item. `None` if the attribute is missing or of another type.
pub(crate) fn bytes(item: &mut Item, name: &str) -> Option<Vec<u8>> {
    match item.remove(name) {
        Some(AttributeValue::B(bytes)) => Some(bytes.into_inner()),
        _ => None,
    }
}

/// Returns the results of steps: a map of texts, or of compressed texts. If one cannot be read, none can. At most
/// [`LARGEST_RESPONSE`] bytes are decompressed, because 400 KB can contain far more.
fn steps(value: AttributeValue) -> Option<RecordedSteps> {
    let AttributeValue::M(steps) = value else {
        return None;
    };
    let mut left = LARGEST_RESPONSE;
    let read = |(name, value)| {
        let result = match value {
            AttributeValue::S(text) => Data::new(text),
            AttributeValue::B(bytes) => Data::new(decompress(bytes.as_ref(), left).ok()?),
            _ => return None,
        };
        left = left.checked_sub(result.as_str().len())?;
        Some((name, result))
    };
    steps.into_iter().map(read).collect()
}

/// The largest exponent that is computed. It is far outside the range of DynamoDB and of `i64`.
const LARGEST_EXPONENT: i32 = 1_000;

/// Returns the largest whole number that is not greater than the decimal number in `text`, limited to the range of `i64`.
/// `None` if the text is not a decimal number.
///
/// Rounding down keeps comparisons: a number is less than a whole number exactly if its floor is.
pub(crate) fn floor(text: &str) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = format!("{whole}{fraction}");
    if all_digits.is_empty() || !all_digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT);
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let (mut magnitude, mut has_fraction) = (0_i128, false);
    for index in 0..point.max(i32::try_from(all_digits.len()).ok()?) {
        let digit = usize::try_from(index)
            .ok()
            .and_then(|index| all_digits.as_bytes().get(index));
        let digit = i128::from(digit.map_or(0, |byte| byte - b'0'));
        if index < point {
            // Saturates far outside the range of `i64`, to which the result is limited.
            magnitude = magnitude.saturating_mul(10).saturating_add(digit);
        } else {
            has_fraction |= digit != 0;
        }
    }
    let value = match (negative, has_fraction) {
        (false, _) => magnitude,
        (true, false) => -magnitude,
        (true, true) => -magnitude - 1,
    };
    Some(i64::try_from(value).unwrap_or(if negative { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::{OwnerToken, Status, StoredEvent};
    use idempotency_core::time::{EpochMillis, EpochSeconds};
    use serde_json::json;

    use super::*;
    use crate::transport::body::tests::put;
    use crate::value::to_item;

    fn item(record: &Record) -> Item {
        let names = AttributeNames::default();
        to_item(attributes(record).map(|(attribute, value)| (names.of(attribute), value)))
    }

    fn whole_record() -> Record {
        let steps = [("reserve".to_owned(), Data::new("[7]"))];
        Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_010_500)),
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new(r#"{"paid":true}"#)),
            validation: Field::Value("c4ca4238a0b923820dcc509a6f75849b".to_owned()),
            owner: Field::Value(OwnerToken::from_bytes([7; 16])),
            failure: Field::Value("Timeout".to_owned()),
            operation: Field::Value("shop::charge".to_owned()),
            decision: Field::Value("{}".to_owned()),
            event: StoredEvent::selected("{\"order_id\": 7}").into(),
            steps: Field::Value(steps.into_iter().collect()),
            undo: Field::Value(r#"{"left":[],"undone":[]}"#.to_owned()),
        }
    }

    #[test]
    fn every_attribute_has_this_stored_form() {
        let (record, names) = (whole_record(), AttributeNames::default());
        let item = attributes(&record).map(|(attribute, value)| (names.of(attribute), value));
        assert_eq!(
            put(item.collect(), false)["Item"],
            json!({
                "expiration": { "N": "1700003600" },
                "in_progress_expiration": { "N": "1700000010500" },
                "status": { "S": "COMPLETED" },
                "data": { "S": "{\"paid\":true}" },
                "validation": { "S": "c4ca4238a0b923820dcc509a6f75849b" },
                "owner": { "S": "07070707070707070707070707070707" },
                "failure": { "S": "Timeout" },
                "operation": { "S": "shop::charge" },
                "decision": { "S": "{}" },
                "event": { "S": "{\"selected\":{\"order_id\": 7}}" },
                "steps": { "M": { "reserve": { "S": "[7]" } } },
                "undo": { "S": "{\"left\":[],\"undone\":[]}" }
            })
        );
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn steps_are_decompressed_up_to_the_longest_that_a_run_records() {
        let frame = |bytes| {
            let text = " ".repeat(bytes);
            let frame = idempotency_core::compression::compress(&text, bytes).unwrap();
            AttributeValue::B(frame.into())
        };
        let read = |steps: [(&str, AttributeValue); 2]| {
            let steps = steps.map(|(name, value)| (name.to_owned(), value));
            super::steps(AttributeValue::M(steps.into()))
        };
        let half = LARGEST_RESPONSE / 2;
        let plain = || AttributeValue::S("1".repeat(half));
        for (one, other) in [(frame(half), frame(half)), (frame(half), plain())] {
            let longest = read([("a", one), ("b", other)]);
            let longest = longest.unwrap();
            assert_eq!((longest.len(), longest.text_len()), (2, 2 * half));
        }
        for (one, other) in [(frame(half), frame(half + 1)), (frame(half + 1), plain())] {
            assert_eq!(read([("a", one), ("b", other)]), None);
        }
        let cut = AttributeValue::B(b"no frame".to_vec().into());
        assert_eq!(read([("a", frame(100)), ("b", cut)]), None);
        let number = AttributeValue::N("1".to_owned());
        assert_eq!(read([("a", frame(100)), ("b", number)]), None);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written_without_its_event() {
        for written in [Record::default(), whole_record()] {
            let read = record(item(&written), &AttributeNames::default());
            let event = Field::Absent;
            assert_eq!(read, Record { event, ..written });
        }
    }

    #[test]
    fn attributes_are_read_under_their_configured_names_only() {
        let names = AttributeNames {
            status: "state".to_owned(),
            ..AttributeNames::default()
        };
        let item = [("state", "COMPLETED"), ("status", "INPROGRESS")];
        let item = item.map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned())));
        let expected = Record {
            status: Field::Value(Status::Completed),
            ..Record::default()
        };
        assert_eq!(record(Item::from(item), &names), expected);
    }

    #[test]
    fn attributes_of_a_wrong_type_are_present_but_unreadable() {
        // Only a response may be native.
        for (wrong, unreadable) in [
            (AttributeValue::Bs(Vec::new()), 11),
            (AttributeValue::Bool(true), 10),
        ] {
            let mut item = item(&whole_record());
            item.remove("event");
            for value in item.values_mut() {
                *value = wrong.clone();
            }
            let read = format!("{:?}", record(item, &AttributeNames::default()));
            assert_eq!(read.matches("Unreadable").count(), unreadable, "{read}");
        }
    }

    #[test]
    fn whole_numbers_are_unchanged() {
        for value in [0, 1, -1, 1_700_000_000_999, i64::MAX, i64::MIN] {
            assert_eq!(floor(&value.to_string()), Some(value));
        }
        assert_eq!(floor("007"), Some(7));
        assert_eq!(floor("+5"), Some(5));
    }

    #[test]
    fn decimals_round_down_without_a_float_and_within_the_range() {
        for (text, expected) in [
            ("1700000000.999999", 1_700_000_000),
            ("9007199254740993.9", 9_007_199_254_740_993),
            ("-1.5", -2),
            ("-1.0", -1),
            ("-0.001", -1),
            (".5", 0),
            ("1.7E9", 1_700_000_000),
            ("17e+8", 1_700_000_000),
            ("1999e-3", 1),
            ("1e-130", 0),
            ("-1e-130", -1),
            ("0e125", 0),
            ("9223372036854775808", i64::MAX),
            ("-9223372036854775809", i64::MIN),
            ("9.9E125", i64::MAX),
            ("-9.9E125", i64::MIN),
            ("1e2147483647", i64::MAX),
            ("1e-2147483648", 0),
        ] {
            assert_eq!(floor(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_number_is_none() {
        for text in [
            "", "-", ".", "e5", "1e", "NaN", "inf", "1_000", "1.2.3", "--1", " 1", "１",
        ] {
            assert_eq!(floor(text), None, "{text}");
        }
    }
}

//! Converts a record to an item and back. The stored format is frozen: the tests compare it as DynamoDB JSON.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordedSteps, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use crate::compression::decompress;
use crate::names::AttributeNames;
use crate::value::{Item, Value};

mod json;
pub(crate) mod size;

/// The capacity that is reserved for the attributes of a write besides the key. No write of the protocol has more.
pub(crate) const MOST_ATTRIBUTES: usize = 10;

/// Returns the attributes of a record that have a value.
pub(crate) fn attributes(record: &Record) -> impl Iterator<Item = (Attribute, Value<'_>)> {
    fn text<T>(field: &Field<T>, as_str: impl Fn(&T) -> &str) -> Option<Value<'_>> {
        field.value().map(|value| Value::Text(as_str(value)))
    }
    let expiration = record.expiration.value();
    let lease = record.in_progress_expiration.value();
    let expiration = expiration.map(|at| Value::Number(at.get()));
    let lease = lease.map(|at| Value::Number(at.get()));
    let validation = text(&record.validation, String::as_str);
    let operation = text(&record.operation, String::as_str);
    let event = record.event.as_ref();
    let event = event.map(|event| Value::Text(event.stored()));
    let attributes = [
        (Attribute::Expiration, expiration),
        (Attribute::InProgressExpiration, lease),
        (Attribute::Status, text(&record.status, Status::as_str)),
        (Attribute::Data, text(&record.data, |data| data.as_str())),
        (Attribute::Validation, validation),
        (Attribute::Owner, text(&record.owner, OwnerToken::as_str)),
        (Attribute::Failure, text(&record.failure, String::as_str)),
        (Attribute::Operation, operation),
        (Attribute::Decision, text(&record.decision, String::as_str)),
        (Attribute::Event, event),
        (Attribute::Steps, record.steps.value().map(Value::Steps)),
    ];
    let attributes = attributes.into_iter();
    attributes.filter_map(|(attribute, value)| Some((attribute, value?)))
}

/// Reads a record from an item of this framework, or of Powertools in another language.
pub(crate) fn record(mut item: Item, names: &AttributeNames) -> Record {
    let mut take = |attribute| item.remove(names.of(attribute));
    Record {
        expiration: whole(take(Attribute::Expiration), EpochSeconds::new),
        in_progress_expiration: whole(take(Attribute::InProgressExpiration), EpochMillis::new),
        status: text(take(Attribute::Status), Status::from_record),
        data: data(take(Attribute::Data)),
        validation: text(take(Attribute::Validation), |hash| hash),
        owner: text(take(Attribute::Owner), OwnerToken::from_record),
        failure: text(take(Attribute::Failure), |failure| failure),
        operation: text(take(Attribute::Operation), |path| path),
        decision: text(take(Attribute::Decision), |trace| trace),
        // No rule asks for it, so no call pays for reading it.
        event: None,
        steps: steps(take(Attribute::Steps)),
    }
}

/// Takes bytes out of an item. `None` if the attribute is missing or of another type.
pub(crate) fn bytes(item: &mut Item, name: &str) -> Option<Vec<u8>> {
    match item.remove(name) {
        Some(AttributeValue::B(bytes)) => Some(bytes.into_inner()),
        _ => None,
    }
}

/// Reads a time, and rounds it down.
fn whole<T>(value: Option<AttributeValue>, of: impl Fn(i64) -> T) -> Field<T> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::N(text)) => {
            floor(&text).map_or(Field::Unreadable, |n| Field::Value(of(n)))
        }
        Some(_) => Field::Unreadable,
    }
}

/// Reads a text attribute.
fn text<T>(value: Option<AttributeValue>, of: impl Fn(String) -> T) -> Field<T> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::S(text)) => Field::Value(of(text)),
        Some(_) => Field::Unreadable,
    }
}

/// Reads the results of steps: a map of texts, or of compressed texts. If one cannot be read, none can. At most
/// [`RecordedSteps::LONGEST`] bytes are decompressed, because 400 KB can contain far more.
fn steps(value: Option<AttributeValue>) -> Field<RecordedSteps> {
    let steps = match value {
        None => return Field::Absent,
        Some(AttributeValue::M(steps)) => steps,
        Some(_) => return Field::Unreadable,
    };
    let mut left = RecordedSteps::LONGEST;
    let read = |(name, value)| {
        let result = match value {
            AttributeValue::S(text) => Data::new(text),
            AttributeValue::B(bytes) => Data::new(decompress(bytes.as_ref(), left).ok()?),
            _ => return None,
        };
        left = left.checked_sub(result.as_str().len())?;
        Some((name, result))
    };
    let steps: Option<RecordedSteps> = steps.into_iter().map(read).collect();
    steps.map_or(Field::Unreadable, Field::Value)
}

/// Reads the response: JSON text from this framework and from Python, a native value from TypeScript.
fn data(value: Option<AttributeValue>) -> Field<Data> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::S(text)) => Field::Value(Data::new(text)),
        Some(native) => {
            json::text(&native).map_or(Field::Unreadable, |text| Field::Value(Data::new(text)))
        }
    }
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
    Some(i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use idempotency_core::record::StoredEvent;
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
            event: StoredEvent::selected("{\"order_id\": 7}"),
            steps: Field::Value(steps.into_iter().collect()),
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
                "steps": { "M": { "reserve": { "S": "[7]" } } }
            })
        );
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn steps_are_decompressed_up_to_the_longest_that_a_run_records() {
        let frame = |bytes| {
            let text = vec![b' '; bytes];
            let frame = zstd::bulk::compress(&text, 1).unwrap();
            AttributeValue::B(frame.into())
        };
        let read = |steps: [(&str, AttributeValue); 2]| {
            let steps = steps.map(|(name, value)| (name.to_owned(), value));
            super::steps(Some(AttributeValue::M(HashMap::from(steps))))
        };
        let half = RecordedSteps::LONGEST / 2;
        let plain = || AttributeValue::S("1".repeat(half));
        for (one, other) in [(frame(half), frame(half)), (frame(half), plain())] {
            let longest = read([("a", one), ("b", other)]);
            let longest = longest.value().unwrap();
            assert_eq!((longest.len(), longest.text_len()), (2, 2 * half));
        }
        for (one, other) in [(frame(half), frame(half + 1)), (frame(half + 1), plain())] {
            assert_eq!(read([("a", one), ("b", other)]), Field::Unreadable);
        }
        let cut = AttributeValue::B(b"no frame".to_vec().into());
        assert_eq!(read([("a", frame(1)), ("b", cut)]), Field::Unreadable);
        let number = AttributeValue::N("1".to_owned());
        assert_eq!(read([("a", frame(1)), ("b", number)]), Field::Unreadable);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written_without_its_event() {
        for written in [Record::default(), whole_record()] {
            let read = record(item(&written), &AttributeNames::default());
            let event = None;
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
        let mut item = item(&whole_record());
        item.remove("event");
        for value in item.values_mut() {
            *value = AttributeValue::Bs(Vec::new());
        }
        let read = format!("{:?}", record(item, &AttributeNames::default()));
        assert_eq!(read.matches("Unreadable").count(), 10, "{read}");
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

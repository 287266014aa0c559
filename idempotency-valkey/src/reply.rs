//! The reply of the script, and the record in it.

use std::collections::HashMap;

use idempotency_core::record::{Attribute, Columns, Data, Field, Record, RecordedSteps};
use redis::Value;

use crate::request::STEP;

/// What the script did.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The condition did not hold, for this record or for none.
    Refused(Option<Fields>),
    /// The write was applied. What a put has replaced.
    Applied(Option<Fields>),
    /// The record has no steps, so no result of one can be added.
    NoSteps,
    /// A command of the script failed with this text.
    Failed { text: String, has_written: bool },
}

impl Reply {
    /// Reads the reply. `None` if it is none of the script.
    pub(crate) fn of(value: Value) -> Option<Self> {
        let Value::Array(parts) = value else {
            return None;
        };
        let mut parts = parts.into_iter();
        let Some(Value::Int(code)) = parts.next() else {
            return None;
        };
        Some(match code {
            0 => Self::Refused(Fields::of(parts)?),
            1 => Self::Applied(Fields::of(parts)?),
            2 => Self::NoSteps,
            3 | 4 => Self::Failed {
                text: String::from_utf8_lossy(&bytes(parts.next()?)?).into_owned(),
                has_written: code == 4,
            },
            _ => return None,
        })
    }
}

/// The fields of one hash.
#[derive(Debug, Default)]
pub(crate) struct Fields(HashMap<Vec<u8>, Vec<u8>>);

impl Fields {
    /// Reads names and values in turn. `Some(None)` if there are none: the hash does not exist.
    pub(crate) fn of(parts: impl IntoIterator<Item = Value>) -> Option<Option<Self>> {
        let mut parts = parts.into_iter();
        let mut fields = HashMap::new();
        while let Some(name) = parts.next() {
            fields.insert(bytes(name)?, bytes(parts.next()?)?);
        }
        Some((!fields.is_empty()).then_some(Self(fields)))
    }

    /// Returns the record.
    pub(crate) fn record(mut self) -> Record {
        Record::read(&mut self)
    }

    /// Takes the bytes of an attribute.
    pub(crate) fn take_bytes(&mut self, attribute: Attribute) -> Option<Vec<u8>> {
        self.0.remove(attribute.default_name().as_bytes())
    }

    /// Takes the value of an attribute. It is unreadable if `read` returns `None`.
    fn take<T>(
        &mut self,
        attribute: Attribute,
        read: impl FnOnce(Vec<u8>) -> Option<T>,
    ) -> Field<T> {
        let value = self.take_bytes(attribute);
        value.map_or(Field::Absent, |value| {
            read(value).map_or(Field::Unreadable, Field::Value)
        })
    }
}

impl Columns for Fields {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.take(attribute, |value| floor(std::str::from_utf8(&value).ok()?))
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        self.take(attribute, text)
    }

    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
        let results: Option<RecordedSteps> = self
            .0
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix(STEP.as_bytes())?, value)))
            .map(|(name, value)| Some((text(name.to_vec())?, Data::new(text(value.clone())?))))
            .collect();
        self.take(attribute, |mark| results.filter(|_| mark.is_empty()))
    }
}

/// Returns the bytes of a value that is a text.
fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// Returns the text of a field.
fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok()
}

/// Returns the largest whole number that is not greater than the decimal number in `text`, limited to the range of `i64`. `None` if the
/// text is not one that the script compares: a sign, digits, and at most a fraction.
///
/// Rounding down keeps comparisons: a number is less than a whole number exactly if its floor is.
fn floor(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > 19 {
        return None;
    }
    // 19 digits fit.
    let magnitude: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let has_fraction = fraction.bytes().any(|digit| digit != b'0');
    let floor = if negative {
        -magnitude - i128::from(has_fraction)
    } else {
        magnitude
    };
    Some(i64::try_from(floor.clamp(i64::MIN.into(), i64::MAX.into())).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::Status;
    use idempotency_core::time::EpochSeconds;

    use super::*;

    fn value(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    fn reply(code: i64, fields: &[(&str, &[u8])]) -> Option<Reply> {
        let fields = fields
            .iter()
            .flat_map(|(name, it)| [value(name.as_bytes()), value(it)]);
        Reply::of(Value::Array(
            [Value::Int(code)].into_iter().chain(fields).collect(),
        ))
    }

    fn record(fields: &[(&str, &[u8])]) -> Record {
        match reply(0, fields) {
            Some(Reply::Refused(Some(fields))) => fields.record(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_reads_back_and_what_has_another_form_is_unreadable() {
        let read = record(&[
            ("v", b"1"),
            ("status", b"COMPLETED"),
            ("expiration", b"17.5"),
            ("in_progress_expiration", b"soon"),
            ("data", b"null"),
            ("owner", &[0, 255]),
            ("steps", b""),
            ("step:a:b", b"7"),
            ("other", b"x"),
        ]);
        let steps: RecordedSteps = [("a:b".to_owned(), Data::new("7"))].into_iter().collect();
        let expected = Record {
            status: Field::Value(Status::Completed),
            expiration: Field::Value(EpochSeconds::new(17)),
            in_progress_expiration: Field::Unreadable,
            data: Field::Value(Data::new("null")),
            owner: Field::Unreadable,
            steps: Field::Value(steps),
            ..Record::default()
        };
        assert_eq!(read, expected);
        assert_eq!(record(&[("v", b"1")]), Record::default());
        // Without their mark, or with a text in its place, the steps are not those of this framework.
        assert_eq!(record(&[("step:a", b"7")]).steps, Field::Absent);
        assert_eq!(record(&[("steps", b"x")]).steps, Field::Unreadable);
        let damaged = record(&[("steps", b""), ("step:a", &[255])]);
        assert_eq!(damaged.steps, Field::Unreadable);
    }

    #[test]
    fn each_code_of_the_script_has_its_meaning_and_other_replies_have_none() {
        assert!(matches!(reply(0, &[]), Some(Reply::Refused(None))));
        assert!(matches!(reply(1, &[]), Some(Reply::Applied(None))));
        assert!(matches!(
            reply(1, &[("v", b"1")]),
            Some(Reply::Applied(Some(_)))
        ));
        assert!(matches!(reply(2, &[]), Some(Reply::NoSteps)));
        for (code, written) in [(3, false), (4, true)] {
            let failed = Value::Array(vec![Value::Int(code), value(b"OOM full")]);
            let Some(Reply::Failed { text, has_written }) = Reply::of(failed) else {
                panic!("{code} is a failure");
            };
            assert_eq!((text.as_str(), has_written), ("OOM full", written));
        }
        for other in [
            Value::Okay,
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(5)]),
            Value::Array(vec![Value::Int(3)]),
            Value::Array(vec![Value::Int(1), value(b"v")]),
            Value::Array(vec![Value::Int(1), Value::Nil, Value::Nil]),
        ] {
            assert!(Reply::of(other.clone()).is_none(), "{other:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_the_script_compares_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("-1", Some(-1)),
            ("1.999", Some(1)),
            ("-1.5", Some(-2)),
            ("-0", Some(0)),
            ("-0.0", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9999999999999999999", Some(i64::MAX)),
            ("-9999999999999999999.5", Some(i64::MIN)),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("0x10", None),
            (" 1", None),
            ("1 ", None),
            ("1.2.3", None),
            ("--1", None),
        ] {
            assert_eq!(floor(text), expected, "{text}");
        }
    }
}

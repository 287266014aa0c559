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

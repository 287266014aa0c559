//! The reply of the script, and the record in it.

use std::fmt;

use idempotency_core::compression::decompress;
use idempotency_core::record::{
    Attribute, Columns, Data, Field, Record, RecordedSteps, StoredEvent,
};
use redis::Value;

use crate::request::{LARGEST_VALUE, STEP};

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
        let mut parts = list(value)?;
        let code = number(parts.next()?)?;
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

pub(crate) fn list(value: Value) -> Option<std::vec::IntoIter<Value>> {
    match value {
        Value::Array(values) => Some(values.into_iter()),
        _ => None,
    }
}

pub(crate) fn number(value: Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(number),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// The fields of one hash, each with its value.
pub(crate) struct Fields {
    values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why the response cannot be read.
    unreadable: Option<&'static str>,
}

impl Fields {
    /// Reads names and values in turn. `Some(None)` if there are none: the hash does not exist.
    pub(crate) fn of(mut parts: impl Iterator<Item = Value>) -> Option<Option<Self>> {
        let mut values = Vec::with_capacity(parts.size_hint().0 / 2);
        while let Some(name) = parts.next() {
            values.push((bytes(name)?, bytes(parts.next()?)?));
        }
        Some((!values.is_empty()).then_some(Self {
            values,
            unreadable: None,
        }))
    }

    /// Reads the values of these names. A value is nothing if the hash has no field of that name.
    pub(crate) fn named(names: &[&str], values: Value) -> Option<Self> {
        let values = names
            .iter()
            .zip(list(values)?)
            .filter_map(|(name, value)| Some((name.as_bytes().to_vec(), bytes(value)?)));
        let values: Vec<_> = values.collect();
        (!values.is_empty()).then_some(Self {
            values,
            unreadable: None,
        })
    }

    /// Returns the record, and why its response cannot be read.
    pub(crate) fn record(mut self) -> (Record, Option<String>) {
        let record = Record::read(&mut self);
        (record, self.unreadable.map(str::to_owned))
    }

    /// Takes the event.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn take_event(&mut self) -> Result<Option<StoredEvent>, &'static str> {
        let Some(bytes) = self.take_bytes(Attribute::Event) else {
            return Ok(None);
        };
        let event = StoredEvent::from_stored(&long_text(bytes, StoredEvent::LONGEST_STORED)?);
        event
            .map(Some)
            .ok_or("it was not written by this framework")
    }

    fn take_bytes(&mut self, attribute: Attribute) -> Option<Vec<u8>> {
        let name = attribute.default_name().as_bytes();
        let at = self.values.iter().position(|(field, _)| field == name)?;
        Some(self.values.swap_remove(at).1)
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

/// Shows no value.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fields")
    }
}

impl Columns for Fields {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.take(attribute, |value| floor(std::str::from_utf8(&value).ok()?))
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        if attribute != Attribute::Data {
            return self.take(attribute, |value| String::from_utf8(value).ok());
        }
        match self
            .take_bytes(attribute)
            .map(|value| long_text(value, LARGEST_VALUE))
        {
            None => Field::Absent,
            Some(Ok(text)) => Field::Value(text),
            Some(Err(why)) => {
                self.unreadable = Some(why);
                Field::Unreadable
            }
        }
    }

    /// Reads the results of steps. If one cannot be read, none can. At most [`LARGEST_VALUE`] bytes are decompressed.
    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
        let mut left = LARGEST_VALUE;
        let read = |(name, value): (Vec<u8>, Vec<u8>)| {
            let result = long_text(value, left).ok()?;
            left = left.checked_sub(result.len())?;
            let name = String::from_utf8(name).ok()?;
            Some((name[STEP.len()..].to_owned(), Data::new(result)))
        };
        let is_step = |(name, _): &mut (Vec<u8>, _)| name.starts_with(STEP.as_bytes());
        let of_steps = self.values.extract_if(.., is_step);
        let results: Option<RecordedSteps> = of_steps.map(read).collect();
        self.take(attribute, |mark| results.filter(|_| mark.is_empty()))
    }
}

/// What a frame of zstd begins with. It is no text.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the text of a field that may be compressed. No more than `at_most` bytes are decompressed.
///
/// # Errors
///
/// What is wrong with it.
fn long_text(bytes: Vec<u8>, at_most: usize) -> Result<String, &'static str> {
    match bytes.starts_with(&FRAME) {
        true => decompress(&bytes, at_most),
        false => String::from_utf8(bytes).map_err(|_| "its response is not UTF-8"),
    }
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
            Some(Reply::Refused(Some(fields))) => fields.record().0,
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

    #[cfg(feature = "zstd")]
    #[test]
    fn a_compressed_response_and_event_read_back_and_a_damaged_one_says_so() {
        use idempotency_core::compression::compress;
        let long = format!("\"{}\"", "x".repeat(20_000));
        let frame = compress(&long, long.len()).unwrap();
        // The format of zstd is frozen.
        assert!(frame.starts_with(&FRAME) && String::from_utf8(frame.clone()).is_err());
        let step = [
            ("steps", b"".as_slice()),
            ("step:a", &frame),
            ("data", &frame),
        ];
        let read = record(&step);
        assert_eq!(read.data, Field::Value(Data::new(long.clone())));
        let steps: RecordedSteps = [("a".to_owned(), Data::new(long))].into_iter().collect();
        assert_eq!(read.steps, Field::Value(steps));
        let event = StoredEvent::all(&"7".repeat(20_000)).unwrap();
        let stored = compress(event.stored(), event.stored().len()).unwrap();
        let fields = |name: &str, bytes: &[u8]| {
            Fields::of([value(name.as_bytes()), value(bytes)].into_iter())
                .unwrap()
                .unwrap()
        };
        assert_eq!(fields("event", &stored).take_event(), Ok(Some(event)));
        assert_eq!(fields("v", b"1").take_event(), Ok(None));
        assert_eq!(
            fields("event", b"7").take_event(),
            Err("it was not written by this framework")
        );
        for damaged in [
            &frame[..frame.len() - 1],
            &[0x28, 0xb5, 0x2f, 0xfd],
            &[0, 255],
        ] {
            let (record, why) = fields("data", damaged).record();
            assert!(record.data == Field::Unreadable && why.is_some());
        }
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
            value(b"OK"),
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(5)]),
            Value::Array(vec![Value::Int(3)]),
            Value::Array(vec![Value::Int(1), value(b"v")]),
            Value::Array(vec![Value::Int(1), Value::Nil, Value::Nil]),
        ] {
            let text = format!("{other:?}");
            assert!(Reply::of(other).is_none(), "{text}");
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

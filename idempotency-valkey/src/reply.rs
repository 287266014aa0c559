//! The reply of the script, and the record in it.

use idempotency_core::compression::decompress;
use idempotency_core::record::{
    Attribute, Columns, Data, Field, Record, RecordedSteps, StoredEvent,
};
use idempotency_core::store::StoreErrorKind;
use redis::Value;

use crate::address::Address;
use crate::failure::Failure;
use crate::request::{LARGEST_VALUE, STEP};

/// What the script did.
#[derive(Debug)]
pub(crate) struct Reply {
    /// False if the condition did not hold.
    pub(crate) is_applied: bool,
    /// The record for which the condition did not hold, or that a put has replaced. `None`: there was none.
    pub(crate) found: Option<Found>,
}

impl Reply {
    /// Reads the reply of this server.
    ///
    /// # Errors
    ///
    /// If a command of the script failed, or if the reply is none of the script.
    pub(crate) fn of(value: Value, server: &Address) -> Result<Self, Failure> {
        let unreadable = || Failure::unreadable(server);
        let (code, bytes) = match value {
            Value::Int(code) => (code, None),
            both => redis::from_redis_value(both).map_err(|_| unreadable())?,
        };
        match (code, bytes) {
            (code @ 0..=1, packed) => {
                let found =
                    packed.map(|packed: Vec<u8>| Found::packed(&packed).ok_or_else(unreadable));
                Ok(Self {
                    is_applied: code == 1,
                    found: found.transpose()?,
                })
            }
            (2, None) => {
                let text = format!("the record on {server} was made without steps");
                Err(Failure::unsent(StoreErrorKind::Rejected, text))
            }
            (code @ 3..=4, Some(text)) => {
                let text = String::from_utf8_lossy(&text);
                Err(Failure::in_script(&text, code == 4, server))
            }
            _ => Err(unreadable()),
        }
    }
}

/// What the server has of a record.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) record: Record,
    /// Why its response cannot be read.
    pub(crate) unreadable: Option<&'static str>,
    /// The event, or what is wrong with it.
    pub(crate) event: Result<Option<StoredEvent>, &'static str>,
}

impl Found {
    /// Reads names and values in turn, as an array of MessagePack. It is one value, because `redis` takes long for each. `None` if it is none.
    fn packed(mut rest: &[u8]) -> Option<Self> {
        let count = take_length(&mut rest)?;
        // A field has at least two bytes.
        let mut values = Vec::with_capacity((count / 2).min(rest.len() / 2));
        let mut next = || {
            let length = take_length(&mut rest)?;
            take(&mut rest, length)
        };
        for _ in 0..count / 2 {
            values.push([next()?, next()?]);
        }
        Some(Self::of(values))
    }

    /// Reads the values of these names. `None` if the hash has none of them.
    pub(crate) fn named(names: &[&str], values: &Value) -> Option<Self> {
        let Value::Array(values) = values else {
            return None;
        };
        let there = names.iter().zip(values).filter_map(|field| match field {
            (name, Value::BulkString(value)) => Some([name.as_bytes(), value]),
            _ => None,
        });
        let there: Vec<_> = there.collect();
        (!there.is_empty()).then(|| Self::of(there))
    }

    fn of(values: Vec<[&[u8]; 2]>) -> Self {
        let mut fields = Fields {
            values,
            unreadable: None,
        };
        Self {
            record: Record::read(&mut fields),
            unreadable: fields.unreadable,
            event: fields.event(),
        }
    }
}

/// The fields of one hash: their names and values.
struct Fields<'a> {
    values: Vec<[&'a [u8]; 2]>,
    unreadable: Option<&'static str>,
}

impl Fields<'_> {
    fn event(&self) -> Result<Option<StoredEvent>, &'static str> {
        let Some(bytes) = self.value(Attribute::Event) else {
            return Ok(None);
        };
        let event = StoredEvent::from_stored(&long_text(bytes, StoredEvent::LONGEST_STORED)?);
        event
            .map(Some)
            .ok_or("it was not written by this framework")
    }

    fn value(&self, attribute: Attribute) -> Option<&[u8]> {
        let name = attribute.default_name().as_bytes();
        let mut values = self.values.iter();
        values.find_map(|[it, value]| (*it == name).then_some(*value))
    }

    /// Reads the value of an attribute. It is unreadable if `read` returns `None`.
    fn read<T>(&self, attribute: Attribute, read: impl FnOnce(&[u8]) -> Option<T>) -> Field<T> {
        let value = self.value(attribute);
        value.map_or(Field::Absent, |value| {
            read(value).map_or(Field::Unreadable, Field::Value)
        })
    }
}

impl Columns for Fields<'_> {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.read(attribute, |value| {
            whole_number(std::str::from_utf8(value).ok()?)
        })
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        if attribute != Attribute::Data {
            return self.read(attribute, |value| String::from_utf8(value.to_vec()).ok());
        }
        let text = self
            .value(attribute)
            .map(|value| long_text(value, LARGEST_VALUE));
        match text {
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
        let read = |(name, value): (&[u8], &[u8])| {
            let result = long_text(value, left).ok()?;
            left = left.checked_sub(result.len())?;
            Some((String::from_utf8(name.to_vec()).ok()?, Data::new(result)))
        };
        let of_steps = self.values.iter();
        let of_steps = of_steps
            .filter_map(|[name, value]| Some((name.strip_prefix(STEP.as_bytes())?, *value)));
        let results: Option<RecordedSteps> = of_steps.map(read).collect();
        self.read(attribute, |mark| results.filter(|_| mark.is_empty()))
    }
}

/// Takes how many values an array of MessagePack has, or how many bytes a text.
fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let [tag] = *take(rest, 1)? else {
        return None;
    };
    let (length, more) = match tag {
        0x90..=0x9f => (tag & 0x0f, 0),
        0xa0..=0xbf => (tag & 0x1f, 0),
        0xd9 => (0, 1),
        0xda | 0xdc => (0, 2),
        0xdb | 0xdd => (0, 4),
        _ => return None,
    };
    let more = take(rest, more)?.iter();
    Some(more.fold(usize::from(length), |length, byte| {
        length << 8 | usize::from(*byte)
    }))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// What a frame of zstd begins with. It is no text.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the text of a field that may be compressed. No more than `at_most` bytes are decompressed.
///
/// # Errors
///
/// What is wrong with it.
fn long_text(bytes: &[u8], at_most: usize) -> Result<String, &'static str> {
    match bytes.starts_with(&FRAME) {
        true => decompress(bytes, at_most),
        false => String::from_utf8(bytes.to_vec()).map_err(|_| "its response is not UTF-8"),
    }
}

/// Returns the number in `text` without its fraction. `None` if the script compares it with nothing either: it has digits, and a sign or a
/// fraction, and 64 bits.
fn whole_number(text: &str) -> Option<i64> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    if is_number(text) {
        return text.parse().ok();
    }
    let (whole, digits) = match text.split_once('.') {
        Some((whole, fraction)) if is_number(fraction) => (whole, whole),
        Some(_) => return None,
        None => (text, text.strip_prefix('-').unwrap_or(text)),
    };
    is_number(digits).then(|| whole.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::Status;
    use idempotency_core::time::EpochSeconds;

    use super::*;
    use crate::failure::Next;

    fn value(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    fn of(reply: Value) -> Result<Reply, Failure> {
        Reply::of(reply, &Address::of("cache:6379").unwrap())
    }

    fn both(code: i64, bytes: &[u8]) -> Value {
        Value::Array(vec![Value::Int(code), value(bytes)])
    }

    fn reply(code: i64, fields: &[(&str, &[u8])]) -> Result<Reply, Failure> {
        let mut packed = vec![0xdc, 0, u8::try_from(fields.len() * 2).unwrap()];
        for text in fields.iter().flat_map(|(name, it)| [name.as_bytes(), it]) {
            packed.push(0xdb);
            packed.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            packed.extend(text);
        }
        of(both(code, &packed))
    }

    fn record(fields: &[(&str, &[u8])]) -> Record {
        reply(0, fields).unwrap().found.unwrap().record
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
            let values = Value::Array(vec![value(bytes)]);
            Found::named(&[name], &values).unwrap()
        };
        assert_eq!(fields("event", &stored).event, Ok(Some(event)));
        assert_eq!(fields("v", b"1").event, Ok(None));
        assert_eq!(
            fields("event", b"7").event,
            Err("it was not written by this framework")
        );
        for damaged in [
            &frame[..frame.len() - 1],
            &[0x28, 0xb5, 0x2f, 0xfd],
            &[0, 255],
        ] {
            let found = fields("data", damaged);
            assert!(found.record.data == Field::Unreadable && found.unreadable.is_some());
        }
    }

    #[test]
    fn each_code_of_the_script_has_its_meaning_and_other_replies_have_none() {
        for (code, is_applied) in [(0, false), (1, true)] {
            let alone = of(Value::Int(code)).unwrap();
            assert!(alone.is_applied == is_applied && alone.found.is_none());
            // There is a record, and no attribute of it is returned.
            let empty = reply(code, &[]).unwrap();
            assert!(empty.is_applied == is_applied && empty.found.is_some());
        }
        let without_steps = of(Value::Int(2)).unwrap_err();
        assert!(!without_steps.maybe_applied && without_steps.next == Next::Fail);
        for (code, maybe_applied) in [(3, false), (4, true)] {
            let failed = of(both(code, b"OOM full")).unwrap_err();
            assert!(failed.error.to_string().contains("OOM full"));
            assert_eq!(failed.maybe_applied, maybe_applied);
        }
        for other in [
            value(b"OK"),
            Value::Nil,
            Value::Int(3),
            Value::Int(5),
            Value::Array(Vec::new()),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Int(1), value(b"\x90"), Value::Nil]),
            both(2, b"\x90"),
            both(5, b"\x90"),
            both(1, b""),
            both(1, b"v"),
            both(1, b"\x92\xa1v\xa2x"),
            both(1, b"\x92\xa1v\xda\x01"),
        ] {
            let text = format!("{other:?}");
            let failure = of(other).unwrap_err();
            assert!(
                failure.maybe_applied && failure.next == Next::Fail,
                "{text}"
            );
        }
    }

    #[test]
    fn lengths_of_message_pack_are_read_in_each_form() {
        for (bytes, expected) in [
            (&b"\x9f"[..], Some(15)),
            (b"\xbf", Some(31)),
            (b"\xd9\xff", Some(255)),
            (b"\xda\x01\x00", Some(256)),
            (b"\xdc\x01\x01", Some(257)),
            (b"\xdb\x01\x00\x00\x00", Some(1 << 24)),
            (b"\xdd\x00\x01\x00\x00", Some(1 << 16)),
            (b"\xdb\x00\x00\x00", None),
            (b"\xc0", None),
            (b"", None),
        ] {
            assert_eq!(take_length(&mut &*bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_the_script_compares_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("-1", Some(-1)),
            ("1.999", Some(1)),
            ("-1.5", None),
            ("-0", Some(0)),
            ("-0.0", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
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
            assert_eq!(whole_number(text), expected, "{text}");
        }
    }
}

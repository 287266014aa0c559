//! The stored format: the value of a record's key.
//!
//! It begins with a mark. Each field follows as its name and its value, both after their length of four bytes. The fields have the names of the
//! attributes, numbers are decimal texts, and each recorded result of a step is a field of its own. A long value is one frame of zstd, whose
//! first bytes are no text. What a listing does not show comes last, so that it reads the beginning alone. The format is frozen: the tests
//! compare it.

use std::borrow::Cow;
use std::time::Duration;

use idempotency_core::compression::{compress, decompress};
use idempotency_core::record::{
    Attribute, Columns, Data, Field, FieldValue, Record, RecordedSteps, Status, StoredEvent,
};
use idempotency_core::store::retention::{CLAIM_KEPT_AFTER_EXPIRATION, KEPT_AFTER_EXPIRATION};
use idempotency_core::store::{Change, StoreError, StoreErrorKind, UNLISTED};
use idempotency_core::time::EpochSeconds;

/// What a value begins with. The last byte is the version of the format.
pub(crate) const MARK: &[u8] = b"idempotency 1";

/// What the name of a step's field begins with.
const STEP: &str = "step:";

/// The largest value of a field, in bytes. A server takes 512 MB, but performs one command at a time.
pub(crate) const LARGEST_VALUE: usize = 16 * 1024 * 1024;

/// The longest time to live: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 24 * 60 * 60;

/// A name or a value.
type Text<'a> = Cow<'a, [u8]>;

/// The fields of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields<'a> {
    /// The value of each attribute, in their order.
    known: [Option<Text<'a>>; Attribute::ALL.len()],
    /// The results of steps, and fields that this version does not know: names and values.
    others: Vec<(Text<'a>, Text<'a>)>,
}

/// Why a value is that of no record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRecord {
    /// Another program wrote it, or it is damaged.
    Foreign,
    /// A later version of this crate wrote it.
    Later,
}

impl<'a> Fields<'a> {
    /// Reads a value.
    ///
    /// # Errors
    ///
    /// If it is none of a record of this version.
    pub(crate) fn read(value: &'a [u8]) -> Result<Self, NoRecord> {
        let mut fields = Self::default();
        match fields.add_all(value)? {
            true => Ok(fields),
            false => Err(NoRecord::Foreign),
        }
    }

    /// Reads the beginning of a value, which can end anywhere after its mark. The field in which it ends has an empty value.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), but for the end.
    pub(crate) fn read_beginning(value: &'a [u8]) -> Result<Self, NoRecord> {
        let mut fields = Self::default();
        fields.add_all(value)?;
        Ok(fields)
    }

    /// Adds the fields of a value. Returns true if the last one is complete.
    fn add_all(&mut self, value: &'a [u8]) -> Result<bool, NoRecord> {
        let Some(mut rest) = value.strip_prefix(MARK) else {
            let is_ours = value.starts_with(&MARK[..MARK.len() - 1]);
            return Err(if is_ours && value.len() >= MARK.len() {
                NoRecord::Later
            } else {
                NoRecord::Foreign
            });
        };
        while !rest.is_empty() {
            let (name, value) = (take(&mut rest), take(&mut rest));
            if let Some(name) = name {
                self.add(name, value.unwrap_or_default().into());
            }
            if value.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add(&mut self, name: &'a [u8], value: Text<'a>) {
        let mut known = Attribute::ALL.into_iter();
        match known.find(|it| it.default_name().as_bytes() == name) {
            Some(attribute) => _ = self.known[attribute as usize].get_or_insert(value),
            None => self.others.push((name.into(), value)),
        }
    }

    /// Returns the fields of a record. A response, a result of a step or an event of more bytes than `above` is compressed, if it becomes
    /// smaller.
    ///
    /// # Errors
    ///
    /// If a value is larger than the store accepts.
    pub(crate) fn of(record: &'a Record, above: Option<usize>) -> Result<Self, StoreError> {
        let mut fields = Self::default();
        fields.set(record, above)?;
        Ok(fields)
    }

    /// Changes the fields. A removal takes precedence.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(crate) fn update(
        &mut self,
        change: &'a Change,
        above: Option<usize>,
    ) -> Result<(), StoreError> {
        self.set(&change.set, above)?;
        for attribute in &change.remove {
            self.remove(*attribute);
        }
        Ok(())
    }

    fn set(&mut self, record: &'a Record, above: Option<usize>) -> Result<(), StoreError> {
        for (attribute, value) in record.fields() {
            let value = match value {
                FieldValue::Seconds(at) => at.get().to_string().into_bytes().into(),
                FieldValue::Millis(at) => at.get().to_string().into_bytes().into(),
                FieldValue::Text(text) => stored(text, None)?,
                FieldValue::Data(data) => stored(data.as_str(), above)?,
                FieldValue::Event(event) => stored(event.stored(), above)?,
                FieldValue::Steps(_) => {
                    self.remove(attribute);
                    Cow::default()
                }
            };
            self.known[attribute as usize] = Some(value);
        }
        let steps = record.steps.value().into_iter();
        for (name, result) in steps.flat_map(RecordedSteps::iter) {
            self.set_step(name, result, above)?;
        }
        Ok(())
    }

    /// Sets the result of a step.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(crate) fn set_step(
        &mut self,
        name: &str,
        result: &'a Data,
        above: Option<usize>,
    ) -> Result<(), StoreError> {
        let name = format!("{STEP}{name}").into_bytes();
        let value = stored(result.as_str(), above)?;
        match self.others.iter_mut().find(|(it, _)| **it == *name) {
            Some(step) => step.1 = value,
            None => self.others.push((name.into(), value)),
        }
        Ok(())
    }

    fn remove(&mut self, attribute: Attribute) {
        self.known[attribute as usize] = None;
        if attribute == Attribute::Steps {
            self.others.retain(|(name, _)| !is_step(name));
        }
    }

    /// Returns the value of the key.
    pub(crate) fn to_value(&self) -> Vec<u8> {
        let size = self.all().map(|(name, value)| 8 + name.len() + value.len());
        let mut bytes = Vec::with_capacity(MARK.len() + size.sum::<usize>());
        bytes.extend(MARK);
        self.all().for_each(|(name, value)| {
            for text in [name, value] {
                // No value is longer: see `LARGEST_VALUE`.
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                bytes.extend(length.to_be_bytes());
                bytes.extend(text);
            }
        });
        bytes
    }

    /// Returns names and values in the order of the format: what a listing shows, then the other ones.
    fn all(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let known = |it: Attribute| Some((it.default_name().as_bytes(), self.value(it)?));
        let others = |are_steps| {
            let others = self.others.iter().map(|(name, value)| (&**name, &**value));
            others.filter(move |(name, _)| is_step(name) == are_steps)
        };
        let listed = Attribute::ALL
            .into_iter()
            .filter(|it| !UNLISTED.contains(it));
        let listed = listed.filter_map(known).chain(others(false));
        listed
            .chain(UNLISTED.into_iter().filter_map(known))
            .chain(others(true))
    }

    /// Returns for how many seconds the server keeps the record: the rest of its window, and some time afterwards. `None`: for ever.
    ///
    /// It is at least that time, also if a clock is wrong: a write makes no record vanish.
    pub(crate) fn life(&self, now: EpochSeconds) -> Option<i64> {
        let expiration = std::str::from_utf8(self.value(Attribute::Expiration)?);
        let expiration = whole_number(expiration.ok()?)?;
        let kept = match self.is_completed() {
            true => KEPT_AFTER_EXPIRATION,
            false => CLAIM_KEPT_AFTER_EXPIRATION,
        };
        Some(life(expiration, now, kept))
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.value(Attribute::Status) == Some(Status::Completed.as_str().as_bytes())
    }

    /// Returns true if the record has steps, so that results can be added.
    pub(crate) fn has_steps(&self) -> bool {
        self.value(Attribute::Steps).is_some()
    }

    /// Returns true if a field that a listing does not show begins in what was read. Then all that it shows was read.
    pub(crate) fn has_unlisted(&self) -> bool {
        let has_attribute = UNLISTED.into_iter().any(|it| self.value(it).is_some());
        has_attribute || self.others.iter().any(|(name, _)| is_step(name))
    }

    /// Returns the record, and why its response cannot be read.
    pub(crate) fn record(&self) -> (Record, Option<&'static str>) {
        let mut reader = Reader {
            fields: self,
            unreadable: None,
        };
        let record = Record::read(&mut reader);
        (record, reader.unreadable)
    }

    /// Returns the event, if there is one.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn event(&self) -> Result<Option<StoredEvent>, &'static str> {
        let Some(bytes) = self.value(Attribute::Event) else {
            return Ok(None);
        };
        let event = StoredEvent::from_stored(&long_text(bytes, StoredEvent::LONGEST_STORED)?);
        event
            .map(Some)
            .ok_or("it was not written by this framework")
    }

    fn value(&self, attribute: Attribute) -> Option<&[u8]> {
        self.known[attribute as usize].as_deref()
    }
}

/// Reads the attributes of a record from its fields.
struct Reader<'a> {
    fields: &'a Fields<'a>,
    unreadable: Option<&'static str>,
}

impl Reader<'_> {
    /// Reads the value of an attribute. It is unreadable if `read` returns `None`.
    fn read<T>(&self, attribute: Attribute, read: impl FnOnce(&[u8]) -> Option<T>) -> Field<T> {
        Field::from(self.fields.value(attribute)).and_then(read)
    }
}

impl Columns for Reader<'_> {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.read(attribute, |value| {
            whole_number(std::str::from_utf8(value).ok()?)
        })
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        // Of the texts, a listing leaves out the response alone.
        if !UNLISTED.contains(&attribute) {
            return self.read(attribute, |value| String::from_utf8(value.to_vec()).ok());
        }
        let text = self.fields.value(attribute);
        match text.map(|value| long_text(value, LARGEST_VALUE)) {
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
        self.read(attribute, |mark| {
            let mut left = LARGEST_VALUE;
            let others = self.fields.others.iter();
            let of_steps = others
                .filter_map(|(name, value)| Some((name.strip_prefix(STEP.as_bytes())?, value)));
            let results = of_steps.map(|(name, value)| {
                let result = long_text(value, left).ok()?;
                left = left.checked_sub(result.len())?;
                Some((String::from_utf8(name.to_vec()).ok()?, Data::new(result)))
            });
            let results: Option<RecordedSteps> = results.collect();
            results.filter(|_| mark.is_empty())
        })
    }
}

/// Takes the text that follows its length of four bytes.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = after;
    Some(text)
}

fn is_step(name: &[u8]) -> bool {
    name.starts_with(STEP.as_bytes())
}

/// Returns a text as it is stored. It is compressed if it has more than `above` bytes.
///
/// # Errors
///
/// If it is larger than the store accepts.
fn stored(text: &str, above: Option<usize>) -> Result<Text<'_>, StoreError> {
    let bytes = text.len();
    if bytes > LARGEST_VALUE {
        let text = format!(
            "the record has a value of {bytes} bytes, and at most {LARGEST_VALUE} are stored"
        );
        return Err(StoreError::new(StoreErrorKind::TooLarge, text));
    }
    let is_long = above.is_some_and(|above| bytes > above);
    let compressed = is_long.then(|| compress(text, bytes)).flatten();
    Ok(compressed.map_or(text.as_bytes().into(), Cow::Owned))
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

/// Returns the number in `text` without its fraction. `None` if it is none of 64 bits, or a negative one with a fraction.
fn whole_number(text: &str) -> Option<i64> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    text.parse().ok().or_else(|| {
        let (whole, fraction) = text.split_once('.')?;
        let is_positive = is_digits(whole) && is_digits(fraction);
        whole.parse().ok().filter(|_| is_positive)
    })
}

/// Returns for how many seconds the server keeps a record that expires at this time, and is `kept` afterwards.
fn life(expiration: i64, now: EpochSeconds, kept: Duration) -> i64 {
    let left = expiration.saturating_sub(now.get()).max(0);
    let after = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    left.saturating_add(after).min(LONGEST_LIFE)
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::OwnerToken;
    use idempotency_core::time::EpochMillis;

    use super::*;

    const NOW: EpochSeconds = EpochSeconds::new(1_700_000_000);

    /// Returns a record with a value of each attribute.
    fn full() -> Record {
        Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_900_000)),
            status: Field::Value(Status::InProgress),
            data: Field::Value(Data::new("{\"id\":7}")),
            validation: Field::Value("c4ca".to_owned()),
            owner: Field::Value(OwnerToken::from_record("07".to_owned())),
            failure: Field::Value("Timeout".to_owned()),
            operation: Field::Value("shop::pay".to_owned()),
            decision: Field::Value("{}".to_owned()),
            event: Field::Value(StoredEvent::all("1").unwrap()),
            steps: Field::Value([("a b".to_owned(), Data::new("2"))].into_iter().collect()),
            undo: Field::Value("[]".to_owned()),
        }
    }

    /// Returns a value with these fields.
    fn value(fields: &[(&str, &[u8])]) -> Vec<u8> {
        let mut value = MARK.to_vec();
        for text in fields.iter().flat_map(|(name, it)| [name.as_bytes(), it]) {
            value.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            value.extend(text);
        }
        value
    }

    fn record(fields: &[(&str, &[u8])]) -> Record {
        Fields::read(&value(fields)).unwrap().record().0
    }

    #[test]
    fn a_record_has_this_form_and_reads_back() {
        // Frozen: it is the stored format.
        let stored = Fields::of(&full(), None).unwrap().to_value();
        let short = b"idempotency 1\0\0\0\x0aexpiration\0\0\0\x0a1700003600\0\0\0\x16in_progress_expiration\0\0\0\x0d1700000900000\0\0\0\x06status\
            \0\0\0\x0aINPROGRESS\0\0\0\x0avalidation\0\0\0\x04c4ca\0\0\0\x05owner\0\0\0\x0207\0\0\0\x07failure\0\0\0\x07Timeout\0\0\0\x09operation\
            \0\0\0\x09shop::pay\0\0\0\x08decision\0\0\0\x02{}\0\0\0\x04undo\0\0\0\x02[]";
        let long = b"\0\0\0\x04data\0\0\0\x08{\"id\":7}\0\0\0\x05event\0\0\0\x09{\"all\":1}\0\0\0\x05steps\0\0\0\0\0\0\0\x08step:a b\0\0\0\x012";
        assert_eq!(
            String::from_utf8(stored.clone()),
            String::from_utf8([&short[..], long].concat())
        );
        let fields = Fields::read(&stored).unwrap();
        let expected = Record {
            event: Field::Absent,
            ..full()
        };
        assert_eq!(fields.record(), (expected, None));
        assert_eq!(fields.event(), Ok(full().event.value().cloned()));
        assert_eq!(Fields::default().to_value(), MARK);
        assert_eq!(record(&[]), Record::default());
    }

    #[test]
    fn a_value_of_another_program_or_version_is_no_record() {
        let stored = Fields::of(&full(), None).unwrap().to_value();
        for damaged in [
            &b""[..],
            b"x",
            b"idempotency",
            b"idempotency:1",
            &stored[1..],
        ] {
            assert_eq!(Fields::read(damaged), Err(NoRecord::Foreign));
        }
        for end in MARK.len() + 1..stored.len() {
            let cut = Fields::read(&stored[..end]);
            // After a whole field it is a shorter record.
            assert!(
                cut.is_err() || cut.unwrap().to_value() == stored[..end],
                "{end}"
            );
        }
        for later in [&b"idempotency 2"[..], b"idempotency 1x"] {
            let expected = if later.ends_with(b"x") {
                NoRecord::Foreign
            } else {
                NoRecord::Later
            };
            assert_eq!(Fields::read(later), Err(expected));
        }
    }

    #[test]
    fn the_beginning_of_a_value_has_what_a_listing_shows_if_another_field_begins_in_it() {
        let stored = Fields::of(&full(), None).unwrap().to_value();
        let of = |end: usize| Fields::read_beginning(&stored[..end]).unwrap();
        let data = stored.windows(8).position(|it| it == b"{\"id\":7}");
        let shown = data.unwrap() - 4;
        for end in MARK.len()..stored.len() {
            let beginning = of(end);
            assert_eq!(beginning.has_unlisted(), end >= shown, "{end}");
            let listed = beginning.record().0.listed();
            assert!(end < shown || listed == full().listed(), "{end}");
        }
    }

    #[test]
    fn an_update_keeps_other_fields_and_a_removal_takes_precedence() {
        let stored = value(&[
            ("other", b"x"),
            ("owner", b"1"),
            ("steps", b""),
            ("step:a", b"2"),
        ]);
        let updated = |set, remove: &[Attribute]| {
            let mut fields = Fields::read(&stored).unwrap();
            let remove = remove.to_vec();
            let change = Change { set, remove };
            fields.update(&change, None).unwrap();
            let value = fields.to_value();
            String::from_utf8(value[MARK.len()..].to_vec())
                .unwrap()
                .replace('\0', "")
        };
        let owner = || Record {
            owner: full().owner,
            ..Record::default()
        };
        let steps = || Record {
            steps: full().steps,
            ..Record::default()
        };
        let other = "\x05other\x01x";
        let of_a = "\x05steps\x06step:a\x012";
        assert_eq!(
            updated(owner(), &[]),
            format!("\x05owner\x0207{other}{of_a}")
        );
        assert_eq!(
            updated(owner(), &[Attribute::Owner]),
            format!("{other}{of_a}")
        );
        assert_eq!(
            updated(steps(), &[]),
            format!("\x05owner\x011{other}\x05steps\x08step:a b\x012")
        );
        assert_eq!(
            updated(steps(), &[Attribute::Steps]),
            format!("\x05owner\x011{other}")
        );
        let mut fields = Fields::read(&stored).unwrap();
        let results = [("a", Data::new("3")), ("a:b", Data::new("4"))];
        for (name, result) in &results {
            fields.set_step(name, result, None).unwrap();
        }
        let steps = record(&[("steps", b""), ("step:a", b"3"), ("step:a:b", b"4")]).steps;
        assert_eq!(fields.record().0.steps, steps);
    }

    #[test]
    fn what_has_another_form_is_unreadable() {
        let read = record(&[
            ("status", b"COMPLETED"),
            ("expiration", b"17.5"),
            ("in_progress_expiration", b"soon"),
            ("owner", &[0, 255]),
            ("other", b"x"),
        ]);
        let expected = Record {
            status: Field::Value(Status::Completed),
            expiration: Field::Value(EpochSeconds::new(17)),
            in_progress_expiration: Field::Unreadable,
            owner: Field::Unreadable,
            ..Record::default()
        };
        assert_eq!(read, expected);
        // Without their mark, or with a text in its place, the steps are not those of this framework.
        assert_eq!(record(&[("step:a", b"7")]).steps, Field::Absent);
        assert_eq!(record(&[("steps", b"x")]).steps, Field::Unreadable);
        let damaged = record(&[("steps", b""), ("step:a", &[255])]);
        assert_eq!(damaged.steps, Field::Unreadable);
        for (text, number) in [
            ("007", Some(7)),
            ("-1", Some(-1)),
            ("1.999", Some(1)),
            ("-1.5", None),
            ("1.", None),
            ("1.x", None),
            ("", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
        ] {
            assert_eq!(whole_number(text), number, "{text}");
        }
    }

    #[test]
    fn the_server_keeps_a_record_an_hour_longer_than_its_window_and_never_less() {
        let hour = 3_600;
        for (expiration, seconds) in [
            (NOW.get() + 1, hour + 1),
            (NOW.get(), hour),
            (0, hour),
            (i64::MIN, hour),
            // A held claim is kept for ten years.
            (NOW.get() + 315_360_000, 315_360_000 + hour),
            (i64::MAX, LONGEST_LIFE),
        ] {
            let life = life(expiration, NOW, KEPT_AFTER_EXPIRATION);
            assert_eq!(life, seconds, "{expiration}");
        }
        let held = NOW.plus(Duration::from_secs(10 * 365 * 24 * 60 * 60));
        assert!(life(held.get(), NOW, CLAIM_KEPT_AFTER_EXPIRATION) < LONGEST_LIFE);
    }

    #[test]
    fn the_server_forgets_a_killed_run_after_two_weeks_and_a_response_after_an_hour() {
        let now = NOW.get().to_string();
        let life = |fields: &[(&str, &[u8])]| Fields::read(&value(fields)).unwrap().life(NOW);
        let expiration = ("expiration", now.as_bytes());
        assert_eq!(life(&[expiration, ("status", b"COMPLETED")]), Some(3_600));
        assert_eq!(
            life(&[expiration, ("status", b"INPROGRESS")]),
            Some(1_209_600)
        );
        assert_eq!(life(&[expiration]), Some(1_209_600));
        assert_eq!(life(&[("status", b"COMPLETED")]), None);
        assert_eq!(life(&[("expiration", b"soon")]), None);
    }

    #[test]
    fn a_value_that_is_too_large_is_refused() {
        let long = |bytes| Record {
            data: Field::Value(Data::new("x".repeat(bytes))),
            ..Record::default()
        };
        assert!(Fields::of(&long(LARGEST_VALUE), None).is_ok());
        let error = Fields::of(&long(LARGEST_VALUE + 1), None).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::TooLarge);
        assert!(error.to_string().contains("a value of 16777217 bytes"));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_long_response_result_or_event_is_compressed_and_what_is_compared_is_not() {
        let long = || "x".repeat(20_000);
        let record = Record {
            data: Field::Value(Data::new(long())),
            undo: Field::Value(long()),
            event: Field::Value(StoredEvent::all(&format!("\"{}\"", long())).unwrap()),
            steps: Field::Value([("a".to_owned(), Data::new(long()))].into_iter().collect()),
            ..Record::default()
        };
        let lengths = |above| {
            let fields = Fields::of(&record, above).unwrap();
            let lengths = fields.all().map(|(_, value)| value.len());
            <[usize; 5]>::try_from(lengths.collect::<Vec<_>>()).unwrap()
        };
        let [undo, data, event, _, step] = lengths(Some(20_000 - 1));
        assert!(data < 1_000 && event < 1_000 && step < 1_000 && undo == 20_000);
        assert_eq!(lengths(Some(30_000)), [20_000, 20_000, 20_010, 0, 20_000]);
        assert_eq!(lengths(None), lengths(Some(30_000)));
        let stored = Fields::of(&record, Some(0)).unwrap().to_value();
        let fields = Fields::read(&stored).unwrap();
        assert_eq!(fields.event(), Ok(record.event.value().cloned()));
        let expected = Record {
            event: Field::Absent,
            ..record
        };
        assert_eq!(fields.record(), (expected, None));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_damaged_response_or_event_says_so() {
        let long = format!("\"{}\"", "x".repeat(20_000));
        let frame = compress(&long, long.len()).unwrap();
        // The format of zstd is frozen.
        assert!(frame.starts_with(&FRAME) && String::from_utf8(frame.clone()).is_err());
        for damaged in [
            &frame[..frame.len() - 1],
            &[0x28, 0xb5, 0x2f, 0xfd],
            &[0, 255],
        ] {
            let value = value(&[("data", damaged), ("event", damaged)]);
            let fields = Fields::read(&value).unwrap();
            let (record, unreadable) = fields.record();
            assert!(record.data == Field::Unreadable && unreadable.is_some());
            assert!(fields.event().is_err());
        }
        let value = value(&[("event", b"7")]);
        let event = Fields::read(&value).unwrap().event();
        assert_eq!(event, Err("it was not written by this framework"));
    }
}

//! A write as the arguments of the script: what it does, its condition, and what it changes.
//!
//! A record is one hash. Its fields have the names of the attributes, numbers are decimal texts, and each recorded result of a step is a
//! field of its own. A long value is one frame of zstd, whose first bytes are no text. The stored format is frozen: the tests compare it.

use std::borrow::Cow;
use std::time::Duration;

use idempotency_core::compression::compress;
use idempotency_core::record::{Attribute, Data, FieldValue, Status};
use idempotency_core::store::{Condition, Operand, RecordWrite, Write};
use idempotency_core::time::EpochSeconds;

/// The script that performs every write.
pub(crate) const SCRIPT: &str = include_str!("script.lua");

/// The field that each record has, so that one without attributes is a record too. Its value is the version of the format.
const FORMAT: (&str, &str) = ("v", "1");

/// What the name of a step's field begins with.
pub(crate) const STEP: &str = "step:";

/// The largest value of a field, in bytes. A server takes 512 MB, but performs one command at a time.
pub(crate) const LARGEST_VALUE: usize = 16 * 1024 * 1024;

/// The most fields of one write. Lua passes at most 8,000 values to a function.
const MOST_FIELDS: usize = 3_000;

/// How long the server keeps a completed record after its `expiration`: for a caller whose clock is late.
pub(crate) const KEPT_AFTER_EXPIRATION: Duration = Duration::from_secs(60 * 60);

/// How long it keeps every other one, so that the next run learns of the run that was killed: as long as a queue keeps an event.
pub(crate) const CLAIM_KEPT_AFTER_EXPIRATION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// The longest time to live: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 24 * 60 * 60;

/// The arguments of the script, in order.
pub(crate) type Arguments<'a> = Vec<Cow<'a, [u8]>>;

/// Why a write cannot be rendered: a value has so many bytes, or there are so many fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Bytes(usize),
    Fields(usize),
}

/// Returns the arguments of a write. `now` is the time of this process: the server's TTL is the rest of the record's window. A response, a
/// result of a step or an event of more bytes than `compress_above` is compressed, if it becomes smaller.
///
/// # Errors
///
/// If a value is larger than the store accepts.
pub(crate) fn write<'a>(
    record: RecordWrite<'a>,
    now: EpochSeconds,
    compress_above: Option<usize>,
) -> Result<Arguments<'a>, TooLarge> {
    let (kind, set, remove): (_, _, &[Attribute]) = match record.write {
        Write::Put(put) => ("put", put, &[]),
        Write::Update(change) => ("update", &change.set, &change.remove),
        Write::Delete => {
            let mut arguments = vec![text("delete")];
            render(record.condition, &mut arguments);
            return Ok(arguments);
        }
        Write::Step { name, result } => {
            let changed = Changed {
                life: Life::Same,
                drops_steps: false,
                removed: Vec::new(),
                set: vec![StoredField::of_step(name, result)],
            };
            return changed.arguments("step", record.condition, compress_above);
        }
    };
    let is_removed = |attribute| remove.contains(&attribute);
    let fields = set
        .fields()
        .filter(|(attribute, _)| !is_removed(*attribute));
    let changed = Changed {
        life: match set.expiration.value() {
            _ if is_removed(Attribute::Expiration) => Life::Never,
            Some(expiration) => {
                let kept = match set.status.value() {
                    Some(Status::Completed) => KEPT_AFTER_EXPIRATION,
                    _ => CLAIM_KEPT_AFTER_EXPIRATION,
                };
                Life::of(*expiration, now, kept)
            }
            None => Life::Same,
        },
        drops_steps: kind == "update" && (set.steps.exists() || is_removed(Attribute::Steps)),
        removed: remove.iter().map(|it| it.default_name()).collect(),
        set: fields
            .flat_map(|(attribute, value)| StoredField::all_of(attribute, value))
            .collect(),
    };
    changed.arguments(kind, record.condition, compress_above)
}

/// Returns the arguments with which the script shows a record in a listing if the condition holds for it.
pub(crate) fn list(filter: Option<&Condition>) -> Arguments<'_> {
    let mut arguments = vec![text("list")];
    match filter {
        Some(filter) => render(filter, &mut arguments),
        None => group("all", &[], &mut arguments),
    }
    arguments
}

/// Returns the arguments with which the script returns the record: those of a condition that never holds.
pub(crate) fn read() -> Arguments<'static> {
    ["read", "any", "0"].map(text).to_vec()
}

/// Returns the arguments with which the script tries what a write can need.
pub(crate) fn probe() -> Arguments<'static> {
    ["probe", "all", "0"].map(text).to_vec()
}

fn text(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

fn number(number: impl ToString) -> Cow<'static, [u8]> {
    Cow::Owned(number.to_string().into_bytes())
}

/// What a write changes.
struct Changed<'a> {
    life: Life,
    drops_steps: bool,
    removed: Vec<&'static str>,
    set: Vec<StoredField<'a>>,
}

impl<'a> Changed<'a> {
    fn arguments(
        self,
        kind: &'static str,
        condition: &'a Condition,
        compress_above: Option<usize>,
    ) -> Result<Arguments<'a>, TooLarge> {
        if self.set.len() > MOST_FIELDS {
            return Err(TooLarge::Fields(self.set.len()));
        }
        let bytes = self
            .set
            .iter()
            .map(|field| field.name.len().max(field.value.len()));
        if let Some(bytes) = bytes.max().filter(|bytes| *bytes > LARGEST_VALUE) {
            return Err(TooLarge::Bytes(bytes));
        }
        let mut arguments = vec![text(kind)];
        render(condition, &mut arguments);
        arguments.push(match self.life {
            Life::Same => text("same"),
            Life::Never => text("never"),
            Life::Seconds(seconds) => number(seconds),
        });
        arguments.push(text(if self.drops_steps { "1" } else { "0" }));
        arguments.push(number(self.removed.len()));
        arguments.extend(self.removed.into_iter().map(text));
        arguments.extend([FORMAT.0, FORMAT.1].map(text));
        for StoredField {
            name,
            value,
            is_long,
        } in self.set
        {
            let compressed = compress_above
                .filter(|above| is_long && value.len() > *above)
                .and_then(|_| compress(&value, value.len()));
            arguments.extend([
                bytes_of(name),
                compressed.map_or_else(|| bytes_of(value), Cow::Owned),
            ]);
        }
        Ok(arguments)
    }
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// How long the server keeps the record.
#[derive(Debug, PartialEq, Eq)]
enum Life {
    /// As long as before the write.
    Same,
    /// Until it is deleted.
    Never,
    /// So many seconds from now, by the server's clock.
    Seconds(i64),
}

impl Life {
    /// Returns the life of a record that expires at this time, and is `kept` afterwards.
    ///
    /// It is at least `kept`, also if a clock is wrong: a write makes no record vanish.
    fn of(expiration: EpochSeconds, now: EpochSeconds, kept: Duration) -> Self {
        let left = expiration.get().saturating_sub(now.get()).max(0);
        let after = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        Self::Seconds(left.saturating_add(after).min(LONGEST_LIFE))
    }
}

/// One field of a hash.
struct StoredField<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
    /// True if the value may be compressed: it can be long, and no condition of the protocol compares it.
    is_long: bool,
}

impl<'a> StoredField<'a> {
    fn of_step(name: &str, result: &'a Data) -> Self {
        Self {
            name: Cow::Owned(format!("{STEP}{name}")),
            value: Cow::Borrowed(result.as_str()),
            is_long: true,
        }
    }

    /// Returns the field of an attribute, and those of its steps.
    fn all_of(attribute: Attribute, value: FieldValue<'a>) -> Vec<Self> {
        let one = |value: Cow<'a, str>, is_long| Self {
            name: Cow::Borrowed(attribute.default_name()),
            value,
            is_long,
        };
        vec![match value {
            FieldValue::Seconds(at) => one(Cow::Owned(at.get().to_string()), false),
            FieldValue::Millis(at) => one(Cow::Owned(at.get().to_string()), false),
            FieldValue::Text(text) => one(Cow::Borrowed(text), false),
            FieldValue::Data(data) => one(Cow::Borrowed(data.as_str()), true),
            FieldValue::Event(event) => one(Cow::Borrowed(event.stored()), true),
            FieldValue::Steps(steps) => {
                let results = steps
                    .iter()
                    .map(|(name, result)| Self::of_step(name, result));
                return [one(Cow::Borrowed(""), false)]
                    .into_iter()
                    .chain(results)
                    .collect();
            }
        }]
    }
}

/// Adds a condition: its kind, then its parts. A group says how many arguments its parts are, so that the script can skip them.
fn render<'a>(condition: &'a Condition, arguments: &mut Arguments<'a>) {
    let mut compare = |of_texts, of_numbers, attribute: &Attribute, operand: &'a Operand| {
        let (kind, operand) = match operand {
            Operand::Text(operand) => (of_texts, text(operand)),
            Operand::Seconds(at) => (of_numbers, number(at.get())),
            Operand::Millis(at) => (of_numbers, number(at.get())),
        };
        arguments.extend([text(kind), text(attribute.default_name()), operand]);
    };
    match condition {
        Condition::Equals(it, value) if value.fits(*it) => compare("equals", "n-equals", it, value),
        Condition::Differs(it, value) if value.fits(*it) => {
            compare("differs", "n-differs", it, value)
        }
        Condition::Below(it, value) if value.fits(*it) => compare("below", "n-below", it, value),
        // The attribute never has a value of this kind: an empty `any` does not hold, and an empty `all` does.
        Condition::Equals(..) | Condition::Below(..) => group("any", &[], arguments),
        Condition::Differs(..) => group("all", &[], arguments),
        Condition::NoRecord => arguments.push(text("none")),
        Condition::Exists(it) => arguments.extend(["exists", it.default_name()].map(text)),
        Condition::Missing(it) => arguments.extend(["missing", it.default_name()].map(text)),
        Condition::All(parts) => group("all", parts, arguments),
        Condition::Any(parts) => group("any", parts, arguments),
    }
}

fn group<'a>(kind: &'static str, parts: &'a [Condition], arguments: &mut Arguments<'a>) {
    arguments.extend([text(kind), text("")]);
    let first = arguments.len();
    parts.iter().for_each(|part| render(part, arguments));
    arguments[first - 1] = number(arguments.len() - first);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idempotency_core::protocol::condition::{claimable, held_by};
    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::record::{Field, OwnerToken, Record, RecordId, StoredEvent};
    use idempotency_core::store::Change;
    use idempotency_core::time::EpochMillis;

    use super::*;

    const NOW: EpochSeconds = EpochSeconds::new(1_700_000_000);

    /// Returns the arguments as one line. An empty one is `''`.
    fn line(write: &Write, condition: &Condition) -> String {
        let id = RecordId::new("pay#1");
        let record = RecordWrite {
            id: &id,
            write,
            condition,
        };
        shown(&super::write(record, NOW, None).unwrap())
    }

    fn shown(arguments: &Arguments<'_>) -> String {
        let texts = arguments.iter().map(|it| match it.is_empty() {
            true => "''".to_owned(),
            false => String::from_utf8(it.to_vec()).unwrap(),
        });
        texts.collect::<Vec<_>>().join(" ")
    }

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

    #[test]
    fn a_put_writes_every_attribute_in_this_form() {
        // Frozen: it is the stored format.
        assert_eq!(
            line(&Write::Put(full()), &Condition::NoRecord),
            "put none 1213200 0 0 v 1 expiration 1700003600 in_progress_expiration 1700000900000 status INPROGRESS data {\"id\":7} \
             validation c4ca owner 07 failure Timeout operation shop::pay decision {} event {\"all\":1} steps '' step:a b 2 undo []"
        );
        assert_eq!(
            line(&Write::Put(Record::default()), &Condition::NoRecord),
            "put none same 0 0 v 1"
        );
    }

    #[test]
    fn an_update_says_what_is_set_and_removed_and_a_removal_takes_precedence() {
        let always = Condition::All(Vec::new());
        let update = |set, remove: &[Attribute]| {
            let remove = remove.to_vec();
            line(&Write::Update(Change { set, remove }), &always)
        };
        let owner = Record {
            owner: full().owner,
            ..Record::default()
        };
        assert_eq!(
            update(owner.clone(), &[]),
            "update all 0 same 0 0 v 1 owner 07"
        );
        let removed = [Attribute::Owner, Attribute::Steps, Attribute::Expiration];
        assert_eq!(
            update(owner, &removed),
            "update all 0 never 1 3 owner steps expiration v 1"
        );
        let steps = Record {
            steps: full().steps,
            ..Record::default()
        };
        assert_eq!(
            update(steps, &[]),
            "update all 0 same 1 0 v 1 steps '' step:a b 2"
        );
    }

    #[test]
    fn a_delete_and_a_step_have_no_more_than_they_need() {
        let none = Condition::NoRecord;
        assert_eq!(line(&Write::Delete, &none), "delete none");
        let step = Write::Step {
            name: "a:b".to_owned(),
            result: Data::new("7"),
        };
        assert_eq!(line(&step, &none), "step none same 0 0 v 1 step:a:b 7");
        assert_eq!(shown(&list(Some(&none))), "list none");
        assert_eq!(shown(&list(None)), "list all 0");
    }

    #[test]
    fn a_condition_has_the_length_of_each_group_and_no_comparison_that_cannot_hold() {
        let rendered = |condition: &Condition| {
            let mut arguments = Vec::new();
            render(condition, &mut arguments);
            shown(&arguments)
        };
        let now = EpochMillis::new(1_700_000_000_500);
        assert_eq!(
            rendered(&claimable(now, OnTimeout::Rerun)),
            "any 24 none all 13 n-below expiration 1700000000 any 8 differs status INPROGRESS missing in_progress_expiration \
             n-below in_progress_expiration 1700000000500 all 6 equals status INPROGRESS n-below in_progress_expiration 1700000000500"
        );
        let owner = OwnerToken::from_record("07".to_owned());
        assert_eq!(
            rendered(&held_by(&owner)),
            "all 6 equals owner 07 equals status INPROGRESS"
        );
        let seconds = || Operand::Seconds(EpochSeconds::new(1));
        let lease = Attribute::InProgressExpiration;
        for (condition, expected) in [
            (Condition::Below(lease, seconds()), "any 0"),
            (Condition::Equals(Attribute::Owner, seconds()), "any 0"),
            (Condition::Differs(lease, seconds()), "all 0"),
            (Condition::Exists(Attribute::Failure), "exists failure"),
        ] {
            assert_eq!(rendered(&condition), expected);
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
            let life = Life::of(EpochSeconds::new(expiration), NOW, KEPT_AFTER_EXPIRATION);
            assert_eq!(life, Life::Seconds(seconds), "{expiration}");
        }
        let held = NOW.plus(Duration::from_secs(10 * 365 * 24 * 60 * 60));
        let held = Life::of(held, NOW, CLAIM_KEPT_AFTER_EXPIRATION);
        assert!(held != Life::Seconds(LONGEST_LIFE));
    }

    #[test]
    fn the_server_forgets_a_killed_run_after_two_weeks_and_a_response_after_an_hour() {
        for (status, seconds) in [
            (Field::Value(Status::Completed), 3_600),
            (Field::Value(Status::InProgress), 1_209_600),
            // A renewal.
            (Field::Absent, 1_209_600),
        ] {
            let set = Record {
                expiration: Field::Value(NOW),
                status,
                ..Record::default()
            };
            let remove = Vec::new();
            let update = Write::Update(Change { set, remove });
            let line = line(&update, &Condition::NoRecord);
            let expected = format!("update none {seconds} 0 0 v 1 expiration");
            assert!(line.starts_with(&expected), "{line}");
        }
    }

    #[test]
    fn a_value_that_is_too_large_and_too_many_steps_are_refused() {
        let written = |record: Record| {
            let (id, condition) = (RecordId::new("pay#1"), Condition::NoRecord);
            let put = Write::Put(record);
            let write = RecordWrite {
                id: &id,
                write: &put,
                condition: &condition,
            };
            super::write(write, NOW, None).map(drop)
        };
        let long = |bytes| Record {
            data: Field::Value(Data::new("x".repeat(bytes))),
            ..Record::default()
        };
        assert_eq!(written(long(LARGEST_VALUE)), Ok(()));
        assert_eq!(
            written(long(LARGEST_VALUE + 1)),
            Err(TooLarge::Bytes(LARGEST_VALUE + 1))
        );
        let steps = (0..MOST_FIELDS).map(|step| (step.to_string(), Data::new("1")));
        let steps = Record {
            steps: Field::Value(steps.collect()),
            ..Record::default()
        };
        assert_eq!(written(steps), Err(TooLarge::Fields(MOST_FIELDS + 1)));
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_long_response_result_or_event_is_compressed_and_what_is_compared_is_not() {
        let long = || "x".repeat(20_000);
        let put = Write::Put(Record {
            data: Field::Value(Data::new(long())),
            undo: Field::Value(long()),
            event: Field::Value(StoredEvent::all(&format!("\"{}\"", long())).unwrap()),
            steps: Field::Value([("a".to_owned(), Data::new(long()))].into_iter().collect()),
            ..Record::default()
        });
        let (id, condition) = (RecordId::new("pay#1"), Condition::NoRecord);
        let write = |above| {
            let record = RecordWrite {
                id: &id,
                write: &put,
                condition: &condition,
            };
            let arguments = super::write(record, NOW, above).unwrap();
            let value = |name: &str| {
                let at = arguments
                    .iter()
                    .rposition(|it| **it == *name.as_bytes())
                    .unwrap();
                arguments[at + 1].len()
            };
            ["data", "event", "step:a", "undo"].map(value)
        };
        let [data, event, step, undo] = write(Some(20_000 - 1));
        assert!(data < 1_000 && event < 1_000 && step < 1_000 && undo == 20_000);
        assert_eq!(write(Some(30_000)), [20_000, 20_010, 20_000, 20_000]);
        assert_eq!(write(None), write(Some(30_000)));
    }

    #[test]
    fn the_script_has_the_names_that_are_rendered() {
        let steps = Attribute::Steps.default_name();
        let in_script = [
            format!("record.{}", Attribute::Event.default_name()),
            format!("record.{steps}"),
            format!("'{}'", Attribute::Data.default_name()),
            format!(":sub(1, {}) == '{STEP}'", STEP.len()),
            format!("'HSET', key, '{}', '{}'", FORMAT.0, FORMAT.1),
            format!("record.{} ~= '{}'", FORMAT.0, FORMAT.1),
        ];
        for text in in_script {
            assert!(SCRIPT.contains(&text), "{text}");
        }
    }
}

//! A write as the arguments of the script: what it does, its condition, and what it changes.
//!
//! A record is one hash. Its fields have the names of the attributes, numbers are decimal texts, and each recorded result of a step is a
//! field of its own. The stored format is frozen: the tests compare it.

use std::time::Duration;

use idempotency_core::record::{Attribute, FieldValue, Record};
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

/// How long the server keeps a record after its `expiration`: for a caller whose clock is late.
const KEPT_AFTER_EXPIRATION: Duration = Duration::from_secs(60 * 60);

/// The longest time to live: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 24 * 60 * 60;

/// The arguments of the script, in order.
pub(crate) type Arguments = Vec<Vec<u8>>;

/// Why a write cannot be rendered: the largest value has so many bytes, or there are too many fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Bytes(usize),
    Fields(usize),
}

/// Returns the arguments of a write. `now` is the time of this process: the server's TTL is the rest of the record's window.
///
/// # Errors
///
/// If a value is larger than the store accepts.
pub(crate) fn write(record: RecordWrite<'_>, now: EpochSeconds) -> Result<Arguments, TooLarge> {
    let RecordWrite {
        write, condition, ..
    } = record;
    let kind = match write {
        Write::Put(_) => "put",
        Write::Update(_) => "update",
        Write::Delete => "delete",
        Write::Step { .. } => "step",
    };
    let mut arguments = vec![kind.into()];
    render(condition, &mut arguments);
    let (set, remove): (&Record, &[Attribute]) = match write {
        Write::Put(record) => (record, &[]),
        Write::Update(change) => (&change.set, &change.remove),
        Write::Delete => return Ok(arguments),
        Write::Step { name, result } => {
            let step = (format!("{STEP}{name}"), result.as_str().into());
            let change = Changed {
                life: Life::Same,
                drops_steps: false,
                removed: Vec::new(),
                set: vec![step],
            };
            return change.add_to(arguments);
        }
    };
    let is_removed = |attribute| remove.contains(&attribute);
    let fields = set
        .fields()
        .filter(|(attribute, _)| !is_removed(*attribute));
    let has_steps = set.steps.exists() || is_removed(Attribute::Steps);
    let life = match set.expiration.value() {
        _ if is_removed(Attribute::Expiration) => Life::Never,
        Some(expiration) => Life::of(*expiration, now),
        None => Life::Same,
    };
    let mut removed: Vec<_> = remove.iter().map(|it| it.default_name()).collect();
    removed.dedup();
    Changed {
        life,
        drops_steps: has_steps && matches!(write, Write::Update(_)),
        removed,
        set: fields
            .flat_map(|(attribute, value)| written(attribute, value))
            .collect(),
    }
    .add_to(arguments)
}

/// Returns the arguments with which the script shows a record in a listing if the condition holds for it.
pub(crate) fn list(filter: Option<&Condition>) -> Arguments {
    let mut arguments = vec!["list".into()];
    render(
        filter.unwrap_or(&Condition::All(Vec::new())),
        &mut arguments,
    );
    arguments
}

/// Returns the arguments with which the script tries what a write can need.
pub(crate) fn probe() -> Arguments {
    ["probe", "all", "0"].map(Into::into).to_vec()
}

/// What a write changes, in the order of the arguments.
struct Changed {
    life: Life,
    drops_steps: bool,
    removed: Vec<&'static str>,
    set: Vec<(String, Vec<u8>)>,
}

impl Changed {
    fn add_to(self, mut arguments: Arguments) -> Result<Arguments, TooLarge> {
        if self.set.len() > MOST_FIELDS {
            return Err(TooLarge::Fields(self.set.len()));
        }
        let largest = self
            .set
            .iter()
            .map(|(name, value)| name.len().max(value.len()));
        if let Some(bytes) = largest.max().filter(|bytes| *bytes > LARGEST_VALUE) {
            return Err(TooLarge::Bytes(bytes));
        }
        arguments.push(match self.life {
            Life::Same => "same".into(),
            Life::Never => "never".into(),
            Life::Seconds(seconds) => seconds.to_string().into(),
        });
        arguments.push(if self.drops_steps { "1" } else { "0" }.into());
        arguments.push(self.removed.len().to_string().into());
        arguments.extend(self.removed.into_iter().map(Into::into));
        arguments.extend([FORMAT.0.into(), FORMAT.1.into()]);
        let set = self.set.into_iter();
        arguments.extend(set.flat_map(|(name, value)| [name.into_bytes(), value]));
        Ok(arguments)
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
    /// Returns the life of a record that expires at this time.
    ///
    /// It is at least the time that an expired record is kept, also if a clock is wrong: a write makes no record vanish.
    fn of(expiration: EpochSeconds, now: EpochSeconds) -> Self {
        let left = expiration.get().saturating_sub(now.get()).max(0);
        let after = i64::try_from(KEPT_AFTER_EXPIRATION.as_secs()).unwrap_or(i64::MAX);
        Self::Seconds(left.saturating_add(after).min(LONGEST_LIFE))
    }
}

/// Returns the fields of an attribute: its own, and those of its steps.
fn written(attribute: Attribute, value: FieldValue<'_>) -> Vec<(String, Vec<u8>)> {
    let name = attribute.default_name();
    let one = |value: &str| vec![(name.to_owned(), value.into())];
    match value {
        FieldValue::Seconds(at) => one(&at.get().to_string()),
        FieldValue::Millis(at) => one(&at.get().to_string()),
        FieldValue::Text(text) => one(text),
        FieldValue::Data(data) => one(data.as_str()),
        FieldValue::Event(event) => one(event.stored()),
        FieldValue::Steps(steps) => {
            let mut fields = one("");
            let steps = steps.iter();
            fields.extend(
                steps.map(|(step, result)| (format!("{STEP}{step}"), result.as_str().into())),
            );
            fields
        }
    }
}

/// Adds a condition: its kind, then its parts. A group says how many arguments its parts are, so that the script can skip them.
fn render(condition: &Condition, arguments: &mut Arguments) {
    let mut compare = |kind: &str, attribute: Attribute, operand: &Operand| {
        let (of_numbers, operand) = match operand {
            Operand::Text(text) => ("", text.clone()),
            Operand::Seconds(at) => ("n-", at.get().to_string()),
            Operand::Millis(at) => ("n-", at.get().to_string()),
        };
        let kind = format!("{of_numbers}{kind}");
        arguments.extend([&kind, attribute.default_name(), &operand].map(Into::into));
    };
    match condition {
        Condition::Equals(it, operand) if operand.fits(*it) => compare("equals", *it, operand),
        Condition::Differs(it, operand) if operand.fits(*it) => compare("differs", *it, operand),
        Condition::Below(it, operand) if operand.fits(*it) => compare("below", *it, operand),
        // The attribute never has a value of this kind: an empty `any` does not hold, and an empty `all` does.
        Condition::Equals(..) | Condition::Below(..) => group("any", &[], arguments),
        Condition::Differs(..) => group("all", &[], arguments),
        Condition::NoRecord => arguments.push("none".into()),
        Condition::Exists(it) => arguments.extend(["exists", it.default_name()].map(Into::into)),
        Condition::Missing(it) => arguments.extend(["missing", it.default_name()].map(Into::into)),
        Condition::All(parts) => group("all", parts, arguments),
        Condition::Any(parts) => group("any", parts, arguments),
    }
}

fn group(kind: &str, parts: &[Condition], arguments: &mut Arguments) {
    arguments.extend([kind.into(), Vec::new()]);
    let first = arguments.len();
    parts.iter().for_each(|part| render(part, arguments));
    arguments[first - 1] = (arguments.len() - first).to_string().into();
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idempotency_core::protocol::condition::{claimable, held_by};
    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::record::{Data, Field, OwnerToken, RecordId, Status, StoredEvent};
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
        shown(&super::write(record, NOW).unwrap())
    }

    fn shown(arguments: &Arguments) -> String {
        let texts = arguments.iter().map(|it| match it.is_empty() {
            true => "''".to_owned(),
            false => String::from_utf8(it.clone()).unwrap(),
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
            "put none 7200 0 0 v 1 expiration 1700003600 in_progress_expiration 1700000900000 status INPROGRESS data {\"id\":7} \
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
            let life = Life::of(EpochSeconds::new(expiration), NOW);
            assert_eq!(life, Life::Seconds(seconds), "{expiration}");
        }
        let held = NOW.plus(Duration::from_secs(10 * 365 * 24 * 60 * 60));
        assert!(Life::of(held, NOW) != Life::Seconds(LONGEST_LIFE));
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
            super::write(write, NOW).map(drop)
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

    #[test]
    fn the_script_has_the_names_that_are_rendered() {
        let steps = Attribute::Steps.default_name();
        let in_script = [
            format!("record.{}", Attribute::Event.default_name()),
            format!("record.{steps}"),
            format!("'{}'", Attribute::Data.default_name()),
            format!(":sub(1, {}) == '{STEP}'", STEP.len()),
            format!("'HSET', key, '{}', '{}'", FORMAT.0, FORMAT.1),
        ];
        for text in in_script {
            assert!(SCRIPT.contains(&text), "{text}");
        }
    }
}

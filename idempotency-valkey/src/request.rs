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

/// Adds a condition: its kind, then its parts. A comparison with an operand that does not fit never holds, so it needs no kind of its own.
fn render(condition: &Condition, arguments: &mut Arguments) {
    let compared = |kind: &str, attribute: &Attribute, operand: &Operand| {
        if !operand.fits(*attribute) {
            // As in `Condition::holds`: nothing holds but that they differ.
            let kind = if kind == "differs" { "all" } else { "any" };
            return vec![kind.into(), "0".into()];
        }
        let (type_, operand) = match operand {
            Operand::Text(text) => ("text", text.clone()),
            Operand::Seconds(at) => ("number", at.get().to_string()),
            Operand::Millis(at) => ("number", at.get().to_string()),
        };
        let name = attribute.default_name();
        [kind, name, type_, &operand].map(Into::into).to_vec()
    };
    match condition {
        Condition::NoRecord => arguments.push("none".into()),
        Condition::Exists(it) => arguments.extend(["exists", it.default_name()].map(Into::into)),
        Condition::Missing(it) => arguments.extend(["missing", it.default_name()].map(Into::into)),
        Condition::Equals(it, operand) => arguments.extend(compared("equals", it, operand)),
        Condition::Differs(it, operand) => arguments.extend(compared("differs", it, operand)),
        Condition::Below(it, operand) => arguments.extend(compared("below", it, operand)),
        Condition::All(parts) | Condition::Any(parts) => {
            let kind = if matches!(condition, Condition::All(_)) {
                "all"
            } else {
                "any"
            };
            arguments.extend([kind.into(), parts.len().to_string().into()]);
            parts.iter().for_each(|part| render(part, arguments));
        }
    }
}

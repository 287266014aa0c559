//! A write as a run of the script: what it does, its condition, and what it changes.
//!
//! A record is one hash. Its fields have the names of the attributes, numbers are decimal texts, and each recorded result of a step is a
//! field of its own. A long value is one frame of zstd, whose first bytes are no text. The stored format is frozen: the tests compare it.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::compression::compress;
use idempotency_core::record::{Attribute, FieldValue, Record, RecordedSteps, Status};
use idempotency_core::store::retention::{CLAIM_KEPT_AFTER_EXPIRATION, KEPT_AFTER_EXPIRATION};
use idempotency_core::store::{
    Change, Condition, Operand, RecordWrite, StoreError, StoreErrorKind, Write,
};
use idempotency_core::time::EpochSeconds;
use redis::{Arg, Cmd};

use crate::script::{Form, Script, Scripts};

/// What the name of a step's field begins with.
pub(crate) const STEP: &str = "step:";

/// The largest value of a field, in bytes. A server takes 512 MB, but performs one command at a time.
pub(crate) const LARGEST_VALUE: usize = 16 * 1024 * 1024;

/// The most fields of one write. Lua passes at most 8,000 values to a function.
const MOST_FIELDS: usize = 3_000;

/// The longest time to live: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 24 * 60 * 60;

/// One run of the script on the record with this key.
pub(crate) struct Request {
    pub(crate) key: String,
    pub(crate) script: Arc<Script>,
    /// Runs the script by its digest. After the kind it has the operands of the condition, then what is written: for how many seconds the
    /// server keeps the record, if the write sets `expiration`, the values of the attributes that it sets, and steps with their names.
    pub(crate) command: Cmd,
    compress_above: Option<usize>,
}

impl Request {
    fn new(scripts: &Scripts, key: String, form: Form, condition: &Condition) -> Self {
        let script = scripts.of(form, condition);
        let mut command = Cmd::with_capacity(24, 768);
        command.arg("EVALSHA").arg(&script.digest);
        command.arg(1).arg(&key).arg(form.kind);
        add_operands(&mut command, condition);
        Self {
            key,
            script,
            command,
            compress_above: None,
        }
    }

    /// Returns what returns the record: a condition that never holds.
    pub(crate) fn read(scripts: &Scripts, key: String) -> Self {
        Self::new(scripts, key, Form::READ, &Condition::Any(Vec::new()))
    }

    /// Returns what tries each command that a write can need.
    pub(crate) fn probe(scripts: &Scripts, key: String) -> Self {
        Self::new(scripts, key, Form::PROBE, &Condition::All(Vec::new()))
    }

    /// Returns what performs a write. `now` is the time of this process: the server's TTL is the rest of the record's window. A response, a
    /// result of a step or an event of more bytes than `compress_above` is compressed, if it becomes smaller.
    ///
    /// # Errors
    ///
    /// If a value is larger than the store accepts.
    pub(crate) fn write(
        scripts: &Scripts,
        key: String,
        record: RecordWrite<'_>,
        now: EpochSeconds,
        compress_above: Option<usize>,
    ) -> Result<Self, StoreError> {
        let form = Form::of(record.write);
        let mut request = Self::new(scripts, key, form, record.condition);
        request.compress_above = compress_above;
        match record.write {
            Write::Put(set) | Write::Update(Change { set, .. }) => request.set(set, form, now)?,
            Write::Delete => {}
            Write::Step { name, result } => request.step(name, result.as_str())?,
        }
        Ok(request)
    }

    /// Returns the command with the whole text of the script, with which the server keeps it.
    pub(crate) fn whole(&self) -> Cmd {
        let mut whole = redis::cmd("EVAL");
        whole.arg(&self.script.text);
        for argument in self.command.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                whole.arg(argument);
            }
        }
        whole
    }

    /// Adds what a put or an update writes, in the order in which the script names it.
    fn set(&mut self, set: &Record, form: Form, now: EpochSeconds) -> Result<(), StoreError> {
        if let Some(expiration) = set.expiration.value()
            && form.sets(Attribute::Expiration)
        {
            let kept = match set.status.value() {
                Some(Status::Completed) => KEPT_AFTER_EXPIRATION,
                _ => CLAIM_KEPT_AFTER_EXPIRATION,
            };
            self.command.arg(life(*expiration, now, kept));
        }
        let above = self.compress_above;
        let fields = set.fields().filter(|(it, _)| form.sets(*it));
        for (_, value) in fields {
            match value {
                FieldValue::Seconds(at) => drop(self.command.arg(at.get())),
                FieldValue::Millis(at) => drop(self.command.arg(at.get())),
                FieldValue::Text(text) => self.value(text, None)?,
                FieldValue::Data(data) => self.value(data.as_str(), above)?,
                FieldValue::Event(event) => self.value(event.stored(), above)?,
                FieldValue::Steps(steps) if steps.len() >= MOST_FIELDS => {
                    return Err(too_large(&format!("{} steps", steps.len())));
                }
                FieldValue::Steps(_) => {}
            }
        }
        let steps = set.steps.value();
        let steps = steps.filter(|_| form.sets(Attribute::Steps));
        for (name, result) in steps.into_iter().flat_map(RecordedSteps::iter) {
            self.step(name, result.as_str())?;
        }
        Ok(())
    }

    fn step(&mut self, name: &str, result: &str) -> Result<(), StoreError> {
        self.value(&format!("{STEP}{name}"), None)?;
        self.value(result, self.compress_above)
    }

    /// Adds a text. It is compressed if it has more than `above` bytes: it can be long, and no condition of the protocol compares it.
    fn value(&mut self, value: &str, above: Option<usize>) -> Result<(), StoreError> {
        let bytes = value.len();
        if bytes > LARGEST_VALUE {
            let what = format!("a value of {bytes} bytes, and at most {LARGEST_VALUE} are stored");
            return Err(too_large(&what));
        }
        let is_long = above.is_some_and(|above| bytes > above);
        let compressed = is_long.then(|| compress(value, bytes)).flatten();
        let value = compressed.as_deref().unwrap_or(value.as_bytes());
        self.command.arg(value);
        Ok(())
    }
}

fn too_large(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::TooLarge, format!("the record has {what}"))
}

/// Adds the operands of a condition, in the order in which the script names them.
fn add_operands(command: &mut Cmd, condition: &Condition) {
    match condition {
        Condition::Equals(it, value)
        | Condition::Differs(it, value)
        | Condition::Below(it, value)
            if value.fits(*it) =>
        {
            match value {
                Operand::Text(text) => command.arg(text),
                Operand::Seconds(at) => command.arg(at.get()),
                Operand::Millis(at) => command.arg(at.get()),
            };
        }
        Condition::All(parts) | Condition::Any(parts) => {
            parts.iter().for_each(|part| add_operands(command, part));
        }
        _ => {}
    }
}

/// Returns for how many seconds the server keeps a record that expires at this time, and is `kept` afterwards.
///
/// It is at least `kept`, also if a clock is wrong: a write makes no record vanish.
fn life(expiration: EpochSeconds, now: EpochSeconds, kept: Duration) -> i64 {
    let left = expiration.get().saturating_sub(now.get()).max(0);
    let after = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
    left.saturating_add(after).min(LONGEST_LIFE)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idempotency_core::protocol::condition::held_by;
    use idempotency_core::record::{Data, Field, OwnerToken, RecordId, StoredEvent};
    use idempotency_core::store::Change;
    use idempotency_core::time::EpochMillis;

    use super::*;

    const NOW: EpochSeconds = EpochSeconds::new(1_700_000_000);

    /// Renders a write of a record.
    fn rendered(
        write: &Write,
        condition: &Condition,
        above: Option<usize>,
    ) -> Result<Request, StoreError> {
        let id = RecordId::new("pay#1");
        let record = RecordWrite {
            id: &id,
            write,
            condition,
        };
        Request::write(&Scripts::default(), "key".to_owned(), record, NOW, above)
    }

    /// Returns the arguments from the kind on as one line. An empty one is `''`.
    fn line(write: &Write, condition: &Condition) -> String {
        let words = words(&rendered(write, condition, None).unwrap().command);
        assert_eq!(
            (&*words[0], &*words[2], &*words[3]),
            (&b"EVALSHA"[..], &b"1"[..], &b"key"[..])
        );
        let words = words.into_iter().skip(4).map(|word| match word.is_empty() {
            true => "''".to_owned(),
            false => String::from_utf8(word).unwrap(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn words(command: &Cmd) -> Vec<Vec<u8>> {
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(word) => word.to_vec(),
            _ => panic!("an argument is a text"),
        });
        words.collect()
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
    fn a_put_writes_the_value_of_every_attribute_in_this_form() {
        // Frozen: it is the stored format.
        let put = Write::Put(full());
        assert_eq!(
            line(&put, &Condition::NoRecord),
            "put 1213200 1700003600 1700000900000 INPROGRESS {\"id\":7} c4ca 07 Timeout shop::pay {} {\"all\":1} [] step:a b 2"
        );
        let request = rendered(&put, &Condition::NoRecord, None).unwrap();
        let names = "'expiration', arguments[3], 'in_progress_expiration', arguments[4], 'status', arguments[5], 'data', arguments[6], \
                     'validation', arguments[7], 'owner', arguments[8], 'failure', arguments[9], 'operation', arguments[10], \
                     'decision', arguments[11], 'event', arguments[12], 'steps', '', 'undo', arguments[13], unpack(arguments, 14))";
        assert!(request.script.text.contains(names));
        assert_eq!(
            line(&Write::Put(Record::default()), &Condition::NoRecord),
            "put"
        );
    }

    #[test]
    fn an_update_has_the_values_that_are_set_and_a_removal_takes_precedence() {
        let always = Condition::All(Vec::new());
        let update = |set, remove: &[Attribute]| {
            let remove = remove.to_vec();
            line(&Write::Update(Change { set, remove }), &always)
        };
        let owner = Record {
            owner: full().owner,
            ..Record::default()
        };
        assert_eq!(update(owner.clone(), &[]), "update 07");
        let removed = [Attribute::Owner, Attribute::Steps, Attribute::Expiration];
        assert_eq!(update(owner, &removed), "update");
        let steps = Record {
            steps: full().steps,
            ..Record::default()
        };
        assert_eq!(update(steps, &[]), "update step:a b 2");
    }

    #[test]
    fn a_delete_and_a_step_have_no_more_than_they_need() {
        let none = Condition::NoRecord;
        assert_eq!(line(&Write::Delete, &none), "delete");
        let step = Write::Step {
            name: "a:b".to_owned(),
            result: Data::new("7"),
        };
        assert_eq!(line(&step, &none), "step step:a:b 7");
    }

    #[test]
    fn the_operands_of_a_condition_are_arguments_and_the_whole_script_has_the_same() {
        let condition = held_by(&OwnerToken::from_record("07".to_owned()));
        assert_eq!(line(&Write::Delete, &condition), "delete 07 INPROGRESS");
        let request = rendered(&Write::Put(full()), &condition, None).unwrap();
        let (short, whole) = (words(&request.command), words(&request.whole()));
        assert_eq!(short[2..], whole[2..]);
        assert_eq!(
            (&*whole[0], &*whole[1]),
            (&b"EVAL"[..], request.script.text.as_bytes())
        );
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
            let life = life(EpochSeconds::new(expiration), NOW, KEPT_AFTER_EXPIRATION);
            assert_eq!(life, seconds, "{expiration}");
        }
        let held = NOW.plus(Duration::from_secs(10 * 365 * 24 * 60 * 60));
        assert!(life(held, NOW, CLAIM_KEPT_AFTER_EXPIRATION) < LONGEST_LIFE);
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
            assert!(line.starts_with(&format!("update {seconds} ")), "{line}");
        }
    }

    #[test]
    fn a_value_that_is_too_large_and_too_many_steps_are_refused() {
        let written = |record| match rendered(&Write::Put(record), &Condition::NoRecord, None) {
            Ok(_) => String::new(),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::TooLarge);
                error.to_string()
            }
        };
        let long = |bytes| Record {
            data: Field::Value(Data::new("x".repeat(bytes))),
            ..Record::default()
        };
        assert_eq!(written(long(LARGEST_VALUE)), "");
        let error = written(long(LARGEST_VALUE + 1));
        assert!(error.contains("a value of 16777217 bytes"), "{error}");
        let steps = (0..MOST_FIELDS).map(|step| (step.to_string(), Data::new("1")));
        let steps = Record {
            steps: Field::Value(steps.collect()),
            ..Record::default()
        };
        assert_eq!(written(steps), "the record has 3000 steps");
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
        let write = |above| {
            let words = words(&rendered(&put, &Condition::NoRecord, above).unwrap().command);
            let values = words.into_iter().skip(5).map(|value| value.len());
            values.collect::<Vec<_>>().try_into().unwrap()
        };
        let [data, event, undo, _, step]: [usize; 5] = write(Some(20_000 - 1));
        assert!(data < 1_000 && event < 1_000 && step < 1_000 && undo == 20_000);
        assert_eq!(write(Some(30_000)), [20_000, 20_010, 20_000, 6, 20_000]);
        assert_eq!(write(None), write(Some(30_000)));
    }
}

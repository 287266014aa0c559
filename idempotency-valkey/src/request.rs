//! A write as a run of the script: what it does, its condition, and what it changes.
//!
//! A record is one hash. Its fields have the names of the attributes, numbers are decimal texts, and each recorded result of a step is a
//! field of its own. A long value is one frame of zstd, whose first bytes are no text. The stored format is frozen: the tests compare it.

use std::time::Duration;

use idempotency_core::compression::compress;
use idempotency_core::record::{Attribute, FieldValue, Record, Status};
use idempotency_core::store::retention::{CLAIM_KEPT_AFTER_EXPIRATION, KEPT_AFTER_EXPIRATION};
use idempotency_core::store::{Condition, Operand, RecordWrite, Write};
use idempotency_core::time::EpochSeconds;
use redis::Cmd;

const SCRIPT: &str = include_str!("script.lua");

/// What a condition needs that compares more than whether two texts are equal.
const COMPARE: &str = include_str!("compare.lua");

/// The field that each record has, so that one without attributes is a record too. Its value is the version of the format.
pub(crate) const FORMAT: (&str, &str) = ("v", "1");

/// What the name of a step's field begins with.
pub(crate) const STEP: &str = "step:";

/// The largest value of a field, in bytes. A server takes 512 MB, but performs one command at a time.
pub(crate) const LARGEST_VALUE: usize = 16 * 1024 * 1024;

/// The most fields of one write. Lua passes at most 8,000 values to a function.
const MOST_FIELDS: usize = 3_000;

/// The longest time to live: a hundred years.
const LONGEST_LIFE: i64 = 100 * 365 * 24 * 60 * 60;

/// Why a write cannot be rendered: a value has so many bytes, or there are so many fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Bytes(usize),
    Fields(usize),
}

/// What distinguishes one text of the script from another.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// True if the whole record is read at once: it is returned, or its steps are dropped. Otherwise first what the condition names.
    reads_all: bool,
    condition: String,
    /// Whether the condition holds without a record.
    holds_for_none: bool,
    compares: bool,
    life: &'static str,
    removed: Vec<&'static str>,
    drops_steps: bool,
    /// The argument with the first field that is written.
    first: usize,
}

impl Shape {
    /// Returns the script.
    pub(crate) fn script(&self) -> String {
        let quoted = |names: &[&str]| names.iter().map(|it| format!("'{it}', ")).collect();
        let mut names = vec![FORMAT.0, Attribute::Steps.default_name()];
        let all = Attribute::ALL.map(Attribute::default_name).into_iter();
        names.extend(all.filter(|name| self.condition.contains(&format!("record.{name} "))));
        if self.reads_all {
            names.clear();
        }
        let texts: [(&str, String); 8] = [
            ("$NAMES", quoted(&names)),
            ("$NOTHING", self.holds_for_none.to_string()),
            (
                "$COMPARE",
                if self.compares { COMPARE } else { "" }.to_owned(),
            ),
            ("$CONDITION", self.condition.clone()),
            ("$LIFE", self.life.to_owned()),
            ("$REMOVED", quoted(&self.removed)),
            ("$DROPS", self.drops_steps.to_string()),
            ("$FIRST", self.first.to_string()),
        ];
        let texts = texts.iter();
        texts.fold(SCRIPT.to_owned(), |script, (word, text)| {
            script.replace(word, text)
        })
    }
}

/// One run of the script.
pub(crate) struct Request {
    kind: &'static str,
    pub(crate) shape: Shape,
    pub(crate) arguments: Cmd,
}

impl Request {
    fn new(kind: &'static str, condition: &Condition) -> Self {
        let mut request = Self {
            kind,
            shape: Shape {
                reads_all: matches!(kind, "put" | "read"),
                condition: String::with_capacity(512),
                holds_for_none: condition.holds(None),
                ..Shape::default()
            },
            arguments: Cmd::with_capacity(32, 1_024),
        };
        request.arguments.arg(kind);
        request.render(condition);
        request
    }

    /// Returns what returns the record: a condition that never holds.
    pub(crate) fn read() -> Self {
        Self::new("read", &Condition::Any(Vec::new()))
    }

    /// Returns what tries each command that a write can need.
    pub(crate) fn probe() -> Self {
        Self::new("probe", &Condition::All(Vec::new()))
    }

    /// Returns what performs a write. `now` is the time of this process: the server's TTL is the rest of the record's window. A response, a
    /// result of a step or an event of more bytes than `compress_above` is compressed, if it becomes smaller.
    ///
    /// # Errors
    ///
    /// If a value is larger than the store accepts.
    pub(crate) fn write(
        record: RecordWrite<'_>,
        now: EpochSeconds,
        compress_above: Option<usize>,
    ) -> Result<Self, TooLarge> {
        let kind = match record.write {
            Write::Put(_) => "put",
            Write::Update(_) => "update",
            Write::Delete => "delete",
            Write::Step { .. } => "step",
        };
        let mut request = Self::new(kind, record.condition);
        match record.write {
            Write::Put(put) => request.set(put, &[], now, compress_above)?,
            Write::Update(change) => {
                request.set(&change.set, &change.remove, now, compress_above)?
            }
            Write::Delete => {}
            Write::Step { name, result } => {
                request.begin_fields();
                request.step(name, result.as_str(), compress_above)?;
            }
        }
        // Each is a name and a value, the first one that of the format.
        match (request.count() - request.shape.first) / 2 {
            0..=MOST_FIELDS => Ok(request),
            fields => Err(TooLarge::Fields(fields)),
        }
    }

    /// Adds what a put or an update writes. A removal takes precedence.
    fn set(
        &mut self,
        set: &Record,
        remove: &[Attribute],
        now: EpochSeconds,
        compress_above: Option<usize>,
    ) -> Result<(), TooLarge> {
        let is_put = self.kind == "put";
        self.shape.removed = remove.iter().map(|it| it.default_name()).collect();
        let is_removed = |attribute| remove.contains(&attribute);
        if !is_put && (set.steps.exists() || is_removed(Attribute::Steps)) {
            (self.shape.drops_steps, self.shape.reads_all) = (true, true);
        }
        self.shape.life = match set.expiration.value() {
            _ if is_removed(Attribute::Expiration) => "never",
            Some(expiration) => {
                let kept = match set.status.value() {
                    Some(Status::Completed) => KEPT_AFTER_EXPIRATION,
                    _ => CLAIM_KEPT_AFTER_EXPIRATION,
                };
                self.arguments.arg(life(*expiration, now, kept));
                "until"
            }
            None if is_put => "never",
            None => "same",
        };
        self.begin_fields();
        for (attribute, value) in set.fields().filter(|(it, _)| !is_removed(*it)) {
            let name = attribute.default_name();
            match value {
                FieldValue::Seconds(at) => {
                    self.arguments.arg(name).arg(at.get());
                }
                FieldValue::Millis(at) => {
                    self.arguments.arg(name).arg(at.get());
                }
                FieldValue::Text(text) => self.field(name, text, None)?,
                FieldValue::Data(data) => self.field(name, data.as_str(), compress_above)?,
                FieldValue::Event(event) => self.field(name, event.stored(), compress_above)?,
                FieldValue::Steps(steps) => {
                    self.field(name, "", None)?;
                    for (name, result) in steps.iter() {
                        self.step(name, result.as_str(), compress_above)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_fields(&mut self) {
        self.shape.first = self.count() + 1;
        self.arguments.arg(FORMAT.0).arg(FORMAT.1);
    }

    fn count(&self) -> usize {
        self.arguments.args_iter().len()
    }

    fn step(&mut self, name: &str, result: &str, above: Option<usize>) -> Result<(), TooLarge> {
        self.field(&format!("{STEP}{name}"), result, above)
    }

    /// Adds a field. Its value is compressed if it has more than `above` bytes: it can be long, and no condition of the protocol compares it.
    fn field(&mut self, name: &str, value: &str, above: Option<usize>) -> Result<(), TooLarge> {
        let bytes = name.len().max(value.len());
        if bytes > LARGEST_VALUE {
            return Err(TooLarge::Bytes(bytes));
        }
        let is_long = above.is_some_and(|above| value.len() > above);
        let compressed = is_long.then(|| compress(value, value.len())).flatten();
        let value = compressed.as_deref().unwrap_or(value.as_bytes());
        self.arguments.arg(name).arg(value);
        Ok(())
    }

    /// Adds a condition, as an expression of Lua on a record that exists.
    fn render(&mut self, condition: &Condition) {
        match condition {
            Condition::Equals(it, value) if value.fits(*it) => self.compare(it, value, "=="),
            Condition::Differs(it, value) if value.fits(*it) => self.compare(it, value, "~="),
            Condition::Below(it, value) if value.fits(*it) => self.compare(it, value, "<"),
            // The attribute never has a value of this kind.
            Condition::Equals(..) | Condition::Below(..) | Condition::NoRecord => {
                self.group(&[], "false", "")
            }
            Condition::Differs(..) => self.group(&[], "true", ""),
            Condition::Exists(it) => self.text(&format!("record.{} ~= nil", it.default_name())),
            Condition::Missing(it) => self.text(&format!("record.{} == nil", it.default_name())),
            Condition::All(parts) => self.group(parts, "true", " and "),
            Condition::Any(parts) => self.group(parts, "false", " or "),
        }
    }

    /// Adds a comparison with an operand. What cannot be compared is different, and not below.
    fn compare(&mut self, attribute: &Attribute, operand: &Operand, operator: &str) {
        let function = match operand {
            Operand::Text(text) => {
                self.arguments.arg(text);
                if operator == "<" { "bytes" } else { "" }
            }
            Operand::Seconds(at) => {
                self.arguments.arg(at.get());
                "numbers"
            }
            Operand::Millis(at) => {
                self.arguments.arg(at.get());
                "numbers"
            }
        };
        let (name, number) = (attribute.default_name(), self.count());
        self.shape.compares |= !function.is_empty();
        self.text(&match function {
            "" => format!("record.{name} {operator} arguments[{number}]"),
            _ => format!("({function}(record.{name} , arguments[{number}]) or 1) {operator} 0"),
        });
    }

    fn text(&mut self, text: &str) {
        self.shape.condition.push_str(text);
    }

    fn group(&mut self, parts: &[Condition], of_none: &str, between: &str) {
        self.text("(");
        for (number, part) in parts.iter().enumerate() {
            self.text(if number > 0 { between } else { "" });
            self.render(part);
        }
        self.text(if parts.is_empty() { of_none } else { "" });
        self.text(")");
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

    use idempotency_core::protocol::condition::{claimable, held_by};
    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::record::{Data, Field, OwnerToken, RecordId, StoredEvent};
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
        shown(&Request::write(record, NOW, None).unwrap())
    }

    /// Returns the kind, the life, what is removed, and the arguments from the first field on, with the condition's operands before them.
    fn shown(request: &Request) -> String {
        let Shape {
            life,
            removed,
            drops_steps,
            first,
            ..
        } = &request.shape;
        let mut words = vec![request.kind.to_owned()];
        words.extend(
            [life, &*removed.join("+")]
                .iter()
                .filter(|it| !it.is_empty())
                .map(|it| it.to_string()),
        );
        words.extend(drops_steps.then(|| "drops".to_owned()));
        let arguments = arguments(request);
        let (before, fields) = arguments.split_at(first.saturating_sub(2).min(arguments.len()));
        words.extend(before.iter().cloned());
        words.push("|".to_owned());
        words.extend(fields.iter().cloned());
        words.join(" ")
    }

    /// Returns the arguments after the kind. An empty one is `''`.
    fn arguments(request: &Request) -> Vec<String> {
        let words = words(request)
            .into_iter()
            .skip(1)
            .map(|word| match word.is_empty() {
                true => "''".to_owned(),
                false => String::from_utf8(word).unwrap(),
            });
        words.collect()
    }

    fn words(request: &Request) -> Vec<Vec<u8>> {
        let words = request.arguments.args_iter().map(|word| match word {
            redis::Arg::Simple(word) => word.to_vec(),
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
    fn a_put_writes_every_attribute_in_this_form() {
        // Frozen: it is the stored format.
        assert_eq!(
            line(&Write::Put(full()), &Condition::NoRecord),
            "put until 1213200 | v 1 expiration 1700003600 in_progress_expiration 1700000900000 status INPROGRESS data {\"id\":7} \
             validation c4ca owner 07 failure Timeout operation shop::pay decision {} event {\"all\":1} steps '' step:a b 2 undo []"
        );
        assert_eq!(
            line(&Write::Put(Record::default()), &Condition::NoRecord),
            "put never | v 1"
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
        assert_eq!(update(owner.clone(), &[]), "update same | v 1 owner 07");
        let removed = [Attribute::Owner, Attribute::Steps, Attribute::Expiration];
        assert_eq!(
            update(owner, &removed),
            "update never owner+steps+expiration drops | v 1"
        );
        let steps = Record {
            steps: full().steps,
            ..Record::default()
        };
        assert_eq!(
            update(steps, &[]),
            "update same drops | v 1 steps '' step:a b 2"
        );
    }

    #[test]
    fn a_delete_and_a_step_have_no_more_than_they_need() {
        let none = Condition::NoRecord;
        assert_eq!(line(&Write::Delete, &none), "delete |");
        let step = Write::Step {
            name: "a:b".to_owned(),
            result: Data::new("7"),
        };
        assert_eq!(line(&step, &none), "step | v 1 step:a:b 7");
    }

    #[test]
    fn a_condition_is_an_expression_without_operands_and_says_what_it_reads() {
        let rendered = |condition: &Condition| {
            let request = Request::new("update", condition);
            let mut text = request.shape.condition.clone();
            for (number, operand) in arguments(&request).iter().enumerate().rev() {
                text = text.replace(&format!("arguments[{}]", number + 2), operand);
            }
            let script = request.shape.script();
            let (_, names) = script.split_once("names = {").unwrap();
            let (names, _) = names.split_once(", }").unwrap();
            let none = request.shape.holds_for_none;
            assert_eq!(script.contains("function numbers"), text.contains("or 1)"));
            format!("{text} {} {none}", names.replace("', '", "+"))
        };
        let now = EpochMillis::new(1_700_000_000_500);
        assert_eq!(
            rendered(&claimable(now, OnTimeout::Rerun)),
            "((false) or ((numbers(record.expiration , 1700000000) or 1) < 0 and (record.status ~= INPROGRESS or record.in_progress_expiration == nil or \
             (numbers(record.in_progress_expiration , 1700000000500) or 1) < 0)) or (record.status == INPROGRESS and \
             (numbers(record.in_progress_expiration , 1700000000500) or 1) < 0)) 'v+steps+expiration+in_progress_expiration+status' true"
        );
        let owner = OwnerToken::from_record("07".to_owned());
        assert_eq!(
            rendered(&held_by(&owner)),
            "(record.owner == 07 and record.status == INPROGRESS) 'v+steps+status+owner' false"
        );
        let seconds = || Operand::Seconds(EpochSeconds::new(-1));
        let below = Condition::Below(Attribute::Owner, Operand::Text("b".to_owned()));
        let lease = Attribute::InProgressExpiration;
        for (condition, expected) in [
            (
                below,
                "(bytes(record.owner , b) or 1) < 0 'v+steps+owner' false",
            ),
            (
                Condition::Below(Attribute::Expiration, seconds()),
                "(numbers(record.expiration , -1) or 1) < 0 'v+steps+expiration' false",
            ),
            (
                Condition::Below(lease, seconds()),
                "(false) 'v+steps' false",
            ),
            (
                Condition::Equals(Attribute::Owner, seconds()),
                "(false) 'v+steps' false",
            ),
            (
                Condition::Differs(lease, seconds()),
                "(true) 'v+steps' true",
            ),
            (
                Condition::Exists(Attribute::Failure),
                "record.failure ~= nil 'v+steps+failure' false",
            ),
            (Condition::All(Vec::new()), "(true) 'v+steps' true"),
        ] {
            assert_eq!(rendered(&condition), expected);
        }
    }

    #[test]
    fn a_script_has_no_word_left_and_one_shape_for_other_values() {
        let write = |owner: &str| {
            let id = RecordId::new("pay#1");
            let condition = held_by(&OwnerToken::from_record(owner.to_owned()));
            let change = Change {
                set: full(),
                remove: vec![Attribute::Event],
            };
            let record = RecordWrite {
                id: &id,
                write: &Write::Update(change),
                condition: &condition,
            };
            Request::write(record, NOW, None).unwrap().shape
        };
        let shape = write("07");
        assert!(shape == write("'] or true --"));
        let script = shape.script();
        assert!(!script.replace("$'", "").contains('$'), "{script}");
        assert!(script.contains("{'', 'event', }"), "{script}");
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
            let expected = format!("update until {seconds} | v 1 expiration");
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
            Request::write(write, NOW, None).map(drop)
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
            let request = Request::write(record, NOW, above).unwrap();
            let words = words(&request);
            let value = |name: &str| {
                let at = words.iter().rposition(|it| *it == name.as_bytes());
                words[at.unwrap() + 1].len()
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
            format!(":sub(1, {}) == '{STEP}'", STEP.len()),
            format!("'HSET', key, '{}', '{}'", FORMAT.0, FORMAT.1),
            format!("record.{} ~= '{}'", FORMAT.0, FORMAT.1),
        ];
        for text in in_script {
            assert!(SCRIPT.contains(&text), "{text}");
        }
    }
}

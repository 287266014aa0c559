//! The texts of the script: one for each form of request and condition. Operands and values are arguments, so there are about twenty.

use std::mem::discriminant;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use idempotency_core::record::Attribute;
use idempotency_core::store::{Condition, Operand, Write};

/// The field that each record has, so that one without attributes is a record too. Its value is the version of the format.
pub(crate) const FORMAT: (&str, &str) = ("v", "1");

const STEPS: &str = Attribute::Steps.default_name();

const SCRIPT: &str = include_str!("script.lua");

/// What a condition needs that compares more than whether two texts are equal.
const COMPARE: &str = include_str!("compare.lua");

/// Some attributes, each as a bit.
type Attributes = u16;

pub(crate) const fn bit(attribute: Attribute) -> Attributes {
    1 << attribute as u16
}

/// Returns the names of these attributes.
pub(crate) fn names(of: Attributes) -> impl Iterator<Item = &'static str> {
    let these = Attribute::ALL.into_iter();
    let these = these.filter(move |it| of & bit(*it) != 0);
    these.map(Attribute::default_name)
}

/// What a request does, without its values: those are arguments, because a server keeps each text that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Also the first argument, so that a reader of the commands sees what they do.
    pub(crate) kind: &'static str,
    set: Attributes,
    removed: Attributes,
}

impl Form {
    /// Returns the record: its condition never holds.
    pub(crate) const READ: Self = Self::of_kind("read");
    /// Tries each command that a write can need.
    pub(crate) const PROBE: Self = Self::of_kind("probe");

    const fn of_kind(kind: &'static str) -> Self {
        Self {
            kind,
            set: 0,
            removed: 0,
        }
    }

    /// Returns the form of a write. A removal takes precedence.
    pub(crate) fn of(write: &Write) -> Self {
        let (kind, set, remove) = match write {
            Write::Put(put) => ("put", put, &[][..]),
            Write::Update(change) => ("update", &change.set, &change.remove[..]),
            Write::Delete => return Self::of_kind("delete"),
            Write::Step { .. } => return Self::of_kind("step"),
        };
        let removed = remove.iter().fold(0, |all, it| all | bit(*it));
        let set = set.fields().fold(0, |all, (it, _)| all | bit(it)) & !removed;
        Self { kind, set, removed }
    }

    pub(crate) fn sets(self, attribute: Attribute) -> bool {
        self.set & bit(attribute) != 0
    }

    /// Returns true if the whole record is read at once: it is returned, or its steps are dropped. Otherwise first what the condition names.
    fn reads_all(self) -> bool {
        let of_steps = (self.set | self.removed) & bit(Attribute::Steps);
        matches!(self.kind, "put" | "read") || of_steps != 0
    }

    /// Returns the text of the script under a condition.
    fn text(self, condition: &Condition) -> String {
        let (mut last, mut named) = (1, 0);
        let expression = render(condition, &mut last, &mut named);
        let mut argument = || {
            last += 1;
            format!("arguments[{last}]")
        };
        match self.kind {
            "step" => named |= bit(Attribute::Steps),
            // The script asks whether there is one.
            "put" => named |= bit(Attribute::Event),
            _ => {}
        }
        let read: Vec<_> = [FORMAT.0].into_iter().chain(names(named)).collect();
        let values = match self.reads_all() {
            true => "{}".to_owned(),
            false => format!("redis.pcall('HMGET', key, '{}')", read.join("', '")),
        };
        let record = read.iter().zip(1..);
        let record = record.map(|(name, at)| format!("{name} = values[{at}] or false, "));
        let never = self.kind == "put" || self.removed & bit(Attribute::Expiration) != 0;
        let life = match self.sets(Attribute::Expiration) {
            true => format!("write('EXPIRE', key, {})", argument()),
            false if never => "write('PERSIST', key)".to_owned(),
            false => String::new(),
        };
        let removed = names(self.removed);
        let removed: String = removed.map(|name| format!(", '{name}'")).collect();
        let removal = match removed.is_empty() && !life.is_empty() {
            true => String::new(),
            false => format!("write('HDEL', key, ''{removed})"),
        };
        let fields = names(self.set).map(|name| match name {
            STEPS => format!("'{name}', '', "),
            _ => format!("'{name}', {}, ", argument()),
        });
        let fields: String = fields.collect();
        let more = last + 1;
        let set = [FORMAT.0].into_iter().chain(names(self.set));
        let set: String = set.map(|name| format!("{name} = true, ")).collect();
        let compares = ["bytes", "numbers"]
            .iter()
            .any(|it| expression.contains(it));
        let words = [
            ("$VALUES", &*values),
            ("$RECORD", &record.collect::<String>()),
            ("$NOTHING", &condition.holds(None).to_string()),
            ("$COMPARE", if compares { COMPARE } else { "" }),
            ("$CONDITION", &expression),
            ("$LIFE", &life),
            ("$REMOVAL", &removal),
            ("$FIELDS", &fields),
            ("$READS_ALL", &self.reads_all().to_string()),
            ("$SET", &set),
            ("$MORE", &more.to_string()),
        ];
        let text = SCRIPT.to_owned();
        words
            .iter()
            .fold(text, |text, (word, with)| text.replace(word, with))
    }
}

/// A text of the script, and its digest, by which the servers that have it know it.
pub(crate) struct Script {
    form: Form,
    /// With the operands of the first request.
    condition: Condition,
    pub(crate) text: String,
    pub(crate) digest: String,
    /// True if this process has run it. The first write sends the whole text, so that it need not be asked for it.
    pub(crate) is_sent: AtomicBool,
}

impl Script {
    fn new(form: Form, condition: &Condition) -> Self {
        let text = form.text(condition);
        Self {
            form,
            condition: condition.clone(),
            digest: redis::Script::new(&text).get_hash().to_owned(),
            text,
            is_sent: AtomicBool::new(false),
        }
    }
}

/// Returns the attributes that a condition names.
pub(crate) fn named(condition: &Condition) -> Attributes {
    let mut named = 0;
    render(condition, &mut 0, &mut named);
    named
}

/// The texts that a store has used.
#[derive(Default)]
pub(crate) struct Scripts(Mutex<Vec<Arc<Script>>>);

impl Scripts {
    /// Returns the text for a form of request and a condition of this form.
    pub(crate) fn of(&self, form: Form, condition: &Condition) -> Arc<Script> {
        // A panic cannot leave them half written, so a poisoned lock is still good.
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = scripts.iter();
        if let Some(script) = all.find(|it| it.form == form && is_like(&it.condition, condition)) {
            return Arc::clone(script);
        }
        let script = Arc::new(Script::new(form, condition));
        scripts.push(Arc::clone(&script));
        script
    }
}

/// Returns true if two conditions differ in the values of their operands alone.
fn is_like(one: &Condition, other: &Condition) -> bool {
    use Condition::{All, Any, Below, Differs, Equals};
    match (one, other) {
        (Equals(it, one), Equals(also, other))
        | (Differs(it, one), Differs(also, other))
        | (Below(it, one), Below(also, other)) => {
            it == also && discriminant(one) == discriminant(other)
        }
        (All(one), All(other)) | (Any(one), Any(other)) => {
            let mut parts = one.iter().zip(other);
            one.len() == other.len() && parts.all(|(one, other)| is_like(one, other))
        }
        _ => one == other,
    }
}

/// Returns a condition as an expression of Lua on a record that exists, and adds the attributes that it names. Its operands are arguments, of
/// which `last` is the number of the last one before.
fn render(condition: &Condition, last: &mut usize, named: &mut Attributes) -> String {
    let mut group = |parts: &[Condition], of_none: &str, between: &str| {
        let parts: Vec<_> = parts.iter().map(|part| render(part, last, named)).collect();
        match parts.is_empty() {
            true => of_none.to_owned(),
            false => format!("({})", parts.join(between)),
        }
    };
    let (attribute, operand, operator) = match condition {
        Condition::All(parts) => return group(parts, "true", " and "),
        Condition::Any(parts) => return group(parts, "false", " or "),
        Condition::NoRecord => return "false".to_owned(),
        Condition::Exists(it) => (it, None, "~="),
        Condition::Missing(it) => (it, None, "=="),
        Condition::Equals(it, value) => (it, Some(value), "=="),
        Condition::Differs(it, value) => (it, Some(value), "~="),
        Condition::Below(it, value) => (it, Some(value), "<"),
    };
    *named |= bit(*attribute);
    let name = attribute.default_name();
    // What cannot be compared is different, and not below.
    let compare = match (operand, operator) {
        (None, _) => return format!("record.{name} {operator} false"),
        // The attribute never has a value of this kind.
        (Some(value), _) if !value.fits(*attribute) => return (operator == "~=").to_string(),
        (Some(Operand::Text(_)), "<") => "bytes",
        (Some(Operand::Text(_)), _) => "",
        _ => "numbers",
    };
    *last += 1;
    match compare {
        "" => format!("record.{name} {operator} arguments[{last}]"),
        _ => format!("({compare}(record.{name}, arguments[{last}]) or 1) {operator} 0"),
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::protocol::condition::{claimable, held_by};
    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::record::{Data, Field, OwnerToken, Record, Status};
    use idempotency_core::store::Change;
    use idempotency_core::time::{EpochMillis, EpochSeconds};

    use super::*;
    use crate::request::STEP;

    /// Returns what a text has between these two.
    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        let (_, text) = text.split_once(from).unwrap();
        text.split_once(to).unwrap().0
    }

    #[test]
    fn a_condition_is_an_expression_without_operands_and_says_what_it_reads() {
        let rendered = |condition: &Condition| {
            let text = Form::of_kind("update").text(condition);
            let names = between(&text, "'HMGET', key, ", ")").replace("', '", "+");
            let expression = between(&text, "  holds = ", "\n");
            format!(
                "{expression} {names} {}",
                between(&text, "#flat > 0, ", "\n")
            )
        };
        let now = EpochMillis::new(1_700_000_000_500);
        assert_eq!(
            rendered(&claimable(now, OnTimeout::Rerun)),
            "(false or ((numbers(record.expiration, arguments[2]) or 1) < 0 and (record.status ~= arguments[3] or record.in_progress_expiration == false \
             or (numbers(record.in_progress_expiration, arguments[4]) or 1) < 0)) or (record.status == arguments[5] and \
             (numbers(record.in_progress_expiration, arguments[6]) or 1) < 0)) 'v+expiration+in_progress_expiration+status' true"
        );
        let owner = OwnerToken::from_record("07".to_owned());
        assert_eq!(
            rendered(&held_by(&owner)),
            "(record.owner == arguments[2] and record.status == arguments[3]) 'v+status+owner' false"
        );
        let seconds = || Operand::Seconds(EpochSeconds::new(-1));
        let below = Condition::Below(Attribute::Owner, Operand::Text("b".to_owned()));
        let lease = Attribute::InProgressExpiration;
        for (condition, expected) in [
            (
                below,
                "(bytes(record.owner, arguments[2]) or 1) < 0 'v+owner' false",
            ),
            (
                Condition::Below(Attribute::Expiration, seconds()),
                "(numbers(record.expiration, arguments[2]) or 1) < 0 'v+expiration' false",
            ),
            (
                Condition::Below(lease, seconds()),
                "false 'v+in_progress_expiration' false",
            ),
            (
                Condition::Equals(Attribute::Owner, seconds()),
                "false 'v+owner' false",
            ),
            (
                Condition::Differs(lease, seconds()),
                "true 'v+in_progress_expiration' true",
            ),
            (
                Condition::Exists(Attribute::Failure),
                "record.failure ~= false 'v+failure' false",
            ),
            (Condition::All(Vec::new()), "true 'v' true"),
        ] {
            assert_eq!(rendered(&condition), expected);
        }
    }

    #[test]
    fn the_text_of_a_write_has_its_names_and_says_where_its_values_are() {
        let owner = OwnerToken::from_record("07".to_owned());
        let text = |write: &Write| Form::of(write).text(&held_by(&owner));
        let written = |write: &Write| {
            let text = text(write);
            let of = |from, to| between(&text, from, to).trim().to_owned();
            let read = match of("local values = ", "\n").as_str() {
                "{}" => "all".to_owned(),
                _ => of("'HMGET', key, ", ")"),
            };
            let begun = of("if begun then\n", "\n    end").replace("\n      ", " ");
            // After the HSET of the probe.
            let (_, text) = text.split_once("if begun").unwrap();
            let fields = between(text, "'HSET', key, 'v', '1', ", "))\n");
            [
                &*read,
                &begun,
                fields,
                between(text, "{v = true, ", "}").trim(),
            ]
            .join(" | ")
        };
        let set = || Record {
            expiration: Field::Value(EpochSeconds::new(1)),
            owner: Field::Value(owner.clone()),
            undo: Field::Value("[]".to_owned()),
            ..Record::default()
        };
        let steps = || Record {
            steps: Field::Value([("a".to_owned(), Data::new("1"))].into_iter().collect()),
            ..set()
        };
        let update = |set, remove: &[Attribute]| {
            Write::Update(Change {
                set,
                remove: remove.to_vec(),
            })
        };
        let of_step = Write::Step {
            name: "a".to_owned(),
            result: Data::new("1"),
        };
        let removed = [Attribute::Steps, Attribute::Expiration];
        for (write, expected) in [
            (
                Write::Put(set()),
                "all | write('EXPIRE', key, arguments[4]) | 'expiration', arguments[5], 'owner', arguments[6], 'undo', arguments[7], unpack(arguments, 8 | expiration = true, owner = true, undo = true,",
            ),
            (
                Write::Put(Record::default()),
                "all | write('PERSIST', key) | unpack(arguments, 4 | ",
            ),
            (
                update(set(), &[]),
                "'v', 'status', 'owner' | write('EXPIRE', key, arguments[4]) | 'expiration', arguments[5], 'owner', arguments[6], 'undo', arguments[7], unpack(arguments, 8 | expiration = true, owner = true, undo = true,",
            ),
            (
                update(Record::default(), &[]),
                "'v', 'status', 'owner' | write('HDEL', key, '') | unpack(arguments, 4 | ",
            ),
            (
                update(steps(), &[]),
                "all | write('EXPIRE', key, arguments[4]) | 'expiration', arguments[5], 'owner', arguments[6], 'steps', '', 'undo', arguments[7], unpack(arguments, 8 | expiration = true, owner = true, steps = true, undo = true,",
            ),
            (
                update(steps(), &removed),
                "all | write('PERSIST', key) write('HDEL', key, '', 'expiration', 'steps') | 'owner', arguments[4], 'undo', arguments[5], unpack(arguments, 6 | owner = true, undo = true,",
            ),
            (
                of_step,
                "'v', 'status', 'owner', 'steps' | write('HDEL', key, '') | unpack(arguments, 4 | ",
            ),
        ] {
            assert_eq!(written(&write), expected);
        }
        assert!(text(&update(steps(), &[])).contains("for i = 8, #arguments, 2 do"));
    }

    #[test]
    fn a_script_has_no_word_left_and_serves_other_operands_alone() {
        let scripts = Scripts::default();
        let (put, update) = (Form::of_kind("put"), Form::of_kind("update"));
        let of = |owner: &str| {
            let condition = held_by(&OwnerToken::from_record(owner.to_owned()));
            scripts.of(update, &condition)
        };
        let script = of("07");
        let words = script.text.replace("$'", "");
        assert!(!words.contains('$'), "{words}");
        assert!(Arc::ptr_eq(&script, &of("'] or true --")));
        let status = |status: Status| Operand::Text(status.as_str().to_owned());
        let below = |value| Condition::Below(Attribute::Expiration, value);
        let seconds = |at| Operand::Seconds(EpochSeconds::new(at));
        let others = [
            Condition::NoRecord,
            Condition::Any(Vec::new()),
            Condition::All(Vec::new()),
            Condition::Exists(Attribute::Status),
            Condition::Missing(Attribute::Status),
            Condition::Equals(Attribute::Status, status(Status::Completed)),
            Condition::Differs(Attribute::Status, status(Status::Completed)),
            Condition::Equals(Attribute::Owner, status(Status::Completed)),
            below(seconds(1)),
            below(Operand::Millis(EpochMillis::new(1))),
            Condition::All(vec![below(seconds(1))]),
            Condition::All(vec![below(seconds(1)), Condition::NoRecord]),
        ];
        let found = |scripts: &Scripts| scripts.0.lock().unwrap().len();
        for condition in others.iter().chain(&others) {
            scripts.of(put, condition);
        }
        assert_eq!(found(&scripts), 1 + others.len());
        assert!(Arc::ptr_eq(
            &scripts.of(put, &below(seconds(1))),
            &scripts.of(put, &below(seconds(2)))
        ));
        let set = bit(Attribute::Owner);
        for form in [
            update,
            Form { set, ..update },
            Form {
                removed: set,
                ..update
            },
        ] {
            scripts.of(form, &others[0]);
        }
        assert_eq!(found(&scripts), 4 + others.len());
    }

    #[test]
    fn the_script_has_the_names_that_are_rendered() {
        let steps = Attribute::Steps.default_name();
        let in_script = [
            format!("== '{}'", Attribute::Event.default_name()),
            format!("record.{steps}"),
            format!(":sub(1, {}) == '{STEP}'", STEP.len()),
            format!("'HSET', key, '{}', '{}', $FIELDS", FORMAT.0, FORMAT.1),
            format!("record.{} ~= '{}'", FORMAT.0, FORMAT.1),
        ];
        for text in in_script {
            assert!(SCRIPT.contains(&text), "{text}");
        }
    }
}

//! The texts of the script: one for each kind of request and form of condition. Operands and values are arguments, so there are about ten.

use std::mem::discriminant;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use idempotency_core::record::Attribute;
use idempotency_core::store::{Condition, Operand};

/// The field that each record has, so that one without attributes is a record too. Its value is the version of the format.
pub(crate) const FORMAT: (&str, &str) = ("v", "1");

const SCRIPT: &str = include_str!("script.lua");

/// What a condition needs that compares more than whether two texts are equal.
const COMPARE: &str = include_str!("compare.lua");

/// A text of the script, and its digest, by which the servers that have it know it.
pub(crate) struct Script {
    kind: &'static str,
    /// True if the whole record is read at once: it is returned, or its steps are dropped. Otherwise first what the condition names.
    reads_all: bool,
    /// With the operands of the first request.
    condition: Condition,
    pub(crate) text: String,
    pub(crate) digest: String,
    /// True if this process has run it. The first write sends the whole text, so that it need not be asked for it.
    pub(crate) is_sent: AtomicBool,
}

impl Script {
    fn new(kind: &'static str, reads_all: bool, condition: &Condition) -> Self {
        let (mut operands, mut named) = (1, vec![Attribute::Steps]);
        let expression = render(condition, &mut operands, &mut named);
        let names = names(|it| named.contains(&it)).map(|name| format!("'{name}', "));
        let names = if reads_all {
            String::new()
        } else {
            names.collect()
        };
        let text = SCRIPT
            .replace("$NAMES", &names)
            .replace("$NOTHING", &condition.holds(None).to_string())
            .replace("$COMPARE", COMPARE)
            .replace("$CONDITION", &expression)
            .replace("$WRITTEN", &(operands + 1).to_string());
        Self {
            kind,
            reads_all,
            condition: condition.clone(),
            digest: redis::Script::new(&text).get_hash().to_owned(),
            text,
            is_sent: AtomicBool::new(false),
        }
    }
}

/// Returns the names of these attributes, after that of the format.
pub(crate) fn names(of: impl Fn(Attribute) -> bool) -> impl Iterator<Item = &'static str> {
    let attributes = Attribute::ALL.into_iter().filter(move |it| of(*it));
    [FORMAT.0]
        .into_iter()
        .chain(attributes.map(Attribute::default_name))
}

/// Returns the attributes that a condition names.
pub(crate) fn named(condition: &Condition) -> Vec<Attribute> {
    let mut named = Vec::new();
    render(condition, &mut 0, &mut named);
    named
}

/// The texts that a store has used.
#[derive(Default)]
pub(crate) struct Scripts(Mutex<Vec<Arc<Script>>>);

impl Scripts {
    /// Returns the text for a kind of request and a condition of this form.
    pub(crate) fn of(
        &self,
        kind: &'static str,
        reads_all: bool,
        condition: &Condition,
    ) -> Arc<Script> {
        // A panic cannot leave them half written, so a poisoned lock is still good.
        let mut scripts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = scripts.iter().find(|it| {
            it.kind == kind && it.reads_all == reads_all && is_like(&it.condition, condition)
        });
        if let Some(script) = found {
            return Arc::clone(script);
        }
        let script = Arc::new(Script::new(kind, reads_all, condition));
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
fn render(condition: &Condition, last: &mut usize, named: &mut Vec<Attribute>) -> String {
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
    named.push(*attribute);
    let name = attribute.default_name();
    // What cannot be compared is different, and not below.
    let compare = match (operand, operator) {
        (None, _) => return format!("record.{name} {operator} nil"),
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
    use idempotency_core::record::{OwnerToken, Status};
    use idempotency_core::time::{EpochMillis, EpochSeconds};

    use super::*;
    use crate::request::STEP;

    #[test]
    fn a_condition_is_an_expression_without_operands_and_says_what_it_reads() {
        let rendered = |condition: &Condition| {
            let script = Script::new("update", false, condition);
            let between = |from, to| {
                let (_, text) = script.text.split_once(from).unwrap();
                text.split_once(to).unwrap().0.to_owned()
            };
            let names = between("names = {", ", }").replace("', '", "+");
            let expression = between("  holds = ", "\n");
            format!("{expression} {names} {}", between("~= nil, ", "\n"))
        };
        let now = EpochMillis::new(1_700_000_000_500);
        assert_eq!(
            rendered(&claimable(now, OnTimeout::Rerun)),
            "(false or ((numbers(record.expiration, arguments[2]) or 1) < 0 and (record.status ~= arguments[3] or record.in_progress_expiration == nil \
             or (numbers(record.in_progress_expiration, arguments[4]) or 1) < 0)) or (record.status == arguments[5] and \
             (numbers(record.in_progress_expiration, arguments[6]) or 1) < 0)) 'v+expiration+in_progress_expiration+status+steps' true"
        );
        let owner = OwnerToken::from_record("07".to_owned());
        assert_eq!(
            rendered(&held_by(&owner)),
            "(record.owner == arguments[2] and record.status == arguments[3]) 'v+status+owner+steps' false"
        );
        let seconds = || Operand::Seconds(EpochSeconds::new(-1));
        let below = Condition::Below(Attribute::Owner, Operand::Text("b".to_owned()));
        let lease = Attribute::InProgressExpiration;
        for (condition, expected) in [
            (
                below,
                "(bytes(record.owner, arguments[2]) or 1) < 0 'v+owner+steps' false",
            ),
            (
                Condition::Below(Attribute::Expiration, seconds()),
                "(numbers(record.expiration, arguments[2]) or 1) < 0 'v+expiration+steps' false",
            ),
            (
                Condition::Below(lease, seconds()),
                "false 'v+in_progress_expiration+steps' false",
            ),
            (
                Condition::Equals(Attribute::Owner, seconds()),
                "false 'v+owner+steps' false",
            ),
            (
                Condition::Differs(lease, seconds()),
                "true 'v+in_progress_expiration+steps' true",
            ),
            (
                Condition::Exists(Attribute::Failure),
                "record.failure ~= nil 'v+failure+steps' false",
            ),
            (Condition::All(Vec::new()), "true 'v+steps' true"),
        ] {
            assert_eq!(rendered(&condition), expected);
        }
    }

    #[test]
    fn a_script_has_no_word_left_and_serves_other_operands_alone() {
        let scripts = Scripts::default();
        let of = |owner: &str| {
            let condition = held_by(&OwnerToken::from_record(owner.to_owned()));
            scripts.of("update", false, &condition)
        };
        let script = of("07");
        assert!(
            !script.text.replace("$'", "").contains('$'),
            "{}",
            script.text
        );
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
            scripts.of("put", true, condition);
        }
        assert_eq!(found(&scripts), 1 + others.len());
        assert!(Arc::ptr_eq(
            &scripts.of("put", true, &below(seconds(1))),
            &scripts.of("put", true, &below(seconds(2)))
        ));
        scripts.of("update", true, &others[0]);
        scripts.of("update", false, &others[0]);
        assert_eq!(found(&scripts), 3 + others.len());
    }

    #[test]
    fn the_script_has_the_names_that_are_rendered() {
        let steps = Attribute::Steps.default_name();
        let in_script = [
            format!("== '{}'", Attribute::Event.default_name()),
            format!("record.{steps}"),
            format!(":sub(1, {}) == '{STEP}'", STEP.len()),
            format!("'HSET', key, '{}', '{}', unpack", FORMAT.0, FORMAT.1),
            format!("{{{} = true}}", FORMAT.0),
            format!("record.{} ~= '{}'", FORMAT.0, FORMAT.1),
        ];
        for text in in_script {
            assert!(SCRIPT.contains(&text), "{text}");
        }
    }
}

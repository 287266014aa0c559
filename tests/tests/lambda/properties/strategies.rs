//! Strategies for JSON trees, words, records, conditions and calls.

use idempotency_core::example::call;
use idempotency_core::protocol::CallTerms;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::record::{
    Attribute, Data, Field, OwnerToken, Record, RecordId, RecordedSteps, Status, StoredEvent,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// The times in records and conditions are near this one, so that boundaries occur often.
pub(crate) const NOW: i64 = 1_700_000_000_500;

/// A JSON value. The order of its members is chosen when it is written.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// The JSON text of a value that is neither a list nor an object.
    Leaf(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// Returns the JSON text. `seed` chooses the order of members and the spaces.
    pub(crate) fn text(&self, seed: u64) -> String {
        let (mut out, mut seed) = (String::new(), seed);
        self.write(&mut out, &mut seed);
        out
    }

    fn write(&self, out: &mut String, seed: &mut u64) {
        match self {
            Self::Leaf(text) => out.push_str(text),
            Self::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    separate(out, at, seed);
                    element.write(out, seed);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let mut left: Vec<_> = members.iter().collect();
                out.push('{');
                for at in 0..members.len() {
                    let (name, member) = left.swap_remove(below(seed, left.len()));
                    separate(out, at, seed);
                    out.push_str(&quoted(name));
                    out.push_str([":", " : "][below(seed, 2)]);
                    member.write(out, seed);
                }
                out.push('}');
            }
        }
    }
}

fn separate(out: &mut String, at: usize, seed: &mut u64) {
    if at > 0 {
        out.push(',');
    }
    out.push_str(["", " ", "\n\t", "\r\n"][below(seed, 4)]);
}

/// Returns a number below `bound` from a linear congruential generator.
fn below(seed: &mut u64, bound: usize) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap() % bound
}

pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Returns one of the words of a text.
pub(crate) fn words(text: &'static str) -> impl Strategy<Value = String> + Clone {
    let words: Vec<_> = text.split_whitespace().collect();
    prop::sample::select(words).prop_map(str::to_owned)
}

/// Returns the JSON text of an integer that fits into 64 bits.
fn small_integer() -> BoxedStrategy<String> {
    prop_oneof![any::<i64>(), -3..3_i64]
        .prop_map(|integer| integer.to_string())
        .boxed()
}

fn word() -> BoxedStrategy<String> {
    prop_oneof!["[a-c]", "[ -~]{0,8}", "\\PC{0,8}", any::<String>()].boxed()
}

fn tree_of(leaf: BoxedStrategy<String>) -> impl Strategy<Value = Tree> {
    leaf.prop_map(Tree::Leaf).prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Tree::Array),
            btree_map(word(), inner, 0..6)
                .prop_map(|members| Tree::Object(members.into_iter().collect())),
        ]
    })
}

/// Returns values that every JSON reader reads alike: no floats, no integers beyond 64 bits, no lone surrogates.
fn plain_leaf() -> BoxedStrategy<String> {
    prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        small_integer(),
        word().prop_map(|text| quoted(&text)),
    ]
    .boxed()
}

/// Returns trees of values that every JSON reader reads alike.
pub(crate) fn plain_tree() -> impl Strategy<Value = Tree> {
    tree_of(plain_leaf())
}

/// Returns trees of all values that JSON and Python's dialect of it allow.
pub(crate) fn tree() -> impl Strategy<Value = Tree> {
    tree_of(
        prop_oneof![
            4 => plain_leaf(),
            1 => "-?(0|[1-9][0-9]{0,60})",
            1 => "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,20}([eE][+-]?[0-9]{1,3})?",
            1 => any::<f64>().prop_map(|float| format!("{float:e}").replace("inf", "Infinity")),
            1 => "-?Infinity",
            1 => "\"(\\\\u[0-9a-fA-F]{4}|\\\\ud[89a-f][0-9a-f]{2}|\\\\[\"\\\\/bfnrt]|[a-z])*\"",
        ]
        .boxed(),
    )
}

fn field<T: Clone + std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Field<T>> {
    // On the heap: a record has many fields, and the thread of a test 2 MiB of stack.
    prop_oneof![
        2 => Just(Field::Absent),
        6 => value.prop_map(Field::Value),
        1 => Just(Field::Unreadable),
    ]
    .boxed()
}

fn near(at: i64) -> impl Strategy<Value = i64> {
    prop_oneof![8 => at - 2..=at + 2, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn seconds() -> impl Strategy<Value = EpochSeconds> {
    near(NOW / 1_000).prop_map(EpochSeconds::new)
}

fn millis() -> impl Strategy<Value = EpochMillis> {
    near(NOW).prop_map(EpochMillis::new)
}

/// Returns one of few texts, so that two of them are often equal.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]".boxed(),
        2 => prop_oneof![Just("INPROGRESS".to_owned()), Just("COMPLETED".to_owned())].boxed(),
        1 => any::<String>().boxed(),
    ]
}

pub(crate) fn owner() -> impl Strategy<Value = OwnerToken> {
    text().prop_map(OwnerToken::from_record)
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![4 => Just("INPROGRESS".to_owned()), 3 => Just("COMPLETED".to_owned()), 1 => text()]
        .prop_map(Status::from_record)
}

fn data() -> impl Strategy<Value = Data> {
    prop_oneof![Just("{\"a\":1}".to_owned()), any::<String>()].prop_map(Data::new)
}

/// Returns events, whole and selected.
fn event() -> impl Strategy<Value = StoredEvent> {
    (text(), any::<bool>()).prop_filter_map("too long", |(text, is_whole)| {
        if is_whole {
            StoredEvent::all(&text)
        } else {
            StoredEvent::selected(&text)
        }
    })
}

fn steps() -> impl Strategy<Value = RecordedSteps> {
    btree_map(text(), data(), 0..3).prop_map(|steps| steps.into_iter().collect())
}

prop_compose! {
    /// Returns records with any combination of absent, readable and unreadable attributes.
    pub(crate) fn record()(
        expiration in field(seconds()),
        in_progress_expiration in field(millis()),
        status in field(status()),
        data in field(data()),
        validation in field(text()),
        owner in field(owner()),
        failure in field(text()),
        operation in field(text()),
        decision in field(text()),
        event in field(event()),
        steps in field(steps()),
        undo in field(text()),
    ) -> Record {
        Record { expiration, in_progress_expiration, status, data, validation, owner, failure, operation, decision, event, steps, undo }
    }
}

pub(crate) fn attribute() -> impl Strategy<Value = Attribute> {
    prop::sample::select(&Attribute::ALL[..])
}

pub(crate) fn on_timeout() -> impl Strategy<Value = OnTimeout> {
    prop_oneof![Just(OnTimeout::Rerun), Just(OnTimeout::Hold)]
}

/// Returns the terms of a call without a validated part and without a deadline.
pub(crate) fn terms(owner: OwnerToken, policy: Policy) -> CallTerms {
    CallTerms {
        id: RecordId::new("shop#1"),
        owner,
        policy,
        ..call()
    }
}

pub(crate) fn operand() -> impl Strategy<Value = Operand> {
    prop_oneof![
        text().prop_map(|text| Operand::Text(text.into())),
        seconds().prop_map(Operand::Seconds),
        millis().prop_map(Operand::Millis),
    ]
}

pub(crate) fn condition() -> impl Strategy<Value = Condition> {
    let single = prop_oneof![
        Just(Condition::NoRecord),
        attribute().prop_map(Condition::Exists),
        attribute().prop_map(Condition::Missing),
        (attribute(), operand()).prop_map(|(name, value)| Condition::Equals(name, value)),
        (attribute(), operand()).prop_map(|(name, value)| Condition::Differs(name, value)),
        (attribute(), operand()).prop_map(|(name, value)| Condition::Below(name, value)),
    ];
    single.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Condition::All),
            vec(inner, 0..3).prop_map(Condition::Any),
        ]
    })
}

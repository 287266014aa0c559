//! Renders conditions and changes as DynamoDB expressions, once for each shape.
//!
//! The protocol supplies a condition as data with each write. Most of these differ in their values alone: their *shape* is the
//! same. A shape is a list of tokens, in the order of the text. The texts and the names of the placeholders are a pure function of
//! the tokens ([`RenderedShape::of`]), so they are kept with their shape and used for every request that has it.
//!
//! DynamoDB rejects names or values that are declared and not used, and duplicate parentheses. All uses of an attribute share
//! one placeholder, and so do all uses of a value. Placeholders are numbered by letters in the order of their use: `#a`, `#b`,
//! `:a`, `:b`.

use std::sync::{Arc, OnceLock};

use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::record::Attribute;

use crate::names::{AttributeNames, ExtraAttribute};
use crate::value::Value;

/// The number of shapes that a store keeps. The requests of the protocol have fewer; other shapes are rendered each time.
const MAX_SHAPES: usize = 24;

/// The space for the tokens and for the values of a draft. The conditions of claims, which are the longest, have fewer.
const TOKENS: usize = 64;
const VALUES: usize = 8;

/// The expressions of one request, with the names and values of their placeholders.
pub(crate) struct Expressions<'a> {
    rendered: Arc<RenderedShape>,
    /// The name of the step that the update sets.
    step: &'a str,
    values: Vec<Value<'a>>,
}

impl<'a> Expressions<'a> {
    /// Returns the update expression. `None` for a change of nothing.
    pub(crate) fn update(&self) -> Option<&str> {
        self.rendered.update.as_deref()
    }

    /// Returns the condition expression.
    pub(crate) fn condition(&self) -> &str {
        &self.rendered.condition
    }

    /// Returns each placeholder of an attribute, with the attribute's name. Can be empty; DynamoDB rejects an empty map.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.rendered.names.iter();
        names.map(|(placeholder, name)| {
            let name = name.as_deref().unwrap_or(self.step);
            (placeholder.as_str(), name)
        })
    }

    /// Returns each placeholder of a value, with the value. Can be empty; DynamoDB rejects an empty map.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&str, Value<'a>)> {
        let placeholders = self.rendered.values.iter().map(String::as_str);
        placeholders.zip(self.values.iter().copied())
    }
}

/// The shapes that a store has rendered.
#[derive(Default)]
pub(crate) struct Shapes {
    attributes: AttributeNames,
    /// Filled from the front, and never changed after that, so that a reader needs no lock.
    kept: [OnceLock<Arc<RenderedShape>>; MAX_SHAPES],
}

impl Shapes {
    /// Returns an empty cache of shapes. The texts of the shapes use these names of attributes.
    pub(crate) fn new(attributes: AttributeNames) -> Self {
        Self {
            attributes,
            kept: Default::default(),
        }
    }

    /// Returns the expressions of a write without an update.
    pub(crate) fn condition<'a>(&self, condition: &'a Condition) -> Expressions<'a> {
        self.expressions(Draft::new(), condition, "")
    }

    /// Returns the expressions of an update that sets and removes these attributes.
    pub(crate) fn update<'a>(
        &self,
        set: &[(Attribute, Value<'a>)],
        extra: Option<(ExtraAttribute, Value<'a>)>,
        remove: &[Attribute],
        condition: &'a Condition,
    ) -> Expressions<'a> {
        let mut draft = Draft::new();
        draft.update(set, extra, remove);
        self.expressions(draft, condition, "")
    }

    /// Returns the expressions of an update that sets the result of one step. The name of the step is no part of the shape.
    pub(crate) fn step<'a>(
        &self,
        step: &'a str,
        result: Value<'a>,
        condition: &'a Condition,
    ) -> Expressions<'a> {
        let mut draft = Draft::new();
        let value = draft.value(result);
        let (steps, equals) = (Token::Name(Attribute::Steps), Token::Equals);
        draft.push(&[Token::Set, steps, Token::Step, equals, value]);
        self.expressions(draft, condition, step)
    }

    /// Ends a draft with the condition. What the draft has already is the update; without an update it is empty.
    fn expressions<'a>(
        &self,
        mut draft: Draft<'a>,
        condition: &'a Condition,
        step: &'a str,
    ) -> Expressions<'a> {
        draft.shape.update_tokens = draft.shape.tokens.len();
        draft.condition(condition, false);
        Expressions {
            rendered: self.rendered(draft.shape),
            step,
            values: draft.values,
        }
    }

    /// Returns the texts of a shape, which are kept if there is space.
    fn rendered(&self, shape: Shape) -> Arc<RenderedShape> {
        let render = |shape| Arc::new(RenderedShape::of(shape, &self.attributes));
        let mut fresh = None;
        for place in &self.kept {
            let kept = match place.get() {
                Some(kept) => kept,
                None => {
                    let fresh = fresh.get_or_insert_with(|| render(shape.clone()));
                    // Another thread can be faster, with this shape or with another one.
                    place.get_or_init(|| Arc::clone(fresh))
                }
            };
            if kept.shape == shape {
                return Arc::clone(kept);
            }
        }
        fresh.unwrap_or_else(|| render(shape))
    }
}

/// The expressions of a request without their values: an update, and a condition.
#[derive(Clone, PartialEq, Eq)]
struct Shape {
    tokens: Vec<Token>,
    /// The number of tokens of the update. The others are those of the condition.
    update_tokens: usize,
}

/// A part of the text of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    /// The placeholder of the key.
    Key,
    /// The placeholder of an attribute.
    Name(Attribute),
    /// The placeholder of an attribute that only the store knows.
    Extra(ExtraAttribute),
    /// The placeholder of a member of the attribute before it: the step whose result is set.
    Step,
    /// The placeholder of the value with this index.
    Value(usize),
    Set,
    Remove,
    Comma,
    Exists,
    Missing,
    Equals,
    Differs,
    Below,
    And,
    Or,
    Open,
    Close,
}

/// The texts of a shape.
struct RenderedShape {
    shape: Shape,
    update: Option<String>,
    condition: String,
    /// The placeholders of attributes, and the names of the attributes in the table. `None`: the name of the step.
    names: Vec<(String, Option<String>)>,
    /// The placeholders of values.
    values: Vec<String>,
}

impl RenderedShape {
    /// Renders a shape.
    fn of(shape: Shape, attributes: &AttributeNames) -> Self {
        let mut names = Vec::new();
        let (update, condition) = shape.tokens.split_at(shape.update_tokens);
        let update = text(update, &mut names);
        let condition = text(condition, &mut names);
        let values = shape.tokens.iter().map(|token| match token {
            Token::Value(index) => index + 1,
            _ => 0,
        });
        let values = values.max().unwrap_or_default();
        let names = names.into_iter().enumerate().map(|(index, token)| {
            let name = match token {
                Token::Name(attribute) => Some(attributes.of(attribute)),
                Token::Extra(attribute) => Some(attributes.extra(attribute)),
                Token::Step => None,
                _ => Some(attributes.key.as_str()),
            };
            (placeholder('#', index), name.map(str::to_owned))
        });
        Self {
            update: Some(update).filter(|update| !update.is_empty()),
            condition,
            names: names.collect(),
            values: (0..values).map(|index| placeholder(':', index)).collect(),
            shape,
        }
    }
}

/// Returns the text of an expression. Adds the attributes that are not in `names` yet.
fn text(tokens: &[Token], names: &mut Vec<Token>) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Key | Token::Name(_) | Token::Extra(_) | Token::Step => {
                if *token == Token::Step {
                    text.push('.');
                }
                let known = names.iter().position(|name| name == token);
                let index = known.unwrap_or_else(|| {
                    names.push(*token);
                    names.len() - 1
                });
                text.push_str(&placeholder('#', index));
            }
            Token::Value(index) => text.push_str(&placeholder(':', *index)),
            Token::Set => text.push_str("SET "),
            Token::Remove if text.is_empty() => text.push_str("REMOVE "),
            Token::Remove => text.push_str(" REMOVE "),
            Token::Comma => text.push_str(", "),
            Token::Exists => text.push_str("attribute_exists("),
            Token::Missing => text.push_str("attribute_not_exists("),
            Token::Equals => text.push_str(" = "),
            Token::Differs => text.push_str(" <> "),
            Token::Below => text.push_str(" < "),
            Token::And => text.push_str(" AND "),
            Token::Or => text.push_str(" OR "),
            Token::Open => text.push('('),
            Token::Close => text.push(')'),
        }
    }
    text
}

/// Returns a placeholder: the kind, and a number in letters.
fn placeholder(kind: char, mut index: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(
            b'a' + u8::try_from(index % 26).unwrap_or_default(),
        ));
        match (index / 26).checked_sub(1) {
            Some(rest) => index = rest,
            None => break,
        }
    }
    std::iter::once(kind)
        .chain(letters.into_iter().rev())
        .collect()
}

/// The shape and the values of one request, while they are collected.
struct Draft<'a> {
    shape: Shape,
    values: Vec<Value<'a>>,
}

impl<'a> Draft<'a> {
    fn new() -> Self {
        Self {
            shape: Shape {
                tokens: Vec::with_capacity(TOKENS),
                update_tokens: 0,
            },
            values: Vec::with_capacity(VALUES),
        }
    }

    fn push(&mut self, tokens: &[Token]) {
        self.shape.tokens.extend_from_slice(tokens);
    }

    /// Adds the clauses of an update.
    fn update(
        &mut self,
        set: &[(Attribute, Value<'a>)],
        extra: Option<(ExtraAttribute, Value<'a>)>,
        remove: &[Attribute],
    ) {
        let mut first = Token::Set;
        for (attribute, value) in set {
            // DynamoDB rejects two clauses on one attribute. The removal takes precedence.
            if !remove.contains(attribute) {
                let value = self.value(*value);
                self.push(&[first, Token::Name(*attribute), Token::Equals, value]);
                first = Token::Comma;
            }
        }
        if let Some((extra, value)) = extra {
            let value = self.value(value);
            self.push(&[first, Token::Extra(extra), Token::Equals, value]);
        }
        let mut first = Token::Remove;
        for (index, attribute) in remove.iter().enumerate() {
            if !remove[..index].contains(attribute) {
                self.push(&[first, Token::Name(*attribute)]);
                first = Token::Comma;
            }
        }
    }

    /// Adds a condition. `inside` is true if it is an operand of another one and may need parentheses.
    fn condition(&mut self, condition: &'a Condition, inside: bool) {
        match condition {
            Condition::NoRecord => self.push(&[Token::Missing, Token::Key, Token::Close]),
            Condition::Exists(attribute) => {
                self.push(&[Token::Exists, Token::Name(*attribute), Token::Close]);
            }
            Condition::Missing(attribute) => {
                self.push(&[Token::Missing, Token::Name(*attribute), Token::Close]);
            }
            Condition::Equals(attribute, operand) => {
                self.compare(*attribute, Token::Equals, operand, inside);
            }
            Condition::Differs(attribute, operand) => {
                self.compare(*attribute, Token::Differs, operand, inside);
            }
            Condition::Below(attribute, operand) => {
                self.compare(*attribute, Token::Below, operand, inside);
            }
            Condition::All(conditions) => self.join(conditions, Token::And, inside),
            Condition::Any(conditions) => self.join(conditions, Token::Or, inside),
        }
    }

    fn join(&mut self, conditions: &'a [Condition], operator: Token, inside: bool) {
        match conditions {
            [] => self.constant(operator == Token::And, inside),
            [only] => self.condition(only, inside),
            [first, others @ ..] => self.parenthesised(inside, |draft| {
                draft.condition(first, true);
                for condition in others {
                    draft.push(&[operator]);
                    draft.condition(condition, true);
                }
            }),
        }
    }

    /// Adds a comparison. An attribute is compared only with an operand of its own unit; DynamoDB would compare any two
    /// numbers.
    fn compare(
        &mut self,
        attribute: Attribute,
        operator: Token,
        operand: &'a Operand,
        inside: bool,
    ) {
        if !operand.fits(attribute) {
            return self.constant(operator == Token::Differs, inside);
        }
        let value = match operand {
            Operand::Text(text) => Value::Text(text),
            Operand::Seconds(at) => Value::Number(at.get()),
            Operand::Millis(at) => Value::Number(at.get()),
        };
        let value = self.value(value);
        self.push(&[Token::Name(attribute), operator, value]);
    }

    /// Adds a condition that always or never holds. DynamoDB has no literal for it.
    fn constant(&mut self, holds: bool, inside: bool) {
        let operator = if holds { Token::Or } else { Token::And };
        self.parenthesised(inside, |draft| {
            draft.push(&[Token::Exists, Token::Key, Token::Close, operator]);
            draft.push(&[Token::Missing, Token::Key, Token::Close]);
        });
    }

    fn parenthesised(&mut self, inside: bool, add: impl FnOnce(&mut Self)) {
        if inside {
            self.push(&[Token::Open]);
        }
        add(self);
        if inside {
            self.push(&[Token::Close]);
        }
    }

    fn value(&mut self, value: Value<'a>) -> Token {
        let known = self.values.iter().position(|known| *known == value);
        Token::Value(known.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        }))
    }
}

/// Checks the rendered expressions, and that every placeholder is declared and used.
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use idempotency_core::example::compared;
    use idempotency_core::protocol::condition::{claimable, held_by};
    use idempotency_core::protocol::policy::OnTimeout;
    use idempotency_core::record::{Data, Field, OwnerToken, Record, Status};
    use idempotency_core::time::{EpochMillis, EpochSeconds};

    use proptest::prelude::*;

    use super::*;
    use crate::item;

    /// Returns true if a pair of parentheses contains only another pair.
    fn has_redundant_parentheses(text: &str) -> bool {
        let (mut open, mut pairs) = (Vec::new(), Vec::new());
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'(' => open.push(at),
                b')' => pairs.push((open.pop().unwrap(), at)),
                _ => {}
            }
        }
        let inside = |(from, to)| pairs.contains(&(from + 1, to - 1));
        pairs.iter().copied().any(inside)
    }

    /// Returns the values, after a check that exactly the used placeholders are declared, that no two have the same name, and that no
    /// parentheses are doubled.
    fn declared<'a>(expressions: &Expressions<'a>) -> Vec<(String, Value<'a>)> {
        let condition = expressions.condition();
        let texts = [expressions.update().unwrap_or_default(), condition];
        let other = |letter: char| !(letter.is_ascii_alphanumeric() || "#:_".contains(letter));
        let tokens = texts.iter().flat_map(|text| text.split(other));
        let used: BTreeSet<&str> = tokens.filter(|it| it.starts_with(['#', ':'])).collect();
        let names: Vec<_> = expressions.names().collect();
        let values: Vec<_> = expressions.values().collect();
        let of_names = names.iter().map(|(placeholder, _)| *placeholder);
        let of_values = values.iter().map(|(placeholder, _)| *placeholder);
        let declared: Vec<_> = of_names.chain(of_values).collect();
        assert_eq!(used, declared.iter().copied().collect(), "in {texts:?}");
        assert_eq!(used.len(), declared.len(), "in {declared:?}");
        let distinct: BTreeSet<_> = names.iter().map(|(_, name)| name).collect();
        assert_eq!(distinct.len(), names.len());
        assert!(!has_redundant_parentheses(condition), "{texts:?}");
        let values = values.into_iter();
        values
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Returns a text with the names of the attributes in place of their placeholders.
    fn named(expressions: &Expressions<'_>, text: &str) -> String {
        let names = expressions.names();
        names.fold(text.to_owned(), |text, (placeholder, name)| {
            text.replace(placeholder, name)
        })
    }

    fn of(condition: &Condition) -> Expressions<'_> {
        Shapes::default().condition(condition)
    }

    fn fence() -> Condition {
        held_by(&OwnerToken::from_bytes([7; 16]))
    }

    #[test]
    fn a_condition_is_rendered_as_the_text_of_its_row() {
        use Condition::{All, Any, Below, Differs, Equals, Exists, NoRecord};
        let claimed = |policy| claimable(EpochMillis::new(1_700_000_000_999), policy);
        let millis = || Operand::Millis(EpochMillis::new(1));
        let text = Operand::Text("1".into());
        let [owner, data] = [Attribute::Owner, Attribute::Data].map(Exists);
        let nested = Any(vec![NoRecord, All(vec![Any(vec![owner, data])])]);
        let always = "attribute_exists(id) OR attribute_not_exists(id)";
        let never = "attribute_exists(id) AND attribute_not_exists(id)";
        let rerun = "attribute_not_exists(id) \
             OR (expiration < :a AND (status <> :b OR attribute_not_exists(in_progress_expiration) \
             OR in_progress_expiration < :c)) \
             OR (status = :b AND in_progress_expiration < :c)";
        let hold = "attribute_not_exists(id) OR (expiration < :a AND status <> :b) \
             OR (status = :b AND attribute_exists(failure))";
        let parentheses =
            "attribute_not_exists(id) OR (attribute_exists(owner) OR attribute_exists(data))";
        for (condition, expected) in [
            (claimed(OnTimeout::Rerun), rerun),
            (claimed(OnTimeout::Hold), hold),
            (fence(), "owner = :a AND status = :b"),
            // Lists of one add no parentheses.
            (All(vec![Any(vec![NoRecord])]), "attribute_not_exists(id)"),
            (nested, parentheses),
            // As in the memory store.
            (All(Vec::new()), always),
            (Any(Vec::new()), never),
            // Seconds are never compared with milliseconds, or a time with a text.
            (Below(Attribute::Expiration, millis()), never),
            (Differs(Attribute::Expiration, millis()), always),
            (Equals(Attribute::Status, millis()), never),
            (Equals(Attribute::Expiration, text), never),
        ] {
            let expressions = of(&condition);
            declared(&expressions);
            assert_eq!(expressions.update(), None);
            let rendered = named(&expressions, expressions.condition());
            assert_eq!(rendered, expected, "{condition:?}");
        }
    }

    #[test]
    fn placeholders_have_the_configured_names() {
        let names = AttributeNames {
            key: "pk".to_owned(),
            status: "the.status".to_owned(),
            ..AttributeNames::default()
        };
        let condition = Condition::Any(vec![
            Condition::NoRecord,
            Condition::Exists(Attribute::Status),
        ]);
        let expressions = Shapes::new(names).condition(&condition);
        let named: Vec<_> = expressions.names().collect();
        assert_eq!(named, [("#a", "pk"), ("#b", "the.status")]);
        assert_eq!(expressions.values().count(), 0);
    }

    #[test]
    fn an_update_is_rendered_as_the_text_of_its_row() {
        let completion = Record {
            expiration: Field::Value(EpochSeconds::new(5)),
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("1")),
            validation: Field::Unreadable,
            ..Record::default()
        };
        let failure = Record {
            failure: Field::Value("Timeout".to_owned()),
            owner: Field::Value(OwnerToken::from_bytes([7; 16])),
            ..Record::default()
        };
        let twice = vec![Attribute::Owner, Attribute::Data, Attribute::Owner];
        let completes = "SET expiration = :a, status = :b, data = :c";
        let fails = "SET failure = :a REMOVE owner, data";
        for (set, remove, update, condition) in [
            // The condition has its own placeholders.
            (completion, vec![], completes, "owner = :d AND status = :e"),
            // An attribute that is set and removed is removed once.
            (failure, twice, fails, "owner = :b AND status = :c"),
            (Record::default(), vec![], "", "owner = :a AND status = :b"),
            (
                Record::default(),
                vec![Attribute::Data],
                "REMOVE data",
                "owner = :a AND status = :b",
            ),
        ] {
            let (shapes, change) = (Shapes::default(), (set, remove, fence()));
            let expressions = of_change(&shapes, &change);
            declared(&expressions);
            let rendered = expressions.update().map(|text| named(&expressions, text));
            assert_eq!(rendered.unwrap_or_default(), update);
            assert_eq!(named(&expressions, expressions.condition()), condition);
        }
    }

    #[test]
    fn a_step_is_set_in_the_map_and_its_name_is_no_part_of_the_shape() {
        let (shapes, fence) = (Shapes::default(), fence());
        for name in ["reserve", "a.b", "#a"] {
            let step = shapes.step(name, Value::Text("7"), &fence);
            assert_eq!(step.update(), Some("SET #a.#b = :a"));
            assert_eq!(step.condition(), "#c = :b AND #d = :c");
            let named: Vec<_> = step.names().collect();
            let names = ["steps", name, "owner", "status"];
            let expected: Vec<_> = ["#a", "#b", "#c", "#d"].into_iter().zip(names).collect();
            assert_eq!(named, expected);
            let values = declared(&step);
            assert_eq!(values[0], (":a".to_owned(), Value::Text("7")));
        }
        let kept = shapes.kept.iter().filter(|kept| kept.get().is_some());
        assert_eq!(kept.count(), 1);
    }

    /// Returns what a request contains of its expressions.
    fn rendering(expressions: &Expressions<'_>) -> String {
        let names: Vec<_> = expressions.names().collect();
        let (update, condition) = (expressions.update(), expressions.condition());
        format!(
            "{update:?} {condition} {names:?} {:?}",
            declared(expressions)
        )
    }

    fn of_change<'a>(
        shapes: &Shapes,
        (set, remove, condition): &'a (Record, Vec<Attribute>, Condition),
    ) -> Expressions<'a> {
        let set: Vec<_> = item::attributes(set).collect();
        shapes.update(&set, None, remove, condition)
    }

    #[test]
    fn conditions_that_differ_in_values_alone_share_their_texts() {
        let shapes = Shapes::default();
        let at = |now| claimable(EpochMillis::new(now), OnTimeout::Rerun);
        let (first, second) = (at(1_700_000_000_999), at(1_800_000_000_001));
        let first = shapes.condition(&first);
        let second = shapes.condition(&second);
        assert!(Arc::ptr_eq(&first.rendered, &second.rendered));
        assert_ne!(declared(&first), declared(&second));
    }

    #[test]
    fn placeholders_after_the_last_letter_have_two_letters() {
        let of = |index| placeholder(':', index);
        assert_eq!([of(0), of(25), of(26), of(27)], [":a", ":z", ":aa", ":ab"]);
        assert_eq!(
            [of(51), of(52), of(701), of(702)],
            [":az", ":ba", ":zz", ":aaa"]
        );
    }

    #[test]
    fn threads_that_render_other_shapes_do_not_disturb_each_other() {
        let shapes = Shapes::default();
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let shapes = &shapes;
                scope.spawn(move || {
                    for count in 0..MAX_SHAPES {
                        let exists = [Attribute::Owner, Attribute::Data, Attribute::Status];
                        let exists = exists.map(Condition::Exists).into_iter().cycle();
                        let condition = Condition::All(exists.skip(thread).take(count).collect());
                        let kept = shapes.condition(&condition);
                        assert_eq!(rendering(&kept), rendering(&of(&condition)));
                    }
                });
            }
        });
    }

    fn attribute() -> impl Strategy<Value = Attribute> {
        prop::sample::select(compared().collect::<Vec<_>>())
    }

    /// Values that are often equal to each other.
    fn operand() -> impl Strategy<Value = Operand> {
        prop_oneof![
            "[ab]{0,2}".prop_map(|text| Operand::Text(text.into())),
            (0..3_i64).prop_map(|at| Operand::Seconds(EpochSeconds::new(at))),
            (0..3_i64).prop_map(|at| Operand::Millis(EpochMillis::new(at))),
        ]
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let leaf = prop_oneof![
            Just(Condition::NoRecord),
            attribute().prop_map(Condition::Exists),
            attribute().prop_map(Condition::Missing),
            (attribute(), operand()).prop_map(|(of, with)| Condition::Equals(of, with)),
            (attribute(), operand()).prop_map(|(of, with)| Condition::Differs(of, with)),
            (attribute(), operand()).prop_map(|(of, with)| Condition::Below(of, with)),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let several = prop::collection::vec(inner, 0..4);
            prop_oneof![
                several.clone().prop_map(Condition::All),
                several.prop_map(Condition::Any),
            ]
        })
    }

    fn record() -> impl Strategy<Value = Record> {
        let text = || prop::option::of("[ab]{0,2}".prop_map(String::from));
        let number = || prop::option::of(0..3_i64);
        (number(), number(), text(), text(), text()).prop_map(
            |(expiration, lease, data, validation, failure)| Record {
                expiration: expiration.map(EpochSeconds::new).into(),
                in_progress_expiration: lease.map(EpochMillis::new).into(),
                data: data.map(Data::new).into(),
                validation: validation.into(),
                failure: failure.into(),
                ..Record::default()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn kept_texts_are_those_of_a_fresh_store(
            writes in prop::collection::vec(
                (record(), prop::collection::vec(attribute(), 0..3), condition()),
                1..2 * MAX_SHAPES,
            ),
        ) {
            let shapes = Shapes::default();
            for write in writes.iter().chain(&writes) {
                let kept = of_change(&shapes, write);
                let fresh = of_change(&Shapes::default(), write);
                prop_assert_eq!(rendering(&kept), rendering(&fresh));
            }
        }
    }
}

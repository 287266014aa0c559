//! Renders conditions and changes as DynamoDB expressions, once for each shape.
//!
//! The protocol supplies a condition as data with each write. Most of these differ in their values alone: their *shape* is the
//! same. A shape is a list of tokens, in the order of the text. The texts and the names of the placeholders are a pure function of
//! the tokens ([`Rendered::of`]), so they are kept with their shape and used for every request that has it.
//!
//! DynamoDB rejects names or values that are declared and not used, and duplicate parentheses. All uses of an attribute share
//! one placeholder, and so do all uses of a value. Placeholders are numbered by letters in the order of their use: `#a`, `#b`,
//! `:a`, `:b`.

use std::sync::{Arc, OnceLock};

use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::record::Attribute;

use super::Value;
use crate::config::{AttributeNames, Further};

/// The number of shapes that a store keeps. The requests of the protocol have fewer; other shapes are rendered each time.
const MAX_SHAPES: usize = 24;

/// The space for the tokens and for the values of a draft. The conditions of claims, which are the longest, have fewer.
const TOKENS: usize = 64;
const VALUES: usize = 8;

/// The expressions of one request, with the names and values of their placeholders.
pub(crate) struct Expressions<'a> {
    rendered: Arc<Rendered>,
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
    /// Filled from the front, and never changed after that, so that a reader needs no lock.
    kept: [OnceLock<Arc<Rendered>>; MAX_SHAPES],
}

impl Shapes {
    /// Returns the expressions of a write without an update.
    pub(crate) fn condition<'a>(
        &self,
        names: &AttributeNames,
        condition: &'a Condition,
    ) -> Expressions<'a> {
        self.update(names, &[], None, &[], condition)
    }

    /// Returns the expressions of an update that sets and removes these attributes.
    pub(crate) fn update<'a>(
        &self,
        names: &AttributeNames,
        set: &[(Attribute, Value<'a>)],
        further: Option<(Further, Value<'a>)>,
        remove: &[Attribute],
        condition: &'a Condition,
    ) -> Expressions<'a> {
        let mut draft = Draft::new();
        draft.update(set, further, remove);
        draft.shape.update = draft.shape.tokens.len();
        draft.condition(condition, false);
        self.expressions(draft, "", names)
    }

    /// Returns the expressions of an update that sets the result of one step. The name of the step is no part of the shape.
    pub(crate) fn step<'a>(
        &self,
        names: &AttributeNames,
        step: &'a str,
        result: Value<'a>,
        condition: &'a Condition,
    ) -> Expressions<'a> {
        let mut draft = Draft::new();
        let value = draft.value(result);
        let (steps, equals) = (Token::Name(Attribute::Steps), Token::Equals);
        draft.push(&[Token::Set, steps, Token::Step, equals, value]);
        draft.shape.update = draft.shape.tokens.len();
        draft.condition(condition, false);
        self.expressions(draft, step, names)
    }

    fn expressions<'a>(
        &self,
        draft: Draft<'a>,
        step: &'a str,
        names: &AttributeNames,
    ) -> Expressions<'a> {
        Expressions {
            rendered: self.rendered(draft.shape, names),
            step,
            values: draft.values,
        }
    }

    /// Returns the texts of a shape, which are kept if there is space.
    fn rendered(&self, shape: Shape, names: &AttributeNames) -> Arc<Rendered> {
        let mut fresh = None;
        for place in &self.kept {
            let kept = match place.get() {
                Some(kept) => kept,
                None => {
                    let fresh =
                        fresh.get_or_insert_with(|| Arc::new(Rendered::of(shape.clone(), names)));
                    // Another thread can be faster, with this shape or with another one.
                    place.get_or_init(|| Arc::clone(fresh))
                }
            };
            if kept.shape == shape {
                return Arc::clone(kept);
            }
        }
        fresh.unwrap_or_else(|| Arc::new(Rendered::of(shape, names)))
    }
}

/// The expressions of a request without their values: an update, and a condition.
#[derive(Clone, PartialEq, Eq)]
struct Shape {
    tokens: Vec<Token>,
    /// The number of tokens of the update. The others are those of the condition.
    update: usize,
}

/// A part of the text of an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    /// The placeholder of the key.
    Key,
    /// The placeholder of an attribute.
    Name(Attribute),
    /// The placeholder of an attribute that only the store knows.
    Further(Further),
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
struct Rendered {
    shape: Shape,
    update: Option<String>,
    condition: String,
    /// The placeholders of attributes, and the names of the attributes in the table. `None`: the name of the step.
    names: Vec<(String, Option<String>)>,
    /// The placeholders of values.
    values: Vec<String>,
}

impl Rendered {
    /// Renders a shape.
    fn of(shape: Shape, attributes: &AttributeNames) -> Self {
        let mut names = Vec::new();
        let (update, condition) = shape.tokens.split_at(shape.update);
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
                Token::Further(further) => Some(attributes.further(further)),
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
            Token::Key | Token::Name(_) | Token::Further(_) | Token::Step => {
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
                update: 0,
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
        further: Option<(Further, Value<'a>)>,
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
        if let Some((further, value)) = further {
            let value = self.value(value);
            self.push(&[first, Token::Further(further), Token::Equals, value]);
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
        let value = match (attribute, operand) {
            (Attribute::Expiration, Operand::Seconds(at)) => Value::Number(at.get()),
            (Attribute::InProgressExpiration, Operand::Millis(at)) => Value::Number(at.get()),
            (Attribute::Expiration | Attribute::InProgressExpiration | Attribute::Steps, _)
            | (_, Operand::Seconds(_) | Operand::Millis(_)) => {
                return self.constant(operator == Token::Differs, inside);
            }
            (_, Operand::Text(text)) => Value::Text(text),
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

#[cfg(test)]
mod tests;

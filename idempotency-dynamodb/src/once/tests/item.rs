//! An item in memory that applies updates by their expressions: as much of DynamoDB's language as `once` writes.

use aws_sdk_dynamodb::types::{AttributeValue, Update};

use crate::item::Item;

/// Applies an update. Returns false, and changes nothing, if its condition does not hold.
pub(super) fn apply(item: &mut Item, update: &Update) -> bool {
    let condition = update.condition_expression().unwrap();
    let mut tokens = tokens(condition).collect::<Vec<_>>();
    tokens.reverse();
    let mut condition = Condition {
        tokens,
        item,
        update,
    };
    let holds = condition.any();
    assert!(condition.tokens.is_empty(), "{:?}", condition.tokens);
    if holds {
        change(item, update);
    }
    holds
}

/// Returns the size of an item in bytes, as the planner counts it.
pub(super) fn size(item: &Item) -> usize {
    let attributes = item.iter().map(|(name, value)| {
        name.len()
            + match value {
                AttributeValue::S(text) => text.len(),
                AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
                AttributeValue::Bs(set) => {
                    3 + set.iter().map(|key| key.as_ref().len() + 1).sum::<usize>()
                }
                other => panic!("no attribute has this type: {other:?}"),
            }
    });
    attributes.sum()
}

/// Returns the number of keys in an item.
pub(super) fn keys(item: &Item) -> usize {
    let sets = item.values().filter_map(|value| value.as_bs().ok());
    sets.map(Vec::len).sum()
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').flat_map(|word| {
        // Parentheses and commas are tokens of their own.
        word.split_inclusive(['(', ')', ',']).flat_map(|part| {
            let at = part.find(['(', ')', ',']).unwrap_or(part.len());
            let (word, mark) = part.split_at(at);
            [word, mark].into_iter().filter(|token| !token.is_empty())
        })
    })
}

fn name<'a>(update: &'a Update, token: &'a str) -> &'a str {
    match token.starts_with('#') {
        true => &update.expression_attribute_names().unwrap()[token],
        false => token,
    }
}

fn value<'a>(update: &'a Update, token: &str) -> &'a AttributeValue {
    &update.expression_attribute_values().unwrap()[token]
}

fn number(value: &AttributeValue) -> i64 {
    value.as_n().unwrap().parse().unwrap()
}

/// Evaluates a condition. Its tokens are in reverse order.
struct Condition<'a> {
    tokens: Vec<&'a str>,
    item: &'a Item,
    update: &'a Update,
}

impl Condition<'_> {
    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.takes("OR") {
            // The right side is read in any case.
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.takes("AND") {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        if self.takes("NOT") {
            return !self.one();
        }
        if self.takes("(") {
            let holds = self.any();
            assert!(self.takes(")"));
            return holds;
        }
        if self.takes("attribute_not_exists") {
            return self.arguments()[0].is_none();
        }
        if self.takes("contains") {
            let arguments = self.arguments();
            return match (&arguments[0], &arguments[1]) {
                (Some(AttributeValue::Bs(set)), Some(AttributeValue::B(key))) => set.contains(key),
                (None, _) => false,
                other => panic!("contains of {other:?}"),
            };
        }
        let left = self.operand();
        let operator = self.tokens.pop().unwrap();
        let right = self.operand();
        match (left, right) {
            (Some(AttributeValue::S(left)), Some(AttributeValue::S(right))) => {
                assert_eq!(operator, "=");
                left == right
            }
            (Some(left), Some(right)) => {
                let (left, right) = (number(&left), number(&right));
                match operator {
                    "=" => left == right,
                    "<" => left < right,
                    ">" => left > right,
                    ">=" => left >= right,
                    other => panic!("no operator: {other}"),
                }
            }
            _ => false,
        }
    }

    fn operand(&mut self) -> Option<AttributeValue> {
        if self.takes("size") {
            return match &self.arguments()[0] {
                Some(AttributeValue::Bs(set)) => Some(AttributeValue::N(set.len().to_string())),
                None => None,
                other => panic!("size of {other:?}"),
            };
        }
        let token = self.tokens.pop().unwrap();
        match token.starts_with(':') {
            true => Some(value(self.update, token).clone()),
            false => self.item.get(name(self.update, token)).cloned(),
        }
    }

    fn arguments(&mut self) -> Vec<Option<AttributeValue>> {
        assert!(self.takes("("));
        let mut arguments = vec![self.operand()];
        while self.takes(",") {
            arguments.push(self.operand());
        }
        assert!(self.takes(")"));
        arguments
    }

    fn takes(&mut self, token: &str) -> bool {
        let found = self.tokens.last() == Some(&token);
        if found {
            self.tokens.pop();
        }
        found
    }
}

/// Performs the actions of the update expression. No two of them have the same attribute, so their order does not matter.
fn change(item: &mut Item, update: &Update) {
    let mut tokens = tokens(update.update_expression()).filter(|token| *token != ",");
    let mut clause = "";
    while let Some(token) = tokens.next() {
        if ["SET", "REMOVE", "ADD"].contains(&token) {
            clause = token;
            continue;
        }
        let name = name(update, token).to_owned();
        match clause {
            "SET" => {
                assert_eq!(tokens.next(), Some("="));
                let value = value(update, tokens.next().unwrap());
                item.insert(name, value.clone());
            }
            "REMOVE" => {
                item.remove(&name);
            }
            _ => add(item, name, value(update, tokens.next().unwrap())),
        }
    }
}

fn add(item: &mut Item, name: String, value: &AttributeValue) {
    match (item.get_mut(&name), value) {
        (None, _) => {
            item.insert(name, value.clone());
        }
        (Some(AttributeValue::Bs(set)), AttributeValue::Bs(keys)) => set.extend(keys.clone()),
        (Some(stored), value) => {
            *stored = AttributeValue::N((number(stored) + number(value)).to_string());
        }
    }
}

//! Finds the parts of multi-selects that a payload lacks.

use std::sync::Arc;

use super::Node;
use super::evaluate::place;
use crate::key::Text;

/// The most parts that are named. A message lists them, and a projection can add one for each element.
const MAX_NAMED: usize = 8;

/// The missing parts of one evaluation, in the order of the expression.
///
/// A part of `[a, b]` or `{x: a}` is missing if its own value cannot be a key. Parts inside a condition (a filter, a
/// comparison, `!`) are not parts of the value and are not noted. If a function makes a text from an absent value, this is
/// first noted without a name; the part around it then gives the name.
#[derive(Debug, Default)]
pub(super) struct Missing(Vec<Option<Arc<str>>>);

impl Missing {
    /// Returns the point to which [`forget_since`](Self::forget_since) goes back.
    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Removes the notes since `mark`: they belong to nothing in the value.
    pub(super) fn forget_since(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// Returns true if something was noted since `mark` that has no name.
    pub(super) fn has_unnamed_since(&self, mark: usize) -> bool {
        self.0.iter().skip(mark).any(Option::is_none)
    }

    /// Notes a part, unless a part inside it was noted since `mark`: that note is more precise.
    pub(super) fn note(&mut self, mark: usize, part: Option<&Arc<str>>) {
        if self.0.len() == mark && mark < MAX_NAMED {
            self.0.push(part.cloned());
        }
    }

    /// Gives the unnamed notes since `mark` the name of the part around them.
    pub(super) fn name_since(&mut self, mark: usize, part: &Arc<str>) {
        for name in self.0.iter_mut().skip(mark) {
            name.get_or_insert_with(|| Arc::clone(part));
        }
    }

    /// Removes the unnamed notes since `mark`: an element of a list in the payload is not a part.
    pub(super) fn forget_unnamed_since(&mut self, mark: usize) {
        let mut at = 0;
        self.0.retain(|name| {
            at += 1;
            at <= mark || name.is_some()
        });
    }

    /// Returns the names of the parts, each once. A note without a name gets the text of the whole expression.
    pub(super) fn into_names(self, whole: &str) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for part in self.0 {
            let part = part.unwrap_or_else(|| whole.into());
            if !names.contains(&part) {
                names.push(part);
            }
        }
        names
    }
}

/// The part that the expression takes from a value next. Only the parts of a multi-select that are taken can be missing.
///
/// If it is not known which parts are taken, as after a slice or a function, all parts count.
pub(super) struct Taking<'t> {
    what: What<'t>,
    /// What is taken from that part next.
    then: Option<&'t Taking<'t>>,
}

enum What<'t> {
    Field(&'t Text),
    Index(i64),
    /// The elements that a filter keeps.
    Filter,
}

/// How a part of a multi-select is used.
pub(super) enum Use<'t> {
    /// The part, or what is taken from it, becomes a part of the value.
    Taken(Option<&'t Taking<'t>>),
    /// A filter decides by its value. The part itself cannot be missing, but a part inside it can.
    Filtered,
    /// The part is not a part of the value.
    Dropped,
}

impl<'t> Taking<'t> {
    /// Returns what `node` takes from the value on its left; `None` if it takes the whole value or an unknown part.
    pub(super) fn by(node: &'t Node, then: Option<&'t Self>) -> Option<Self> {
        let what = match node {
            Node::Field(name) => What::Field(name),
            Node::Index(index) => What::Index(*index),
            Node::Chain(left, right) if matches!(**left, Node::Current) => {
                return Self::by(right, None);
            }
            Node::Chain(left, _) => return Self::by(left, None),
            _ => return None,
        };
        Some(Self { what, then })
    }

    /// Returns what a filter takes.
    pub(super) fn filter() -> Self {
        Self {
            what: What::Filter,
            then: None,
        }
    }

    /// Returns how the element at index `at` of a multi-select of `length` elements is used.
    pub(super) fn element(taking: Option<&'t Self>, at: usize, length: usize) -> Use<'t> {
        let Some(taking) = taking else {
            return Use::Taken(None);
        };
        let index = match taking.what {
            What::Filter => return Use::Filtered,
            What::Field(_) => return Use::Dropped,
            What::Index(index) => index,
        };
        if place(index, length) == Some(at) {
            Use::Taken(taking.then)
        } else {
            Use::Dropped
        }
    }

    /// Returns how the member with this name is used.
    pub(super) fn member(taking: Option<&'t Self>, name: &Text) -> Use<'t> {
        match taking {
            None => Use::Taken(None),
            Some(Self {
                what: What::Field(field),
                then,
            }) if *field == name => Use::Taken(*then),
            Some(_) => Use::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cases, missing};

    #[test]
    fn the_missing_parts_of_a_value_are_found_anywhere_in_the_expression() {
        for (expression, payload, expected) in cases(include_str!("tests/missing.txt")) {
            let found = missing(expression, payload).join("; ");
            let expected = expected.trim_matches('-');
            assert_eq!(found, expected, "{expression} on {payload}");
        }
    }

    #[test]
    fn at_most_eight_missing_parts_are_named() {
        let select = |count: usize| {
            let parts: Vec<_> = (0..count).map(|part| format!("p{part}")).collect();
            missing(&format!("[{}]", parts.join(",")), "{}")
        };
        assert_eq!(select(3), ["p0", "p1", "p2"]);
        assert_eq!(select(8).len(), 8);
        assert_eq!(select(9), select(8));
    }
}

//! Which parts of a multi-select a payload does not have.

use std::sync::Arc;

use super::compile::Node;
use crate::key::Text;

/// The most parts that are named: a message shows them, and a projection can meet one part for each element.
const MOST: usize = 8;

/// The parts that were missing in one evaluation, in the order of the expression.
///
/// A part of `[a, b]` or `{x: a}` is missing where its value alone would be no key. Parts inside a condition (a filter,
/// a comparison, `!`) do not become a part of the value and are not noted. A text that a function made of an absent value
/// is noted without a name; the part that it stands in gives it its name.
#[derive(Debug, Default)]
pub(super) struct Missing(Vec<Option<Arc<str>>>);

impl Missing {
    /// Returns the place to go back to with [`forget_since`](Self::forget_since).
    pub(super) fn mark(&self) -> usize {
        self.0.len()
    }

    /// Forgets what was noted since `mark`: it does not become a part of the value.
    pub(super) fn forget_since(&mut self, mark: usize) {
        self.0.truncate(mark);
    }

    /// Notes a part, unless a part inside it was noted since `mark`, which is more precise.
    pub(super) fn note(&mut self, mark: usize, part: Option<&Arc<str>>) {
        if self.0.len() == mark && mark < MOST {
            self.0.push(part.cloned());
        }
    }

    /// Gives what was noted without a name since `mark` the name of the part that it stands in.
    pub(super) fn name_since(&mut self, mark: usize, part: &Arc<str>) {
        for name in self.0.iter_mut().skip(mark) {
            name.get_or_insert_with(|| Arc::clone(part));
        }
    }

    /// Forgets what was noted without a name since `mark`: an element of a list of the payload is no part.
    pub(super) fn forget_unnamed_since(&mut self, mark: usize) {
        let mut at = 0;
        self.0.retain(|name| {
            at += 1;
            at <= mark || name.is_some()
        });
    }

    /// Returns the names of the parts, each once. What has no name is named by the whole expression.
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

/// What the expression takes from a value next. Of a multi-select, only the parts that it takes can be missing.
///
/// Where it is not known which parts are taken, as behind a slice or a function, all of them count.
pub(super) struct Taking<'t> {
    what: What<'t>,
    /// What is taken from that.
    then: Option<&'t Taking<'t>>,
}

enum What<'t> {
    Field(&'t Text),
    Index(i64),
    /// The elements that a filter takes.
    Some,
}

/// What becomes of a part of a multi-select.
pub(super) enum Use<'t> {
    /// It becomes a part of the value, or what is taken from it does.
    Taken(Option<&'t Taking<'t>>),
    /// A filter decides by its value: it is not missing, but a part inside it can be.
    Filtered,
    /// It does not become a part of the value.
    Dropped,
}

impl<'t> Taking<'t> {
    /// Returns what this node takes from the value on its left, or `None` where that is the whole or is not known.
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

    pub(super) fn filter() -> Self {
        Self {
            what: What::Some,
            then: None,
        }
    }

    /// Returns what becomes of one element of a multi-select of so many.
    pub(super) fn element(taking: Option<&'t Self>, at: usize, length: usize) -> Use<'t> {
        let Some(taking) = taking else {
            return Use::Taken(None);
        };
        let index = match taking.what {
            What::Some => return Use::Filtered,
            What::Field(_) => return Use::Dropped,
            What::Index(index) => index,
        };
        let distance = usize::try_from(index.unsigned_abs()).ok();
        let place = if index < 0 {
            distance.and_then(|back| length.checked_sub(back))
        } else {
            distance
        };
        if place == Some(at) {
            Use::Taken(taking.then)
        } else {
            Use::Dropped
        }
    }

    /// Returns what becomes of the member with this name.
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

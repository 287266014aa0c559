//! Evaluates multi-selects (`[a, b]`, `{x: a}`), and notes the parts that the payload lacks.

use std::borrow::Cow;

use super::compile::{Node, Selected};
use super::error::EvaluationError;
use super::evaluate::{NULL, Walk, weight};
use super::missing::{Taking, Use};
use crate::key::{Json, Object, Text, is_absent_key};

type Result<T> = std::result::Result<T, EvaluationError>;

impl Walk<'_> {
    /// Evaluates `[a, b]`.
    pub(super) fn list<'v>(
        &mut self,
        elements: &'v [Selected],
        value: &'v Json,
        taking: Option<&Taking<'_>>,
    ) -> Result<Cow<'v, Json>> {
        if matches!(value, Json::Null) {
            return Ok(NULL);
        }
        let mut list = self.budget.list(elements.len())?;
        for (at, element) in elements.iter().enumerate() {
            let used = Taking::element(taking, at, elements.len());
            let part = self.part(element, value, used)?;
            list.push(part);
        }
        Ok(Cow::Owned(Json::Array(list)))
    }

    /// Evaluates a part of a multi-select, and notes it if it is missing.
    fn part(&mut self, part: &Selected, value: &Json, used: Use<'_>) -> Result<Json> {
        let mark = self.missing.mark();
        let taking = match used {
            Use::Taken(taking) => taking,
            Use::Filtered | Use::Dropped => None,
        };
        let selected = self.visit_taking(&part.node, value, taking)?;
        let selected = self.own(selected)?;
        if matches!(used, Use::Dropped) {
            self.missing.forget_since(mark);
            return Ok(selected);
        }
        self.missing.name_since(mark, &part.text);
        if is_absent_key(&selected) {
            self.work(weight(&selected))?;
            if matches!(used, Use::Taken(_)) {
                self.missing.note(mark, Some(&part.text));
            }
        }
        Ok(selected)
    }

    /// Evaluates `{x: a, y: b}`.
    pub(super) fn hash<'v>(
        &mut self,
        node: &'v Node,
        value: &'v Json,
        taking: Option<&Taking<'_>>,
    ) -> Result<Cow<'v, Json>> {
        let (Node::Hash(pairs), false) = (node, matches!(value, Json::Null)) else {
            return Ok(NULL);
        };
        let mut members = self.budget.list(pairs.len())?;
        for (name, part) in pairs {
            let used = Taking::member(taking, name);
            let name = self.name(name)?;
            members.push((name, self.part(part, value, used)?));
        }
        let members = Object::charged(members, self.budget)?;
        Ok(Cow::Owned(Json::Object(members)))
    }

    /// Returns a charged copy of a member's name.
    pub(super) fn name(&mut self, name: &Text) -> Result<Text> {
        self.work(name.as_bytes().len())?;
        self.budget.charge(name.heap())?;
        Ok(name.clone())
    }
}

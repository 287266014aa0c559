//! Evaluates what makes an array of many elements: projections, filters, flattening and slices.

use std::borrow::Cow;

use super::compare::is_false;
use super::compile::Node;
use super::error::EvaluationError;
use super::evaluate::{NULL, Walk};
use super::missing::Taking;
use crate::key::{Json, List};

type Result<T> = std::result::Result<T, EvaluationError>;

impl Walk<'_> {
    /// Evaluates a projection or a filter: `over[*].each`, `over[?condition].each`.
    pub(super) fn project<'v>(
        &mut self,
        over: &'v Node,
        condition: Option<&'v Node>,
        each: &'v Node,
        value: &'v Json,
    ) -> Result<Cow<'v, Json>> {
        // A filter decides which parts are taken, as in `[a, b][?@]`.
        let taking = condition.is_some().then(Taking::filter);
        let over = self.visit_taking(over, value, taking.as_ref())?;
        let Json::Array(elements) = &*over else {
            return Ok(NULL);
        };
        let mut projected = List::new();
        for element in elements {
            if let Some(condition) = condition {
                let mark = self.missing.mark();
                let dropped = is_false(&*self.visit(condition, element)?);
                self.missing.forget_since(mark);
                if dropped {
                    continue;
                }
            }
            let mark = self.missing.mark();
            let result = self.visit(each, element)?;
            self.missing.forget_unnamed_since(mark);
            if !matches!(*result, Json::Null) {
                let result = self.own(result)?;
                projected.push(result, self.budget)?;
            }
        }
        Ok(Cow::Owned(Json::Array(projected.finish(self.budget)?)))
    }

    /// Evaluates `over.*`: the values of an object.
    pub(super) fn values<'v>(&mut self, over: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
        let over = self.visit(over, value)?;
        let Json::Object(members) = &*over else {
            return Ok(NULL);
        };
        self.copy(members.values())
    }

    /// Evaluates `over[]`.
    pub(super) fn flatten<'v>(&mut self, over: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
        let over = self.visit(over, value)?;
        let Json::Array(elements) = &*over else {
            return Ok(NULL);
        };
        self.copy(elements.iter().flat_map(|element| match element {
            Json::Array(inner) => inner.as_slice(),
            other => std::slice::from_ref(other),
        }))
    }

    /// Returns a new array of these elements.
    pub(super) fn copy<'a, 'v>(
        &mut self,
        elements: impl Iterator<Item = &'a Json>,
    ) -> Result<Cow<'v, Json>> {
        let mut copied = List::new();
        for element in elements {
            self.work(1)?;
            let element = self.own(Cow::Borrowed(element))?;
            copied.push(element, self.budget)?;
        }
        Ok(Cow::Owned(Json::Array(copied.finish(self.budget)?)))
    }

    /// Evaluates `[start:stop:step]`.
    pub(super) fn slice<'v>(
        &mut self,
        value: &'v Json,
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    ) -> Result<Cow<'v, Json>> {
        let Json::Array(elements) = value else {
            return Ok(NULL);
        };
        let length = i64::try_from(elements.len()).unwrap_or(i64::MAX);
        let backward = step.is_negative();
        // A backward slice ends before the first element, at index -1.
        let (low, high) = if backward {
            (-1, length - 1)
        } else {
            (0, length)
        };
        let place = |bound: i64| {
            if bound < 0 {
                (bound + length).max(low)
            } else {
                bound.min(high)
            }
        };
        let start = start.map_or(if backward { high } else { low }, place);
        let stop = stop.map_or(if backward { low } else { high }, place);
        let places = std::iter::successors(Some(start), |at| at.checked_add(step))
            .take_while(|&at| step != 0 && if backward { at > stop } else { at < stop });
        self.copy(places.filter_map(|place| elements.get(usize::try_from(place).ok()?)))
    }
}

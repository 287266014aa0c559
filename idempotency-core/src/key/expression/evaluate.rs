//! Evaluates an expression: visits its nodes and charges each step and each new value. Notes the parts of multi-selects that the
//! payload lacks.

use std::borrow::Cow;
use std::cmp::Ordering;

use idempotency_expression::Comparator;

use super::compare::{equal, is_false, is_ordered, order, steps_of_mixed};
use super::error::Result;
use super::missing::{Missing, Taking, Use};
use super::{Node, Selected, functions};
use crate::key::canonical::Layout;
use crate::key::{Budget, Json, List, Object, Text, is_absent_key, is_nothing};

/// The state of one evaluation. An expression can double its value at each step, so each new value and each step is charged.
pub(super) struct Walk<'b> {
    /// The layout of the texts that `to_string` makes.
    pub(super) layout: &'b Layout,
    pub(super) budget: &'b mut Budget,
    pub(super) missing: Missing,
    /// True if the parts of the value are compared, and false if they are a key. It decides which values are missing.
    pub(super) compares: bool,
}

impl Walk<'_> {
    /// Counts these steps.
    pub(super) fn work(&mut self, steps: usize) -> Result<()> {
        Ok(self.budget.work(steps)?)
    }

    /// Charges `size` bytes of memory, and a step for each word that is written.
    fn copied(&mut self, size: usize) -> Result<()> {
        self.work(size / size_of::<usize>())?;
        Ok(self.budget.charge(size)?)
    }

    /// Charges the heap memory of a new value.
    pub(super) fn made(&mut self, value: Json) -> Result<Json> {
        let size = value.heap();
        self.copied(size)?;
        Ok(value)
    }

    /// Returns an owned value. A borrowed value is copied, and the copy is charged.
    pub(super) fn own(&mut self, value: Cow<'_, Json>) -> Result<Json> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                let size = value.heap();
                self.copied(size)?;
                Ok(value.clone())
            }
        }
    }

    /// Returns true for the value of a part that is missing.
    pub(super) fn is_absent(&self, value: &Json) -> bool {
        if self.compares {
            is_nothing(value)
        } else {
            is_absent_key(value)
        }
    }

    /// Evaluates one node on a value.
    pub(super) fn visit<'v>(&mut self, node: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
        self.visit_taking(node, value, None)
    }

    /// Does what [`visit`](Self::visit) does. `taking` is the part that the expression takes from the node's value, if it is not the
    /// whole value. A part of a multi-select that is not taken is not missing.
    fn visit_taking<'v>(
        &mut self,
        node: &'v Node,
        value: &'v Json,
        taking: Option<&Taking<'_>>,
    ) -> Result<Cow<'v, Json>> {
        self.work(1)?;
        match node {
            Node::Current => Ok(Cow::Borrowed(value)),
            Node::Field(name) => Ok(member_of(value, name)),
            Node::Index(index) => Ok(index_of(value, *index)),
            Node::Slice { start, stop, step } => self.slice(value, *start, *stop, *step),
            Node::Literal(literal) => Ok(Cow::Borrowed(literal)),
            Node::List(elements) => self.list(elements, value, taking),
            Node::Hash(members) => self.hash(members, value, taking),
            Node::Chain(left, right) => self.chain(left, right, value, taking),
            Node::Project {
                over,
                condition,
                each,
            } => self.project(over, condition.as_deref(), each, value),
            Node::Values(over) => self.values(over, value),
            Node::Flatten(over) => self.flatten(over, value),
            Node::Or(left, right) => self.either(left, right, true, value),
            Node::And(left, right) => self.either(left, right, false, value),
            Node::Not(negated) => self.not(negated, value),
            Node::Compare {
                comparator,
                left,
                right,
            } => self.compare(*comparator, left, right, value),
            Node::Call {
                function,
                arguments,
                note,
            } => functions::call(self, *function, arguments, note, value),
        }
    }

    /// Evaluates `||` and `&&`. `||` takes the right side if the left is false, `&&` if the left is true.
    fn either<'v>(
        &mut self,
        left: &'v Node,
        right: &'v Node,
        on_false: bool,
        value: &'v Json,
    ) -> Result<Cow<'v, Json>> {
        let mark = self.missing.mark();
        let left = self.visit(left, value)?;
        if is_false(&left) == on_false {
            // The left side is not a part of the value.
            self.missing.forget_since(mark);
            self.visit(right, value)
        } else {
            Ok(left)
        }
    }

    fn not<'v>(&mut self, negated: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
        let mark = self.missing.mark();
        let negated = self.visit(negated, value)?;
        self.missing.forget_since(mark);
        Ok(Cow::Owned(Json::Bool(is_false(&negated))))
    }

    fn chain<'v>(
        &mut self,
        left: &'v Node,
        right: &'v Node,
        value: &'v Json,
        taking: Option<&Taking<'_>>,
    ) -> Result<Cow<'v, Json>> {
        let from_left = Taking::by(right, taking);
        match self.visit_taking(left, value, from_left.as_ref())? {
            Cow::Borrowed(between) => self.visit_taking(right, between, taking),
            Cow::Owned(between) => {
                if matches!(right, Node::Current) {
                    return Ok(Cow::Owned(between));
                }
                let result = self.visit_taking(right, &between, taking)?;
                self.own(result).map(Cow::Owned)
            }
        }
    }

    /// Evaluates an element of a new array, and appends it.
    pub(super) fn push(&mut self, list: &mut Vec<Json>, node: &Node, value: &Json) -> Result<()> {
        let element = self.visit(node, value)?;
        let element = self.own(element)?;
        Ok(self.budget.push(list, element)?)
    }

    fn compare<'v>(
        &mut self,
        comparator: Comparator,
        left: &'v Node,
        right: &'v Node,
        value: &'v Json,
    ) -> Result<Cow<'v, Json>> {
        let mark = self.missing.mark();
        let (left, right) = (self.visit(left, value)?, self.visit(right, value)?);
        self.missing.forget_since(mark);
        self.work(weight(&left).min(weight(&right)))?;
        let mut steps = match comparator {
            Comparator::Equal | Comparator::NotEqual => 0,
            _ => steps_of_mixed(&left, &right),
        };
        let holds = match comparator {
            Comparator::Equal => equal(&left, &right, &mut steps),
            Comparator::NotEqual => !equal(&left, &right, &mut steps),
            _ if !is_ordered(&left) || !is_ordered(&right) => return Ok(NULL),
            _ => order(&left, &right)?.is_some_and(match comparator {
                Comparator::Less => Ordering::is_lt,
                Comparator::LessOrEqual => Ordering::is_le,
                Comparator::Greater => Ordering::is_gt,
                _ => Ordering::is_ge,
            }),
        };
        // Counted after the comparison, because a comparison takes no more steps than the payload has bytes.
        self.work(steps)?;
        Ok(Cow::Owned(Json::Bool(holds)))
    }

    /// Evaluates a projection or a filter: `over[*].each`, `over[?condition].each`.
    fn project<'v>(
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
        let start = self.missing.mark();
        // True while no element that the filter keeps has the part.
        let mut lacks = false;
        let mut has = false;
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
            let found = !matches!(*result, Json::Null) && !self.missing.has_unnamed_since(mark);
            (lacks, has) = (lacks || !found, has || found);
            self.missing.forget_unnamed_since(mark);
            if !matches!(*result, Json::Null) {
                let result = self.own(result)?;
                projected.push(result, self.budget)?;
            }
        }
        if self.compares && lacks && !has {
            // The list is as empty as for no elements.
            self.missing.note(start, None);
        }
        Ok(Cow::Owned(Json::Array(projected.finish(self.budget)?)))
    }

    /// Evaluates `over.*`: the values of an object.
    fn values<'v>(&mut self, over: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
        let over = self.visit(over, value)?;
        let Json::Object(members) = &*over else {
            return Ok(NULL);
        };
        self.copy(members.values())
    }

    /// Evaluates `over[]`.
    fn flatten<'v>(&mut self, over: &'v Node, value: &'v Json) -> Result<Cow<'v, Json>> {
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
    fn slice<'v>(
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

    /// Evaluates `[a, b]`.
    fn list<'v>(
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
        let selected = self.visit_taking(&part.value, value, taking)?;
        let selected = self.own(selected)?;
        if matches!(used, Use::Dropped) {
            self.missing.forget_since(mark);
            return Ok(selected);
        }
        self.missing.name_since(mark, &part.text);
        if self.is_absent(&selected) {
            self.work(weight(&selected))?;
            if matches!(used, Use::Taken(_)) {
                self.missing.note(mark, Some(&part.text));
            }
        }
        Ok(selected)
    }

    /// Evaluates `{x: a, y: b}`.
    fn hash<'v>(
        &mut self,
        pairs: &'v [(Text, Selected)],
        value: &'v Json,
        taking: Option<&Taking<'_>>,
    ) -> Result<Cow<'v, Json>> {
        if matches!(value, Json::Null) {
            return Ok(NULL);
        }
        let mut members = self.budget.list(pairs.len())?;
        for (name, part) in pairs {
            let used = Taking::member(taking, name);
            let name = self.name(name.as_bytes())?;
            members.push((name, self.part(part, value, used)?));
        }
        let members = Object::charged(members, self.budget)?;
        Ok(Cow::Owned(Json::Object(members)))
    }

    /// Returns a charged copy of a member's name.
    pub(super) fn name(&mut self, name: &[u8]) -> Result<Text> {
        self.work(name.len())?;
        self.budget.allocate(name.len())?;
        Ok(Text::from_trusted(name))
    }
}

pub(super) const NULL: Cow<'static, Json> = Cow::Owned(Json::Null);

fn member_of<'v>(value: &'v Json, name: &Text) -> Cow<'v, Json> {
    match value {
        Json::Object(members) => members.get(name.as_bytes()).map_or(NULL, Cow::Borrowed),
        _ => NULL,
    }
}

fn index_of(value: &Json, index: i64) -> Cow<'_, Json> {
    let Json::Array(elements) = value else {
        return NULL;
    };
    place(index, elements.len())
        .and_then(|place| elements.get(place))
        .map_or(NULL, Cow::Borrowed)
}

/// Returns the place of an index in an array of this length; `None` if it is before the beginning. The place can be behind the end.
pub(super) fn place(index: i64, length: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 {
        length.checked_sub(distance)
    } else {
        Some(distance)
    }
}

/// Returns about how many steps it takes to read a value, without the contents of its elements and members.
pub(super) fn weight(value: &Json) -> usize {
    match value {
        Json::Int(integer) => integer.digits_beyond_64_bits(),
        Json::Float(float) => float.digits_beyond_64_bits(),
        Json::Str(text) => text.as_bytes().len(),
        Json::Array(elements) => elements.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    }
}

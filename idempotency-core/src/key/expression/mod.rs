//! JMESPath expressions: compiled once, evaluated on each event with the results of the reference implementation.
//!
//! The files refer to each other: evaluation calls functions, and functions evaluate their arguments.

mod aggregate;
mod compare;
mod envelope;
mod error;
mod evaluate;
mod event;
mod functions;
mod missing;
mod needs;
mod number;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::canonical::{COMPACT, Layout, PYTHON_COMPACT};
use super::needs::Needs;
use super::{Budget, Json};
pub(super) use envelope::base64;
use evaluate::Walk;
use idempotency_expression::{
    Ast, CallerFaults, HEADER_PLACES, Literal, Part, SyntaxError, advise_key, check_caller, parse,
    parse_with,
};
use missing::Missing;

pub use error::{EvaluationError, ExpressionError};

/// A compiled expression: literals are values, and each call notes what the expression looks at in its result.
type Node = Ast<Json, Needs>;
/// A part of a multi-select.
type Selected = Part<Json, Needs>;

/// A compiled JMESPath expression.
#[derive(Clone)]
pub struct Expression {
    text: String,
    node: Node,
    /// What the expression looks at in a payload.
    needs: Needs,
    /// The layout of the texts that `to_string` makes.
    layout: &'static Layout,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// Returns [`ExpressionError`] for wrong syntax, an unknown function or a wrong number of arguments. Its text shows the
    /// expression with a caret under the place.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let mut node = compile(text).map_err(|error| ExpressionError::new(text, error))?;
        Ok(Self {
            text: text.to_owned(),
            needs: needs::of(&mut node),
            node,
            layout: COMPACT,
        })
    }

    /// Compiles an expression that is not analysed: it looks at everything, also in the texts that it unwraps.
    #[cfg(test)]
    pub(crate) fn looking_at_all(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            needs: Needs::All,
            node: compile(text).unwrap(),
            layout: COMPACT,
        }
    }

    /// Returns true if the expression is one literal, so that its value is the same on each payload.
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.node, Node::Literal(_))
    }

    /// Sets whether `to_string` writes numbers as Python does.
    pub(super) fn set_python_numbers(&mut self, python: bool) {
        self.layout = if python { PYTHON_COMPACT } else { COMPACT };
    }

    /// Returns the expression's value on a payload.
    ///
    /// # Errors
    ///
    /// Returns [`EvaluationError`] if a value does not fit a function or a comparison, if the expression creates values of more than
    /// 256 MiB, or if more than 2^28 nodes are visited or bytes handled. The error names the function and the type, never the payload.
    pub fn evaluate(&self, payload: &Json) -> Result<Json, EvaluationError> {
        self.select(payload).map(|selection| selection.value)
    }

    /// Returns the expression's value on a payload, and the parts of its multi-selects that the payload lacks.
    pub fn select(&self, payload: &Json) -> Result<Selection, EvaluationError> {
        self.select_within(payload, &mut Budget::of_one_evaluation())
    }

    /// Does what [`select`](Self::select) does, within the budget that the payload has left.
    pub(crate) fn select_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<Selection, EvaluationError> {
        self.select_for(payload, budget, false)
    }

    /// Does what [`select_within`](Self::select_within) does. If `compares`, the parts of the value are compared and are
    /// no key: then an empty value is not missing, but a part that no element of a list has is.
    pub(crate) fn select_for(
        &self,
        payload: &Json,
        budget: &mut Budget,
        compares: bool,
    ) -> Result<Selection, EvaluationError> {
        budget.renew_work();
        let mut walk = Walk {
            layout: self.layout,
            budget,
            missing: Missing::default(),
            compares,
        };
        let value = walk.visit(&self.node, payload)?;
        let value = walk.own(value)?;
        Ok(Selection {
            value,
            missing: walk.missing.into_names(&self.text),
        })
    }

    /// Returns the steps of an evaluation; a step is about one node visited or one byte handled.
    ///
    /// For a fuzz target, which looks for steps that grow faster than the expression and the payload.
    #[cfg(fuzzing)]
    #[doc(hidden)]
    pub fn steps(&self, payload: &Json) -> usize {
        let mut budget = Budget::of_one_evaluation();
        let _selection = self.select_within(payload, &mut budget);
        budget.worked()
    }

    /// Returns true if the expression's value on a payload is true in JMESPath: not null, not `false` and not empty.
    pub(crate) fn holds_within(
        &self,
        payload: &Json,
        budget: &mut Budget,
    ) -> Result<bool, EvaluationError> {
        let selection = self.select_within(payload, budget)?;
        Ok(!compare::is_false(&selection.value))
    }

    /// Returns the name of a header if the expression looks it up in `headers` by its exact name.
    pub(crate) fn header_by_exact_name(&self) -> Option<&str> {
        HEADER_PLACES
            .into_iter()
            .find_map(|place| self.needs.exact_name_in(place))
    }

    /// Returns what the text shows of the value as the caller of a request: [`idempotency_expression::check_caller`].
    #[doc(hidden)]
    pub fn as_caller(&self) -> CallerFaults {
        let tree = parse(&self.text).ok();
        tree.map_or_else(CallerFaults::default, |tree| check_caller(&tree))
    }

    /// Returns what the expression should not have as a key, or as that of a lock.
    #[doc(hidden)]
    pub fn advice_as_key(&self, is_lock: bool) -> Option<String> {
        advise_key(&parse(&self.text).ok()?, is_lock)
    }

    /// Returns what the expression looks at in a payload.
    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    /// Returns the text of the expression.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn compile(text: &str) -> Result<Node, SyntaxError> {
    parse_with(text, Needs::All, &value_of)
}

/// Returns the value of a literal.
fn value_of(literal: &Literal) -> Option<Json> {
    match literal {
        Literal::Raw(text) => Some(Json::Str(text.as_str().into())),
        Literal::Word(word) => Some(Json::Str(word.clone())),
        Literal::Json(json) => Json::parse(json).ok(),
    }
}

/// The result of [`Expression::select`] on a payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Selection {
    /// The expression's value.
    pub value: Json,
    /// The parts of multi-selects (`[a, b]`, `{x: a}`) that the payload lacks, each by its text in the expression; at most 8.
    ///
    /// A part is missing if its own value cannot be a key (see [`is_absent_key`](super::is_absent_key)), or if it is the
    /// result of `to_string` or `to_array` on such a value.
    pub missing: Vec<Arc<str>>,
}

impl FromStr for Expression {
    type Err = ExpressionError;

    /// Compiles an expression, like [`Expression::compile`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::compile(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

#[cfg(test)]
mod tests;

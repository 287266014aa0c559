//! The tree of a checked expression.

use std::sync::Arc;

use crate::function::Function;
use crate::text::Text;
use crate::tokens::Literal;

/// A checked expression.
///
/// An evaluator chooses what literals become (`L`) and what is noted in a call (`R`): [`parse_with`](crate::parse_with). The enum is
/// exhaustive: an evaluator must handle every node, so a new node is a breaking change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ast<L = Literal, R = ()> {
    /// `@`: the current value.
    Current,
    /// A member of an object.
    Field(Text),
    /// An element of an array. A negative index counts from the end.
    Index(i64),
    /// `[start:stop:step]` of an array, which is not a projection by itself. The step is never 0.
    Slice {
        /// The first index.
        start: Option<i64>,
        /// The index to stop before.
        stop: Option<i64>,
        /// The step.
        step: i64,
    },
    /// A literal.
    Literal(L),
    /// `[a, b]`. It is null if the current value is null.
    List(Vec<Part<L, R>>),
    /// `{a: b}`. It is null if the current value is null. Of several members with one name, the last value counts.
    Hash(Vec<(Text, Part<L, R>)>),
    /// `a.b`, `a[0]` or `a | b`: evaluates the second expression on the result of the first.
    Chain(Box<Self>, Box<Self>),
    /// Evaluates `each` on every element of the array `over`, and drops nulls. It is null if `over` is not an array.
    Project {
        /// The expression that returns the array.
        over: Box<Self>,
        /// The condition on an element, if it is a filter: `[?a]`.
        condition: Option<Box<Self>>,
        /// The expression for each element.
        each: Box<Self>,
    },
    /// The values of an object, as an array. It is null if the value is not an object.
    Values(Box<Self>),
    /// An array in which inner arrays are merged. It is null if the value is not an array.
    Flatten(Box<Self>),
    /// `a || b`.
    Or(Box<Self>, Box<Self>),
    /// `a && b`.
    And(Box<Self>, Box<Self>),
    /// `!a`.
    Not(Box<Self>),
    /// `a == b` or another comparison.
    Compare {
        /// The comparison.
        comparator: Comparator,
        /// The left side.
        left: Box<Self>,
        /// The right side.
        right: Box<Self>,
    },
    /// A call, with the number of arguments that the function takes.
    Call {
        /// The function.
        function: Function,
        /// Its arguments. Where [`takes_expression`](Function::takes_expression) is true, the function evaluates the argument.
        arguments: Vec<Self>,
        /// What the evaluator notes.
        note: R,
    },
}

/// A part of a multi-select: an element of `[a, b]`, or the value of a member of `{x: a}`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<L = Literal, R = ()> {
    /// The part as it was written. Messages name the part by it.
    pub text: Arc<str>,
    /// The expression of the part.
    pub value: Ast<L, R>,
}

/// The comparison of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

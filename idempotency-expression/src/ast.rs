//! The tree of a checked expression.

use std::sync::Arc;

use crate::Function;

/// A checked expression.
///
/// An evaluator chooses what literals become (`L`) and what is noted in a call (`R`): [`parse_with`](crate::parse_with). The enum is
/// exhaustive: an evaluator must handle every node, so a new node is a breaking change.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, parse};
///
/// let field = |name: &str| Box::new(Ast::Field(Name::from(name)));
/// assert_eq!(parse("order.id")?, Ast::Chain(field("order"), field("id")));
/// assert_eq!(parse("id || order_id")?, Ast::Or(field("id"), field("order_id")));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ast<L = Literal, R = ()> {
    /// `@`: the current value.
    Current,
    /// A member of an object.
    Field(Name),
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
    Hash(Vec<(Name, Part<L, R>)>),
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
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, parse};
///
/// let Ast::List(parts) = parse("[user.id,  order_id]")? else { panic!("it is a list") };
/// assert_eq!(&*parts[0].text, "user.id");
/// assert_eq!(parts[1].value, Ast::Field(Name::from("order_id")));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<L = Literal, R = ()> {
    /// The part as it was written. Messages name the part by it.
    pub text: Arc<str>,
    /// The expression of the part.
    pub value: Ast<L, R>,
}

/// The name of a member.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, parse};
///
/// assert_eq!(parse(r#""order id""#)?, Ast::Field(Name::from("order id")));
/// let Ast::Field(lone) = parse(r#""\ud800""#)? else { panic!("it is a field") };
/// assert_eq!((lone.as_str(), lone.as_bytes()), (None, &[0xED, 0xA0, 0x80][..]));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name(pub(crate) Box<[u8]>);

impl Name {
    /// Returns the name, or `None` if it has a lone surrogate, which a `str` cannot hold.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Returns the bytes: UTF-8, in which a lone surrogate takes three bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(name.as_bytes().into())
    }
}

/// A literal in an expression.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Literal, parse};
///
/// assert_eq!(parse("'paid'")?, Ast::Literal(Literal::Raw("paid".to_owned())));
/// assert_eq!(parse("`1.50`")?, Ast::Literal(Literal::Json("1.50".to_owned())));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal {
    /// A raw string: `'text'`.
    Raw(String),
    /// The text between backticks, if it is JSON. It stays a text, so that numbers keep all their digits.
    Json(String),
    /// The text between backticks, if it is not JSON: `` `foo` `` is the string `"foo"`.
    Word(Name),
}

/// The comparison of two values.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Comparator, parse};
///
/// let Ast::Compare { comparator, .. } = parse("amount >= `100`")? else { panic!("it compares") };
/// assert_eq!(comparator, Comparator::GreaterOrEqual);
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
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

//! The tree of a checked expression.

use crate::Function;

/// A checked expression.
///
/// The enum is exhaustive: an evaluator must handle every node, so a new node is a breaking change.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, parse};
///
/// let field = |name: &str| Box::new(Ast::Field(Name::Plain(name.to_owned())));
/// assert_eq!(parse("order.id")?, Ast::Chain(field("order"), field("id")));
/// assert_eq!(parse("id || order_id")?, Ast::Or(field("id"), field("order_id")));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ast {
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
    Literal(Literal),
    /// `[a, b]`. It is null if the current value is null.
    List(Vec<Part>),
    /// `{a: b}`. It is null if the current value is null. Of several members with one name, the last value counts.
    Hash(Vec<(Name, Part)>),
    /// `a.b`, `a[0]` or `a | b`: evaluates the second expression on the result of the first.
    Chain(Box<Ast>, Box<Ast>),
    /// Evaluates `each` on every element of the array `over`, and drops nulls. It is null if `over` is not an array.
    Project {
        /// The expression that returns the array.
        over: Box<Ast>,
        /// The expression for each element.
        each: Box<Ast>,
    },
    /// The same as [`Project`](Self::Project), but only for elements that satisfy a condition.
    Filter {
        /// The expression that returns the array.
        over: Box<Ast>,
        /// The condition on an element.
        condition: Box<Ast>,
        /// The expression for each element.
        each: Box<Ast>,
    },
    /// The values of an object, as an array. It is null if the value is not an object.
    Values(Box<Ast>),
    /// An array in which inner arrays are merged. It is null if the value is not an array.
    Flatten(Box<Ast>),
    /// `a || b`.
    Or(Box<Ast>, Box<Ast>),
    /// `a && b`.
    And(Box<Ast>, Box<Ast>),
    /// `!a`.
    Not(Box<Ast>),
    /// `a == b` or another comparison.
    Compare {
        /// The comparison.
        comparator: Comparator,
        /// The left side.
        left: Box<Ast>,
        /// The right side.
        right: Box<Ast>,
    },
    /// A call, with the number of arguments that the function takes.
    Call {
        /// The function.
        function: Function,
        /// Its arguments.
        arguments: Vec<Argument>,
    },
}

/// A part of a multi-select: an element of `[a, b]`, or the value of a member of `{x: a}`.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, Part, parse};
///
/// let Ast::List(parts) = parse("[user.id,  order_id]")? else { panic!("it is a list") };
/// assert_eq!(parts[0].text, "user.id");
/// assert_eq!(parts[1].value, Ast::Field(Name::Plain("order_id".to_owned())));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The part as it was written. Messages name the part by it.
    pub text: String,
    /// The expression of the part.
    pub value: Ast,
}

/// An argument of a call.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Argument, Ast, parse};
///
/// let Ast::Call { arguments, .. } = parse("max_by(items, &price)")? else { panic!("it is a call") };
/// assert!(matches!(arguments[..], [Argument::Value(_), Argument::Expression(_)]));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// An expression that is evaluated before the call.
    Value(Ast),
    /// `&expression`, which the function evaluates on each element. Only some parameters accept it.
    Expression(Ast),
}

/// The name of a member.
///
/// # Examples
///
/// ```
/// use idempotency_expression::{Ast, Name, parse};
///
/// assert_eq!(parse(r#""order id""#)?, Ast::Field(Name::Plain("order id".to_owned())));
/// assert_eq!(parse(r#""\ud800""#)?, Ast::Field(Name::Json(r#""\ud800""#.to_owned())));
/// # Ok::<(), idempotency_expression::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Name {
    /// The name itself.
    Plain(String),
    /// The name as a JSON string with its quotes, because it has a lone surrogate, which a `String` cannot hold.
    Json(String),
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
    /// The text between backticks. It is JSON, or else a string: `` `foo` `` is `"foo"`. It stays a text, so that numbers keep
    /// all their digits.
    Json(String),
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

//! What an expression means.

use crate::Function;

/// A checked expression.
///
/// An evaluator has to handle every node, so a new one is a breaking change and the enum is exhaustive.
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
    /// An element of an array; negative counts from the end.
    Index(i64),
    /// `[start:stop:step]` of an array, without a projection. The step is never 0.
    Slice {
        /// The first index.
        start: Option<i64>,
        /// The index to stop before.
        stop: Option<i64>,
        /// The step.
        step: i64,
    },
    /// A constant.
    Literal(Literal),
    /// `[a, b]`: null on null.
    List(Vec<Part>),
    /// `{a: b}`: null on null. A later member of one name replaces the value of an earlier one.
    Hash(Vec<(Name, Part)>),
    /// The second evaluated on the result of the first: `a.b`, `a[0]`, `a | b`.
    Chain(Box<Ast>, Box<Ast>),
    /// `each` on every element of the array `over`; nulls are dropped. Null where `over` is no array.
    Project {
        /// Where the elements come from.
        over: Box<Ast>,
        /// What becomes of each.
        each: Box<Ast>,
    },
    /// The same, for the elements that satisfy a condition.
    Filter {
        /// Where the elements come from.
        over: Box<Ast>,
        /// What an element has to satisfy.
        condition: Box<Ast>,
        /// What becomes of each.
        each: Box<Ast>,
    },
    /// The values of an object as an array; null where it is no object.
    Values(Box<Ast>),
    /// An array with the arrays in it merged; null where it is no array.
    Flatten(Box<Ast>),
    /// `a || b`.
    Or(Box<Ast>, Box<Ast>),
    /// `a && b`.
    And(Box<Ast>, Box<Ast>),
    /// `!a`.
    Not(Box<Ast>),
    /// `a == b` and the like.
    Compare {
        /// How to compare.
        comparator: Comparator,
        /// The left side.
        left: Box<Ast>,
        /// The right side.
        right: Box<Ast>,
    },
    /// A call with as many arguments as the function takes.
    Call {
        /// The function.
        function: Function,
        /// Its arguments.
        arguments: Vec<Argument>,
    },
}

/// A part of a multi-select: an element of `[a, b]`, or the value of a member of `{x: a}`.
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
    /// The part as it was written: its name in messages.
    pub text: String,
    /// What it selects.
    pub value: Ast,
}

/// An argument of a call.
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
    /// A value: evaluated before the call.
    Value(Ast),
    /// `&expression`: evaluated by the function, on each element. Stands only where the function takes one.
    Expression(Ast),
}

/// The name of a member.
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
    /// The name as a JSON string, quotes included: it holds a lone surrogate, which a `String` cannot.
    Json(String),
}

/// A constant of an expression.
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
    /// The text between backticks, to be read as JSON, or as a string where it is none: `` `foo` `` is `"foo"`.
    /// Kept as text, so that no digit is lost.
    Json(String),
}

/// How two values are compared.
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

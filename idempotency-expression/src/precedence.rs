//! Applies operators in the order of the reference implementation, jmespath.py.
//!
//! The order differs from the tree of the `jmespath` crate in three forms:
//!
//! 1. `a[0][1:].b`: a slice directly after an index is not a projection. `.b` is applied to the array, and is null.
//! 2. `a.*.b.c`: the projection ends before the second dot. `.c` is applied to the array.
//! 3. `a[*].{b: c}.d`: the projection ends after the braces.
//!
//! Both implementations must make the same keys. So a tree is split into its first operand and the operators after it. Operators
//! that the crate put into a projection are moved out of it if the reference ends the projection before them.
//! The operands are converted by `convert`, which calls this file for a tree with operators.

use jmespath::ast::Ast as Parsed;

use crate::adapter::Adapter;
use crate::convert::convert;
use crate::{Ast, SyntaxError};

type Result<T> = std::result::Result<T, SyntaxError>;

/// How strongly each operator binds.
mod power {
    pub(super) const FLATTEN: usize = 9;
    pub(super) const STAR: usize = 20;
    pub(super) const FILTER: usize = 21;
    pub(super) const DOT: usize = 40;
    pub(super) const NOT: usize = 45;
    pub(super) const BRACKET: usize = 55;
}

/// A first operand, if any, and the operators after it in the order of the text.
#[derive(Default)]
struct Sequence {
    first: Option<First>,
    operators: Vec<Operator>,
}

/// The first operand of a sequence.
struct First {
    ast: Ast,
    /// True for `{..}`: no operator after it stays in a projection.
    braces: bool,
    /// True for an index expression in parentheses.
    index: bool,
}

/// An operator without its left side. The operators on each element stay separate until the end of the projection is known.
enum Operator {
    Dot(Ast),
    /// An index, or a slice that is not a projection.
    Index(Ast),
    Slice(Ast, Sequence),
    Values(Sequence),
    Elements(Sequence),
    Flatten(Sequence),
    Filter(Ast, Sequence),
}

impl Operator {
    fn power(&self) -> usize {
        match self {
            Self::Flatten(_) => power::FLATTEN,
            Self::Filter(..) => power::FILTER,
            Self::Dot(_) | Self::Values(_) => power::DOT,
            Self::Index(_) | Self::Slice(..) | Self::Elements(_) => power::BRACKET,
        }
    }
}

/// Converts a chain of operators, or a negation of one.
pub(crate) fn convert_sequence(adapter: &Adapter, parsed: Parsed) -> Result<Ast> {
    Ok(join(sequence(adapter, parsed)?))
}

/// Splits a tree into its first operand and the operators after it.
fn sequence(adapter: &Adapter, parsed: Parsed) -> Result<Sequence> {
    match parsed {
        Parsed::Subexpr { offset, lhs, rhs }
            if !adapter.is(offset, "|") && !adapter.is_mark(offset) =>
        {
            let mut left = sequence(adapter, *lhs)?;
            if adapter.is(offset, "[") {
                extend(&mut left, sequence(adapter, *rhs)?);
            } else {
                let (right, rest) = split(sequence(adapter, *rhs)?, power::DOT, true);
                left.operators.push(Operator::Dot(join(right)));
                rest.into_iter()
                    .for_each(|operator| push(&mut left, operator));
            }
            Ok(left)
        }
        Parsed::Projection { lhs, rhs, .. } => projection(adapter, *lhs, *rhs),
        Parsed::Index { .. } | Parsed::Slice { .. } => {
            let operators = vec![Operator::Index(convert(adapter, parsed)?)];
            Ok(Sequence {
                first: None,
                operators,
            })
        }
        Parsed::Not { node, .. } => {
            let (negated, rest) = split(sequence(adapter, *node)?, power::NOT, false);
            let ast = Ast::Not(Box::new(join(negated)));
            Ok(Sequence {
                first: Some(First {
                    ast,
                    braces: false,
                    index: false,
                }),
                operators: rest,
            })
        }
        first => {
            let braces = matches!(first, Parsed::MultiHash { .. });
            let index = adapter.is_index_in_parentheses(&first);
            Ok(Sequence {
                first: Some(First {
                    ast: convert(adapter, first)?,
                    braces,
                    index,
                }),
                operators: Vec::new(),
            })
        }
    }
}

/// Splits a projection.
fn projection(adapter: &Adapter, over: Parsed, each: Parsed) -> Result<Sequence> {
    let (mut left, operator) = match (over, each) {
        (
            over,
            Parsed::Condition {
                predicate, then, ..
            },
        ) => {
            let condition = convert(adapter, *predicate)?;
            (
                before(adapter, over, "[?")?,
                Operator::Filter(condition, inside(adapter, *then)?),
            )
        }
        (Parsed::ObjectValues { node, .. }, each) => (
            before(adapter, *node, "*")?,
            Operator::Values(inside(adapter, each)?),
        ),
        (Parsed::Flatten { node, .. }, each) => (
            before(adapter, *node, "[]")?,
            Operator::Flatten(inside(adapter, each)?),
        ),
        (slice @ Parsed::Slice { .. }, each) => (
            Sequence::default(),
            Operator::Slice(convert(adapter, slice)?, inside(adapter, each)?),
        ),
        (over, each) => (
            before(adapter, over, "[")?,
            Operator::Elements(inside(adapter, each)?),
        ),
    };
    push(&mut left, operator);
    Ok(left)
}

/// Splits what is before an operator. It is empty if the crate has the operator's own offset there.
fn before(adapter: &Adapter, over: Parsed, symbol: &str) -> Result<Sequence> {
    match over {
        Parsed::Identity { offset } if adapter.is(offset, symbol) => Ok(Sequence::default()),
        over => sequence(adapter, over),
    }
}

/// Splits the operators on each element. They are empty if the crate has a current value that is not in the text.
fn inside(adapter: &Adapter, each: Parsed) -> Result<Sequence> {
    match each {
        Parsed::Identity { .. } => Ok(Sequence::default()),
        each => sequence(adapter, each),
    }
}

/// Appends an operator. Operators that the reference does not leave in its projection are appended after it.
fn push(left: &mut Sequence, operator: Operator) {
    let begins = left.first.is_none() && left.operators.is_empty();
    let after_index = match (left.operators.last(), &left.first) {
        (Some(last), _) => matches!(last, Operator::Index(_)),
        (None, first) => first.as_ref().is_some_and(|first| first.index),
    };
    let (operator, rest) = match operator {
        Operator::Slice(slice, each) if after_index => {
            left.operators.push(Operator::Index(slice));
            return extend(left, each);
        }
        Operator::Slice(slice, each) => {
            ended(each, power::STAR, |each| Operator::Slice(slice, each))
        }
        Operator::Values(each) => ended(
            each,
            if begins { power::STAR } else { power::DOT },
            Operator::Values,
        ),
        Operator::Elements(each) => ended(each, power::STAR, Operator::Elements),
        Operator::Flatten(each) => ended(each, power::FLATTEN, Operator::Flatten),
        Operator::Filter(condition, each) => ended(each, power::FILTER, |each| {
            Operator::Filter(condition, each)
        }),
        plain => (plain, Vec::new()),
    };
    left.operators.push(operator);
    rest.into_iter().for_each(|operator| push(left, operator));
}

/// Appends a sequence.
fn extend(left: &mut Sequence, right: Sequence) {
    if let Some(first) = right.first {
        left.operators.push(Operator::Dot(first.ast));
    }
    right
        .operators
        .into_iter()
        .for_each(|operator| push(left, operator));
}

/// Ends a projection: returns it, and the operators that follow it.
fn ended(
    each: Sequence,
    outer: usize,
    operator: impl FnOnce(Sequence) -> Operator,
) -> (Operator, Vec<Operator>) {
    let (each, rest) = split(each, outer, true);
    (operator(each), rest)
}

/// Splits off the operators that do not bind more strongly than this.
fn split(mut sequence: Sequence, outer: usize, after_dot: bool) -> (Sequence, Vec<Operator>) {
    let closed = after_dot && sequence.first.as_ref().is_some_and(|first| first.braces);
    // An operator at the start of the sequence has no left side to leave.
    let least = usize::from(sequence.first.is_none());
    let stays =
        |(at, operator): &(usize, &Operator)| !closed && (*at < least || operator.power() > outer);
    let kept = sequence
        .operators
        .iter()
        .enumerate()
        .take_while(stays)
        .count();
    let rest = sequence.operators.split_off(kept);
    (sequence, rest)
}

/// Builds the tree of a sequence.
fn join(sequence: Sequence) -> Ast {
    let mut ast = sequence.first.map(|first| first.ast);
    for operator in sequence.operators {
        let over = Box::new(ast.take().unwrap_or(Ast::Current));
        let each = |each: Sequence| Box::new(join(each));
        ast = Some(match operator {
            Operator::Dot(right) | Operator::Index(right) => Ast::Chain(over, Box::new(right)),
            Operator::Slice(slice, inside) => Ast::Project {
                over: Box::new(Ast::Chain(over, Box::new(slice))),
                each: each(inside),
            },
            Operator::Values(inside) => Ast::Project {
                over: Box::new(Ast::Values(over)),
                each: each(inside),
            },
            Operator::Flatten(inside) => Ast::Project {
                over: Box::new(Ast::Flatten(over)),
                each: each(inside),
            },
            Operator::Elements(inside) => Ast::Project {
                over,
                each: each(inside),
            },
            Operator::Filter(condition, inside) => Ast::Filter {
                over,
                condition: Box::new(condition),
                each: each(inside),
            },
        });
    }
    ast.unwrap_or(Ast::Current)
}

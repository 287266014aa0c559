//! Converts the tree of the `jmespath` crate into ours.
//!
//! Names and literals come back from the tokens, and a few forms are read as the reference implementation reads them.
//!
//! This file and `precedence` call each other: a tree with operators is split there, and its operands are converted here.

use jmespath::ast::{Ast as Parsed, Comparator as ParsedComparator};

use crate::adapter::Adapter;
use crate::tokens::{Kind, Token};
use crate::{Argument, Ast, Comparator, Function, Literal, Name, Part, SyntaxError, precedence};

type Result<T> = std::result::Result<T, SyntaxError>;

/// Converts a tree.
///
/// Each kind of node has a function of its own: a single function would need a stack frame as large as all of them.
pub(crate) fn convert(adapter: &Adapter, parsed: Parsed) -> Result<Ast> {
    match parsed {
        Parsed::MultiList { offset, elements } => list(adapter, offset, elements),
        Parsed::MultiHash { offset, elements } => hash(adapter, offset, elements),
        Parsed::Or { .. } | Parsed::And { .. } | Parsed::Comparison { .. } => {
            binary(adapter, parsed)
        }
        Parsed::Function { offset, name, args } => call(adapter, offset, &name, args),
        Parsed::Subexpr { offset, lhs, rhs } if adapter.is(offset, "|") => {
            Ok(Ast::Chain(boxed(adapter, *lhs)?, boxed(adapter, *rhs)?))
        }
        Parsed::Subexpr { offset, lhs, .. } if adapter.is_mark(offset) => convert(adapter, *lhs),
        Parsed::Not { .. } | Parsed::Subexpr { .. } | Parsed::Projection { .. } => {
            precedence::convert_sequence(adapter, parsed)
        }
        _ => leaf(adapter, parsed),
    }
}

fn leaf(adapter: &Adapter, parsed: Parsed) -> Result<Ast> {
    Ok(match parsed {
        Parsed::Field { offset, name } => Ast::Field(match adapter.token_at(offset) {
            Some(Token {
                kind: Kind::Quoted(name),
                ..
            }) => name.clone(),
            _ => Name::Plain(name),
        }),
        Parsed::Index { idx, .. } => Ast::Index(i64::from(idx)),
        Parsed::Slice {
            start, stop, step, ..
        } => Ast::Slice {
            start: start.map(i64::from),
            stop: stop.map(i64::from),
            step: i64::from(step),
        },
        Parsed::Literal { offset, .. } => Ast::Literal(match adapter.token_at(offset) {
            Some(Token {
                kind: Kind::Literal(literal),
                ..
            }) => literal.clone(),
            _ => Literal::Raw(String::new()),
        }),
        Parsed::Expref { offset, .. } => {
            let message = "`&` is only allowed before an argument that `map`, `sort_by`, `min_by` or `max_by` evaluates";
            return Err(SyntaxError::new(adapter.offset(offset), message));
        }
        _ => Ast::Current,
    })
}

fn list(adapter: &Adapter, offset: usize, elements: Vec<Parsed>) -> Result<Ast> {
    let mut texts = adapter.elements(offset).into_iter();
    let mut list = Vec::with_capacity(elements.len());
    for element in elements {
        list.push(part(adapter, texts.next(), element)?);
    }
    Ok(Ast::List(list))
}

fn hash(
    adapter: &Adapter,
    offset: usize,
    elements: Vec<jmespath::ast::KeyValuePair>,
) -> Result<Ast> {
    let mut texts = adapter.members(offset).into_iter();
    let mut members = Vec::with_capacity(elements.len());
    for pair in elements {
        let name = member_name(adapter, pair.key);
        members.push((name, part(adapter, texts.next(), pair.value)?));
    }
    Ok(Ast::Hash(members))
}

fn part(adapter: &Adapter, text: Option<String>, value: Parsed) -> Result<Part> {
    Ok(Part {
        text: text.unwrap_or_default(),
        value: convert(adapter, value)?,
    })
}

fn binary(adapter: &Adapter, parsed: Parsed) -> Result<Ast> {
    let (lhs, rhs, comparator) = match parsed {
        Parsed::Or { lhs, rhs, .. } => {
            return Ok(Ast::Or(boxed(adapter, *lhs)?, boxed(adapter, *rhs)?));
        }
        Parsed::And { lhs, rhs, .. } => {
            return Ok(Ast::And(boxed(adapter, *lhs)?, boxed(adapter, *rhs)?));
        }
        Parsed::Comparison {
            comparator,
            lhs,
            rhs,
            ..
        } => (lhs, rhs, comparator),
        other => return leaf(adapter, other),
    };
    let comparator = match comparator {
        ParsedComparator::Equal => Comparator::Equal,
        ParsedComparator::NotEqual => Comparator::NotEqual,
        ParsedComparator::LessThan => Comparator::Less,
        ParsedComparator::LessThanEqual => Comparator::LessOrEqual,
        ParsedComparator::GreaterThan => Comparator::Greater,
        ParsedComparator::GreaterThanEqual => Comparator::GreaterOrEqual,
    };
    Ok(Ast::Compare {
        comparator,
        left: boxed(adapter, *lhs)?,
        right: boxed(adapter, *rhs)?,
    })
}

fn boxed(adapter: &Adapter, parsed: Parsed) -> Result<Box<Ast>> {
    convert(adapter, parsed).map(Box::new)
}

fn member_name(adapter: &Adapter, key: String) -> Name {
    // An identifier does not begin with a digit, so a number is the number of a quoted name's token.
    match key
        .parse()
        .ok()
        .and_then(|index| adapter.token(index))
        .map(|token| &token.kind)
    {
        Some(Kind::Quoted(name)) => name.clone(),
        _ => Name::Plain(key),
    }
}

fn call(adapter: &Adapter, parenthesis: usize, name: &str, args: Vec<Parsed>) -> Result<Ast> {
    let (function, offset) = called(adapter, parenthesis, name, args.len())?;
    let mut arguments = Vec::with_capacity(args.len());
    for (at, parsed) in args.into_iter().enumerate() {
        arguments.push(argument(adapter, function, offset, at, parsed)?);
    }
    Ok(Ast::Call {
        function,
        arguments,
    })
}

/// Returns the function with this name, and the place of the name.
fn called(
    adapter: &Adapter,
    parenthesis: usize,
    name: &str,
    given: usize,
) -> Result<(Function, usize)> {
    let before = adapter
        .index_at(parenthesis)
        .and_then(|index| adapter.token(index.checked_sub(1)?));
    let (name, offset) = match before {
        Some(Token {
            kind: Kind::Identifier(own),
            offset,
        }) if own == name => (name.to_owned(), *offset),
        _ => {
            let (Name::Plain(name) | Name::Json(name)) = member_name(adapter, name.to_owned());
            (name, adapter.offset(parenthesis))
        }
    };
    let Some(function) = Function::from_name(&name) else {
        return Err(SyntaxError::new(offset, Function::refuse_name(&name)));
    };
    if let Some(message) = function.refuse_count(given) {
        return Err(SyntaxError::new(offset, message));
    }
    Ok((function, offset))
}

fn argument(
    adapter: &Adapter,
    function: Function,
    offset: usize,
    at: usize,
    parsed: Parsed,
) -> Result<Argument> {
    match (parsed, function.takes_expression(at)) {
        (Parsed::Expref { ast, .. }, true) => Ok(Argument::Expression(convert(adapter, *ast)?)),
        (Parsed::Expref { offset, .. }, false) => {
            let message = format!("`{function}` takes a value here; remove the `&`");
            Err(SyntaxError::new(adapter.offset(offset), message))
        }
        (_, true) => {
            let message = format!(
                "argument {} of `{function}` must be an expression; write `&` before it",
                at + 1
            );
            Err(SyntaxError::new(offset, message))
        }
        (value, false) => {
            let value = convert(adapter, value)?;
            match function.refuse_value(at, &value) {
                None => Ok(Argument::Value(value)),
                Some(message) => Err(SyntaxError::new(offset, message)),
            }
        }
    }
}

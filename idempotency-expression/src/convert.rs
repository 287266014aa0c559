//! From the crate's tree to ours, with names and literals put back and the reference's reading of a few forms.

use jmespath::ast::{Ast as Parsed, Comparator as ParsedComparator};

use crate::border::Border;
use crate::tokens::{Kind, Token};
use crate::{Argument, Ast, Comparator, Function, Literal, Name, Part, SyntaxError, reference};

type Result<T> = std::result::Result<T, SyntaxError>;

/// Converts a tree.
///
/// Each kind of node has a function of its own: one with all of them would take a frame as large as all of them.
pub(crate) fn convert(border: &Border, parsed: Parsed) -> Result<Ast> {
    match parsed {
        Parsed::MultiList { offset, elements } => list(border, offset, elements),
        Parsed::MultiHash { offset, elements } => hash(border, offset, elements),
        Parsed::Or { .. } | Parsed::And { .. } | Parsed::Comparison { .. } => {
            binary(border, parsed)
        }
        Parsed::Function { offset, name, args } => call(border, offset, &name, args),
        Parsed::Subexpr { offset, lhs, rhs } if border.is(offset, "|") => {
            Ok(Ast::Chain(boxed(border, *lhs)?, boxed(border, *rhs)?))
        }
        Parsed::Subexpr { offset, lhs, .. } if border.is_mark(offset) => convert(border, *lhs),
        Parsed::Not { .. } | Parsed::Subexpr { .. } | Parsed::Projection { .. } => {
            reference::convert_sequence(border, parsed)
        }
        _ => leaf(border, parsed),
    }
}

fn leaf(border: &Border, parsed: Parsed) -> Result<Ast> {
    Ok(match parsed {
        Parsed::Field { offset, name } => Ast::Field(match border.token_at(offset) {
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
        Parsed::Literal { offset, .. } => Ast::Literal(match border.token_at(offset) {
            Some(Token {
                kind: Kind::Literal(literal),
                ..
            }) => literal.clone(),
            _ => Literal::Raw(String::new()),
        }),
        Parsed::Expref { offset, .. } => {
            let message = "`&` stands only before an argument that `map`, `sort_by`, `min_by` or `max_by` evaluates";
            return Err(SyntaxError::new(border.offset(offset), message));
        }
        _ => Ast::Current,
    })
}

fn list(border: &Border, offset: usize, elements: Vec<Parsed>) -> Result<Ast> {
    let mut texts = border.elements(offset).into_iter();
    let mut list = Vec::with_capacity(elements.len());
    for element in elements {
        list.push(part(border, texts.next(), element)?);
    }
    Ok(Ast::List(list))
}

fn hash(border: &Border, offset: usize, elements: Vec<jmespath::ast::KeyValuePair>) -> Result<Ast> {
    let mut texts = border.members(offset).into_iter();
    let mut members = Vec::with_capacity(elements.len());
    for pair in elements {
        let name = member_name(border, pair.key);
        members.push((name, part(border, texts.next(), pair.value)?));
    }
    Ok(Ast::Hash(members))
}

fn part(border: &Border, text: Option<String>, value: Parsed) -> Result<Part> {
    Ok(Part {
        text: text.unwrap_or_default(),
        value: convert(border, value)?,
    })
}

fn binary(border: &Border, parsed: Parsed) -> Result<Ast> {
    let (lhs, rhs, comparator) = match parsed {
        Parsed::Or { lhs, rhs, .. } => {
            return Ok(Ast::Or(boxed(border, *lhs)?, boxed(border, *rhs)?));
        }
        Parsed::And { lhs, rhs, .. } => {
            return Ok(Ast::And(boxed(border, *lhs)?, boxed(border, *rhs)?));
        }
        Parsed::Comparison {
            comparator,
            lhs,
            rhs,
            ..
        } => (lhs, rhs, comparator),
        other => return leaf(border, other),
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
        left: boxed(border, *lhs)?,
        right: boxed(border, *rhs)?,
    })
}

fn boxed(border: &Border, parsed: Parsed) -> Result<Box<Ast>> {
    convert(border, parsed).map(Box::new)
}

fn member_name(border: &Border, key: String) -> Name {
    // No identifier begins with a digit: this is the number of a quoted name.
    match key
        .parse()
        .ok()
        .and_then(|index| border.token(index))
        .map(|token| &token.kind)
    {
        Some(Kind::Quoted(name)) => name.clone(),
        _ => Name::Plain(key),
    }
}

fn call(border: &Border, parenthesis: usize, name: &str, args: Vec<Parsed>) -> Result<Ast> {
    let (function, offset) = called(border, parenthesis, name, args.len())?;
    let mut arguments = Vec::with_capacity(args.len());
    for (at, parsed) in args.into_iter().enumerate() {
        arguments.push(argument(border, function, offset, at, parsed)?);
    }
    Ok(Ast::Call {
        function,
        arguments,
    })
}

/// The function of this name, and the place of the name.
fn called(
    border: &Border,
    parenthesis: usize,
    name: &str,
    given: usize,
) -> Result<(Function, usize)> {
    let before = border
        .index_at(parenthesis)
        .and_then(|index| border.token(index.checked_sub(1)?));
    let (name, offset) = match before {
        Some(Token {
            kind: Kind::Identifier(own),
            offset,
        }) if own == name => (name.to_owned(), *offset),
        _ => {
            let (Name::Plain(name) | Name::Json(name)) = member_name(border, name.to_owned());
            (name, border.offset(parenthesis))
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
    border: &Border,
    function: Function,
    offset: usize,
    at: usize,
    parsed: Parsed,
) -> Result<Argument> {
    match (parsed, function.takes_expression(at)) {
        (Parsed::Expref { ast, .. }, true) => Ok(Argument::Expression(convert(border, *ast)?)),
        (Parsed::Expref { offset, .. }, false) => {
            let message = format!("`{function}` takes a value here; remove the `&`");
            Err(SyntaxError::new(border.offset(offset), message))
        }
        (_, true) => {
            let message = format!(
                "argument {} of `{function}` must be an expression; write `&` before it",
                at + 1
            );
            Err(SyntaxError::new(offset, message))
        }
        (value, false) => {
            let value = convert(border, value)?;
            match function.refuse_value(at, &value) {
                None => Ok(Argument::Value(value)),
                Some(message) => Err(SyntaxError::new(offset, message)),
            }
        }
    }
}

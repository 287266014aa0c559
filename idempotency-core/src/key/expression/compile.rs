//! Compiles the checked syntax tree to nodes with values.

use std::sync::Arc;

use idempotency_expression::{
    Argument, Ast, Comparator, Function, Literal, Name, Part, SyntaxError, parse,
};

use crate::key::Needs;
use crate::key::{Json, Text};

/// A compiled expression: the nodes of [`Ast`], with literals and names as values.
#[derive(Clone)]
pub(super) enum Node {
    Current,
    Field(Text),
    Index(i64),
    Slice {
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    },
    Literal(Json),
    List(Vec<Selected>),
    Hash(Vec<(Text, Selected)>),
    Chain(Box<Node>, Box<Node>),
    Project {
        over: Box<Node>,
        condition: Option<Box<Node>>,
        each: Box<Node>,
    },
    Values(Box<Node>),
    Flatten(Box<Node>),
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Compare {
        comparator: Comparator,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// Expression arguments (`&expression`) are nodes like the others; the function evaluates them itself.
    Call {
        function: Function,
        arguments: Vec<Node>,
        /// What the expression looks at in the result.
        result: Needs,
    },
}

/// A part of a multi-select.
#[derive(Clone)]
pub(super) struct Selected {
    /// The part's text in the expression.
    pub(super) text: Arc<str>,
    pub(super) node: Node,
}

/// Compiles the text of an expression.
pub(super) fn compile(text: &str) -> Result<Node, SyntaxError> {
    node(parse(text)?)
}

/// Compiles one node. Longer arms are separate functions, because this one is recursive and its frame holds the variables of
/// all arms.
fn node(ast: Ast) -> Result<Node, SyntaxError> {
    Ok(match ast {
        Ast::List(elements) => Node::List(parts(elements)?),
        Ast::Hash(pairs) => Node::Hash(members(pairs)?),
        Ast::Chain(left, right) => two(Node::Chain, *left, *right)?,
        Ast::Or(left, right) => two(Node::Or, *left, *right)?,
        Ast::And(left, right) => two(Node::And, *left, *right)?,
        Ast::Project { over, each } => project(*over, None, *each)?,
        Ast::Filter {
            over,
            condition,
            each,
        } => project(*over, Some(*condition), *each)?,
        Ast::Values(over) => Node::Values(boxed(*over)?),
        Ast::Flatten(over) => Node::Flatten(boxed(*over)?),
        Ast::Not(negated) => Node::Not(boxed(*negated)?),
        Ast::Compare {
            comparator,
            left,
            right,
        } => compare(comparator, *left, *right)?,
        Ast::Call {
            function,
            arguments,
        } => call(function, arguments)?,
        leaf => self::leaf(leaf)?,
    })
}

fn leaf(ast: Ast) -> Result<Node, SyntaxError> {
    Ok(match ast {
        Ast::Field(field) => Node::Field(name(field)?),
        Ast::Index(index) => Node::Index(index),
        Ast::Slice { start, stop, step } => Node::Slice { start, stop, step },
        Ast::Literal(constant) => Node::Literal(literal(constant)?),
        _ => Node::Current,
    })
}

fn parts(elements: Vec<Part>) -> Result<Vec<Selected>, SyntaxError> {
    let mut parts = Vec::with_capacity(elements.len());
    for element in elements {
        parts.push(part(element)?);
    }
    Ok(parts)
}

fn members(pairs: Vec<(Name, Part)>) -> Result<Vec<(Text, Selected)>, SyntaxError> {
    let mut members = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        members.push((name(key)?, part(value)?));
    }
    Ok(members)
}

fn part(part: Part) -> Result<Selected, SyntaxError> {
    Ok(Selected {
        text: part.text.into(),
        node: node(part.value)?,
    })
}

fn two(make: fn(Box<Node>, Box<Node>) -> Node, left: Ast, right: Ast) -> Result<Node, SyntaxError> {
    Ok(make(boxed(left)?, boxed(right)?))
}

fn compare(comparator: Comparator, left: Ast, right: Ast) -> Result<Node, SyntaxError> {
    Ok(Node::Compare {
        comparator,
        left: boxed(left)?,
        right: boxed(right)?,
    })
}

fn project(over: Ast, condition: Option<Ast>, each: Ast) -> Result<Node, SyntaxError> {
    Ok(Node::Project {
        over: boxed(over)?,
        condition: condition.map(boxed).transpose()?,
        each: boxed(each)?,
    })
}

fn call(function: Function, arguments: Vec<Argument>) -> Result<Node, SyntaxError> {
    let mut evaluated = Vec::with_capacity(arguments.len());
    for Argument::Value(ast) | Argument::Expression(ast) in arguments {
        evaluated.push(node(ast)?);
    }
    Ok(Node::Call {
        function,
        arguments: evaluated,
        result: Needs::All,
    })
}

fn boxed(ast: Ast) -> Result<Box<Node>, SyntaxError> {
    node(ast).map(Box::new)
}

fn unreadable() -> SyntaxError {
    SyntaxError {
        offset: 0,
        message: "a literal is nested too deep, or is neither JSON nor a plain word".to_owned(),
    }
}

fn name(name: Name) -> Result<Text, SyntaxError> {
    match name {
        Name::Plain(name) => Ok(name.into()),
        Name::Json(json) => string(&json),
    }
}

fn string(json: &str) -> Result<Text, SyntaxError> {
    match Json::parse(json) {
        Ok(Json::Str(text)) => Ok(text),
        _ => Err(unreadable()),
    }
}

/// Returns the value of a literal. Text between backticks that is not JSON is a string, as in the reference: `` `foo` `` is
/// `"foo"`.
fn literal(literal: Literal) -> Result<Json, SyntaxError> {
    match literal {
        Literal::Raw(text) => Ok(Json::Str(text.into())),
        Literal::Json(json) => Json::parse(&json).or_else(|_| {
            let word = json.trim_start_matches(|c: char| {
                c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
            });
            string(&format!("\"{word}\"")).map(Json::Str)
        }),
    }
}

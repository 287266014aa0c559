//! The functions, each with the types and results it has in Python.

use std::borrow::Cow;
use std::cmp::Ordering;

use idempotency_expression::Function;

use super::compare::{order, same};
use super::compile::Node;
use super::error::EvaluationError;
use super::evaluate::{NULL, Walk};
use super::{aggregate, envelope, header, number};
use crate::key::canonical::COMPACT;
use crate::key::{Integer, Json, Object, Text};

type Result<T> = std::result::Result<T, EvaluationError>;

pub(super) fn call<'v>(
    walk: &mut Walk,
    function: Function,
    arguments: &'v [Node],
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
    match (function, arguments) {
        (Function::Map, [expression, over]) => map(walk, expression, over, value),
        (Function::SortBy | Function::MinBy | Function::MaxBy, [over, expression]) => {
            let over = walk.visit(over, value)?;
            aggregate::by(walk, function, array(function, &over)?, expression)
        }
        (Function::NotNull, candidates) => not_null(walk, candidates, value),
        (Function::Merge, objects) => merge(walk, objects, value),
        (_, [argument]) => {
            let argument = walk.visit(argument, value)?;
            one(walk, function, argument)
        }
        (_, [first, second]) => {
            let (first, second) = (walk.visit(first, value)?, walk.visit(second, value)?);
            let result = match function {
                Function::Header => header::header(walk, &first, &second),
                _ => two(walk, function, &first, &second),
            };
            result.map(Cow::Owned)
        }
        _ => Err(EvaluationError::failed(
            function,
            "a wrong number of arguments",
        )),
    }
}

fn map<'v>(
    walk: &mut Walk,
    expression: &'v Node,
    over: &'v Node,
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
    let over = walk.visit(over, value)?;
    let mut mapped = Vec::new();
    for element in array(Function::Map, &over)? {
        walk.push(&mut mapped, expression, element)?;
    }
    Ok(Cow::Owned(Json::Array(mapped)))
}

/// All are evaluated, as in Python: an error in a later one is an error.
fn not_null<'v>(walk: &mut Walk, candidates: &'v [Node], value: &'v Json) -> Result<Cow<'v, Json>> {
    let mut first = NULL;
    for candidate in candidates {
        let candidate = walk.visit(candidate, value)?;
        if matches!(*first, Json::Null) {
            first = candidate;
        }
    }
    Ok(first)
}

fn one<'v>(walk: &mut Walk, function: Function, argument: Cow<'v, Json>) -> Result<Cow<'v, Json>> {
    match function {
        Function::ToArray => match &*argument {
            Json::Array(_) => Ok(argument),
            _ => Ok(Cow::Owned(Json::Array(vec![walk.own(argument)?]))),
        },
        Function::ToString => match &*argument {
            Json::Str(_) => Ok(argument),
            other => {
                let text = other.to_text(&COMPACT);
                walk.charge(text.len())?;
                Ok(Cow::Owned(Json::Str(text.into())))
            }
        },
        Function::ToNumber => Ok(match &*argument {
            Json::Int(_) | Json::Float(_) => argument,
            Json::Str(text) => number::read(text).map_or(NULL, Cow::Owned),
            _ => NULL,
        }),
        Function::Type => Ok(Cow::Owned(Json::Str(argument.type_name().into()))),
        Function::Keys => match &*argument {
            Json::Object(members) => {
                let mut keys = Vec::with_capacity(members.len());
                for name in members.keys() {
                    walk.charge(name.as_bytes().len() + 48)?;
                    keys.push(Json::Str(name.clone()));
                }
                Ok(Cow::Owned(Json::Array(keys)))
            }
            other => Err(EvaluationError::argument(
                function,
                "an object",
                given(other),
            )),
        },
        Function::Values => match &*argument {
            Json::Object(members) => walk.copy(members.values()),
            other => Err(EvaluationError::argument(
                function,
                "an object",
                given(other),
            )),
        },
        Function::Length => match &*argument {
            Json::Str(text) => Ok(int(text.chars())),
            Json::Array(elements) => Ok(int(elements.len())),
            Json::Object(members) => Ok(int(members.len())),
            other => Err(EvaluationError::argument(
                function,
                "a string, an array or an object",
                given(other),
            )),
        },
        Function::Reverse => match &*argument {
            Json::Str(text) => {
                walk.charge(text.as_bytes().len())?;
                let codes: Vec<u32> = text.code_points().collect();
                let mut reversed = Text::default();
                for code in codes.into_iter().rev() {
                    reversed.push_code_point(code);
                }
                Ok(Cow::Owned(Json::Str(reversed)))
            }
            Json::Array(elements) => walk.copy(elements.iter().rev()),
            other => Err(EvaluationError::argument(
                function,
                "an array or a string",
                given(other),
            )),
        },
        Function::PowertoolsJson | Function::PowertoolsBase64 | Function::PowertoolsBase64Gzip => {
            let Json::Str(text) = &*argument else {
                return Err(EvaluationError::argument(
                    function,
                    "a string",
                    given(&argument),
                ));
            };
            walk.charge(text.as_bytes().len())?;
            let opened = match function {
                Function::PowertoolsJson => {
                    Json::parse_text(text).map_err(|error| EvaluationError::Json {
                        error,
                        is_base64: envelope::wraps_json(text),
                    })?
                }
                Function::PowertoolsBase64 => Json::Str(envelope::base64(text)?),
                _ => Json::Str(envelope::base64_gzip(text)?),
            };
            if let Json::Str(text) = &opened {
                walk.charge(text.as_bytes().len())?;
            }
            Ok(Cow::Owned(opened))
        }
        Function::Sum | Function::Avg | Function::Min | Function::Max | Function::Sort => {
            aggregate::all(walk, function, array(function, &argument)?)
        }
        _ => rounded(function, &argument).map(Cow::Owned),
    }
}

fn rounded(function: Function, argument: &Json) -> Result<Json> {
    match (function, argument) {
        (Function::Abs, Json::Int(integer)) => Ok(Json::Int(integer.abs())),
        (Function::Abs, Json::Float(float)) => Ok(Json::Float(float.abs())),
        (_, Json::Int(integer)) => Ok(Json::Int(integer.clone())),
        (_, Json::Float(float)) => {
            let whole = if function == Function::Ceil {
                float.ceil()
            } else {
                float.floor()
            };
            let integer = Integer::from_whole_f64(whole);
            integer.map(Json::Int).ok_or(EvaluationError::failed(
                function,
                "the number is infinite or not a number",
            ))
        }
        (_, other) => Err(EvaluationError::argument(
            function,
            "a number",
            given(other),
        )),
    }
}

fn two(walk: &mut Walk, function: Function, first: &Json, second: &Json) -> Result<Json> {
    match function {
        Function::Contains => match first {
            Json::Array(elements) => Ok(Json::Bool(
                elements.iter().any(|element| same(element, second)),
            )),
            Json::Str(text) => {
                let searched = string(function, second)?;
                Ok(Json::Bool(find(text.as_bytes(), searched.as_bytes())))
            }
            other => Err(EvaluationError::argument(
                function,
                "an array or a string",
                given(other),
            )),
        },
        Function::StartsWith => {
            let (text, start) = (string(function, first)?, string(function, second)?);
            Ok(Json::Bool(text.as_bytes().starts_with(start.as_bytes())))
        }
        Function::EndsWith => {
            let (text, end) = (string(function, first)?, string(function, second)?);
            Ok(Json::Bool(text.as_bytes().ends_with(end.as_bytes())))
        }
        _ => {
            let (separator, parts) = (string(function, first)?, array(function, second)?);
            let mut joined = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let part = string(function, part)?;
                walk.charge(separator.as_bytes().len() + part.as_bytes().len())?;
                if at > 0 {
                    joined.extend_from_slice(separator.as_bytes());
                }
                joined.extend_from_slice(part.as_bytes());
            }
            Ok(Json::Str(Text::from_trusted(joined)))
        }
    }
}

/// The first is an object; the others are what Python's `dict.update` takes, which is also an array of pairs.
fn merge<'v>(walk: &mut Walk, objects: &'v [Node], value: &'v Json) -> Result<Cow<'v, Json>> {
    let mut evaluated = Vec::with_capacity(objects.len());
    for object in objects {
        evaluated.push(walk.visit(object, value)?);
    }
    if let Some(first) = evaluated.first()
        && !matches!(**first, Json::Object(_))
    {
        return Err(EvaluationError::argument(
            Function::Merge,
            "objects",
            given(first),
        ));
    }
    let mut merged = Object::new();
    for object in evaluated {
        update(&mut merged, walk.own(object)?)?;
    }
    Ok(Cow::Owned(Json::Object(merged)))
}

fn update(merged: &mut Object, with: Json) -> Result<()> {
    match with {
        Json::Object(members) => merged.extend(members),
        Json::Str(text) if text.is_empty() => {}
        Json::Array(pairs) => {
            for pair in pairs {
                let (name, value) = name_and_value(pair).ok_or(EvaluationError::failed(
                    Function::Merge,
                    "an array is merged only if it holds pairs",
                ))?;
                merged.insert(name, value);
            }
        }
        other => {
            return Err(EvaluationError::argument(
                Function::Merge,
                "objects",
                given(&other),
            ));
        }
    }
    Ok(())
}

fn name_and_value(pair: Json) -> Option<(Text, Json)> {
    let (name, value) = match pair {
        Json::Array(pair) => {
            let [name, value]: [Json; 2] = pair.try_into().ok()?;
            (name, value)
        }
        Json::Object(members) if members.len() == 2 => {
            let mut names = members.into_keys().map(Json::Str);
            (names.next()?, names.next()?)
        }
        Json::Str(text) if text.chars() == 2 => {
            let mut characters = text.code_points().map(|code| {
                let mut character = Text::default();
                character.push_code_point(code);
                Json::Str(character)
            });
            (characters.next()?, characters.next()?)
        }
        _ => return None,
    };
    match name {
        Json::Str(name) => Some((name, value)),
        _ => None,
    }
}

/// Whether one text stands in the other. Whole characters meet only whole characters in UTF-8.
fn find(text: &[u8], part: &[u8]) -> bool {
    if let (Ok(text), Ok(part)) = (std::str::from_utf8(text), std::str::from_utf8(part)) {
        return text.contains(part);
    }
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}

pub(super) fn array(function: Function, argument: &Json) -> Result<&[Json]> {
    match argument {
        Json::Array(elements) => Ok(elements),
        other => Err(EvaluationError::argument(
            function,
            "an array",
            given(other),
        )),
    }
}

fn string(function: Function, argument: &Json) -> Result<&Text> {
    match argument {
        Json::Str(text) => Ok(text),
        other => Err(EvaluationError::argument(function, "strings", given(other))),
    }
}

/// A type with its article, for a sentence.
pub(super) fn given(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Int(_) | Json::Float(_) => "a number",
        Json::Str(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

fn int(count: usize) -> Cow<'static, Json> {
    Cow::Owned(Json::Int(Integer::from_count(count)))
}

/// Whether the second goes before the first; never with not-a-number.
pub(super) fn goes_before(candidate: &Json, best: &Json, wanted: Ordering) -> Result<bool> {
    Ok(order(candidate, best)? == Some(wanted))
}

//! The functions of expressions, with the types and results that they have in Python.

use std::borrow::Cow;

use idempotency_expression::Function;

use super::compare::same;
use super::error::{EvaluationError, Result};
use super::evaluate::{NULL, Walk, weight};
use super::{Node, aggregate, envelope, event, number};
use crate::key::budget::heap;
use crate::key::{Integer, Json, JsonErrorKind, Needs, Object, Text};

/// Evaluates a function call. `result` is what the expression looks at in its result.
pub(super) fn call<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    arguments: &'v [Node],
    result: &Needs,
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
    match (function, arguments) {
        (Function::Map, [expression, over]) => map(walk, expression, over, value),
        (Function::SortBy | Function::MinBy | Function::MaxBy, [over, expression]) => {
            let over = walk.visit(over, value)?;
            aggregate::evaluate_by(walk, function, array(function, &over)?, expression)
        }
        (Function::NotNull, candidates) => not_null(walk, candidates, value),
        (Function::Merge, objects) => merge(walk, objects, value),
        (_, [argument]) => {
            let mark = walk.missing.mark();
            let argument = walk.visit(argument, value)?;
            if matches!(function, Function::ToString | Function::ToArray)
                && walk.is_absent(&argument)
            {
                // `"null"` and `[""]` are values, but the payload lacks the part.
                walk.work(weight(&argument))?;
                walk.missing.note(mark, None);
            }
            unary(walk, function, argument, result)
        }
        (_, [first, second]) => {
            let (first, second) = (walk.visit(first, value)?, walk.visit(second, value)?);
            binary(walk, function, &first, &second).map(Cow::Owned)
        }
        _ => Err(EvaluationError::failed(
            function,
            "a wrong number of arguments",
        )),
    }
}

/// Evaluates `map`.
fn map<'v>(
    walk: &mut Walk<'_>,
    expression: &'v Node,
    over: &'v Node,
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
    let over = walk.visit(over, value)?;
    let elements = array(Function::Map, &over)?;
    let mut mapped = walk.budget.list(elements.len())?;
    for element in elements {
        let mark = walk.missing.mark();
        walk.push(&mut mapped, expression, element)?;
        walk.missing.forget_unnamed_since(mark);
    }
    Ok(Cow::Owned(Json::Array(mapped)))
}

/// Evaluates `not_null`. All candidates are evaluated, as in Python, so an error in any of them is returned.
fn not_null<'v>(
    walk: &mut Walk<'_>,
    candidates: &'v [Node],
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
    let mut first = NULL;
    for candidate in candidates {
        let mark = walk.missing.mark();
        let candidate = walk.visit(candidate, value)?;
        if matches!(*first, Json::Null) && !matches!(*candidate, Json::Null) {
            first = candidate;
        } else {
            // This candidate is not a part of the value.
            walk.missing.forget_since(mark);
        }
    }
    Ok(first)
}

/// Evaluates `merge`. The first argument is an object. The others are what Python's `dict.update` takes: objects or arrays
/// of pairs.
fn merge<'v>(walk: &mut Walk<'_>, objects: &'v [Node], value: &'v Json) -> Result<Cow<'v, Json>> {
    let mut evaluated = Vec::with_capacity(objects.len());
    for object in objects {
        evaluated.push(walk.visit(object, value)?);
    }
    if let Some(first) = evaluated.first() {
        object(Function::Merge, "objects", first)?;
    }
    let mut merged = Vec::new();
    for object in evaluated {
        let object = walk.own(object)?;
        update(walk, &mut merged, object)?;
    }
    walk.work(merged.len())?;
    let merged = Object::charged(merged, walk.budget)?;
    Ok(Cow::Owned(Json::Object(merged)))
}

/// Adds the members of `with` to `merged`.
fn update(walk: &mut Walk<'_>, merged: &mut Vec<(Text, Json)>, with: Json) -> Result<()> {
    match with {
        Json::Object(members) => {
            let members = members.into_entries();
            walk.budget.reserve(merged, members.len())?;
            merged.extend(members);
        }
        Json::Str(text) if text.is_empty() => {}
        Json::Array(pairs) => {
            for pair in pairs {
                let characters = matches!(pair, Json::Str(_));
                let (name, value) = name_and_value(pair).ok_or(EvaluationError::failed(
                    Function::Merge,
                    "an array must have pairs as its elements",
                ))?;
                if characters {
                    walk.budget
                        .charge(heap(name.as_bytes().len()) + value.heap())?;
                }
                walk.budget.push(merged, (name, value))?;
            }
        }
        other => {
            return Err(EvaluationError::argument(
                Function::Merge,
                "objects",
                &other,
            ));
        }
    }
    Ok(())
}

/// Returns the name and the value of a pair, as Python unpacks it: an array, an object or a string of length 2.
fn name_and_value(pair: Json) -> Option<(Text, Json)> {
    let (name, value) = match pair {
        Json::Array(pair) => <[Json; 2]>::try_from(pair).ok()?.into(),
        Json::Object(members) if members.len() == 2 => {
            let entries = members.into_entries().into_iter();
            let mut names = entries.map(|(name, _)| Json::Str(name));
            (names.next()?, names.next()?)
        }
        Json::Str(text) if text.code_points().count() == 2 => {
            let character = |code| Json::Str(Text::of_code_points([code]));
            let mut characters = text.code_points().map(character);
            (characters.next()?, characters.next()?)
        }
        _ => return None,
    };
    match name {
        Json::Str(name) => Some((name, value)),
        _ => None,
    }
}

/// Evaluates a function of one argument.
fn unary<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    argument: Cow<'v, Json>,
    result: &Needs,
) -> Result<Cow<'v, Json>> {
    let refused = |takes| Err(EvaluationError::argument(function, takes, &argument));
    let made = match (function, &*argument) {
        (Function::ToArray, Json::Array(_))
        | (Function::ToString, Json::Str(_))
        | (Function::ToNumber, Json::Int(_) | Json::Float(_)) => return Ok(argument),
        (Function::ToArray, _) => {
            let mut list = walk.budget.list(1)?;
            list.push(walk.own(argument)?);
            Json::Array(list)
        }
        (Function::ToString, other) => {
            let length = other.text_length(walk.layout);
            walk.work(length)?;
            walk.budget.allocate(length)?;
            Json::Str(other.to_text(walk.layout).into())
        }
        (Function::ToNumber, Json::Str(text)) => {
            // The text is copied to ASCII, in a list that grows, and copied again without underscores.
            let length = 4 * text.as_bytes().len();
            walk.work(length)?;
            walk.budget.allocate(length)?;
            let number = number::read(text);
            walk.budget.free(length);
            walk.made(number.unwrap_or(Json::Null))?
        }
        (Function::ToNumber, _) => Json::Null,
        (Function::IamCaller, event) => match event::caller(event)? {
            Some(caller) => walk.made(Json::Str(caller.into()))?,
            None => Json::Null,
        },
        (Function::Type, other) => walk.made(Json::Str(other.type_name().into()))?,
        (Function::Keys, other) => {
            let members = object(function, "an object", other)?;
            let mut keys = walk.budget.list(members.len())?;
            for name in members.keys() {
                keys.push(Json::Str(walk.name(name.as_bytes())?));
            }
            Json::Array(keys)
        }
        (Function::Values, other) => {
            return walk.copy(object(function, "an object", other)?.values());
        }
        (Function::Length, Json::Str(text)) => {
            walk.work(text.as_bytes().len())?;
            Json::Int(Integer::from_count(text.code_points().count()))
        }
        (Function::Length, Json::Array(elements)) => Json::Int(Integer::from_count(elements.len())),
        (Function::Length, Json::Object(members)) => Json::Int(Integer::from_count(members.len())),
        (Function::Length, _) => return refused("a string, an array or an object"),
        (Function::Reverse, Json::Str(text)) => {
            walk.work(text.as_bytes().len())?;
            let mut reversed = walk.budget.list(text.as_bytes().len())?;
            text.code_points_reversed()
                .for_each(|bytes| reversed.extend_from_slice(bytes));
            Json::Str(Text::from_trusted(reversed))
        }
        (Function::Reverse, Json::Array(elements)) => return walk.copy(elements.iter().rev()),
        (Function::Reverse, _) => return refused("an array or a string"),
        (
            Function::PowertoolsJson | Function::PowertoolsBase64 | Function::PowertoolsBase64Gzip,
            wrapped,
        ) => {
            let Json::Str(text) = wrapped else {
                return refused("a string");
            };
            let unwrapped = unwrapped(walk, function, text, result)?;
            // The wrapped text is dropped here, so its memory is given back.
            if let Cow::Owned(Json::Str(text)) = argument {
                walk.budget.free(text.as_bytes().len());
            }
            unwrapped
        }
        (
            Function::Sum | Function::Avg | Function::Min | Function::Max | Function::Sort,
            elements,
        ) => return aggregate::evaluate(walk, function, array(function, elements)?),
        // A rounded float can have 309 digits, so it is charged.
        (_, number) => walk.made(rounded(function, number)?)?,
    };
    Ok(Cow::Owned(made))
}

/// Evaluates `powertools_json`, `powertools_base64` and `powertools_base64_gzip`.
fn unwrapped(walk: &mut Walk<'_>, function: Function, text: &Text, result: &Needs) -> Result<Json> {
    walk.work(text.as_bytes().len())?;
    match function {
        Function::PowertoolsJson => {
            let read = result.read(text.as_bytes(), walk.budget);
            read.map_err(|error| match error.kind() {
                // The text can be JSON: only its values are too large.
                JsonErrorKind::TooLarge => EvaluationError::TooLarge,
                _ => EvaluationError::Json {
                    error,
                    is_base64: envelope::wraps_json(text),
                },
            })
        }
        Function::PowertoolsBase64 => envelope::base64(text, walk.budget).map(Json::Str),
        _ => envelope::base64_gzip(text, walk.budget).map(Json::Str),
    }
}

/// Evaluates `abs`, `ceil` and `floor`.
fn rounded(function: Function, argument: &Json) -> Result<Json> {
    let whole = match (function, argument) {
        (Function::Abs, Json::Int(integer)) => return Ok(Json::Int(integer.abs())),
        (Function::Abs, Json::Float(float)) => return Ok(Json::Float(float.abs())),
        (_, Json::Int(integer)) => return Ok(Json::Int(integer.clone())),
        (Function::Ceil, Json::Float(float)) => float.to_f64().ceil(),
        (_, Json::Float(float)) => float.to_f64().floor(),
        (_, other) => return Err(EvaluationError::argument(function, "a number", other)),
    };
    let refused = EvaluationError::failed(function, "the number is infinite or not a number");
    let integer = Integer::from_whole_f64(whole);
    integer.map(Json::Int).ok_or(refused)
}

/// Evaluates a function of two values.
fn binary(walk: &mut Walk<'_>, function: Function, first: &Json, second: &Json) -> Result<Json> {
    match (function, first) {
        (Function::Header, event) => event::header(walk, event, second),
        (Function::Contains, Json::Array(elements)) => {
            for element in elements {
                walk.work(1 + weight(element).min(weight(second)))?;
                let mut steps = 0;
                let found = same(element, second, &mut steps);
                walk.work(steps)?;
                if found {
                    return Ok(Json::Bool(true));
                }
            }
            Ok(Json::Bool(false))
        }
        // In UTF-8, a match of bytes is a match of whole characters.
        (Function::Contains, Json::Str(text)) => {
            let (text, part) = (text.as_bytes(), string(function, second)?);
            walk.work(text.len() + part.len())?;
            Ok(Json::Bool(memchr::memmem::find(text, part).is_some()))
        }
        (Function::Contains, other) => {
            let takes = "an array or a string";
            Err(EvaluationError::argument(function, takes, other))
        }
        (Function::StartsWith | Function::EndsWith, text) => {
            let (text, part) = (string(function, text)?, string(function, second)?);
            walk.work(part.len())?;
            Ok(Json::Bool(if function == Function::StartsWith {
                text.starts_with(part)
            } else {
                text.ends_with(part)
            }))
        }
        (_, separator) => join(walk, string(function, separator)?, array(function, second)?),
    }
}

/// Evaluates `join`.
fn join(walk: &mut Walk<'_>, separator: &[u8], parts: &[Json]) -> Result<Json> {
    let mut length = 0_usize;
    for part in parts {
        let part = string(Function::Join, part)?.len() + separator.len();
        length = length.saturating_add(part);
    }
    let length = length.saturating_sub(separator.len());
    walk.work(parts.len().saturating_add(length))?;
    let mut joined = walk.budget.list(length)?;
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            joined.extend_from_slice(separator);
        }
        joined.extend_from_slice(string(Function::Join, part)?);
    }
    Ok(Json::Str(Text::from_trusted(joined)))
}

/// Returns the bytes of a string argument.
fn string(function: Function, argument: &Json) -> Result<&[u8]> {
    match argument {
        Json::Str(text) => Ok(text.as_bytes()),
        other => Err(EvaluationError::argument(function, "strings", other)),
    }
}

/// Returns the elements of an array argument.
fn array(function: Function, argument: &Json) -> Result<&[Json]> {
    match argument {
        Json::Array(elements) => Ok(elements),
        other => Err(EvaluationError::argument(function, "an array", other)),
    }
}

/// Returns the members of an object argument.
fn object<'a>(function: Function, takes: &'static str, argument: &'a Json) -> Result<&'a Object> {
    match argument {
        Json::Object(members) => Ok(members),
        other => Err(EvaluationError::argument(function, takes, other)),
    }
}

//! The functions of expressions, with the types and results that they have in Python.

use std::borrow::Cow;
use std::cmp::Ordering;

use idempotency_expression::Function;

use super::compare::order;
use super::compile::Node;
use super::error::EvaluationError;
use super::evaluate::{NULL, Walk, weight};
use super::{aggregate, envelope, header, iam, merge, number, search};
use crate::key::Needs;
use crate::key::{Integer, Json, JsonErrorKind, Text, is_absent_key};

type Result<T> = std::result::Result<T, EvaluationError>;

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
            aggregate::by(walk, function, array(function, &over)?, expression)
        }
        (Function::NotNull, candidates) => not_null(walk, candidates, value),
        (Function::Merge, objects) => merge::merge(walk, objects, value),
        (_, [argument]) => {
            let mark = walk.missing.mark();
            let argument = walk.visit(argument, value)?;
            if matches!(function, Function::ToString | Function::ToArray)
                && is_absent_key(&argument)
            {
                // `"null"` and `[""]` are values, but the payload lacks the part.
                walk.work(weight(&argument))?;
                walk.missing.note(mark, None);
            }
            one(walk, function, argument, result)
        }
        (_, [first, second]) => {
            let (first, second) = (walk.visit(first, value)?, walk.visit(second, value)?);
            let result = match function {
                Function::Header => header::header(walk, &first, &second),
                _ => search::two(walk, function, &first, &second),
            };
            result.map(Cow::Owned)
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

/// Evaluates `not_null`. All candidates are evaluated, as in Python: an error in a later one is an error.
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

/// Evaluates a function of one argument.
fn one<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    argument: Cow<'v, Json>,
    result: &Needs,
) -> Result<Cow<'v, Json>> {
    match function {
        Function::ToArray => match &*argument {
            Json::Array(_) => Ok(argument),
            _ => {
                let mut list = walk.budget.list(1)?;
                list.push(walk.own(argument)?);
                Ok(Cow::Owned(Json::Array(list)))
            }
        },
        Function::ToString => match &*argument {
            Json::Str(_) => Ok(argument),
            other => {
                let length = other.text_length(walk.layout);
                walk.work(length)?;
                walk.budget.allocate(length)?;
                Ok(Cow::Owned(Json::Str(other.to_text(walk.layout).into())))
            }
        },
        Function::ToNumber => match &*argument {
            Json::Int(_) | Json::Float(_) => Ok(argument),
            Json::Str(text) => {
                // The text is copied to ASCII, in a list that grows, and copied again without underscores.
                let length = 4 * text.as_bytes().len();
                walk.work(length)?;
                walk.budget.allocate(length)?;
                let number = number::read(text);
                walk.budget.free(length);
                number.map_or(Ok(NULL), |number| walk.made(number).map(Cow::Owned))
            }
            _ => Ok(NULL),
        },
        Function::IamCaller => match iam::caller(&argument)? {
            Some(caller) => walk.made(Json::Str(caller.into())).map(Cow::Owned),
            None => Ok(NULL),
        },
        Function::Type => {
            let name = Json::Str(argument.type_name().into());
            walk.made(name).map(Cow::Owned)
        }
        Function::Keys => match &*argument {
            Json::Object(members) => {
                let mut keys = walk.budget.list(members.len())?;
                for name in members.keys() {
                    keys.push(Json::Str(walk.name(name)?));
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
            Json::Str(text) => {
                walk.work(text.as_bytes().len())?;
                Ok(int(text.chars()))
            }
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
                walk.work(text.as_bytes().len())?;
                let mut reversed = walk.budget.list(text.as_bytes().len())?;
                text.code_points_reversed()
                    .for_each(|bytes| reversed.extend_from_slice(bytes));
                Ok(Cow::Owned(Json::Str(Text::from_trusted(reversed))))
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
            walk.work(text.as_bytes().len())?;
            let unwrapped = match function {
                Function::PowertoolsJson => {
                    result.read(text.as_bytes(), walk.budget).map_err(|error| {
                        match error.kind() {
                            // The text can be JSON: only its values are too large.
                            JsonErrorKind::TooLarge => EvaluationError::TooLarge,
                            _ => EvaluationError::Json {
                                error,
                                is_base64: envelope::wraps_json(text),
                            },
                        }
                    })?
                }
                Function::PowertoolsBase64 => Json::Str(envelope::base64(text, walk.budget)?),
                _ => Json::Str(envelope::base64_gzip(text, walk.budget)?),
            };
            // The wrapped text is dropped before the next one is unwrapped.
            if let Cow::Owned(Json::Str(text)) = argument {
                walk.budget.free(text.as_bytes().len());
            }
            Ok(Cow::Owned(unwrapped))
        }
        Function::Sum | Function::Avg | Function::Min | Function::Max | Function::Sort => {
            aggregate::all(walk, function, array(function, &argument)?)
        }
        // A rounded float can have 309 digits.
        _ => walk.made(rounded(function, &argument)?).map(Cow::Owned),
    }
}

/// Evaluates `abs`, `ceil` and `floor`.
fn rounded(function: Function, argument: &Json) -> Result<Json> {
    match (function, argument) {
        (Function::Abs, Json::Int(integer)) => Ok(Json::Int(integer.abs())),
        (Function::Abs, Json::Float(float)) => Ok(Json::Float(float.abs())),
        (_, Json::Int(integer)) => Ok(Json::Int(integer.clone())),
        (_, Json::Float(float)) => {
            let whole = if function == Function::Ceil {
                float.to_f64().ceil()
            } else {
                float.to_f64().floor()
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

/// Returns the elements of an array argument.
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

/// Returns the name of a type with its article, for an error text.
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

/// Returns a length as a value.
fn int(count: usize) -> Cow<'static, Json> {
    Cow::Owned(Json::Int(Integer::from_count(count)))
}

/// Returns true if `candidate` compared with `best` has the order `wanted`; never for not-a-number.
pub(super) fn goes_before(candidate: &Json, best: &Json, wanted: Ordering) -> Result<bool> {
    Ok(order(candidate, best)? == Some(wanted))
}

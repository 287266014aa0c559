//! The functions of two arguments: searching in an array or a text, and joining texts.

use idempotency_expression::Function;

use super::compare::same;
use super::error::EvaluationError;
use super::evaluate::{Walk, weight};
use super::functions::{array, given};
use crate::key::{Json, Text};

type Result<T> = std::result::Result<T, EvaluationError>;

/// Evaluates `contains`, `starts_with`, `ends_with` and `join`.
pub(super) fn two(
    walk: &mut Walk<'_>,
    function: Function,
    first: &Json,
    second: &Json,
) -> Result<Json> {
    match function {
        Function::Contains => match first {
            Json::Array(elements) => {
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
            Json::Str(text) => {
                let (text, part) = (text.as_bytes(), string(function, second)?.as_bytes());
                walk.work(text.len() + part.len())?;
                Ok(Json::Bool(memchr::memmem::find(text, part).is_some()))
            }
            other => Err(EvaluationError::argument(
                function,
                "an array or a string",
                given(other),
            )),
        },
        Function::StartsWith => {
            let (text, start) = (string(function, first)?, string(function, second)?);
            walk.work(start.as_bytes().len())?;
            Ok(Json::Bool(text.as_bytes().starts_with(start.as_bytes())))
        }
        Function::EndsWith => {
            let (text, end) = (string(function, first)?, string(function, second)?);
            walk.work(end.as_bytes().len())?;
            Ok(Json::Bool(text.as_bytes().ends_with(end.as_bytes())))
        }
        _ => {
            let (separator, parts) = (string(function, first)?, array(function, second)?);
            let mut length = 0_usize;
            for part in parts {
                let part = string(function, part)?.as_bytes().len() + separator.as_bytes().len();
                length = length.saturating_add(part);
            }
            let length = length.saturating_sub(separator.as_bytes().len());
            walk.work(parts.len().saturating_add(length))?;
            let mut joined = walk.budget.list(length)?;
            for (at, part) in parts.iter().enumerate() {
                let part = string(function, part)?;
                if at > 0 {
                    joined.extend_from_slice(separator.as_bytes());
                }
                joined.extend_from_slice(part.as_bytes());
            }
            Ok(Json::Str(Text::from_trusted(joined)))
        }
    }
}

/// Returns the text of a string argument.
fn string(function: Function, argument: &Json) -> Result<&Text> {
    match argument {
        Json::Str(text) => Ok(text),
        other => Err(EvaluationError::argument(function, "strings", given(other))),
    }
}

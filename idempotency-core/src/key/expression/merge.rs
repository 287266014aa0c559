//! The function `merge`: joins objects as Python's `dict.update` does.

use std::borrow::Cow;

use idempotency_expression::Function;

use super::compile::Node;
use super::error::EvaluationError;
use super::evaluate::Walk;
use super::functions::given;
use crate::key::{Json, Object, Text};

type Result<T> = std::result::Result<T, EvaluationError>;

/// Evaluates `merge`. The first argument is an object. The others are what Python's `dict.update` takes: objects or arrays
/// of pairs.
pub(super) fn merge<'v>(
    walk: &mut Walk<'_>,
    objects: &'v [Node],
    value: &'v Json,
) -> Result<Cow<'v, Json>> {
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
    let mut merged = Vec::new();
    for object in evaluated {
        let object = walk.own(object)?;
        update(walk, &mut merged, object)?;
    }
    walk.work(merged.len())?;
    Ok(Cow::Owned(Json::Object(Object::charged(
        merged,
        walk.budget,
    )?)))
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
                    walk.budget.charge(name.heap() + value.heap())?;
                }
                walk.budget.push(merged, (name, value))?;
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

/// Returns the name and the value of a pair, as Python unpacks it: an array, an object or a string of length 2.
fn name_and_value(pair: Json) -> Option<(Text, Json)> {
    let (name, value) = match pair {
        Json::Array(pair) => {
            let [name, value]: [Json; 2] = pair.try_into().ok()?;
            (name, value)
        }
        Json::Object(members) if members.len() == 2 => {
            let entries = members.into_entries().into_iter();
            let mut names = entries.map(|(name, _)| Json::Str(name));
            (names.next()?, names.next()?)
        }
        Json::Str(text) if text.chars() == 2 => {
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

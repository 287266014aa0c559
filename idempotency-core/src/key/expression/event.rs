//! The functions of HTTP events: `header` finds a header, and `iam_caller` the caller that signed the request.
//!
//! Where an event has them is a part of the language, and stands in `idempotency_expression`.

use idempotency_expression::{Function, HEADER_PLACES, IAM_PATHS, iam_principal};

use super::error::{EvaluationError, Result};
use super::evaluate::Walk;
use crate::key::{Json, Text};

/// What both functions take.
const EVENT: &str = "an event, which is an object";

/// Separates several values of one header.
const SEPARATOR: u8 = b',';

/// Returns the value of a header in an event, or null if the event has no such header or only empty values of it.
///
/// The case of names does not matter. Members whose names differ only in case are joined in the order of their names, so
/// that the value does not depend on the order of members in the text.
pub(super) fn header(walk: &mut Walk<'_>, event: &Json, name: &Json) -> Result<Json> {
    let Json::Str(name) = name else {
        return Err(EvaluationError::argument(
            Function::Header,
            "the name of a header",
            name,
        ));
    };
    let Json::Object(_) = event else {
        return Err(EvaluationError::argument(Function::Header, EVENT, event));
    };
    for place in HEADER_PLACES {
        let members = match event.member(place) {
            None | Some(Json::Null) => continue,
            Some(Json::Object(members)) => members,
            Some(other) => {
                return Err(EvaluationError::argument(
                    Function::Header,
                    "an event whose headers are an object",
                    other,
                ));
            }
        };
        walk.work(members.len())?;
        let mut found = Vec::new();
        for (own, value) in members.iter() {
            if own.as_bytes().eq_ignore_ascii_case(name.as_bytes()) {
                walk.work(name.as_bytes().len())?;
                walk.budget.push(&mut found, (own, value))?;
            }
        }
        // A sort compares each name about as often as the list can be halved.
        let halvings = (usize::BITS - found.len().leading_zeros()) as usize;
        walk.work(found.len() * halvings * name.as_bytes().len())?;
        found.sort_unstable_by_key(|(own, _)| *own);
        let mut values = Vec::new();
        for (_, value) in found {
            let several = match value {
                Json::Array(several) => several.as_slice(),
                one => std::slice::from_ref(one),
            };
            walk.work(several.len())?;
            for value in several {
                if let Some(bytes) = bytes_of(value)? {
                    walk.budget.push(&mut values, bytes)?;
                }
            }
        }
        if !values.iter().all(|value| is_empty(value)) {
            let texts: usize = values.iter().map(|value| value.len()).sum();
            let length = texts + (values.len() - 1);
            walk.work(length)?;
            walk.budget.allocate(length)?;
            let joined = values.join(&SEPARATOR);
            return Ok(Json::Str(Text::from_trusted(joined)));
        }
    }
    Ok(Json::Null)
}

/// Returns true if a value has only separators and blanks: two empty values can come as `,`.
fn is_empty(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| matches!(*byte, SEPARATOR | b' ' | b'\t'))
}

/// Returns the bytes of one value; `None` for null.
fn bytes_of(value: &Json) -> Result<Option<&[u8]>> {
    match value {
        Json::Null => Ok(None),
        Json::Str(text) => Ok(Some(text.as_bytes())),
        other => Err(EvaluationError::argument(
            Function::Header,
            "headers whose values are strings",
            other,
        )),
    }
}

/// Returns the caller in an event, or `None` if it names none, or names one by a text that is not one client.
pub(super) fn caller(event: &Json) -> Result<Option<&str>> {
    let Json::Object(_) = event else {
        return Err(EvaluationError::argument(Function::IamCaller, EVENT, event));
    };
    let found = IAM_PATHS.into_iter().find_map(|[identity, arn]| {
        let of_arn = || text(event, arn).map(iam_principal);
        text(event, identity).map(Some).or_else(of_arn)
    });
    Ok(found.flatten())
}

/// Returns the text at a path, if it is there and not empty.
fn text<'a>(event: &'a Json, path: &str) -> Option<&'a str> {
    let mut names = path.split('.');
    let value = names.try_fold(event, |value, name| value.member(name))?;
    match value {
        Json::Str(text) => text.as_str().filter(|text| !text.is_empty()),
        _ => None,
    }
}

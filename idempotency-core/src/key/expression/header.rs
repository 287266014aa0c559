//! The function `header`: finds a header in an HTTP event of API Gateway, a load balancer or a function URL.

use idempotency_expression::Function;

use super::error::EvaluationError;
use super::evaluate::Walk;
use super::functions::given;
use crate::key::{Json, Text};

type Result<T> = std::result::Result<T, EvaluationError>;

/// The members with the headers. The first has all values of each header (payload format 1.0, and load balancers with
/// multi-value headers enabled); the second has one text for each.
pub(super) const PLACES: [&str; 2] = ["multiValueHeaders", "headers"];

/// Separates several values, as in payload format 2.0.
const SEPARATOR: u8 = b',';

/// Returns the value of a header in an event, or null if the event has no such header or only empty values of it.
///
/// The case of names does not matter. Members whose names differ only in case are joined in the order of their names, so
/// that the value does not depend on the order of members in the text.
pub(super) fn header(walk: &mut Walk<'_>, event: &Json, name: &Json) -> Result<Json> {
    let Json::Str(name) = name else {
        return Err(argument("the name of a header", name));
    };
    let Json::Object(_) = event else {
        return Err(argument("an event, which is an object", event));
    };
    for place in PLACES {
        let members = match event.member(place) {
            None | Some(Json::Null) => continue,
            Some(Json::Object(members)) => members,
            Some(other) => return Err(argument("an event whose headers are an object", other)),
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
                if let Some(bytes) = text(value)? {
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

/// Returns true if a value has only separators: payload format 2.0 sends two empty values as `,`.
fn is_empty(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| matches!(*byte, SEPARATOR | b' ' | b'\t'))
}

/// Returns the bytes of one value; `None` for null.
fn text(value: &Json) -> Result<Option<&[u8]>> {
    match value {
        Json::Null => Ok(None),
        Json::Str(text) => Ok(Some(text.as_bytes())),
        other => Err(argument("headers whose values are strings", other)),
    }
}

fn argument(takes: &'static str, value: &Json) -> EvaluationError {
    EvaluationError::argument(Function::Header, takes, given(value))
}

//! Equality and order as Python has them.

use std::cmp::Ordering;

use super::error::EvaluationError;
use crate::key::{Integer, Json};

/// `==` of an expression: numbers are equal by value, and 0 and 1 are not booleans at the top.
///
/// Adds the steps of comparisons of an integer with a float to `steps`.
pub(super) fn equal(left: &Json, right: &Json, steps: &mut usize) -> bool {
    let mixed = matches!(
        (left, right),
        (Json::Bool(_), Json::Int(_) | Json::Float(_))
            | (Json::Int(_) | Json::Float(_), Json::Bool(_))
    );
    !mixed && same(left, right, steps)
}

/// Python's `==`, in which `true` is 1 and `false` is 0: what holds inside arrays and objects.
pub(super) fn same(left: &Json, right: &Json, steps: &mut usize) -> bool {
    match (left, right) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(a), Json::Bool(b)) => a == b,
        (Json::Str(a), Json::Str(b)) => a == b,
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, steps))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, value)| {
                    b.get(name.as_bytes())
                        .is_some_and(|other| same(value, other, steps))
                })
        }
        _ => {
            *steps = steps.saturating_add(steps_of_mixed(left, right));
            order_of_numbers(left, right) == Some(Ordering::Equal)
        }
    }
}

/// Returns the steps that a comparison takes because an integer of many digits meets a float of about as many.
pub(super) fn steps_of_mixed(left: &Json, right: &Json) -> usize {
    match (left, right) {
        (Json::Int(integer), Json::Float(_)) | (Json::Float(_), Json::Int(integer)) => {
            integer.steps_of_comparison()
        }
        _ => 0,
    }
}

/// `None` where one is no number, or not-a-number.
fn order_of_numbers(left: &Json, right: &Json) -> Option<Ordering> {
    let boolean = |json: &Json| match json {
        Json::Bool(value) => Some(Json::Int(Integer::from(i64::from(*value)))),
        _ => None,
    };
    match (left, right) {
        (Json::Int(a), Json::Int(b)) => Some(a.cmp(b)),
        (Json::Float(a), Json::Float(b)) => a.partial_cmp(b),
        (Json::Int(a), Json::Float(b)) => a.compare_f64(*b),
        (Json::Float(a), Json::Int(b)) => b.compare_f64(*a).map(Ordering::reverse),
        (Json::Bool(_), _) => order_of_numbers(&boolean(left)?, right),
        (_, Json::Bool(_)) => order_of_numbers(left, &boolean(right)?),
        _ => None,
    }
}

/// The order of two numbers or two strings; `None` with not-a-number, which is neither less nor greater.
pub(super) fn order(left: &Json, right: &Json) -> Result<Option<Ordering>, EvaluationError> {
    match (left, right) {
        (Json::Str(a), Json::Str(b)) => Ok(Some(a.cmp(b))),
        (Json::Str(_), _) | (_, Json::Str(_)) => Err(EvaluationError::Incomparable),
        _ => Ok(order_of_numbers(left, right)),
    }
}

/// Whether a value has an order: a number that is no boolean, or a string.
pub(super) fn is_ordered(json: &Json) -> bool {
    matches!(json, Json::Int(_) | Json::Float(_) | Json::Str(_))
}

/// What counts as false: null, `false`, and what is empty. 0 is true.
pub(super) fn is_false(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Bool(value) => !value,
        Json::Int(_) | Json::Float(_) => false,
        Json::Str(text) => text.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        Json::Object(members) => members.is_empty(),
    }
}

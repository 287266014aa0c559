//! Equality, order and truth of values, as in Python.

use std::cmp::Ordering;

use super::error::{EvaluationError, Result};
use crate::key::{Integer, Json};

/// Evaluates `==` of an expression. Numbers are compared by value. At the top level, 0 and 1 do not equal booleans.
///
/// Adds to `steps` what comparisons of an integer with a float take.
pub(super) fn equal(left: &Json, right: &Json, steps: &mut usize) -> bool {
    let mixed = matches!(
        (left, right),
        (Json::Bool(_), Json::Int(_) | Json::Float(_))
            | (Json::Int(_) | Json::Float(_), Json::Bool(_))
    );
    !mixed && same(left, right, steps)
}

/// Evaluates `==` of Python, in which `true` is 1 and `false` is 0. It applies inside arrays and objects.
pub(super) fn same(left: &Json, right: &Json, steps: &mut usize) -> bool {
    match (left, right) {
        (Json::Null, Json::Null) => true,
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

/// Returns the steps of a comparison of an integer of many digits with a float.
pub(super) fn steps_of_mixed(left: &Json, right: &Json) -> usize {
    match (left, right) {
        (Json::Int(integer), Json::Float(_)) | (Json::Float(_), Json::Int(integer)) => {
            integer.steps_of_comparison()
        }
        _ => 0,
    }
}

/// Returns the order of two numbers or booleans; `None` for other values and for not-a-number.
fn order_of_numbers(left: &Json, right: &Json) -> Option<Ordering> {
    let boolean = |json: &Json| match json {
        Json::Bool(value) => Some(Json::Int(Integer::from(i64::from(*value)))),
        _ => None,
    };
    match (left, right) {
        (Json::Int(a), Json::Int(b)) => Some(a.cmp(b)),
        (Json::Float(a), Json::Float(b)) => a.to_f64().partial_cmp(&b.to_f64()),
        (Json::Int(a), Json::Float(b)) => a.compare_f64(b.to_f64()),
        (Json::Float(a), Json::Int(b)) => b.compare_f64(a.to_f64()).map(Ordering::reverse),
        (Json::Bool(_), _) => order_of_numbers(&boolean(left)?, right),
        (_, Json::Bool(_)) => order_of_numbers(left, &boolean(right)?),
        _ => None,
    }
}

/// Returns the order of two numbers or two strings; `None` for not-a-number, which is neither less nor greater.
pub(super) fn order(left: &Json, right: &Json) -> Result<Option<Ordering>> {
    match (left, right) {
        (Json::Str(a), Json::Str(b)) => Ok(Some(a.cmp(b))),
        (Json::Str(_), _) | (_, Json::Str(_)) => Err(EvaluationError::Incomparable),
        _ => Ok(order_of_numbers(left, right)),
    }
}

/// Returns true if a value has an order: a number or a string.
pub(super) fn is_ordered(json: &Json) -> bool {
    matches!(json, Json::Int(_) | Json::Float(_) | Json::Str(_))
}

/// Returns true if a value is false in JMESPath: null, `false` or empty. 0 is true.
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

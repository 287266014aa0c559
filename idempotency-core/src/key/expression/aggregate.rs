//! The functions over all elements of an array: sum, average, minimum, maximum, sorting.

use std::borrow::Cow;
use std::cmp::Ordering;

use idempotency_expression::Function;

use super::Node;
use super::compare::{order, steps_of_mixed};
use super::error::{EvaluationError, Result};
use super::evaluate::{NULL, Walk, weight};
use crate::key::{Json, Sum};

/// Evaluates `sum`, `avg`, `min`, `max` and `sort`.
pub(super) fn evaluate<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    elements: &[Json],
) -> Result<Cow<'v, Json>> {
    if !matches!(function, Function::Sum | Function::Avg) {
        return chosen(walk, function, elements, elements);
    }
    check(function, elements, true)?;
    let value = match function {
        Function::Avg if elements.is_empty() => Json::Null,
        Function::Avg => average(walk, function, elements)?,
        _ => {
            let total = sum(walk, function, elements)?;
            walk.made(total)?
        }
    };
    Ok(Cow::Owned(value))
}

/// Evaluates `sort_by`, `min_by` and `max_by`.
pub(super) fn evaluate_by<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    elements: &[Json],
    expression: &Node,
) -> Result<Cow<'v, Json>> {
    let mark = walk.missing.mark();
    let mut keys = walk.budget.list(elements.len())?;
    for element in elements {
        walk.push(&mut keys, expression, element)?;
    }
    // The sort keys do not become a part of the value.
    walk.missing.forget_since(mark);
    chosen(walk, function, elements, &keys)
}

/// Returns the elements in the order of their keys, or the one with the least or the greatest key.
fn chosen<'v>(
    walk: &mut Walk<'_>,
    function: Function,
    elements: &[Json],
    keys: &[Json],
) -> Result<Cow<'v, Json>> {
    check(function, keys, false)?;
    let wanted = match function {
        Function::Sort | Function::SortBy => {
            let places = sorted(walk, function, keys)?;
            return walk.copy(places.into_iter().map(|place| &elements[place]));
        }
        Function::Min | Function::MinBy => Ordering::Less,
        _ => Ordering::Greater,
    };
    match extreme(walk, keys, wanted)? {
        Some(place) => walk.own(Cow::Borrowed(&elements[place])).map(Cow::Owned),
        None => Ok(NULL),
    }
}

/// Checks that all values are numbers, or that all are strings if the function takes strings.
fn check(function: Function, values: &[Json], only_numbers: bool) -> Result<()> {
    let takes = if only_numbers {
        "an array of numbers"
    } else {
        "only numbers or only strings"
    };
    let strings = matches!(values.first(), Some(Json::Str(_)));
    let wrong = values.iter().find(|value| match value {
        Json::Int(_) | Json::Float(_) => strings,
        Json::Str(_) => !strings || only_numbers,
        _ => true,
    });
    wrong.map_or(Ok(()), |other| {
        Err(EvaluationError::argument(function, takes, other))
    })
}

/// Returns the sum. Integers are added exactly; from the first float on, all numbers are added as floats, as in Python.
fn sum(walk: &mut Walk<'_>, function: Function, numbers: &[Json]) -> Result<Json> {
    let beyond = || EvaluationError::failed(function, "an integer is beyond the range of floats");
    let mut exact = Sum::default();
    let mut numbers = numbers.iter();
    let mut total = loop {
        match numbers.next() {
            Some(Json::Int(number)) => walk.work(exact.add(number))?,
            Some(Json::Float(number)) => {
                walk.work(number.digits_beyond_64_bits())?;
                break exact.total().to_f64().ok_or_else(beyond)? + number.to_f64();
            }
            _ => return Ok(Json::Int(exact.total())),
        }
    };
    for number in numbers {
        walk.work(1 + weight(number))?;
        total += match number {
            Json::Int(number) => number.to_f64().ok_or_else(beyond)?,
            Json::Float(number) => number.to_f64(),
            _ => continue,
        };
    }
    Ok(Json::Float(total.into()))
}

fn average(walk: &mut Walk<'_>, function: Function, numbers: &[Json]) -> Result<Json> {
    let average = match sum(walk, function, numbers)? {
        Json::Int(total) => {
            let count = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
            let (average, steps) = total.divide(count);
            walk.work(steps)?;
            average
        }
        Json::Float(total) => Some(total.to_f64() / numbers.len() as f64),
        _ => None,
    };
    let average = average.map(|average| Json::Float(average.into()));
    average.ok_or(EvaluationError::failed(
        function,
        "the result is beyond the range of floats",
    ))
}

/// Returns the index of the least or greatest key; of equal keys, the first.
fn extreme(walk: &mut Walk<'_>, keys: &[Json], wanted: Ordering) -> Result<Option<usize>> {
    let mut best = None;
    for (at, key) in keys.iter().enumerate() {
        walk.work(1 + weight(key))?;
        let Some(place) = best else {
            best = Some(at);
            continue;
        };
        walk.work(steps_of_mixed(key, &keys[place]))?;
        // Not-a-number has no order.
        if order(key, &keys[place])? == Some(wanted) {
            best = Some(at);
        }
    }
    Ok(best)
}

/// Returns the indices in stable order. Python's result for not-a-number depends on its sorting algorithm, so it is refused.
fn sorted(walk: &mut Walk<'_>, function: Function, keys: &[Json]) -> Result<Vec<usize>> {
    if keys.len() > 1
        && keys
            .iter()
            .any(|key| matches!(key, Json::Float(float) if float.to_f64().is_nan()))
    {
        return Err(EvaluationError::failed(
            function,
            "not-a-number cannot be sorted",
        ));
    }
    // A sort compares each key about as often as the list can be halved.
    let halvings = usize::BITS - keys.len().leading_zeros();
    // One integer can be compared with all floats.
    let beside_float = keys
        .iter()
        .map(|key| steps_of_mixed(key, &Json::Float(0.0.into())));
    let beside_float = beside_float.max().unwrap_or(0);
    for key in keys {
        let mixed = match key {
            Json::Float(_) => beside_float,
            _ => 0,
        };
        walk.work((1 + weight(key) + mixed).saturating_mul(halvings as usize))?;
    }
    let mut places = walk.budget.list(keys.len())?;
    places.extend(0..keys.len());
    // The sort allocates at most as much again.
    let scratch = size_of_val(places.as_slice());
    walk.budget.allocate(scratch)?;
    // All keys have one type, so any two have an order.
    places.sort_by(|&a, &b| {
        order(&keys[a], &keys[b])
            .ok()
            .flatten()
            .unwrap_or(Ordering::Equal)
    });
    walk.budget.free(scratch);
    Ok(places)
}

//! The functions over all elements of an array: sums, extremes, sorting.

use std::borrow::Cow;
use std::cmp::Ordering;

use idempotency_expression::Function;

use super::compare::order;
use super::compile::Node;
use super::error::EvaluationError;
use super::evaluate::{NULL, Walk};
use super::functions::{given, goes_before};
use crate::key::{Integer, Json};

type Result<T> = std::result::Result<T, EvaluationError>;

/// `sum`, `avg`, `min`, `max` and `sort`.
pub(super) fn all<'v>(
    walk: &mut Walk,
    function: Function,
    elements: &[Json],
) -> Result<Cow<'v, Json>> {
    let numbers_alone = matches!(function, Function::Sum | Function::Avg);
    check(function, elements.iter(), numbers_alone)?;
    let answer = match function {
        Function::Sum => sum(function, elements)?,
        Function::Avg if elements.is_empty() => Json::Null,
        Function::Avg => average(function, elements)?,
        Function::Sort => {
            let places = sorted(function, elements)?;
            return walk.copy(places.into_iter().map(|place| &elements[place]));
        }
        _ => {
            let wanted = if function == Function::Min {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            match extreme(elements, wanted)? {
                Some(place) => walk.own(Cow::Borrowed(&elements[place]))?,
                None => Json::Null,
            }
        }
    };
    Ok(Cow::Owned(answer))
}

/// `sort_by`, `min_by` and `max_by`.
pub(super) fn by<'v>(
    walk: &mut Walk,
    function: Function,
    elements: &[Json],
    expression: &Node,
) -> Result<Cow<'v, Json>> {
    let mut keys = Vec::with_capacity(elements.len());
    for element in elements {
        walk.push(&mut keys, expression, element)?;
    }
    check(function, keys.iter(), false)?;
    if function == Function::SortBy {
        let places = sorted(function, &keys)?;
        return walk.copy(places.into_iter().map(|place| &elements[place]));
    }
    let wanted = if function == Function::MinBy {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    match extreme(&keys, wanted)? {
        Some(place) => walk.own(Cow::Borrowed(&elements[place])).map(Cow::Owned),
        None => Ok(NULL),
    }
}

/// All are numbers, or all are strings where strings are taken.
fn check<'a>(
    function: Function,
    mut values: impl Iterator<Item = &'a Json>,
    numbers_alone: bool,
) -> Result<()> {
    let takes = if numbers_alone {
        "an array of numbers"
    } else {
        "numbers alone or strings alone"
    };
    let refuse = |other: &Json| Err(EvaluationError::argument(function, takes, given(other)));
    let Some(first) = values.next() else {
        return Ok(());
    };
    let strings = matches!(first, Json::Str(_));
    for value in std::iter::once(first).chain(values) {
        match value {
            Json::Int(_) | Json::Float(_) if !strings => {}
            Json::Str(_) if strings && !numbers_alone => {}
            other => return refuse(other),
        }
    }
    Ok(())
}

/// Integers are summed exactly; from the first float on, floats are.
fn sum(function: Function, numbers: &[Json]) -> Result<Json> {
    let beyond = || EvaluationError::failed(function, "an integer is beyond the range of floats");
    let mut total = Json::Int(Integer::from(0));
    for number in numbers {
        total = match (total, number) {
            (Json::Int(a), Json::Int(b)) => Json::Int(a.add(b)),
            (Json::Int(a), Json::Float(b)) => Json::Float(a.to_f64().ok_or_else(beyond)? + b),
            (Json::Float(a), Json::Int(b)) => Json::Float(a + b.to_f64().ok_or_else(beyond)?),
            (Json::Float(a), Json::Float(b)) => Json::Float(a + b),
            (total, _) => total,
        };
    }
    Ok(total)
}

fn average(function: Function, numbers: &[Json]) -> Result<Json> {
    let average = match sum(function, numbers)? {
        Json::Int(total) => u64::try_from(numbers.len())
            .ok()
            .and_then(|count| total.divide(count)),
        #[allow(clippy::cast_precision_loss)]
        Json::Float(total) => Some(total / numbers.len() as f64),
        _ => None,
    };
    average.map(Json::Float).ok_or(EvaluationError::failed(
        function,
        "the result is beyond the range of floats",
    ))
}

/// The first of the least or greatest.
fn extreme(keys: &[Json], wanted: Ordering) -> Result<Option<usize>> {
    let mut best = None;
    for (at, key) in keys.iter().enumerate() {
        match best {
            None => best = Some(at),
            Some(place) if goes_before(key, &keys[place], wanted)? => best = Some(at),
            Some(_) => {}
        }
    }
    Ok(best)
}

/// The places in stable order. What Python makes of not-a-number depends on its sorting algorithm, so it is refused.
fn sorted(function: Function, keys: &[Json]) -> Result<Vec<usize>> {
    if keys.len() > 1
        && keys
            .iter()
            .any(|key| matches!(key, Json::Float(float) if float.is_nan()))
    {
        return Err(EvaluationError::failed(
            function,
            "not-a-number has no place in an order",
        ));
    }
    let mut places: Vec<usize> = (0..keys.len()).collect();
    // All keys are of one kind, so that each two have an order.
    places.sort_by(|&a, &b| {
        order(&keys[a], &keys[b])
            .ok()
            .flatten()
            .unwrap_or(Ordering::Equal)
    });
    Ok(places)
}

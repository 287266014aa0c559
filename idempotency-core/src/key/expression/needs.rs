//! Finds what an expression looks at in a payload, so that the rest need not become a value.
//!
//! The analysis goes from the result to the payload: what is looked at in the value of a node determines what the node looks
//! at in its own input. Where a function may look at anything, the whole value is needed. So an unknown case costs time, and
//! never changes a result.

use idempotency_expression::Function;

use super::compile::{Node, Selected};
use super::header::PLACES;
use super::iam;
use crate::key::Json;
use crate::key::Needs;

/// Longer slices need the whole array.
const LONG: usize = 64;
/// The most needs inside one another. `not_null(a, b).not_null(c, d)` doubles them at each step, and a slice repeats them for
/// each of its places.
const MANY: usize = 512;

/// Returns what an expression looks at in the payload. Also notes in each call what is looked at in its result.
pub(super) fn of(node: &mut Node) -> Needs {
    needs(node, Needs::All)
}

/// Returns what `node` looks at in its input if `result` is looked at in its value.
fn needs(node: &mut Node, result: Needs) -> Needs {
    bounded(input(node, result))
}

/// Returns these needs, or the whole value if they are too many.
fn bounded(needs: Needs) -> Needs {
    if needs.count() > MANY {
        Needs::All
    } else {
        needs
    }
}

fn input(node: &mut Node, result: Needs) -> Needs {
    match node {
        Node::Current => result,
        Node::Field(name) => Needs::member(name.clone(), result),
        Node::Index(index) => Needs::element(*index, result),
        Node::Slice { start, stop, step } => slice([*start, *stop, Some(*step)], &result),
        Node::Literal(_) => Needs::Kind,
        // A multi-select is null on null, and its parts can be missing, so each of them is needed.
        Node::List(parts) => all(parts.iter_mut().map(part)),
        Node::Hash(members) => all(members.iter_mut().map(|(_, member)| part(member))),
        Node::Chain(left, right) => {
            let between = needs(right, result);
            needs(left, between)
        }
        Node::Project {
            over,
            condition,
            each,
        } => {
            let mut element = needs(each, result.of_elements());
            if let Some(condition) = condition {
                element = element.and(needs(condition, Needs::All));
            }
            needs(over, Needs::each(element))
        }
        Node::Flatten(over) => {
            let element = result.of_elements();
            // An element that is an array is replaced by its own elements.
            let inner = Needs::each(element.clone());
            needs(over, Needs::each(element.and(inner)))
        }
        Node::Values(over) | Node::Not(over) => needs(over, Needs::All),
        // The left side decides by whether it is empty.
        Node::Or(left, right) | Node::And(left, right) => {
            needs(left, Needs::All).and(needs(right, result))
        }
        Node::Compare { left, right, .. } => needs(left, Needs::All).and(needs(right, Needs::All)),
        Node::Call {
            function,
            arguments,
            result: noted,
        } => {
            *noted = result.clone();
            call(*function, arguments, result)
        }
    }
}

fn part(part: &mut Selected) -> Needs {
    needs(&mut part.node, Needs::All)
}

fn all(parts: impl Iterator<Item = Needs>) -> Needs {
    parts.fold(Needs::Kind, |all, part| bounded(all.and(part)))
}

fn slice(bounds: [Option<i64>; 3], result: &Needs) -> Needs {
    let element = result.of_elements();
    let place = |bound: i64| usize::try_from(bound).ok();
    let [start, stop, step] = bounds.map(|bound| bound.map(place));
    match (start.unwrap_or(Some(0)), stop, step.flatten()) {
        (Some(start), Some(Some(stop)), Some(step))
            if step > 0 && stop <= LONG && stop * element.count() <= MANY =>
        {
            Needs::elements_at((start..stop).step_by(step), &element)
        }
        _ => Needs::each(element),
    }
}

fn call(function: Function, arguments: &mut [Node], result: Needs) -> Needs {
    match (function, arguments) {
        (Function::Type, [argument]) => needs(argument, Needs::Kind),
        // The result is one of the arguments. Each is compared with null.
        (Function::NotNull, candidates) => all(candidates
            .iter_mut()
            .map(|candidate| needs(candidate, result.clone()))),
        (Function::Map, [expression, over]) => {
            let element = needs(expression, result.of_elements());
            needs(over, Needs::each(element))
        }
        (Function::Header, [event, Node::Literal(Json::Str(name))]) => {
            let headers = all(PLACES
                .into_iter()
                .map(|place| Needs::member(place.into(), Needs::header(name.clone()))));
            needs(event, headers)
        }
        (Function::IamCaller, [event]) => {
            let paths = iam::PATHS.into_iter().flatten();
            needs(event, all(paths.map(|path| at(path, Needs::All))))
        }
        (Function::SortBy | Function::MinBy | Function::MaxBy, [over, expression]) => {
            // What is looked at in the elements is within the whole. This notes it in the calls inside.
            let _element = needs(expression, Needs::All);
            needs(over, Needs::All)
        }
        (_, arguments) => all(arguments
            .iter_mut()
            .map(|argument| needs(argument, Needs::All))),
    }
}

/// Returns the needs of a value that is looked at on this path.
fn at(path: &[&str], needs: Needs) -> Needs {
    path.iter()
        .rev()
        .fold(needs, |inner, name| Needs::member((*name).into(), inner))
}

#[cfg(test)]
mod tests;

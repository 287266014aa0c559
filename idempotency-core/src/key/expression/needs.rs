//! Finds what an expression looks at in a payload, so that the rest need not become a value.
//!
//! The analysis goes from the result to the payload: what is looked at in the value of a node determines what the node looks
//! at in its own input. Where a function may look at anything, the whole value is needed. So an unknown case costs time, and
//! never changes a result.

use idempotency_expression::Function;

use super::event::{PATHS, PLACES};
use super::{Node, Selected};
use crate::key::{Json, Needs, Text};

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
        Node::Field(name) => Needs::member(Text::from_trusted(name.as_bytes()), result),
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
            note,
        } => {
            note.clone_from(&result);
            call(*function, arguments, result)
        }
    }
}

fn part(part: &mut Selected) -> Needs {
    needs(&mut part.value, Needs::All)
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
            let paths = PATHS.into_iter().flatten();
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
mod tests {
    use super::*;
    use crate::key::Expression;

    fn of(text: &str) -> Needs {
        Expression::compile(text).unwrap().needs().clone()
    }

    fn member(name: &str, needs: Needs) -> Needs {
        Needs::member(name.into(), needs)
    }

    #[test]
    fn a_path_looks_at_one_member_at_each_level() {
        assert_eq!(of("a.b"), member("a", member("b", Needs::All)));
        assert_eq!(of("a[2]"), member("a", Needs::element(2, Needs::All)));
        assert_eq!(
            of("a[-2].b"),
            member("a", Needs::element(-2, member("b", Needs::All)))
        );
        assert_eq!(of("a | b"), of("a.b"));
        assert_eq!(of("@"), Needs::All);
        assert_eq!(of("'constant'"), Needs::Kind);
    }

    #[test]
    fn a_multi_select_looks_at_each_of_its_parts() {
        let parts = member("a", Needs::All).and(member("b", member("c", Needs::All)));
        assert_eq!(of("[b.c, a]"), parts);
        assert_eq!(of("{x: a, y: b.c}"), parts);
        // The other part can fail, so it is evaluated too.
        assert_eq!(of("[b.c, a][1]"), parts);
        assert_eq!(of("[a, a.b]"), member("a", Needs::All));
    }

    #[test]
    fn a_projection_looks_at_each_element() {
        let each = |needs| member("a", Needs::each(needs));
        assert_eq!(of("a[*].b"), each(member("b", Needs::All)));
        assert_eq!(
            of("a[?b > `1`].c"),
            each(member("b", Needs::All).and(member("c", Needs::All)))
        );
        assert_eq!(of("map(&b, a)"), each(member("b", Needs::All)));
        let flat = member("b", Needs::All).and(Needs::each(member("b", Needs::All)));
        assert_eq!(of("a[].b"), each(flat));
        assert_eq!(
            of("a[1:4:2].b"),
            member(
                "a",
                Needs::elements_at([1, 3].into_iter(), &member("b", Needs::All))
            )
        );
        let parts = ["b", "c", "d"].map(|name| member(name, Needs::All));
        let any = parts.into_iter().fold(Needs::Kind, Needs::and);
        assert_eq!(of("[a[0].b, a[1].c, a[-1].d]"), each(any));
        for all in ["a[-2:].b", "a[::2].b", "a[:65].b", "a[::-1].b"] {
            assert_eq!(of(all), each(member("b", Needs::All)), "{all}");
        }
    }

    #[test]
    fn conditions_look_at_whole_values() {
        let both = member("a", Needs::All).and(member("b", Needs::All));
        for text in [
            "a || b",
            "a && b",
            "a == b",
            "[!a, b]",
            "not_null(a, b)",
            "merge(a, b)",
        ] {
            assert_eq!(of(text), both, "{text}");
        }
        assert_eq!(of("a.*.b"), member("a", Needs::All));
        assert_eq!(of("keys(a)"), member("a", Needs::All));
        assert_eq!(of("type(a)"), member("a", Needs::Kind));
        assert_eq!(of("sort_by(a, &b)[0].c"), member("a", Needs::All));
    }

    #[test]
    fn needs_that_grow_with_each_step_become_the_whole_value() {
        let few = of("a[:3].b[:3].c");
        assert_eq!(few.count(), 1 + 1 + 3 * (1 + 1 + 3 * 2));
        let steps = [
            "x[:64]",
            "x[]",
            "not_null(a, b)",
            "not_null(y[], z[1:60])",
            "map(&not_null(p, q), x)",
        ];
        for step in steps {
            for times in 1..=24 {
                let text = [step].repeat(times).join(".");
                let needs = of(&text);
                assert!(needs.count() <= MANY, "{text}: {}", needs.count());
            }
        }
        // Each has one element more than the others, and all of them together are too many.
        let paths: Vec<_> = (0..100).map(|name| format!("n{name}[9].a.b.c.d")).collect();
        assert_eq!(of(&format!("[{}]", paths.join(","))), Needs::All);
    }

    #[test]
    fn a_header_looks_at_the_headers_of_its_name() {
        let header = || Needs::header("x-key".into());
        assert_eq!(
            of("header(@, 'x-key')"),
            member("headers", header()).and(member("multiValueHeaders", header()))
        );
    }

    #[test]
    fn the_caller_of_iam_looks_at_the_context_of_the_request_alone() {
        let paths = "[requestContext.identity.[cognitoIdentityId, userArn], \
         requestContext.authorizer.iam.[cognitoIdentity.identityId, userArn]]";
        assert_eq!(of("iam_caller(@)"), of(paths));
    }

    #[test]
    fn a_text_that_is_unwrapped_is_read_by_what_is_taken_from_it() {
        let Node::Chain(call, _) = compile("powertools_json(body).id") else {
            panic!("a chain");
        };
        let Node::Call { note: result, .. } = *call else {
            panic!("a call");
        };
        assert_eq!(result, member("id", Needs::All));
        let Node::Call { note: result, .. } = compile("powertools_json(body)") else {
            panic!("a call");
        };
        assert_eq!(result, Needs::All);
    }

    fn compile(text: &str) -> Node {
        let mut node = super::super::compile(text).unwrap();
        let _needs = super::of(&mut node);
        node
    }
}

//! Finds what an expression looks at in a payload, so that the rest need not become a value.
//!
//! The analysis goes from the result to the payload: what is looked at in the value of a node determines what the node looks
//! at in its own input. Where a function may look at anything, the whole value is needed. So an unknown case costs time, and
//! never changes a result.

use idempotency_expression::{Function, HEADER_PLACES, IAM_PATHS};

use super::{Node, Selected};
use crate::key::{Json, Needs};

/// The largest `stop` of a slice whose elements are listed one by one. Other slices look at each element of the array.
const MAX_STOP: usize = 64;
/// The most needs inside one another. `not_null(a, b).not_null(c, d)` doubles them at each step, and a slice repeats them for
/// each of its places.
const MAX_NEEDS: usize = 512;

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
    if needs.count() > MAX_NEEDS {
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
            if step > 0 && stop <= MAX_STOP && stop * element.count() <= MAX_NEEDS =>
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
            let headers = all(HEADER_PLACES
                .into_iter()
                .map(|place| Needs::member(place.into(), Needs::header(name.clone()))));
            needs(event, headers)
        }
        (Function::IamCaller, [event]) => {
            let paths = IAM_PATHS.into_iter().flatten();
            needs(event, all(paths.map(|path| at(path, Needs::All))))
        }
        (Function::SortBy | Function::MinBy | Function::MaxBy, [over, expression]) => {
            // `over` is needed as a whole. This only notes in the calls inside `expression` what is looked at in their results.
            let _element = needs(expression, Needs::All);
            needs(over, Needs::All)
        }
        (_, arguments) => all(arguments
            .iter_mut()
            .map(|argument| needs(argument, Needs::All))),
    }
}

/// Returns the needs of a value that is looked at on this path.
fn at(path: &str, needs: Needs) -> Needs {
    let names = path.rsplit('.');
    names.fold(needs, |inner, name| Needs::member(name.into(), inner))
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

    fn whole(name: &str) -> Needs {
        member(name, Needs::All)
    }

    #[test]
    fn an_expression_looks_at_what_can_change_its_value() {
        let each = |needs| member("a", Needs::each(needs));
        let both = whole("a").and(whole("b"));
        let any = ["b", "c", "d"].map(whole);
        let any = any.into_iter().fold(Needs::Kind, Needs::and);
        let parts = whole("a").and(member("b", whole("c")));
        let second_and_fourth = Needs::elements_at([1, 3].into_iter(), &whole("b"));
        let header = Needs::header("x-key".into());
        let headers = member("headers", header.clone()).and(member("multiValueHeaders", header));
        let of_iam = of("[requestContext.identity.[cognitoIdentityId, userArn], \
             requestContext.authorizer.iam.[cognitoIdentity.identityId, userArn]]");
        for (expressions, needs) in [
            ("@", Needs::All),
            ("'constant'", Needs::Kind),
            ("a.b; a | b", member("a", whole("b"))),
            ("a[2]", member("a", Needs::element(2, Needs::All))),
            ("a[-2].b", member("a", Needs::element(-2, whole("b")))),
            // The other part can fail, so it is evaluated too.
            ("[b.c, a]; {x: a, y: b.c}; [b.c, a][1]", parts),
            ("a[*].b; map(&b, a)", each(whole("b"))),
            ("a[?b > `1`].c", each(whole("b").and(whole("c")))),
            ("a[].b", each(whole("b").and(Needs::each(whole("b"))))),
            ("a[1:4:2].b", member("a", second_and_fourth)),
            ("[a[0].b, a[1].c, a[-1].d]", each(any)),
            ("a[-2:].b; a[::2].b; a[:65].b; a[::-1].b", each(whole("b"))),
            // Conditions look at whole values.
            (
                "a || b; a && b; a == b; [!a, b]; not_null(a, b); merge(a, b)",
                both,
            ),
            ("a.*.b; keys(a); sort_by(a, &b)[0].c; [a, a.b]", whole("a")),
            ("type(a)", member("a", Needs::Kind)),
            ("header(@, 'x-key')", headers),
            ("iam_caller(@)", of_iam),
        ] {
            for text in expressions.split("; ") {
                assert_eq!(of(text), needs, "{text}");
            }
        }
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
                assert!(needs.count() <= MAX_NEEDS, "{text}: {}", needs.count());
            }
        }
        // No path is too large, but all of them together are.
        let paths: Vec<_> = (0..100).map(|name| format!("n{name}[9].a.b.c.d")).collect();
        assert_eq!(of(&format!("[{}]", paths.join(","))), Needs::All);
    }

    #[test]
    fn a_text_that_is_unwrapped_is_read_by_what_is_taken_from_it() {
        for (text, needs) in [
            ("powertools_json(body)", Needs::All),
            ("powertools_json(body).id", whole("id")),
        ] {
            let mut node = super::super::compile(text).unwrap();
            let _needs = super::of(&mut node);
            let call = match node {
                Node::Chain(call, _) => *call,
                call => call,
            };
            let Node::Call { note, .. } = call else {
                panic!("a call");
            };
            assert_eq!(note, needs, "{text}");
        }
    }
}

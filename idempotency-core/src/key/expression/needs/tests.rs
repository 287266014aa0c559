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
    let Node::Call { result, .. } = *call else {
        panic!("a call");
    };
    assert_eq!(result, member("id", Needs::All));
    let Node::Call { result, .. } = compile("powertools_json(body)") else {
        panic!("a call");
    };
    assert_eq!(result, Needs::All);
}

fn compile(text: &str) -> Node {
    let mut node = super::super::compile::compile(text).unwrap();
    of_node(&mut node);
    node
}

fn of_node(node: &mut Node) {
    let _needs = super::of(node);
}

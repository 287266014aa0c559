//! Valid functions, with settings that are valid for them.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::{among, stream, value};

/// Returns a setting with a valid value.
fn setting(name: &'static str) -> BoxedStrategy<(&'static str, String)> {
    let value = match name {
        // These functions have no `Call`, which steps need.
        "steps" => among(&["\"off\"", "\"Off\"", "STEPS", "crate::a::STEPS"]),
        name => value(name),
    };
    value.prop_map(move |value| (name, value)).boxed()
}

/// A valid function with valid settings.
#[derive(Clone, Debug)]
pub(in crate::properties) struct Valid {
    pub(in crate::properties) settings: Vec<(&'static str, String)>,
    pub(in crate::properties) item: String,
    pub(in crate::properties) name: String,
}

impl Valid {
    /// Returns the settings as the attribute's arguments.
    pub(in crate::properties) fn arguments(&self) -> String {
        let settings = self
            .settings
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        settings.collect::<Vec<_>>().join(", ")
    }
}

/// Returns names of functions and parameters.
fn name() -> BoxedStrategy<String> {
    among(&[
        "charge",
        "_f",
        "größe",
        "r#type",
        "r#fn",
        "event",
        "operation",
        "result",
        "store",
        "C",
    ])
}

fn parameter() -> BoxedStrategy<String> {
    let pattern = prop_oneof![
        3 => name(),
        1 => name().prop_map(|name| format!("mut {name}")),
        1 => among(&[
            "_", "LambdaEvent { payload, .. }", "ref event", "event @ _", "(A | B)", "&a", "[a, .., b]", "(a, b)",
            "LambdaEvent { payload: Order { id: r#type, .. }, context: _ }",
        ]),
    ];
    let of = among(&[
        "LambdaEvent<Order>",
        "LambdaEvent<Raw<u8>>",
        "A",
        "&'static A",
        "&[u8]",
        "[u8; { 1 + 1 }]",
        "(A, B)",
        "Box<dyn Fn(A) -> B + Send>",
        "fn(A) -> B",
        "m!(A)",
        "<A as B>::C",
    ]);
    let before =
        prop_oneof![4 => Just(String::new()), 1 => among(&["#[allow(unused)]", "/** a */"])];
    (before, pattern, of)
        .prop_map(|(before, pattern, of)| format!("{before} {pattern}: {of}"))
        .boxed()
}

fn body() -> BoxedStrategy<String> {
    let any_tokens = stream().prop_map(|tokens| format!("any! {{ {tokens} }}"));
    let statement = prop_oneof![
        among(&[
            "let a = 1;",
            "return Ok(a);",
            "fn inner() {}",
            "a.await?;",
            "use a::b;",
            "struct S;",
            "if a { b } else { c }",
            "loop { break; }",
            "\"Self\";",
            "let c = |a| a;",
        ]),
        any_tokens,
    ];
    let inner = prop_oneof![4 => Just(String::new()), 1 => among(&["#![allow(unused)]", "//! a\n", "/*! a */"])];
    (
        inner,
        vec(statement, 0..4),
        among(&["", "Ok(a)", "todo!()"]),
    )
        .prop_map(|(inner, statements, last)| format!("{inner} {} {last}", statements.join(" ")))
        // A body with `Self` needs a prefix.
        .prop_filter("it names `Self`", |body| !body.contains("Self"))
        .boxed()
}

/// The settings that any function can have, in another order than the documentation's.
const OTHERS: &[&str] = &[
    "on_replay",
    "store",
    "lease",
    "store_timeout",
    "key",
    "hash",
    "on_error",
    "on_store_error",
    "circuit_breaker",
    "validate",
    "local_cache",
    "local_cache_bytes",
    "key_required",
    "store_when",
    "store_event",
    "expires_after",
    "lookup",
    "on_timeout",
    "steps",
    "on_in_progress",
];

fn settings(also: Vec<&'static str>) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    subsequence(OTHERS, 0..=OTHERS.len())
        .prop_flat_map(move |mut names| {
            names.extend(also.iter());
            // Two of their values contradict each other.
            if names.contains(&"on_timeout") {
                names.retain(|name| *name != "on_store_error");
            }
            names.into_iter().map(setting).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

/// Returns functions with settings that are valid for them.
pub(in crate::properties) fn valid() -> impl Strategy<Value = Valid> {
    let generics = among(&["<T>", "<'a, T: A<B> + 'a>", "<const N: usize>"]);
    let receiver = among(&[
        "&self",
        "self",
        "&mut self",
        "mut self",
        "self: Arc<Self>",
        "&'a self",
    ]);
    let shape = prop_oneof![
        // A handler, and then the functions that need a payload, a prefix, or both.
        3 => parameter().prop_map(|event| (String::new(), event, vec![])),
        2 => vec(parameter(), 0..4).prop_map(|all| (String::new(), all.join(", "), vec!["payload"])),
        1 => vec(parameter(), 0..4).prop_map(|all| (String::new(), all.join(", "), vec!["payload", "context"])),
        1 => (generics.clone(), parameter()).prop_map(|(generics, event)| (generics, event, vec!["key_prefix"])),
        1 => (generics, vec(parameter(), 0..3))
            .prop_map(|(generics, all)| (generics, all.join(", "), vec!["payload", "key_prefix"])),
        2 => (receiver, vec(parameter(), 0..3)).prop_map(|(receiver, all)| {
            let all = [vec![receiver], all].concat();
            (String::new(), all.join(", "), vec!["payload", "key_prefix"])
        }),
    ];
    let before = vec(
        among(&[
            "#[inline]",
            "/// a\n",
            "#[cfg(all(a, b = \"c\"))]",
            "#[tracing::instrument(skip(a))]",
        ]),
        0..4,
    );
    let visibility = among(&["", "pub", "pub(crate)", "pub(in crate::a)"]);
    let qualifiers = among(&["async", "async unsafe", "async extern \"C\""]);
    let returned = among(&[
        "Result<A, E>",
        "Result<(), Box<dyn Error + Send>>",
        "anyhow::Result<Vec<u8>>",
        "Reply",
        "m!(A)",
        "Result<Vec<Option<(A, B)>>, E> where A: B<C, D>, E: 'static",
    ]);
    let function = (before, visibility, qualifiers, name(), returned, body());
    (shape, function).prop_flat_map(|((generics, inputs, also), (before, visibility, qualifiers, name, returned, body))| {
        let before = before.join(" ");
        let item = format!("{before} {visibility} {qualifiers} fn {name}{generics}({inputs}) -> {returned} {{ {body} }}");
        settings(also).prop_map(move |settings| Valid { settings, item: item.clone(), name: name.clone() })
    })
}

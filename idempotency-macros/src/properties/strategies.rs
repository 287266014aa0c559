//! The inputs of the properties: valid settings, valid functions, and any tokens.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

/// Returns one of these texts.
pub(super) fn among(texts: &'static [&'static str]) -> BoxedStrategy<String> {
    select(texts).prop_map(str::to_owned).boxed()
}

/// Returns a text as a Rust literal, plain or raw.
fn quoted(text: &str, raw: bool) -> String {
    let hashes = "#".repeat(
        (0..)
            .find(|hashes| !text.contains(&format!("\"{}", "#".repeat(*hashes))))
            .unwrap(),
    );
    // Rust does not allow a bare carriage return in a raw literal.
    if raw && !text.contains('\r') {
        format!("r{hashes}\"{text}\"{hashes}")
    } else {
        format!("{text:?}")
    }
}

/// Returns literals of these texts.
pub(super) fn literal(text: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    (text, any::<bool>())
        .prop_map(|(text, raw)| quoted(&text, raw))
        .boxed()
}

/// Returns JMESPath expressions.
fn expression() -> BoxedStrategy<String> {
    let leaf = among(&[
        "a", "body", "@", "`1`", "'x'", "\"a b\"", "*", "a[0]", "a[]",
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (
                inner.clone(),
                among(&["|", "||", "&&", "=="]),
                inner.clone()
            )
                .prop_map(|(one, operator, two)| format!("({one}) {operator} ({two})")),
            vec(inner.clone(), 1..4).prop_map(|all| format!("[{}]", all.join(", "))),
            (
                among(&["length", "powertools_json", "to_string", "keys"]),
                inner.clone()
            )
                .prop_map(|(function, inner)| format!("{function}({inner})")),
            inner.prop_map(|inner| format!("{{a: {inner}}}")),
        ]
    })
    .boxed()
}

/// Returns one of some names, in lower or upper case.
fn choice(choices: &'static [&'static str]) -> BoxedStrategy<String> {
    let one = (select(choices), any::<bool>());
    let one = one.prop_map(|(text, upper)| {
        if upper {
            text.to_uppercase()
        } else {
            text.to_owned()
        }
    });
    literal(one)
}

/// Returns a duration as a literal.
fn written(duration: Duration) -> String {
    format!("\"{}\"", humantime::format_duration(duration))
}

/// Returns numbers in the forms of Rust.
fn number() -> BoxedStrategy<String> {
    (prop_oneof![any::<usize>(), 0..1_000_usize], 0..5_usize)
        .prop_map(|(number, form)| match form {
            0 => format!("{number:#x}"),
            1 => format!("{number:#b}"),
            2 => format!("{number}usize"),
            3 => format!("0_{number}_"),
            _ => number.to_string(),
        })
        .boxed()
}

/// Returns valid values of a setting.
pub(super) fn value(name: &str) -> BoxedStrategy<String> {
    match name {
        "key" | "validate" | "store_when" => literal(expression()),
        "shared_key_prefix" => among(&["true", "false"]),
        "key_required" => among(&["true", "false", "\"all\"", "\"ALL\""]),
        "key_prefix" => {
            let mark = |prefix: &String| !prefix.contains("#tenant=");
            literal(
                prop_oneof!["[a-z.#]{1,512}", "\\PC{1,128}", ".{1,128}"]
                    .prop_filter("a tenant's", mark),
            )
        }
        "hash" => choice(&["md5", "sha224", "sha256", "sha384", "sha512"]),
        "expires_after" => prop_oneof![1..1_000_000_u64, 1..u64::MAX]
            .prop_map(|seconds| written(Duration::from_secs(seconds)))
            .boxed(),
        "lease" | "store_timeout" => prop_oneof![
            (1..u64::MAX).prop_map(|millis| written(Duration::from_millis(millis))),
            (1_000_000..u64::MAX).prop_map(|nanos| written(Duration::from_nanos(nanos))),
        ]
        .boxed(),
        "local_cache" | "local_cache_bytes" => number(),
        "on_in_progress" => choice(&["reject", "wait"]),
        "on_timeout" => choice(&["rerun", "hold"]),
        "on_error" => choice(&["release", "record"]),
        "on_replay" => among(&[
            "hook",
            "crate::hook::<u8>",
            "<A as B>::hook",
            "|response, _| response",
            "|mut response, replay| { response.replayed = true; let (a, b) = (1, 2); response }",
            "move |a: A, b: &B| -> A { if a < b { a } else { a } }",
        ]),
        "store" => among(&[
            "store",
            "STORE.clone()",
            "self.store.clone()",
            "&store",
            "{ let a = 1; store(a, b) }",
            "if a { b } else { c }",
            "match a { A { .. } => b, _ => c }",
            "Store::<A, B>::new(a, b)",
            "a.await?",
            "store!(key = 1, == x)",
            "A { a, b: 2 }",
        ]),
        _ => among(&[
            "order",
            "&order.id",
            "(a, &b.c)",
            "[a, b]",
            "(a)",
            "a + b",
            "(a as u64) < b",
            "a..b",
            "a = b",
            "-a",
            "*a",
            "!a",
            "&mut a",
            "|a| a",
            "a.b().c::<D, E>()[0]?",
            "{ a }",
            "unsafe { a }",
            "async move { a }.await",
            "(a, (b, [c, d]))",
            "json!({ \"a\": 1, \"b\": [2] })",
            "return",
            "#[allow(unused)] a",
        ]),
    }
}

/// Returns a setting with a valid value.
fn setting(name: &'static str) -> BoxedStrategy<(&'static str, String)> {
    value(name).prop_map(move |value| (name, value)).boxed()
}

/// A valid function with valid settings.
#[derive(Clone, Debug)]
pub(super) struct Valid {
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) item: String,
    pub(super) name: String,
}

impl Valid {
    /// Returns the settings as the attribute's arguments.
    pub(super) fn arguments(&self) -> String {
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
    "validate",
    "local_cache",
    "local_cache_bytes",
    "key_required",
    "store_when",
    "expires_after",
    "on_timeout",
    "on_in_progress",
];

fn settings(also: Vec<&'static str>) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    subsequence(OTHERS, 0..=OTHERS.len())
        .prop_flat_map(move |mut names| {
            names.extend(also.iter());
            names.into_iter().map(setting).collect::<Vec<_>>()
        })
        .prop_shuffle()
}

/// Returns functions with settings that are valid for them.
pub(super) fn valid() -> impl Strategy<Value = Valid> {
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

/// Returns one token, or a group.
pub(super) fn token() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        2 => select(crate::arguments::KNOWN.map(|(name, _)| name).to_vec()).prop_map(str::to_owned),
        3 => among(&[
            "=", "=", "=", ",", ",", ",", ";", "==", "=>", "->", "<", ">", "<<", ">>", "::", ":", ".", "..", "..=", "|",
            "||", "&", "&&", "!", "?", "#", "#!", "+", "-", "*", "/", "%", "^", "@", "$", "~", "<=", "+=", "&mut",
        ]),
        2 => among(&[
            "fn", "async", "await", "self", "Self", "if", "else", "match", "let", "return", "break", "move", "mut", "ref",
            "impl", "dyn", "for", "in", "while", "loop", "struct", "enum", "trait", "pub", "const", "static", "unsafe",
            "extern", "where", "use", "crate", "type", "as", "yield", "try", "_", "union", "macro_rules", "r#type", "'a",
        ]),
        1 => among(&["a", "A", "key_prefx", "table", "größe", "LambdaEvent", "Result", "compile_error"]),
        2 => among(&[
            "1", "0", "1.5", "1e400", "0xff_u8", "99999999999999999999999999", "340282366920938463463374607431768211456",
            "\"order_id\"", "\"1h\"", "\"\"", "r#\"a\"#", "b\"a\"", "c\"a\"", "'a'", "b'a'", "1usize", "-1", "true",
            "\"\\u{1f600}\"", "1.", "1u9", "\"a\"suffix", "/// a\n", "//! a\n",
        ]),
        1 => literal(".{0,20}"),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        (vec(inner, 0..6), among(&["()", "[]", "{}"]))
            .prop_map(|(inner, by)| format!("{} {} {}", &by[..1], inner.join(" "), &by[1..]))
    })
    .boxed()
}

/// Returns lists of tokens.
pub(super) fn stream() -> BoxedStrategy<String> {
    vec(token(), 0..16)
        .prop_map(|tokens| tokens.join(" "))
        .boxed()
}

/// Returns a position in a list.
pub(super) fn place() -> impl Strategy<Value = Index> {
    any::<Index>()
}

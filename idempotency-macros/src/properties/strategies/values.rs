//! Valid values of the settings.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{among, literal};

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
pub(in crate::properties) fn value(name: &str) -> BoxedStrategy<String> {
    match name {
        "key" | "validate" | "store_when" | "store_event" => literal(expression()),
        "shared_key_prefix" | "circuit_breaker" => among(&["true", "false"]),
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
        "lookup" => choice(&["claim-first", "read-first"]),
        "on_in_progress" => choice(&["reject", "wait"]),
        "on_timeout" => choice(&["rerun", "hold"]),
        "on_error" => choice(&["release", "record"]),
        "on_store_error" => choice(&["fail", "run-unprotected"]),
        "steps" => choice(&["off", "keep", "forget"]),
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

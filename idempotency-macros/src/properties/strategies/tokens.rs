//! Any tokens.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{among, literal};

/// Returns one token, or a group.
pub(in crate::properties) fn token() -> BoxedStrategy<String> {
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
pub(in crate::properties) fn stream() -> BoxedStrategy<String> {
    vec(token(), 0..16)
        .prop_map(|tokens| tokens.join(" "))
        .boxed()
}

//! The inputs of the properties: valid settings, valid functions, and any tokens.

mod functions;
mod tokens;
mod values;

use proptest::prelude::*;
use proptest::sample::{Index, select};

pub(super) use functions::{Valid, valid};
pub(super) use tokens::{stream, token};
pub(super) use values::value;

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

/// Returns a position in a list.
pub(super) fn place() -> impl Strategy<Value = Index> {
    any::<Index>()
}

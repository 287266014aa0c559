//! Properties of the attribute, whatever is written in it and whatever it stands on.
//!
//! A longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-macros properties`. A failing case is shrunk
//! and printed; it belongs into a test of its own, so nothing is kept in files.

mod accepts;
mod rejects;
mod strategies;
mod tokens;
mod values;

use proc_macro2::TokenStream;
use proptest::test_runner::Config;
use syn::{File, Item, ItemFn};

use crate::attribute::attribute;

/// This many cases, unless `PROPTEST_CASES` says how many.
fn cases(cases: u32) -> Config {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => Config { cases, ..config },
    }
}

/// What came back: the errors' texts, and the items beside them.
struct Answer {
    errors: Vec<String>,
    items: Vec<Item>,
}

fn answer(arguments: &str, item: &str) -> Answer {
    let tokens = |text: &str| -> TokenStream { text.parse().expect("these are tokens") };
    let back = attribute(tokens(arguments), tokens(item));
    let file: File = match syn::parse2(back.clone()) {
        Ok(file) => file,
        Err(error) => panic!("what comes back is not Rust: {error}\n{back}"),
    };
    let mut answer = Answer {
        errors: Vec::new(),
        items: Vec::new(),
    };
    for item in file.items {
        match item {
            Item::Macro(call)
                if call.mac.path.segments.last().unwrap().ident == "compile_error" =>
            {
                let text: syn::LitStr = call.mac.parse_body().unwrap();
                answer.errors.push(text.value());
            }
            other => answer.items.push(other),
        }
    }
    answer
}

impl Answer {
    /// The one function that came back.
    fn function(&self) -> &ItemFn {
        match &self.items[..] {
            [Item::Fn(function)] => function,
            _ => panic!("not one function came back"),
        }
    }
}

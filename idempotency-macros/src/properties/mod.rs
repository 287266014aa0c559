//! Properties of the attribute, for any arguments and any item.
//!
//! For a longer run: `PROPTEST_CASES=100000 cargo test --release -p idempotency-macros properties`. A failing case is shrunk and
//! printed. Write a test for it: failing cases are not kept in files.

mod accepts;
mod rejects;
mod strategies;
mod tokens;
mod values;

use proc_macro2::TokenStream;
use proptest::test_runner::Config;
use syn::{File, Item, ItemFn};

use crate::attribute::attribute;

/// Returns a configuration with this number of cases, or with the number in `PROPTEST_CASES`.
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

/// What the attribute returned: the texts of the errors, and the items beside them.
struct Expansion {
    errors: Vec<String>,
    items: Vec<Item>,
}

/// Expands the attribute and parses the result.
fn expansion(arguments: &str, item: &str) -> Expansion {
    let tokens = |text: &str| -> TokenStream { text.parse().expect("these are tokens") };
    let back = attribute(tokens(arguments), tokens(item));
    let file: File = match syn::parse2(back.clone()) {
        Ok(file) => file,
        Err(error) => panic!("the expansion is not Rust: {error}\n{back}"),
    };
    let mut expansion = Expansion {
        errors: Vec::new(),
        items: Vec::new(),
    };
    for item in file.items {
        match item {
            Item::Macro(call)
                if call.mac.path.segments.last().unwrap().ident == "compile_error" =>
            {
                let text: syn::LitStr = call.mac.parse_body().unwrap();
                expansion.errors.push(text.value());
            }
            other => expansion.items.push(other),
        }
    }
    expansion
}

impl Expansion {
    /// Returns the function, which must be the only item.
    fn function(&self) -> &ItemFn {
        match &self.items[..] {
            [Item::Fn(function)] => function,
            _ => panic!("the expansion is not one function"),
        }
    }
}

//! The attribute `#[idempotent]` of `idempotency-lambda`. Depend on that crate, which re-exports it, not on this one.
//!
//! | module | what it does |
//! |---|---|
//! | `attribute` | runs the phases; after an error: the errors, and the user's function unchanged |
//! | `bounds` | refuses tokens that are too deep for a parser |
//! | `parse` | phase 1: the parts of the function; the body stays tokens |
//! | `arguments` | phase 1: the attribute's arguments, each written as `name = value` |
//! | `validate` | phase 2: checks everything that can be wrong, and collects the errors |
//! | `values` | phase 2: the values of each setting |
//! | `validate::call` | phase 2: the parameter that the framework supplies |
//! | `parameters` | phase 2: the parameters that may have the invocation's context |
//! | `runtime` | the name of `idempotency-lambda` in the user's program |
//! | `expand` | phase 3: generates the code; decides nothing |
//!
//! The generated code uses `idempotency_lambda::__private` and nothing else.
//!
//! The documentation of the attribute is in `idempotent.md`. `idempotency-lambda` tests its examples: as a dependency of this crate's
//! tests it would be compiled a second time, because cargo chooses the features of a macro's dependencies apart.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod arguments;
mod attribute;
mod bounds;
#[cfg(test)]
mod cases_tests;
mod expand;
mod parameters;
mod parse;
#[cfg(test)]
mod properties_tests;
mod runtime;
mod validate;
mod values;

use proc_macro::TokenStream;

#[cfg_attr(not(doctest), doc = include_str!("idempotent.md"))]
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::attribute(arguments.into(), item.into()).into()
}

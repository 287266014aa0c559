//! The JMESPath expressions of idempotency keys: read and checked, without being evaluated.
//!
//! The attribute macro checks expressions with this crate while a program is compiled, and `idempotency-core` makes
//! what it evaluates from the same tree: what compiles, runs.
//!
//! ```
//! use idempotency_expression::parse;
//!
//! assert!(parse("powertools_json(body).[user_id, order_id]").is_ok());
//!
//! let text = "powertools_jsn(body)";
//! let error = parse(text).unwrap_err();
//! assert_eq!(error.to_string(), "unknown function `powertools_jsn`; did you mean `powertools_json`?");
//! ```

mod adapter;
mod ast;
mod convert;
mod error;
mod function;
mod limits;
mod literal;
mod parse;
mod precedence;
mod tokens;

pub use ast::{Argument, Ast, Comparator, Literal, Name, Part};
pub use error::SyntaxError;
pub use function::Function;
pub use parse::parse;

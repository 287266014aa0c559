//! From an event to the identity of its call: read, extract, write canonically, hash.

mod canonical;
mod expression;
mod hash;
mod integer;
mod json;
mod parse;
mod text;

pub use expression::{EvaluationError, Expression, ExpressionError, Selection};
pub use hash::{HashAlgorithm, UnknownHashAlgorithm};
pub use integer::Integer;
pub use json::{Json, Object, is_absent_key};
pub use parse::{JsonError, JsonErrorKind};
pub use text::Text;

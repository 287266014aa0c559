//! From an event to the key of its call: read the JSON, select a part, write it canonically, hash it.

mod budget;
mod canonical;
mod expression;
mod float;
mod hash;
mod integer;
mod json;
mod list;
mod object;
mod parse;
mod payload;
pub(crate) mod scan;
mod select;
mod selector;
mod tape;
mod text;

pub(crate) use budget::{Budget, Exhausted, limit_for};
pub use expression::{EvaluationError, Expression, ExpressionError, Selection};
pub use float::Float;
pub use hash::{HashAlgorithm, UnknownHashAlgorithm};
pub use integer::Integer;
pub(crate) use integer::Sum;
pub use json::{Json, is_absent_key};
pub(crate) use list::List;
pub use object::Object;
pub use parse::{JsonError, JsonErrorKind};
pub use payload::{ParsedPayload, PayloadReader};
pub(crate) use select::Needs;
pub use selector::{SelectedKey, Selector};
pub use text::Text;

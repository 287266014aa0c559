//! From an event to the key of its call: read the JSON, select a part, write it canonically, hash it.

mod budget;
mod canonical;
mod expression;
mod float;
mod hash;
mod integer;
mod json;
mod needs;
mod object;
mod parse;
mod payload;
pub(crate) mod scan;
mod selector;
mod take;
mod tape;
mod text;

pub(crate) use budget::{Budget, Exhausted, List, limit_for};
pub use expression::{EvaluationError, Expression, ExpressionError, Selection};
pub use float::Float;
pub use hash::{HashAlgorithm, UnknownHashAlgorithm};
pub use integer::Integer;
pub(crate) use integer::Sum;
pub use json::{Json, is_absent_key};
pub(crate) use needs::Needs;
pub use object::Object;
pub use parse::{JsonError, JsonErrorKind};
pub use payload::{ParsedPayload, PayloadReader};
pub use selector::{SelectedKey, Selector};
pub use text::Text;

//! From an event to the key of its call: read the JSON, select a part, write it canonically, hash it.
//!
//! A text is read by needs: what the expressions look at becomes a [`Json`] value, and the rest is checked. A typed value is
//! taken in the same way, without a text. The expressions are evaluated on the small value, and their result is written into the
//! digest. If the whole text is the key, no value is made: its canonical text is written from the text itself.
//!
//! | module | what it does |
//! |---|---|
//! | `selector` | the key and the validation digest of a payload |
//! | `payload` | a payload for entry points that evaluate further expressions |
//! | `needs` | what expressions look at in a payload |
//! | `parse` | makes values of JSON text, whole or by needs; `idempotency_expression::Scanner` checks the text |
//! | `take` | takes the same from a typed value |
//! | `tape` | the digest of a whole text, without values |
//! | `expression` | compiles, analyses and evaluates JMESPath |
//! | `json`, `object`, `integer`, `float` | values, with every digit and character of the text |
//! | `canonical`, `hash` | the canonical text, and its digest |
//! | `rfc8785` | the digest of JSON by its value, without some members |
//! | `budget` | limits the memory and the work of one event |

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
mod rfc8785;
mod selector;
mod take;
mod tape;

pub(crate) use idempotency_expression::scan;
#[doc(hidden)]
pub use idempotency_expression::{CallerFaults, check_caller_header};
pub use idempotency_expression::{JsonError, JsonErrorKind, Text};

pub(crate) use budget::{Budget, BudgetError, List, limit_for};
pub use expression::{EvaluationError, Expression, ExpressionError, Selection};
pub use float::Float;
pub use hash::{HashAlgorithm, UnknownHashAlgorithm};
pub use integer::Integer;
pub(crate) use integer::Sum;
pub(crate) use json::is_nothing;
pub use json::{Json, is_absent_key};
pub(crate) use needs::Needs;
pub use object::Object;
pub use payload::{ParsedPayload, PayloadReader};
pub use rfc8785::{JsonPointer, NotAJsonPointer};
pub(crate) use selector::Validation;
pub use selector::{SelectedKey, Selector};
pub(crate) use take::{LOST, Unfit};

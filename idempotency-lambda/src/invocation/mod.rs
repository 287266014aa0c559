//! The invocation of a call: its deadline and its tenant.
//!
//! | module | what it holds |
//! |---|---|
//! | `context` | the types that hold the context of an invocation: events, HTTP requests, parameters |
//! | `deadline` | the deadline that a caller passes, and the time that is left |
//! | `scope` | the invocation and backend around the running code, so that nested calls find them; inside Lambda they must be known |
//! | `in_scope` | the future that runs in a changed scope, and the functions that make it |
//! | `layer` | the tower layer that opens a scope for each request |

mod context;
mod deadline;
mod in_scope;
mod layer;
mod scope;

pub use context::HasContext;
pub use deadline::{Deadline, time_left};
pub(crate) use in_scope::{InScope, ScopeChange};
pub use in_scope::{in_current_invocation, with_backend, with_invocation};
#[cfg(test)]
pub(crate) use layer::tests::Busy;
pub use layer::{InvocationLayer, InvocationService};
pub use scope::assume_lambda;
pub(crate) use scope::{Invocation, Scope};

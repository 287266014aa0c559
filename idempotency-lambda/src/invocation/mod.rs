//! The invocation of a call: its deadline and its tenant.
//!
//! | module | what it holds |
//! |---|---|
//! | `context` | the types that hold the context of an invocation: events, HTTP requests, parameters |
//! | `deadline` | the deadline that a caller passes, and the time that is left |
//! | `scope` | the invocation and backend around the running code, so that nested calls find them |
//! | `in_scope` | the future that runs in a changed scope |
//! | `with` | the functions that run a future with another invocation or backend |
//! | `lambda` | whether Lambda started this process, where a call must know its invocation |
//! | `layer` | the tower layer that opens a scope for each request |

mod context;
mod deadline;
mod in_scope;
mod lambda;
mod layer;
mod scope;
mod with;

pub use context::HasContext;
pub use deadline::{Deadline, time_left};
pub(crate) use in_scope::Change;
pub use in_scope::InScope;
pub use lambda::assume_lambda;
pub use layer::{InvocationLayer, InvocationService};
pub(crate) use scope::{Invocation, Scope};
pub use with::{in_current_invocation, with_backend, with_invocation};

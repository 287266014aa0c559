//! The invocation of a call: its deadline and its tenant.
//!
//! | module | what it holds |
//! |---|---|
//! | `context` | the types that hold the context of an invocation: events, HTTP requests, parameters |
//! | `deadline` | the deadline that a caller passes, and the time that is left |
//! | `scope` | the invocation around the running code, so that nested calls find it |
//! | `in_scope` | the future that runs in a changed scope |
//! | `lambda` | whether Lambda started this process, where a call must know its invocation |
//! | `layer` | the tower layer that opens a scope for each request |

mod context;
mod deadline;
mod in_scope;
mod lambda;
mod layer;
mod scope;

pub use context::HasContext;
pub use deadline::{Deadline, time_left};
pub(crate) use in_scope::Change;
pub use in_scope::InScope;
pub use lambda::assume_lambda;
pub use layer::{InvocationLayer, InvocationService};
pub(crate) use scope::Scope;
pub use scope::{
    in_current_invocation, with_backend, with_deadline, with_invocation, with_tenant,
    without_invocation,
};

use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use deadline::deadline_of;

/// The invocation of a call, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// True for the context of a real invocation, and for work that is declared to have none.
    pub(crate) is_known: bool,
    /// When the invocation ends, if known. Otherwise the configured lease is used.
    pub(crate) deadline: Option<EpochMillis>,
    /// The tenant, if the invocation has one.
    pub(crate) tenant: Option<String>,
}

impl Invocation {
    /// Returns the invocation that `context` describes, or `None` for an empty context, as a test makes it.
    pub(crate) fn of(context: &Context) -> Option<Self> {
        let is_empty =
            context.request_id.is_empty() && context.deadline == 0 && context.tenant_id.is_none();
        (!is_empty).then(|| Self {
            is_known: true,
            deadline: deadline_of(context),
            tenant: context.tenant_id.clone(),
        })
    }

    /// Returns the invocation around the code that runs now, known or not.
    pub(crate) fn current() -> Self {
        Scope::current().invocation.clone()
    }

    /// Returns the invocation of work that has none: it has no deadline and no tenant.
    pub(crate) fn none() -> Self {
        Self {
            is_known: true,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(request_id: &str, deadline: u64, tenant: Option<&str>) -> Context {
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        context.deadline = deadline;
        context.tenant_id = tenant.map(str::to_owned);
        context
    }

    #[test]
    fn cargo_lambda_watch_has_an_invocation_without_a_deadline() {
        let invocation = Invocation::of(&context("r-1", 600_000, None)).unwrap();
        assert!(invocation.is_known);
        assert_eq!(invocation.deadline, None);
    }

    #[test]
    fn a_context_with_any_content_is_an_invocation_and_an_empty_one_is_not() {
        assert_eq!(Invocation::of(&Context::default()), None);
        for context in [
            context("r-1", 0, None),
            context("", 1, None),
            context("", 0, Some("blue")),
        ] {
            assert!(Invocation::of(&context).is_some(), "{context:?}");
        }
    }
}

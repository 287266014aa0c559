//! The invocation of a call: until when it may work, and for which tenant.
//!
//! | module | what it holds |
//! |---|---|
//! | `context` | where an invocation's context is found: events, HTTP requests, parameters |
//! | `deadline` | what a caller hands in, and how much time is left |
//! | `scope` | what surrounds a call, so that nested calls find it |
//! | `in_scope` | the future that changes it |
//! | `lambda` | whether Lambda started this process, and then refuses to guess |
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

/// What a call knows of its invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// Whether this is said of a real invocation, or of work that is declared to belong to none.
    pub(crate) is_known: bool,
    /// When it ends, where that is known; else the configured lease counts.
    pub(crate) deadline: Option<EpochMillis>,
    /// Its tenant, where it has one.
    pub(crate) tenant: Option<String>,
}

impl Invocation {
    /// Returns the invocation that `context` describes, or nothing for a context that was made by hand and left empty.
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

    /// Returns what is known of work that belongs to no invocation: no deadline and no tenant.
    pub(crate) fn none() -> Self {
        Self {
            is_known: true,
            ..Self::default()
        }
    }
}

/// The year 2001: no invocation of ours ended before it.
const EARLIEST: u64 = 1_000_000_000_000;

/// Returns when the invocation ends, where the context knows. One made by hand has no deadline, which is written as 0;
/// `cargo lambda watch` (1.9) always writes 600000, ten minutes into 1970. A claim needs a lease in either case, so such
/// a deadline counts as not known, and the configured lease is written.
fn deadline_of(context: &Context) -> Option<EpochMillis> {
    (context.deadline >= EARLIEST)
        .then(|| EpochMillis::new(i64::try_from(context.deadline).unwrap_or(i64::MAX)))
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

    fn deadline(milliseconds: u64) -> Option<i64> {
        deadline_of(&context("", milliseconds, None)).map(EpochMillis::get)
    }

    #[test]
    fn a_deadline_that_cannot_be_one_counts_as_not_known() {
        assert_eq!(deadline(0), None);
        assert_eq!(deadline(600_000), None);
    }

    #[test]
    fn a_deadline_that_has_passed_is_a_deadline() {
        assert_eq!(deadline(1_600_000_000_000), Some(1_600_000_000_000));
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

//! Until when a call of the functional form may work, and for whom.

use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use crate::event::deadline_of;
use crate::scope::Scope;

/// When a call ends, which is when the lease of its claim does; from a context, also for which tenant it is.
///
/// ```
/// use idempotency_lambda::{Context, Deadline};
/// use idempotency_lambda::core::time::EpochMillis;
/// let at = Deadline::At(EpochMillis::new(1_700_000_030_000));
/// assert_ne!(at, Deadline::Surrounding);
/// let of_the_invocation = Deadline::from(&Context::default());
/// assert_ne!(of_the_invocation, Deadline::Surrounding);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deadline {
    /// That of the invocation this call is made in, if there is one; else the configured lease counts.
    #[default]
    Surrounding,
    /// This point in time.
    At(EpochMillis),
    /// That of this invocation, whose tenant the call is for; a context made by hand has neither.
    #[non_exhaustive]
    Invocation {
        /// When it ends, where that is known.
        deadline: Option<EpochMillis>,
        /// Its tenant, where it has one.
        tenant: Option<String>,
    },
}

impl Deadline {
    /// The deadline and the tenant.
    pub(crate) fn resolve(self, scope: &Scope) -> (Option<EpochMillis>, Option<String>) {
        match self {
            Self::Surrounding => (scope.deadline, scope.tenant.clone()),
            Self::At(deadline) => (Some(deadline), scope.tenant.clone()),
            Self::Invocation { deadline, tenant } => (deadline, tenant),
        }
    }
}

impl From<&Context> for Deadline {
    fn from(context: &Context) -> Self {
        Self::Invocation {
            deadline: deadline_of(context),
            tenant: context.tenant_id.clone(),
        }
    }
}

impl From<EpochMillis> for Deadline {
    fn from(deadline: EpochMillis) -> Self {
        Self::At(deadline)
    }
}

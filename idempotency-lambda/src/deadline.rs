//! Until when a call of the functional form may work.

use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use crate::event::deadline_of;
use crate::scope::Scope;

/// When a call ends: the lease of its claim.
///
/// ```
/// use idempotency_lambda::Deadline;
/// use idempotency_lambda::core::time::EpochMillis;
/// let at = Deadline::At(EpochMillis::new(1_700_000_030_000));
/// assert_ne!(at, Deadline::Surrounding);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deadline {
    /// That of the invocation this call is made in, if there is one; else the configured lease counts.
    #[default]
    Surrounding,
    /// This point in time.
    At(EpochMillis),
}

impl Deadline {
    pub(crate) fn resolve(self, scope: &Scope) -> Option<EpochMillis> {
        match self {
            Self::Surrounding => scope.deadline,
            Self::At(deadline) => Some(deadline),
        }
    }
}

/// The invocation's deadline; a context made by hand has none.
impl From<&Context> for Deadline {
    fn from(context: &Context) -> Self {
        deadline_of(context).map_or(Self::Surrounding, Self::At)
    }
}

impl From<EpochMillis> for Deadline {
    fn from(deadline: EpochMillis) -> Self {
        Self::At(deadline)
    }
}

//! Until when a call may work, and for whom.

use std::time::Duration;

use idempotency_core::error::Error;
use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use super::{Invocation, Scope};

/// When a call ends, which is when the lease of its claim ends; from a context, also for which tenant it is.
///
/// ```
/// use idempotency_lambda::{Context, Deadline};
/// use idempotency_lambda::time::EpochMillis;
/// let end = EpochMillis::new(1_700_000_030_000);
/// assert_eq!(Deadline::At(end).end(), Some(end));
///
/// let mut context = Context::default();
/// context.deadline = 1_700_000_030_000;
/// assert_eq!(Deadline::from(&context).end(), Some(end));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deadline {
    /// That of the invocation this call is made in. Without an invocation the configured lease counts, and inside Lambda
    /// the call is refused.
    #[default]
    Inherited,
    /// This point in time. The tenant is that of the invocation this call is made in.
    At(EpochMillis),
    /// That of this invocation, whose tenant the call is for, whatever surrounds the call.
    #[non_exhaustive]
    Invocation {
        /// When it ends, where that is known.
        deadline: Option<EpochMillis>,
        /// Its tenant, where it has one.
        tenant: Option<String>,
    },
}

impl Deadline {
    /// Returns when the call ends, or nothing where that is not known (then the configured lease counts), as under
    /// `cargo lambda watch`.
    pub fn end(&self) -> Option<EpochMillis> {
        match self {
            Self::Inherited => Scope::current().invocation.deadline,
            Self::At(end) => Some(*end),
            Self::Invocation { deadline, .. } => *deadline,
        }
    }

    /// Returns how much time is left, or nothing where the deadline is not known; zero if it has passed.
    ///
    /// The clock is the one that a call made here would read: that of [`with_backend`](crate::with_backend), else
    /// the process's.
    ///
    /// ```
    /// use idempotency_lambda::{Context, Deadline};
    /// use idempotency_lambda::time::EpochMillis;
    /// use std::time::Duration;
    /// assert_eq!(Deadline::At(EpochMillis::new(0)).time_left(), Some(Duration::ZERO));
    /// assert_eq!(Deadline::from(&Context::default()).time_left(), None);
    /// ```
    pub fn time_left(&self) -> Option<Duration> {
        let end = self.end()?;
        Some(Scope::current().now().until(end))
    }

    /// Returns what a call with this deadline knows of its invocation.
    ///
    /// # Errors
    /// If it depends on what surrounds the call, and nothing known does. The handler has not run.
    pub(crate) fn invocation(self, operation: &str) -> Result<Invocation, Error> {
        match self {
            Self::Inherited => Scope::of_a_call(operation),
            Self::At(end) => Ok(Invocation {
                deadline: Some(end),
                ..Scope::of_a_call(operation)?
            }),
            Self::Invocation { deadline, tenant } => Ok(Invocation {
                is_known: true,
                deadline,
                tenant,
            }),
        }
    }
}

/// Returns how much time the invocation around this code has left, or nothing where no invocation is around it or its
/// deadline is not known, as under `cargo lambda watch`.
///
/// A handler uses it to stop in time:
///
/// ```
/// use std::time::Duration;
/// # fn next() -> Option<u32> { None }
/// # async fn work(_: u32) {}
/// # async fn f() {
/// while let Some(job) = next() {
///     if idempotency_lambda::time_left().is_some_and(|left| left < Duration::from_secs(5)) {
///         break;
///     }
///     work(job).await;
/// }
/// # }
/// ```
pub fn time_left() -> Option<Duration> {
    Deadline::Inherited.time_left()
}

/// A context that was made by hand and left empty, as `Context::default()` is, says nothing: then what surrounds the call
/// counts.
impl From<&Context> for Deadline {
    fn from(context: &Context) -> Self {
        match Invocation::of(context) {
            Some(invocation) => Self::Invocation {
                deadline: invocation.deadline,
                tenant: invocation.tenant,
            },
            None => Self::Inherited,
        }
    }
}

impl From<EpochMillis> for Deadline {
    fn from(deadline: EpochMillis) -> Self {
        Self::At(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{with_deadline, with_tenant};

    fn context(deadline: u64, tenant: Option<&str>) -> Context {
        let mut context = Context::default();
        context.deadline = deadline;
        context.tenant_id = tenant.map(str::to_owned);
        context
    }

    #[tokio::test]
    async fn a_context_that_is_handed_in_hides_all_that_surrounds_the_call() {
        let inner = with_deadline(EpochMillis::new(7), async {
            let handed_in = Deadline::from(&context(1_700_000_000_000, None));
            let without_deadline = Deadline::from(&context(600_000, None));
            (
                handed_in.invocation("charge").unwrap(),
                without_deadline.invocation("charge").unwrap(),
            )
        });
        let (handed_in, without_deadline) = with_tenant("blue", inner).await;
        assert_eq!(
            handed_in.deadline,
            Some(EpochMillis::new(1_700_000_000_000))
        );
        assert_eq!(handed_in.tenant, None);
        assert_eq!(without_deadline.deadline, None);
        assert_eq!(without_deadline.tenant, None);
    }

    #[tokio::test]
    async fn an_empty_context_says_nothing() {
        let inner = with_deadline(EpochMillis::new(7), async {
            Deadline::from(&Context::default())
                .invocation("charge")
                .unwrap()
        });
        let invocation = with_tenant("blue", inner).await;
        assert_eq!(invocation.deadline, Some(EpochMillis::new(7)));
        assert_eq!(invocation.tenant.as_deref(), Some("blue"));
    }

    #[tokio::test]
    async fn a_point_in_time_keeps_the_tenant_around_it() {
        let call = async { Deadline::At(EpochMillis::new(9)).invocation("charge") };
        let invocation = with_tenant("blue", call).await.unwrap();
        assert_eq!(invocation.deadline, Some(EpochMillis::new(9)));
        assert_eq!(invocation.tenant.as_deref(), Some("blue"));
    }
}

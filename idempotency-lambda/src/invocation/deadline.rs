//! The deadline of a call, and the tenant that comes with it.

use std::time::Duration;

use idempotency_core::error::Error;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::time::EpochMillis;
use lambda_runtime::Context;

use super::scope::{Invocation, Scope};
use crate::process::warn;

/// When a call must have ended: the lease of its claim ends then too. A deadline that is made from a context also has the tenant.
///
/// # Examples
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
    /// The deadline of the invocation in which the call is made. If no invocation is known, the configured lease is used;
    /// inside Lambda the call is refused.
    #[default]
    Inherited,
    /// This point in time, with the tenant of the invocation in which the call is made.
    At(EpochMillis),
    /// The deadline and tenant of this invocation. The invocation in which the call is made does not count.
    #[non_exhaustive]
    Invocation {
        /// When the invocation ends, if known.
        deadline: Option<EpochMillis>,
        /// The tenant, if the invocation has one.
        tenant: Option<String>,
    },
}

impl Deadline {
    /// Returns when the call ends, or `None` if that is not known, as under `cargo lambda watch`. Then the configured lease is
    /// used.
    ///
    /// The deadline of an invocation is not known either if it is more than an hour away: an invocation takes 15 minutes at most.
    pub fn end(&self) -> Option<EpochMillis> {
        self.end_and_now().map(|(end, _)| end)
    }

    /// Returns how much time is left, or `None` if the deadline is not known. It is zero if the deadline has expired.
    ///
    /// The clock is the one that a call made here would read: the clock of [`with_backend`](crate::with_backend), else of
    /// the global backend.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let (end, now) = self.end_and_now()?;
        Some(now.until(end))
    }

    /// Returns when the call ends, and the time of one reading of the clock.
    fn end_and_now(&self) -> Option<(EpochMillis, EpochMillis)> {
        let scope = Scope::current();
        let now = scope.now();
        let deadline = match self {
            Self::Inherited => scope.invocation.deadline,
            Self::At(end) => return Some((*end, now)),
            Self::Invocation { deadline, .. } => *deadline,
        };
        let end = deadline.filter(|end| can_be(*end, now))?;
        Some((end, now))
    }

    /// Returns the invocation of a call of this operation with this deadline. A deadline that no invocation can have becomes unknown,
    /// with a warning.
    ///
    /// # Errors
    ///
    /// If this deadline needs the invocation around the call, and it is not known inside Lambda. The handler has not run.
    pub(crate) fn invocation(self, operation: &CompiledOperation) -> Result<Invocation, Error> {
        let mut invocation = match self {
            Self::Inherited => Scope::invocation_of_call(operation)?,
            Self::At(end) => {
                return Ok(Invocation {
                    deadline: Some(end),
                    ..Scope::invocation_of_call(operation)?
                });
            }
            Self::Invocation { deadline, tenant } => Invocation {
                is_known: true,
                deadline,
                tenant,
            },
        };
        let is_wrong = |end: &mut EpochMillis| !can_be(*end, Scope::current().now());
        if let Some(end) = invocation.deadline.take_if(is_wrong) {
            warn(&format!(
                "{}: the deadline of the invocation is {end}, more than an hour away, and an invocation takes 15 minutes at most: it \
                 counts as unknown, so the claim lasts for the configured `lease`; check the emulator that sends it",
                operation.key_prefix()
            ));
        }
        Ok(invocation)
    }
}

/// Returns how much time the invocation around this code has left.
///
/// It is `None` if there is no invocation or its deadline is not known, as under `cargo lambda watch`.
///
/// # Examples
///
/// A handler stops in time:
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

/// An empty context, such as `Context::default()` in a test, becomes [`Deadline::Inherited`].
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

impl Invocation {
    /// Returns the invocation that `context` describes, or `None` for an empty context, as a test makes it.
    pub(crate) fn of(context: &Context) -> Option<Self> {
        let is_empty =
            context.request_id.is_empty() && context.deadline == 0 && context.tenant_id.is_none();
        (!is_empty).then(|| Self {
            is_known: true,
            deadline: (context.deadline >= EARLIEST)
                .then(|| EpochMillis::new(i64::try_from(context.deadline).unwrap_or(i64::MAX))),
            tenant: context.tenant_id.clone(),
        })
    }
}

/// The earliest deadline that counts, in Unix milliseconds: in the year 2001, before Lambda existed.
///
/// A `Context` built in a test has deadline 0, and `cargo lambda watch` (1.9) always sends 600000. Both count as unknown, so
/// that the claim gets the configured lease. An expired deadline still counts.
const EARLIEST: u64 = 1_000_000_000_000;

/// How far away a deadline can be: the 15 minutes of the longest invocation, and 45 minutes by which the clock of this process may be
/// behind. Some emulators send a deadline decades away, whose lease would hold the key of a killed run as long.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Returns true if an invocation that runs now can have this deadline.
fn can_be(deadline: EpochMillis, now: EpochMillis) -> bool {
    deadline <= now.plus(LONGEST)
}

#[cfg(test)]
mod tests {
    use idempotency_core::config::{Settings, Variables};

    use super::*;
    use crate::with_invocation;

    fn context(deadline: u64, tenant: Option<&str>) -> Context {
        let mut context = Context::default();
        context.deadline = deadline;
        context.tenant_id = tenant.map(str::to_owned);
        context
    }

    /// A point in time that counts as a deadline, and a later one.
    const TIMES: [u64; 2] = [1_600_000_000_000, 1_700_000_000_000];

    #[tokio::test]
    async fn a_deadline_from_a_context_hides_the_invocation_around_the_call_and_others_keep_its_tenant()
     {
        let end = |milliseconds: u64| Some(EpochMillis::new(milliseconds.try_into().unwrap()));
        assert_eq!(Deadline::from(&Context::default()), Deadline::Inherited);
        let (settings, variables) = (Settings::default(), Variables::default());
        let charge = CompiledOperation::new("charge", &settings, &variables).unwrap();
        let (own, watch) = (context(TIMES[1], None), context(600_000, None));
        for (deadline, expected, tenant) in [
            // A context that is passed hides the invocation around the call.
            (Deadline::from(&own), end(TIMES[1]), None),
            (Deadline::from(&watch), None, None),
            // An empty context and a point in time keep the tenant around the call.
            (Deadline::Inherited, end(TIMES[0]), Some("blue")),
            (Deadline::At(EpochMillis::new(9)), end(9), Some("blue")),
        ] {
            let around = context(TIMES[0], Some("blue"));
            let call = async { deadline.invocation(&charge).unwrap() };
            let invocation = with_invocation(&around, call).await;
            assert_eq!(invocation.deadline, expected);
            assert_eq!(invocation.tenant.as_deref(), tenant);
        }
    }

    #[tokio::test]
    async fn a_deadline_that_is_more_than_an_hour_away_is_not_known() {
        use idempotency_core::time::Clock as _;

        let (settings, variables) = (Settings::default(), Variables::default());
        let charge = CompiledOperation::new("charge", &settings, &variables).unwrap();
        let now = u64::try_from(crate::SystemClock.now().get()).unwrap();
        let minutes = |count: u64| now + count * 60_000;
        for (milliseconds, is_known) in [
            (minutes(1), true),
            (minutes(59), true),
            (minutes(61), false),
            // As emulators send it that add the time to itself.
            (2 * now, false),
            (u64::MAX, false),
        ] {
            let context = context(milliseconds, Some("blue"));
            let deadline = Deadline::from(&context);
            let invocation = deadline.clone().invocation(&charge).unwrap();
            assert_eq!(invocation.deadline.is_some(), is_known, "{milliseconds}");
            assert!(invocation.is_known && invocation.tenant.as_deref() == Some("blue"));
            assert_eq!(deadline.time_left().is_some(), is_known, "{milliseconds}");
            let (end, left) = with_invocation(&context, async {
                (Deadline::Inherited.end(), crate::time_left())
            })
            .await;
            assert_eq!((end.is_some(), left.is_some()), (is_known, is_known));
        }
        // A deadline that the program chose counts as it is.
        let at = EpochMillis::new(i64::MAX);
        let invocation = with_invocation(None, async { Deadline::At(at).invocation(&charge) });
        assert_eq!(invocation.await.unwrap().deadline, Some(at));
    }

    #[test]
    fn a_context_with_any_content_is_an_invocation_whose_deadline_counts_from_2001() {
        let known = |deadline| Some((true, deadline));
        let past = EpochMillis::new(1_600_000_000_000);
        for (request_id, milliseconds, tenant, expected) in [
            ("", 0, None, None),
            ("r-1", 0, None, known(None)),
            ("", 1, None, known(None)),
            ("", 0, Some("blue"), known(None)),
            // The deadline that `cargo lambda watch` sends.
            ("r-1", 600_000, None, known(None)),
            ("", TIMES[0], None, known(Some(past))),
        ] {
            let mut context = context(milliseconds, tenant);
            context.request_id = request_id.to_owned();
            let found = Invocation::of(&context);
            let found = found.map(|found| (found.is_known, found.deadline));
            assert_eq!(found, expected, "{context:?}");
        }
    }

    #[test]
    fn a_time_is_a_deadline() {
        let end = EpochMillis::new(7);
        assert_eq!(Deadline::from(end), Deadline::At(end));
    }
}

//! How long a claim lasts.

use std::time::Duration;

use crate::time::EpochMillis;

/// How long a claim lasts. It is another thing than the deadline of its call: a claim can end before that, or last longer.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::Lease;
/// use idempotency_core::time::EpochMillis;
/// use std::time::Duration;
/// let (claimed_at, deadline) = (EpochMillis::new(1_000), EpochMillis::new(30_000));
/// assert_eq!(Lease::Until(deadline).end(claimed_at), deadline);
/// assert_eq!(Lease::For(Duration::from_secs(5)).end(claimed_at), EpochMillis::new(6_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lease {
    /// Until this time, such as the deadline of an invocation.
    Until(EpochMillis),
    /// For this long.
    For(Duration),
    /// For this long, and longer if the run renews it.
    Renewed {
        /// How long it lasts without a renewal.
        length: Duration,
        /// How long it lasts with all renewals, counted from the claim.
        at_most: Duration,
    },
}

impl Lease {
    /// The length of a lease, unless a setting says it.
    pub(crate) const DEFAULT_LENGTH: Duration = Duration::from_secs(15 * 60);
    /// The same of a lease that is renewed.
    pub(crate) const DEFAULT_RENEWED_LENGTH: Duration = Duration::from_secs(30);
    /// The shortest lease that is renewed.
    pub(crate) const SHORTEST_RENEWED: Duration = Duration::from_secs(3);
    /// How long a lease lasts with all renewals, unless a setting says it.
    pub(crate) const DEFAULT_AT_MOST: Duration = Duration::from_secs(60 * 60);

    /// Returns the end of the lease of a claim that is made at this time.
    pub fn end(self, claimed_at: EpochMillis) -> EpochMillis {
        match self {
            Self::Until(end) => end,
            Self::For(length) | Self::Renewed { length, .. } => claimed_at.plus(length),
        }
    }
}

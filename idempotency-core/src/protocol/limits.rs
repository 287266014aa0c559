//! The limits of the protocol: how often a call sends a request, how long a request may take, and how long a call waits.

use std::time::Duration;

use super::lease::Lease;
use crate::time::EpochMillis;

/// The number of claims that one call sends before it gives up, not counting those after a wait.
pub(super) const MAX_CLAIMS: u8 = 4;
/// The number of completions that one call sends.
pub(super) const MAX_COMPLETIONS: u8 = 4;

/// A duplicate stops waiting when less than this is left before its deadline.
pub(super) const WAIT_RESERVE: Duration = Duration::from_millis(250);
/// How long a follower waits for the store's reply to its leader. After that it asks the store itself: the request may hang,
/// or the leader's future may no longer be polled.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The upper bound of the first pause of a wait or of a retried completion. It doubles with each further pause.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// The upper bound of every pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time limit of a request when the deadline has expired but the host has not killed the process yet.
const POST_DEADLINE_TIMEOUT: Duration = Duration::from_secs(2);
/// How much time before the deadline is kept for returning a result to the caller.
pub(super) const REPLY_RESERVE: Duration = Duration::from_millis(200);

/// Returns how long one request to the store may take, so that the caller gets an error before the host kills the process if
/// the store hangs.
///
/// This is the time left until `deadline` less a reserve, or half of the time left if that is more. After the
/// deadline it is 2 s: a late response is still worth storing.
pub(super) fn time_limit(now: EpochMillis, deadline: EpochMillis) -> Duration {
    let left = now.until(deadline);
    if left.is_zero() {
        return POST_DEADLINE_TIMEOUT;
    }
    less_reserve(left)
}

/// Returns how long a handler may wait for a transaction that it begins, if its claim lasts until `lease_end`.
pub(crate) fn begin_limit(
    now: EpochMillis,
    lease_end: Option<EpochMillis>,
    store_timeout: Duration,
) -> Duration {
    lease_end.map_or(store_timeout, |end| time_limit(now, end).min(store_timeout))
}

/// Returns how long an open transaction may wait for another one or for its handler: until the lease ends. If that is renewed, for one lease:
/// after a loss of the process it must not hold its locks for longer than the key.
pub(crate) fn open_limit(
    now: EpochMillis,
    lease: Lease,
    lease_end: Option<EpochMillis>,
) -> Option<Duration> {
    match lease {
        Lease::Renewed { length, .. } => Some(length),
        Lease::Until(_) | Lease::For(_) => lease_end.map(|end| now.until(end)),
    }
}

/// Returns the time left less the reserve, or half of the time left if that is more.
pub(super) fn less_reserve(left: Duration) -> Duration {
    left.saturating_sub(REPLY_RESERVE).max(left / 2)
}

/// Returns the upper bound of the `n`th pause, counted from one.
pub(super) fn backoff(n: u8) -> Duration {
    backoff_up_to(n, LONGEST_PAUSE)
}

/// Returns the upper bound of the `n`th pause, counted from one, where none is longer than `longest`.
pub(super) fn backoff_up_to(n: u8, longest: Duration) -> Duration {
    let doublings = u32::from(n.saturating_sub(1)).min(16);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_a_reserve_or_half_of_the_time_left_and_has_two_seconds_after_the_deadline() {
        let limit = |now| time_limit(EpochMillis::new(now), EpochMillis::new(3_000));
        assert_eq!(limit(0), Duration::from_millis(2_800));
        assert_eq!(limit(2_600), Duration::from_millis(200));
        assert_eq!(limit(2_601), Duration::from_micros(199_500));
        assert_eq!(limit(2_900), Duration::from_millis(50));
        assert_eq!(limit(3_000), Duration::from_secs(2));
    }
}

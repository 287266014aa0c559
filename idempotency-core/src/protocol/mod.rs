//! Every decision of the protocol, without I/O: time, tokens and results of I/O are handed in.
//!
//! - [`condition`]: when a write may be applied; among them *claimable*, the one predicate of claims and judgements.
//! - [`classify()`]: what a record that stands in the way means.
//! - [`Attempt::step`]: one call as a state machine; the [`engine`](crate::engine) performs its effects.
//! - [`InFlight`]: what calls that meet in one process know of each other.
//! - [`policy`]: what the user decides; [`Attempt::time_limit`]: how long one request may take.
//!
//! The rules themselves, and why each is there, are in `docs/reference/protocol.md`.

mod call;
mod classify;
pub mod condition;
mod effect;
#[cfg(test)]
mod fixtures;
mod in_flight;
pub mod policy;
mod step;
mod writes;

pub use call::Call;
pub use classify::{RecordState, classify};
pub use effect::{
    Completion, Effect, HandlerResult, Input, Refusal, Resolution, Source, WriteErrorKind,
    WriteResult,
};
pub use in_flight::{InFlight, InFlightKey, Stage};
pub use step::Attempt;
pub(crate) use writes::recorded_path;

use std::time::Duration;

use crate::time::EpochMillis;

/// How long a request may take when the deadline has passed and yet nobody has killed the process.
const POST_DEADLINE_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the deadline is kept for telling the caller.
const REPLY_RESERVE: Duration = Duration::from_millis(200);

/// How long one request to the store may take, so that the caller hears of a store that hangs before Lambda kills the
/// process: what is left until `deadline` less a reserve, or half of what is left where that is little. A deadline that
/// has passed no longer limits anything: an answer that is late is still worth storing.
///
/// ```
/// use idempotency_core::protocol::time_limit;
/// use idempotency_core::time::EpochMillis;
/// use std::time::Duration;
/// let limit = time_limit(EpochMillis::new(0), EpochMillis::new(3_000));
/// assert_eq!(limit, Duration::from_millis(2_800));
/// assert_eq!(time_limit(EpochMillis::new(2_900), EpochMillis::new(3_000)), Duration::from_millis(50));
/// ```
pub fn time_limit(now: EpochMillis, deadline: EpochMillis) -> Duration {
    let left = now.until(deadline);
    if left.is_zero() {
        return POST_DEADLINE_TIMEOUT;
    }
    all_but_a_reserve(left)
}

/// What is left less the reserve, or half of it where the reserve would take more than that.
fn all_but_a_reserve(left: Duration) -> Duration {
    left.saturating_sub(REPLY_RESERVE).max(left / 2)
}

//! Every decision of the protocol, without I/O: time, tokens and results of I/O are arguments.
//!
//! - [`condition`]: when a write may be applied. It holds *claimable*, the one predicate that the claim and [`classify()`]
//!   share.
//! - [`classify()`]: classifies a record that prevents a claim.
//! - [`Attempt::step`]: one call as a state machine. The [`engine`](crate::engine) performs its effects.
//! - [`CallEnd`]: how a call ended, with the end of its handler, its steps, its claim and its staged writes.
//! - [`Run`]: which run of its key a handler's run is.
//! - [`PlainTransaction`]: the staged writes of a handler that ran unprotected.
//! - [`StepLedger`] and [`StepWrite`]: the steps of one run, and how the result of one is recorded.
//! - [`StepRetry`]: how often a step is tried in one run.
//! - [`Undoing`]: which recorded steps are undone, after the handler has decided that its key cannot go on.
//! - [`Lease`]: how long a claim lasts. [`Renewal`]: how a run makes it last longer.
//! - [`InFlight`]: what calls of one process know of each other.
//! - [`decision`]: what an operator decides about a key whose run did not report its end.
//! - [`Breaker`]: when a process stops asking a store that fails.
//! - [`policy`]: what the user decides. [`Attempt::time_limit`]: how long one request may take.
//!
//! The rules, with their reasons, are in `docs/reference/protocol.md`. [`Attempt`] has the example of a whole call, and the tables in
//! `attempt/tests` and `tests` show each decision.

mod attempt;
mod breaker;
mod classify;
pub mod condition;
pub mod decision;
mod effect;
mod end;
mod in_flight;
mod lease;
mod limits;
mod plain;
pub mod policy;
mod renewal;
mod requests;
mod run;
mod step_retry;
mod steps;
mod store_limits;
#[cfg(test)]
pub(crate) mod tests;
mod undo;

pub use attempt::Attempt;
pub use breaker::{Admission, Breaker, Circuit, StoreHealth};
pub(crate) use classify::UNREADABLE_DATA;
pub use classify::{RecordState, classify, response_of};
pub use effect::{
    Change, Consistency, Effect, Input, Replaced, Resend, Write, WriteErrorKind, WriteResult,
};
pub use end::{
    CallEnd, ClaimEnd, Commits, HandlerEnd, HandlerResult, Refusal, RefusalDetail, Resolution,
    Source, StagedEnd, StepEnd,
};
pub use in_flight::{InFlight, InFlightKey, Stage};
pub use lease::Lease;
pub(crate) use limits::{begin_limit, open_limit};
pub use plain::PlainTransaction;
pub use renewal::{Renewal, RenewalEnd, RenewalPause};
pub(crate) use requests::{recorded_path, transaction_token};
pub use run::Run;
pub use step_retry::StepRetry;
pub use steps::{StepLedger, StepRefusal, StepStart, StepWrite};
pub use store_limits::StoreLimits;
pub use undo::{HandlerUndo, UndoEnd, Undoing};

use crate::record::{OwnerToken, RecordId, StoredEvent};
use crate::time::EpochMillis;
use policy::Policy;

/// One call of an operation: its identity, its deadline, its lease and its policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallTerms {
    /// The record's id.
    pub id: RecordId,
    /// This call's own token: the same in all its requests, never used for another call.
    pub owner: OwnerToken,
    /// The validation digest of the payload, if the operation validates.
    pub validation: Option<String>,
    /// When the invocation ends, if known. An expired deadline is kept, not treated as unknown.
    pub deadline: Option<EpochMillis>,
    /// How long a claim of the call lasts.
    pub lease: Lease,
    /// The path of the operation. The record names its first 128 bytes. No rule of the protocol depends on it.
    pub operation: Option<String>,
    /// What the record keeps of the event. No rule of the protocol depends on it.
    pub event: Option<StoredEvent>,
    /// The operation's policy.
    pub policy: Policy,
    /// What the store accepts.
    pub limits: StoreLimits,
}

impl CallTerms {
    /// Returns until when a call that begins now may wait: until its deadline, or if none is known, for as long as a claim lasts.
    fn wait_end(&self, now: EpochMillis) -> EpochMillis {
        self.deadline.unwrap_or_else(|| self.lease.end(now))
    }
}

//! Every decision of the protocol, without I/O: time, tokens and results of I/O are arguments.
//!
//! - [`condition`]: when a write may be applied. It holds *claimable*, the one predicate that the claim and [`classify()`]
//!   share.
//! - [`classify()`]: classifies a record that prevents a claim.
//! - [`Attempt::step`]: one call as a state machine. The [`engine`](crate::engine) performs its effects.
//! - [`Run`]: which run of its key a handler's run is.
//! - [`PlainTransaction`]: the staged writes of a handler that ran unprotected.
//! - [`StepLedger`] and [`StepWrite`]: the steps of one run, and how the result of one is recorded.
//! - [`InFlight`]: what calls of one process know of each other.
//! - [`decision`]: what an operator decides about a key whose run did not report its end.
//! - [`Breaker`]: when a process stops asking a store that fails.
//! - [`policy`]: what the user decides. [`Attempt::time_limit`]: how long one request may take.
//!
//! The rules, with their reasons, are in `docs/reference/protocol.md`.

mod breaker;
mod classify;
pub mod condition;
pub mod decision;
mod effect;
#[cfg(test)]
mod fixtures;
mod in_flight;
mod limits;
mod plain;
pub mod policy;
mod read;
mod requests;
mod resolution;
mod run;
mod step;
mod steps;
mod terms;
mod write;

pub use breaker::{Admission, Breaker, Circuit, StoreHealth};
pub(crate) use classify::UNREADABLE_DATA;
pub use classify::{RecordState, classify};
pub use effect::{Effect, HandlerResult, Input, WriteErrorKind, WriteResult};
pub use in_flight::{InFlight, InFlightKey, Stage};
pub use plain::PlainTransaction;
pub use read::Consistency;
pub(crate) use requests::{recorded_path, transaction_token};
pub use resolution::{Completion, Refusal, RefusalDetail, Resolution, Source};
pub use run::Run;
pub use step::Attempt;
pub use steps::{StepEnd, StepLedger, StepRefusal, StepRetry, StepStart, StepWrite, StepsEnd};
pub use terms::CallTerms;
pub use write::{Change, Resend, Write};

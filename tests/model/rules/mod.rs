//! The rules that calls follow: production's, and variants with one deliberate fault.

mod faults;
mod lookup;
mod single_flight;
mod staging;
mod steps;
mod unprotected;

use idempotency_core::protocol::condition::Condition;
use idempotency_core::protocol::decision::Decided;
use idempotency_core::protocol::{
    CallEnd, CallTerms, Effect, InFlightKey, Input, Write, WriteResult,
};
use idempotency_core::record::{Record, RecordedSteps};
use idempotency_core::time::EpochMillis;

pub(crate) use crate::operator::{DecidesAboutAnyClaim, DecisionKeepsTheOwner, DecisionReports};
pub(crate) use faults::*;
pub(crate) use lookup::*;
pub(crate) use single_flight::*;
pub(crate) use staging::*;
pub(crate) use steps::*;
pub(crate) use unprotected::*;

/// What a faulty rule can read of its call.
#[derive(Clone, Copy)]
pub(crate) struct CallView {
    /// The time by its clock.
    pub(crate) now: EpochMillis,
    /// True if its handler has been started.
    pub(crate) ran: bool,
    /// The number of claims it sent, if the rules count them.
    pub(crate) claims: u8,
    /// True if its last request was a release.
    pub(crate) releases: bool,
}

/// What a call receives, and when by its clock.
type Received = (EpochMillis, Input);

/// A layer between the protocol and its scenario. The default changes nothing.
pub(crate) trait Rules: Sync {
    /// Returns what the protocol receives instead of `input`.
    fn receives(&self, _: &CallTerms, _: CallView, (now, input): Received) -> Received {
        (now, input)
    }

    /// Returns what the call requests instead of `effect`.
    fn requests(&self, _: &CallTerms, _: CallView, effect: Effect) -> Effect {
        effect
    }

    fn counts_claims(&self) -> bool {
        false
    }

    /// Returns the steps to remember of what the call receives.
    fn remembers(&self, _: &Input) -> Option<RecordedSteps> {
        None
    }

    /// Returns the steps that a run begins with. `read` are those of its claim, `seen` those that were remembered.
    fn steps(&self, read: RecordedSteps, _: Option<&RecordedSteps>) -> RecordedSteps {
        read
    }

    /// Returns the key under which calls of a process join.
    fn flight_key(&self, call: &CallTerms) -> InFlightKey {
        InFlightKey::of(call)
    }

    /// Returns the record that a leader shares with its followers, given its last request.
    fn shares(&self, end: &CallEnd, _: &Effect) -> Option<Record> {
        end.confirmed_record().cloned()
    }

    /// Returns the write of an operator's decision, and its condition.
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        (decided.write, decided.condition)
    }
}

/// Rules whose only fault is in what a call receives.
pub(crate) struct Receives(fn(&CallTerms, CallView, Received) -> Received);

impl Rules for Receives {
    fn receives(&self, call: &CallTerms, view: CallView, received: Received) -> Received {
        self.0(call, view, received)
    }
}

/// Rules whose only fault is in what a call requests.
pub(crate) struct Requests(fn(&CallTerms, CallView, Effect) -> Effect);

impl Rules for Requests {
    fn requests(&self, call: &CallTerms, view: CallView, effect: Effect) -> Effect {
        self.0(call, view, effect)
    }
}

/// Production's rules.
pub(crate) struct Production;

impl Rules for Production {}

/// Returns the record that the store shows to a call.
fn record_in(input: &mut Input) -> Option<&mut Record> {
    match input {
        Input::Read(record) => record.as_mut(),
        Input::Written(WriteResult::ConditionFailed { existing, .. }) => existing.as_mut(),
        _ => None,
    }
}

//! The metrics of one invocation. They are collected in its scope and written at its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use idempotency_core::error::ErrorKind;
use idempotency_core::event::{CallOutcome, CallSummary, CircuitChange, ClaimEnd};
use idempotency_core::protocol::Source;
use lambda_runtime::Context;

use super::cloudwatch;

/// A handle to the metrics of the invocation around the running code. Without an invocation it is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Option<Arc<Metrics>>);

/// The owner of an invocation's metrics: they are written when it is closed or dropped.
#[derive(Debug, Default)]
pub(crate) struct InvocationMeter(Meter);

#[derive(Debug)]
struct Metrics {
    request_id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tallies: Vec<Tally>,
    /// True if the invocation has ended. What a task counts later is written at once.
    is_closed: bool,
}

impl Meter {
    /// Returns this meter if it belongs to the invocation of `other`, or if `other` has none. Otherwise returns the meter of
    /// `other`.
    ///
    /// Two layers can open a scope for one invocation. The outer one counts.
    pub(crate) fn for_invocation(self, other: &InvocationMeter) -> Self {
        match (&self.0, &other.0.0) {
            (_, None) => self,
            (Some(mine), Some(other)) if mine.request_id == other.request_id => self,
            _ => other.0.clone(),
        }
    }

    /// Changes the metrics of `operation` in this invocation. Without an invocation, or after its end, they are written at once.
    pub(super) fn change(&self, operation: &str, change: impl FnOnce(&mut Tally)) {
        let mut alone = Tally::new(operation);
        if let Some(metrics) = &self.0 {
            let mut state = metrics.state();
            if !state.is_closed {
                let known = state.tallies.iter().position(|t| t.operation == operation);
                match known {
                    Some(at) => change(&mut state.tallies[at]),
                    None => {
                        change(&mut alone);
                        state.tallies.push(alone);
                    }
                }
                return;
            }
        }
        change(&mut alone);
        let request_id = self.0.as_ref().map(|metrics| metrics.request_id.as_str());
        cloudwatch::write(&[alone], request_id);
    }
}

impl InvocationMeter {
    /// Returns the meter of the invocation that `context` describes, or none if metrics are off.
    pub(crate) fn of(context: &Context) -> Self {
        if !cloudwatch::is_on() {
            return Self::default();
        }
        Self(Meter(Some(Arc::new(Metrics {
            request_id: context.request_id.clone(),
            state: Mutex::default(),
        }))))
    }

    /// Writes what was collected.
    pub(crate) fn close(&self) {
        if let Some(metrics) = &self.0.0 {
            let mut state = metrics.state();
            state.is_closed = true;
            let tallies = std::mem::take(&mut state.tallies);
            drop(state);
            cloudwatch::write(&tallies, Some(&metrics.request_id));
        }
    }
}

/// An invocation whose future was dropped before its end has metrics too.
impl Drop for InvocationMeter {
    fn drop(&mut self) {
        self.close();
    }
}

impl Metrics {
    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// The metrics of one operation: what each end of a call counts.

/// What one operation has counted and measured since the last line.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The key prefix.
    pub(super) operation: String,
    /// The counts, in the order of their first occurrence. A count is never zero.
    pub(super) counts: Vec<(&'static str, u64)>,
    /// For each call with a request: how long it waited for the store, in milliseconds.
    pub(super) store: Vec<u64>,
    /// For each run: how long the handler took, in milliseconds.
    pub(super) handler: Vec<u64>,
}

impl Tally {
    pub(super) fn new(operation: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            ..Self::default()
        }
    }

    /// Counts the end of a call.
    pub(super) fn add(&mut self, call: &CallSummary<'_>) {
        self.count(outcome(call), 1);
        let details = [
            call.source().and_then(source),
            call.error_kind().and_then(error),
            is_unstorable(call).then_some("Unstorable"),
            call.taken_over().then_some("TakenOver"),
            call.circuit().and_then(circuit),
        ];
        for name in details.into_iter().flatten() {
            self.count(name, 1);
        }
        if call.store_requests() > 0 {
            self.store.push(milliseconds(call.store_time()));
        }
        if call.handler().is_some() {
            self.handler.push(milliseconds(call.handler_time()));
        }
    }

    /// Adds `n` to a count.
    pub(super) fn count(&mut self, name: &'static str, n: u64) {
        match self.counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += n,
            None if n > 0 => self.counts.push((name, n)),
            None => {}
        }
    }
}

/// Returns the metric of the outcome. Each call counts in one of them.
fn outcome(call: &CallSummary<'_>) -> &'static str {
    match call.outcome() {
        CallOutcome::Executed => "Executed",
        CallOutcome::Replayed => "Replayed",
        CallOutcome::Failed | CallOutcome::Panicked => "Failed",
        CallOutcome::Bypassed => "Bypassed",
        CallOutcome::Unprotected => "Unprotected",
        CallOutcome::Unconfirmed => "Unconfirmed",
        CallOutcome::Rejected => "Rejected",
        CallOutcome::Abandoned => "Abandoned",
        // `CallOutcome::Refused`, and what a later version of core may add.
        _ => "Refused",
    }
}

fn source(source: Source) -> Option<&'static str> {
    match source {
        Source::Store => Some("ReplayedFromStore"),
        Source::Cache => Some("ReplayedFromCache"),
        Source::ConcurrentCall => Some("ReplayedFromFlight"),
        Source::Completion => Some("ReplayedFromCompletion"),
        _ => None,
    }
}

/// Returns the metric of an error that an alarm or a dashboard asks for.
fn error(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::AlreadyInProgress => Some("InProgress"),
        ErrorKind::KeyMissing => Some("KeyMissing"),
        ErrorKind::PayloadMismatch => Some("PayloadMismatch"),
        ErrorKind::Unresolved => Some("Held"),
        ErrorKind::StoreFailed => Some("StoreFailed"),
        ErrorKind::LostOwnership => Some("LostOwnership"),
        ErrorKind::CompletionUnknown => Some("CompletionUnknown"),
        _ => None,
    }
}

fn circuit(change: CircuitChange) -> Option<&'static str> {
    match change {
        CircuitChange::Opened => Some("CircuitOpened"),
        CircuitChange::Open => Some("CircuitOpen"),
        CircuitChange::Closed => Some("CircuitClosed"),
        _ => None,
    }
}

/// Returns true if the call ran, and its response could not be stored.
fn is_unstorable(call: &CallSummary<'_>) -> bool {
    call.claim() == Some(ClaimEnd::CompletedWithoutResponse)
        || call.error_kind() == Some(ErrorKind::ResponseNotSerializable)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

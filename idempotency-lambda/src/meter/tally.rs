//! The metrics of one operation: what each end of a call counts.

use idempotency_core::error::ErrorKind;
use idempotency_core::event::{CallOutcome, CallSummary, CircuitChange, ClaimEnd, milliseconds};
use idempotency_core::protocol::Source;

/// What one operation has counted and measured since the last line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
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
    pub(crate) fn add(&mut self, call: &CallSummary<'_>) {
        self.count(outcome(call.outcome()), 1);
        let details = [
            call.source().and_then(source),
            call.error_kind().and_then(error),
            is_unstorable(call.claim(), call.error_kind()).then_some("Unstorable"),
            call.taken_over().then_some("TakenOver"),
            call.claim_lost().then_some("ClaimLost"),
            call.circuit().and_then(circuit),
        ];
        for name in details.into_iter().flatten() {
            self.count(name, 1);
        }
        self.count("Renewed", call.renewals().into());
        if call.store_requests() > 0 {
            self.store.push(milliseconds(call.store_time()));
        }
        if call.handler().is_some() {
            self.handler.push(milliseconds(call.handler_time()));
        }
    }

    /// Adds `n` to a count.
    pub(crate) fn count(&mut self, name: &'static str, n: u64) {
        match self.counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += n,
            None if n > 0 => self.counts.push((name, n)),
            None => {}
        }
    }
}

/// Returns the metric of the outcome. Each call counts in one of them.
fn outcome(outcome: CallOutcome) -> &'static str {
    match outcome {
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
fn is_unstorable(claim: Option<ClaimEnd>, error: Option<ErrorKind>) -> bool {
    claim == Some(ClaimEnd::CompletedWithoutResponse)
        || error == Some(ErrorKind::ResponseNotSerializable)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::Poll;
    use std::time::Duration;

    use idempotency_core::engine::Backend;
    use idempotency_core::event::observe;
    use idempotency_core::example::Fixed;
    use idempotency_core::future::BoxFuture;
    use idempotency_core::store::MemoryStore;
    use idempotency_core::time::{Clock, EpochMillis};

    use super::*;
    use crate::{BoxError, Deadline, Operation, with_backend};

    /// A clock that a run moves.
    #[derive(Clone, Default)]
    struct Moved(Arc<AtomicI64>);

    impl Clock for Moved {
        fn now(&self) -> EpochMillis {
            EpochMillis::new(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
            let (clock, until) = (self.clone(), self.now().plus(duration));
            Box::pin(poll_fn(move |_| match clock.now() < until {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }))
        }
    }

    #[test]
    fn each_end_of_a_call_has_its_metric() {
        for (end, metric) in [
            (CallOutcome::Executed, "Executed"),
            (CallOutcome::Replayed, "Replayed"),
            (CallOutcome::Failed, "Failed"),
            (CallOutcome::Panicked, "Failed"),
            (CallOutcome::Bypassed, "Bypassed"),
            (CallOutcome::Unprotected, "Unprotected"),
            (CallOutcome::Unconfirmed, "Unconfirmed"),
            (CallOutcome::Rejected, "Rejected"),
            (CallOutcome::Abandoned, "Abandoned"),
            (CallOutcome::Refused, "Refused"),
        ] {
            assert_eq!(outcome(end), metric);
        }
        for (from, metric) in [
            (Source::Store, "ReplayedFromStore"),
            (Source::Cache, "ReplayedFromCache"),
            (Source::ConcurrentCall, "ReplayedFromFlight"),
            (Source::Completion, "ReplayedFromCompletion"),
        ] {
            assert_eq!(source(from), Some(metric));
        }
        for (kind, metric) in [
            (ErrorKind::AlreadyInProgress, Some("InProgress")),
            (ErrorKind::KeyMissing, Some("KeyMissing")),
            (ErrorKind::PayloadMismatch, Some("PayloadMismatch")),
            (ErrorKind::Unresolved, Some("Held")),
            (ErrorKind::StoreFailed, Some("StoreFailed")),
            (ErrorKind::LostOwnership, Some("LostOwnership")),
            (ErrorKind::CompletionUnknown, Some("CompletionUnknown")),
            (ErrorKind::Contended, None),
        ] {
            assert_eq!(error(kind), metric);
        }
        for (change, metric) in [
            (CircuitChange::Opened, "CircuitOpened"),
            (CircuitChange::Open, "CircuitOpen"),
            (CircuitChange::Closed, "CircuitClosed"),
        ] {
            assert_eq!(circuit(change), Some(metric));
        }
        let (without, with) = (ClaimEnd::CompletedWithoutResponse, ClaimEnd::Completed);
        let (cannot, other) = (ErrorKind::ResponseNotSerializable, ErrorKind::StoreFailed);
        for (claim, error, expected) in [
            (Some(without), None, true),
            (None, Some(cannot), true),
            (Some(with), Some(other), false),
            (None, None, false),
        ] {
            assert_eq!(is_unstorable(claim, error), expected);
        }
    }

    #[test]
    fn a_count_is_the_sum_of_what_was_added() {
        let mut tally = Tally::default();
        for n in [2, 0, 3] {
            tally.count("Undecodable", n);
        }
        tally.count("Unprocessed", 0);
        assert_eq!(tally.counts, [("Undecodable", 5)]);
    }

    #[tokio::test]
    async fn only_a_call_that_sent_a_request_has_a_time_of_the_store() {
        static SEEN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
        observe(|call| {
            if call.operation() == "timed" {
                let mut tally = Tally::default();
                tally.add(call);
                let latencies = (tally.store.len(), tally.handler.len());
                SEEN.lock().unwrap().push(latencies);
            }
        });
        let backend = crate::backend_over(Arc::new(MemoryStore::new()));
        let operation = Operation::builder("timed").key("id").key_prefix("timed");
        let operation = operation.key_required(false).build().unwrap();
        for payload in [serde_json::json!({ "id": 1 }), serde_json::json!({})] {
            let run = operation.run(&payload, Deadline::Inherited, async || Ok::<_, BoxError>(9));
            with_backend(backend.clone(), run).await.unwrap();
        }
        assert_eq!(*SEEN.lock().unwrap(), [(1, 1), (0, 1)]);
    }

    #[tokio::test]
    async fn renewals_are_counted_and_a_claim_that_was_lost_meanwhile() {
        static SEEN: Mutex<Vec<(&str, u64)>> = Mutex::new(Vec::new());
        observe(|call| {
            if call.operation() == "tallied" {
                let mut tally = Tally::default();
                tally.add(call);
                *SEEN.lock().unwrap() = tally.counts;
            }
        });
        let (clock, store) = (Moved::default(), Arc::new(MemoryStore::new()));
        let backend = Backend::new(store, Arc::new(clock.clone()), Arc::new(Fixed));
        let operation = Operation::builder("tallied").key("@").key_prefix("tallied");
        let operation = operation.renew(true).build().unwrap();
        let run = operation.run(&1, Deadline::Inherited, async |_| {
            tokio::task::yield_now().await;
            clock.0.store(40_000, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(9)
        });
        with_backend(backend, run).await.unwrap();
        let expected = [("Executed", 1), ("ClaimLost", 1), ("Renewed", 1)];
        assert_eq!(*SEEN.lock().unwrap(), expected);
    }
}

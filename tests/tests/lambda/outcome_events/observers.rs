//! The observers of a process: each gets the facts of the outcome event as values.

use std::sync::{Arc, Mutex};

use idempotency_core::record::{Field, Status};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{CallOutcome, CallSummary, OnError, observe};
use idempotency_tests::{START, claim_of_another};

use super::*;

/// Runs `calls` and returns what `seen` says of each call whose key prefix is `prefix`. Other tests of this process have other
/// prefixes.
async fn observed<T: Send + 'static>(
    prefix: &'static str,
    seen: impl Fn(&CallSummary<'_>) -> T + Send + Sync + 'static,
    calls: impl Future<Output = ()>,
) -> Vec<T> {
    let list = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&list);
    observe(move |call| {
        if call.operation() == prefix {
            kept.lock().unwrap().push(seen(call));
        }
    });
    calls.await;
    std::mem::take(&mut *list.lock().unwrap())
}

#[tokio::test]
async fn an_observer_gets_the_facts_of_each_call() {
    let harness = Harness::default();
    let charge = keyed(|of| of.key_prefix("observed"));
    let seen = observed(
        "observed",
        |call| {
            let end = (call.outcome(), call.source(), call.handler(), call.claim());
            let store = (call.error_kind(), call.store_requests());
            format!("{end:?} {store:?} {:?}", call.handler_time())
        },
        async {
            let slow = harness.call_with(&charge, order(), async |_| {
                harness.pass(40);
                Ok(1)
            });
            slow.await.unwrap();
            harness.call(&charge, order()).await.unwrap();
            let wrong = harness.call_with(&charge, order(), async |_| Ok(String::new()));
            wrong.await.unwrap_err();
        },
    )
    .await;
    assert_eq!(
        seen,
        [
            "(Executed, None, Some(Returned), Some(Completed)) (None, 2) 40ms",
            "(Replayed, Some(Store), None, None) (None, 1) 0ns",
            "(Refused, None, None, None) (Some(ResponseTypeChanged), 1) 0ns",
        ]
    );
}

#[tokio::test]
async fn a_panic_of_an_observer_changes_neither_the_call_nor_other_observers() {
    let harness = Harness::default();
    let charge = keyed(|of| of.key_prefix("observed-twice"));
    observe(|call| assert_ne!(call.operation(), "observed-twice"));
    let seen = observed("observed-twice", |call| call.outcome(), async {
        harness.call(&charge, order()).await.unwrap();
    })
    .await;
    assert_eq!(seen, [CallOutcome::Executed]);
}

#[tokio::test]
async fn a_claim_over_one_whose_lease_expired_is_a_takeover_in_every_report() {
    let harness = Harness::default();
    let charge = keyed(|of| {
        of.key_prefix("observed-takeovers")
            .on_error(OnError::Record)
    });
    let record = claim_of_another(-1);
    // A failure that was recorded is a result.
    let mut failed = record.clone();
    failed.failure = Field::Value("Declined".to_owned());
    // The window has expired.
    let mut expired = record.clone();
    expired.status = Field::Value(Status::Completed);
    expired.expiration = Field::Value(EpochMillis::new(START - 2_000).ceil_to_seconds());
    for (record, taken_over) in [(record, true), (failed, false), (expired, false)] {
        harness.insert(&charge, &json!(1), record.clone());
        let mut line = String::new();
        let seen = observed("observed-takeovers", |call| call.taken_over(), async {
            let call = async { drop(harness.call(&charge, order()).await) };
            line = recorded(call).await.concat();
        })
        .await;
        assert_eq!(seen, [taken_over], "{record:?}");
        assert!(line.contains("outcome=executed"), "{line}");
        assert_eq!(
            line.contains("claim=completed taken_over=true store_requests=2"),
            taken_over,
            "{line}"
        );
    }
}

//! The observers of a process: each gets the facts of the outcome event as values.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::record::{Field, Record, Status};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    CallOutcome, CallSummary, ClaimEnd, ErrorKind, HandlerProgress, OnError, Source, observe,
};
use idempotency_tests::START;

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
            (
                call.outcome(),
                call.source(),
                call.handler(),
                call.claim(),
                call.error_kind(),
                call.store_requests(),
                call.handler_time(),
            )
        },
        async {
            let slow = harness.call_with(&charge, order(), async |_| {
                harness.clock.advance(Duration::from_millis(40));
                Ok(1)
            });
            slow.await.unwrap();
            harness.call(&charge, order()).await.unwrap();
            let wrong = harness.call_with(&charge, order(), async |_| Ok(String::new()));
            wrong.await.unwrap_err();
        },
    )
    .await;
    let none = Duration::ZERO;
    assert_eq!(
        seen,
        [
            (
                CallOutcome::Executed,
                None,
                Some(HandlerProgress::Returned),
                Some(ClaimEnd::Completed),
                None,
                2,
                Duration::from_millis(40)
            ),
            (
                CallOutcome::Replayed,
                Some(Source::Store),
                None,
                None,
                None,
                1,
                none
            ),
            (
                CallOutcome::Refused,
                None,
                None,
                None,
                Some(ErrorKind::ResponseTypeChanged),
                1,
                none
            ),
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
    let id = idempotency_core::record::RecordId::new(
        KEY.replace("local.shop.charge", "observed-takeovers"),
    );
    let lease = EpochMillis::new(START - 1);
    let record = Record {
        status: Field::Value(Status::InProgress),
        in_progress_expiration: Field::Value(lease),
        expiration: Field::Value(lease.plus(Duration::from_secs(60)).ceil_to_seconds()),
        ..Record::default()
    };
    let records = [
        (record.clone(), true),
        // A failure that was recorded is a result.
        (
            Record {
                failure: Field::Value("Declined".to_owned()),
                ..record.clone()
            },
            false,
        ),
        // The window has expired.
        (
            Record {
                status: Field::Value(Status::Completed),
                expiration: Field::Value(EpochMillis::new(START - 2_000).ceil_to_seconds()),
                ..record
            },
            false,
        ),
    ];
    for (record, taken_over) in records {
        harness.store.inner().insert(id.clone(), record.clone());
        let mut line = String::new();
        let seen = observed("observed-takeovers", |call| call.taken_over(), async {
            line = line_of(harness.call(&charge, order())).await;
        })
        .await;
        assert_eq!(seen, [taken_over], "{record:?}");
        assert!(line.contains("outcome=executed"), "{line}");
        assert_eq!(
            line.contains("claim=completed taken_over=true store_requests=2"),
            taken_over,
            "{line}"
        );
        harness.store.inner().evict(&id);
    }
}

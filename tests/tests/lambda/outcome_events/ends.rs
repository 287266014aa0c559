//! The event of each way in which a call can end.
//!
//! The events of calls whose store failed before the handler: unprotected runs, and the circuit breaker.
//!
//! The events of calls whose handlers stage writes: what became of the writes.
//!
//! The event of a call under `read-first`.

use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Field, Record, RecordId, Status};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    Call, Error, LambdaEvent, Lookup, OnInProgress, OnStoreError, OnTimeout, idempotent,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::{StoreExt, StoreFault, StoreOperation};
use idempotency_tests::{START, id, unless_it_panics};

use super::*;
use crate::Unwritable;

#[tokio::test]
async fn the_event_of_a_run_has_its_requests_and_times() {
    let harness = Harness::default();
    let line = line_of(harness.call_with(&charge(), order(), async |_| {
        harness.clock.advance(Duration::from_millis(40));
        Ok("s3cr3t response".to_owned())
    }))
    .await;
    let expected = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed \
                    store_requests=2 store_ms=0 handler_ms=40";
    assert_eq!(line, event("INFO", expected));
}

#[tokio::test]
async fn the_event_of_a_replay_has_the_source_of_the_response() {
    let harness = Harness::default();
    let cached = keyed(|of| of.local_cache(1));
    harness.call(&charge(), order()).await.unwrap();
    for (source, requests) in [("store", 1), ("cache", 0)] {
        let expected = format!(
            "key={{key}} outcome=replayed source={source} handler_ran=false store_requests={requests} store_ms=0 \
             handler_ms=0"
        );
        assert_eq!(
            line_of_a_call(&harness, &cached).await,
            event("INFO", &expected)
        );
    }
}

#[tokio::test]
async fn the_event_of_a_replay_after_a_run_says_that_the_handler_ran() {
    let harness = Harness::default();
    let charge = charge();
    let mut lines = recorded(async {
        let late = harness.call_with(&charge, order(), async |_| {
            harness.clock.advance(Duration::from_secs(31));
            harness.call_elsewhere(&charge, order()).await?;
            Ok(9)
        });
        assert!(late.await.unwrap().is_replayed());
    })
    .await;
    let expected = "key={key} outcome=replayed source=completion handler_ran=true handler=returned store_requests=2 \
                    store_ms=0 handler_ms=31000";
    assert_eq!(
        lines.pop().unwrap().replace(KEY, "{key}"),
        event("INFO", expected)
    );
    assert!(lines[0].contains("outcome=executed"), "{lines:?}");
}

#[tokio::test]
async fn concurrent_duplicates_in_one_process_have_one_event_each() {
    let harness = Harness::default();
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    let lines = recorded(async {
        let first = harness.call_with(&charge, order(), async |run| {
            tokio::task::yield_now().await;
            Ok(run)
        });
        let (first, second) = tokio::join!(first, harness.call(&charge, order()));
        assert!(!first.unwrap().is_replayed() && second.unwrap().is_replayed());
    })
    .await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("outcome=executed"), "{lines:#?}");
    assert!(
        lines[1].contains("outcome=replayed source=flight")
            && lines[1].contains("store_requests=0"),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn the_event_of_a_failure_does_not_have_its_text() {
    let harness = Harness::default();
    let fails = async |_| Err::<(), BoxError>("declined: s3cr3t".into());
    let expected = "key={key} outcome=failed handler_ran=true handler=failed stored=false claim=released \
                    store_requests=2 store_ms=0 handler_ms=0";
    let line = line_of(harness.call_with(&charge(), order(), fails)).await;
    assert_eq!(line, event("INFO", expected));
    harness.inject(StoreOperation::Delete, 1, StoreFault::Throttle);
    let line = line_of(harness.call_with(&charge(), order(), fails)).await;
    let expected = expected.replace("released", "not_released");
    assert_eq!(line, event("WARN", &expected));
}

#[tokio::test]
async fn a_panic_emits_its_event_before_it_propagates() {
    let harness = Harness::default();
    let held = keyed(|of| of.on_timeout(OnTimeout::Hold));
    let optional = keyed(|of| of.key_required(false));
    for (charge, payload, begins) in [
        (
            &charge(),
            order(),
            "key={key} outcome=panicked handler_ran=true handler=panicked stored=false claim=released",
        ),
        (
            &held,
            order(),
            "key={key} outcome=panicked handler_ran=true handler=panicked stored=false claim=kept",
        ),
        (
            &optional,
            json!({}),
            "outcome=bypassed bypass=no_key handler_ran=true handler=panicked",
        ),
    ] {
        let lines = recorded(async {
            let call = harness.call_with::<(), _>(charge, payload, async |_| panic!("s3cr3t"));
            let caught = unless_it_panics(call).await;
            assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"s3cr3t"));
        })
        .await;
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let line = lines[0].replace(KEY, "{key}");
        assert!(line.starts_with(&event("ERROR", begins)), "{line}");
        assert!(!line.contains("s3cr3t"), "{line}");
    }
}

#[tokio::test]
async fn the_event_of_a_call_without_protection_has_the_reason() {
    let harness = Harness::default();
    let optional = keyed(|of| of.key_required(false));
    let line = line_of(harness.call(&optional, json!({ "card": "s3cr3t" }))).await;
    assert!(
        line.starts_with(&event(
            "WARN",
            "outcome=bypassed bypass=no_key handler_ran=true handler=returned cause="
        )),
        "{line}"
    );
    let off = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "1".to_owned())]);
    let off = keyed(|of| of.variables(off));
    let line = line_of_a_call(&harness, &off).await;
    let expected = "outcome=bypassed bypass=disabled handler_ran=true handler=returned store_requests=0 store_ms=0 \
                    handler_ms=0";
    assert_eq!(line, event("INFO", expected));
}

#[tokio::test]
async fn the_event_says_why_a_response_was_not_stored() {
    let harness = Harness::default();
    let by_policy = keyed(|of| of.store_when("`false`"));
    let line = line_of_a_call(&harness, &by_policy).await;
    assert!(line.starts_with("INFO"), "{line}");
    assert!(
        line.contains(
            "outcome=executed handler_ran=true handler=returned stored=false claim=released"
        ),
        "{line}"
    );
    harness.inject(StoreOperation::Update, 1, StoreFault::TooLarge);
    let line = line_of_a_call(&harness, &charge()).await;
    assert!(line.starts_with("WARN"), "{line}");
    assert!(
        line.contains("stored=false claim=completed_without_response"),
        "{line}"
    );
    let line = line_of_a_call(&harness, &charge()).await;
    assert!(line.starts_with("WARN"), "{line}");
    assert!(
        line.contains("outcome=refused handler_ran=false error=IdempotencyResponseUnavailable"),
        "{line}"
    );
}

#[tokio::test]
async fn the_event_of_a_dropped_call_says_how_far_it_got() {
    let harness = Harness::default();
    let lines = recorded(async {
        let charge = charge();
        let stuck = Box::pin(harness.call_with::<(), _>(&charge, order(), async |_| std::future::pending().await));
        tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), () = std::future::ready(()) => {} }
    })
    .await;
    let expected = "key={key} outcome=abandoned handler_ran=true handler=started store_requests=1 store_ms=0 handler_ms=0";
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0].replace(KEY, "{key}"), event("WARN", expected));
}

#[tokio::test]
async fn a_refusal_before_the_claim_emits_one_event_in_every_form() {
    #[idempotent(key = "order_id", key_required = true, key_prefix = "annotated")]
    async fn annotated(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
        Ok(event.payload)
    }

    let harness = Harness::default();
    let required = keyed(|of| of.key_required(true));
    let payload = || json!({ "card": "s3cr3t" });
    let by_attribute = recorded(async {
        let event = LambdaEvent::new(payload(), Default::default());
        harness.within(annotated(event)).await.unwrap_err();
    })
    .await;
    let by_operation = vec![line_of(harness.call(&required, payload())).await];
    assert_eq!(by_attribute.len(), 1, "{by_attribute:#?}");
    let by_attribute = [by_attribute[0].replace("annotated", "local.shop.charge")];
    assert_eq!(by_attribute, by_operation[..]);
    let expected = "outcome=refused handler_ran=false error=IdempotencyKeyMissing";
    assert!(
        by_operation[0].starts_with(&event("WARN", expected)),
        "{by_operation:?}"
    );

    let failing = keyed(|of| of.key("powertools_json(order_id)"));
    let line = line_of_a_call(&harness, &failing).await;
    let expected =
        "outcome=refused handler_ran=false error=IdempotencyExpressionFailed cause=`key`: ";
    assert!(line.starts_with(&event("WARN", expected)), "{line}");

    let unreadable = std::collections::BTreeMap::from([(vec![1], 1)]);
    let charge = charge();
    let call = async {
        charge
            .run(
                &unreadable,
                harness.deadline_in(Duration::from_secs(1)),
                async || Ok::<_, BoxError>(1),
            )
            .await
    };
    let line = line_of(call).await;
    let expected = "outcome=refused handler_ran=false error=IdempotencyInvalidPayload cause=a `";
    assert!(line.starts_with(&event("WARN", expected)), "{line}");
}

#[tokio::test]
async fn a_mistake_that_an_operator_must_correct_is_an_error_event_before_any_request() {
    let harness = Harness::with_clock(ManualClock::at(-1));
    let line = line_of_a_call(&harness, &charge()).await;
    let expected = "key={key} outcome=refused handler_ran=false error=IdempotencyEnvironment cause=the clock is \
                    before 1970: set it right store_requests=0 store_ms=0 handler_ms=0";
    assert_eq!(line, event("ERROR", expected));
    // Without a test's backend, in a process without a table.
    let charge = charge();
    let line = line_of(async {
        charge
            .run(&order(), harness.deadline_in(Duration::ZERO), async || {
                Ok::<_, BoxError>(1)
            })
            .await
    })
    .await;
    assert!(
        line.starts_with("ERROR idempotency idempotent call: operation="),
        "{line}"
    );
    assert!(
        line.contains("error=IdempotencyConfiguration cause=IDEMPOTENCY_TABLE is not set"),
        "{line}"
    );
}

/// Returns a harness whose store has this record for the order.
async fn harness_with(record: Record) -> Harness {
    let harness = Harness::default();
    put(&harness, record).await;
    harness
}

async fn put(harness: &Harness, record: Record) {
    let key: RecordId = id(&charge(), &json!(1));
    harness
        .store
        .inner()
        .delete(
            &key,
            &Condition::Exists(idempotency_core::record::Attribute::Status),
        )
        .await;
    harness
        .store
        .inner()
        .put(&key, &record, &Condition::NoRecord)
        .await;
}

fn in_progress(milliseconds: i64) -> Record {
    let lease = idempotency_core::time::EpochMillis::new(START + milliseconds);
    Record {
        status: Field::Value(Status::InProgress),
        expiration: Field::Value(lease.plus(Duration::from_secs(3_600)).ceil_to_seconds()),
        in_progress_expiration: Field::Value(lease),
        ..Record::default()
    }
}

#[tokio::test]
async fn the_event_of_a_refusal_by_a_record_has_its_kind() {
    let harness = harness_with(in_progress(5_000)).await;
    let line = line_of_a_call(&harness, &charge()).await;
    let expected = format!(
        "key={{key}} outcome=refused handler_ran=false error=IdempotencyAlreadyInProgress cause=retry later; its \
         lease ends at {} store_requests=1 store_ms=0 handler_ms=0",
        idempotency_core::time::EpochMillis::new(START + 5_000)
    );
    assert_eq!(line, event("WARN", &expected));

    let harness = harness_with(in_progress(-5_000)).await;
    let holds = keyed(|of| of.on_timeout(OnTimeout::Hold));
    refused(&harness, &holds, "ERROR", "Unresolved").await;

    let broken = Record {
        status: Field::Unreadable,
        ..in_progress(5_000)
    };
    refused(
        &harness_with(broken).await,
        &charge(),
        "ERROR",
        "CorruptRecord",
    )
    .await;

    let harness = Harness::default();
    harness.call(&charge(), order()).await.unwrap();
    let validates = keyed(|of| of.validate("card"));
    refused(&harness, &validates, "WARN", "PayloadMismatch").await;
    let line = line_of(harness.call_with(&charge(), order(), async |_| Ok(String::new()))).await;
    assert!(
        line.starts_with("ERROR") && line.contains("error=IdempotencyResponseTypeChanged"),
        "{line}"
    );
}

async fn refused(harness: &Harness, operation: &Operation, level: &str, kind: &str) {
    let line = line_of_a_call(harness, operation).await;
    let expected =
        format!("key={{key}} outcome=refused handler_ran=false error=Idempotency{kind} ");
    assert!(line.starts_with(&event(level, &expected)), "{line}");
}

#[tokio::test]
async fn a_call_without_time_has_an_event_of_its_kind() {
    let harness = Harness::default();
    let charge = charge();
    let order = order();
    let deadline = harness.deadline_in(Duration::ZERO);
    harness.clock.advance(Duration::from_millis(1));
    let call = async {
        charge
            .run(&order, deadline, async || Ok::<_, BoxError>(1))
            .await
    };
    let line = line_of(harness.within(call)).await;
    let expected = "key={key} outcome=refused handler_ran=false error=IdempotencyNoTimeLeft store_requests=0 store_ms=0 \
                    handler_ms=0";
    assert_eq!(line, event("WARN", expected));
}

#[tokio::test]
async fn the_event_of_a_failed_store_has_the_cause_and_the_time() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Put, 1, StoreFault::Throttle);
    let line = line_of_a_call(&harness, &charge()).await;
    let expected = "key={key} outcome=refused handler_ran=false error=IdempotencyStoreFailed cause=an injected fault \
                    (Throttled)";
    assert!(line.starts_with(&event("WARN", expected)), "{line}");

    let throttled = (1..=4).map(|nth| (nth, StoreFault::Throttle));
    for (nth, fault) in throttled {
        harness.inject(StoreOperation::Update, nth, fault);
    }
    let line = line_of_a_call(&harness, &charge()).await;
    let expected = "key={key} outcome=unconfirmed handler_ran=true handler=returned error=IdempotencyCompletionUnknown \
                    cause=an injected fault (Throttled)";
    assert!(line.starts_with(&event("ERROR", expected)), "{line}");
}

#[tokio::test]
async fn a_lost_claim_and_a_response_that_cannot_be_serialized_are_events_after_the_run() {
    let harness = Harness::default();
    let charge = charge();
    let line = line_of(harness.call_with(&charge, order(), async |run| {
        put(&harness, in_progress(60_000)).await;
        Ok(run)
    }))
    .await;
    let expected = "key={key} outcome=unconfirmed handler_ran=true handler=returned error=IdempotencyLostOwnership";
    assert!(line.starts_with(&event("ERROR", expected)), "{line}");

    let harness = Harness::default();
    let unwritable = async |_| Ok(Unwritable);
    let line = line_of(harness.call_with(&charge, order(), unwritable)).await;
    let expected = expected.replace("LostOwnership", "ResponseNotSerializable");
    assert!(line.starts_with(&event("ERROR", &expected)), "{line}");
}

#[tokio::test]
async fn the_error_of_a_nested_call_is_not_in_the_event_of_the_outer_call() {
    let harness = Harness::default();
    let inner = keyed(|of| of.key_prefix("inner").key_required(true));
    let outer = charge();
    let lines = recorded(async {
        let call = harness.call_with(&outer, order(), async |_| {
            harness
                .call(&inner, json!({}))
                .await
                .map(|outcome| outcome.into_response())
        });
        assert!(call.await.unwrap_err().downcast_ref::<Error>().is_some());
    })
    .await;
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(
        lines[0].contains("operation=inner outcome=refused"),
        "{lines:#?}"
    );
    assert!(
        lines[1].contains("outcome=failed") && !lines[1].contains(" error="),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_call_with_its_own_store_has_the_same_event() {
    let own = builder()
        .store(std::sync::Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let payload = order();
    let line = line_of(async {
        own.run(
            &payload,
            idempotency_lambda::Deadline::Inherited,
            async || Ok::<_, BoxError>(1),
        )
        .await
    })
    .await;
    assert!(line.contains("outcome=executed"), "{line}");
}

fn unprotected() -> Operation {
    keyed(|of| of.on_store_error(OnStoreError::RunUnprotected))
}

fn throttle(harness: &Harness, kind: StoreOperation, times: usize) {
    (1..=times).for_each(|nth| harness.inject(kind, nth, StoreFault::Throttle));
}

#[tokio::test]
async fn an_unprotected_run_is_an_outcome_of_its_own() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 3);
    let charge = unprotected();
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned cause=the store \
                    failed, so the handler ran without a confirmed claim: an injected fault (Throttled) \
                    store_requests=1 store_ms=0 handler_ms=0";
    assert_eq!(
        line_of_a_call(&harness, &charge).await,
        event("WARN", expected)
    );

    let fails = async |_| Err::<(), BoxError>("declined: s3cr3t".into());
    let line = line_of(harness.call_with(&charge, order(), fails)).await;
    let failed = expected.replace("handler=returned", "handler=failed");
    assert_eq!(line, event("WARN", &failed));

    let panics = async |_| -> Result<(), BoxError> { std::panic::resume_unwind(Box::new(())) };
    let line = line_of(async {
        let call = harness.call_with(&charge, order(), panics);
        let panicked = idempotency_tests::unless_it_panics(call).await;
        assert!(panicked.is_err());
        Err::<Outcome<()>, _>("it panicked".into())
    })
    .await;
    let panicked = expected.replace("handler=returned", "handler=panicked");
    assert_eq!(line, event("ERROR", &panicked));
}

#[tokio::test]
async fn an_unprotected_run_whose_claim_was_applied_says_what_became_of_it() {
    let harness = Harness::default();
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    let line = line_of_a_call(&harness, &unprotected()).await;
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned stored=true \
                    claim=completed cause=the store failed, so the handler ran without a confirmed claim: an injected \
                    fault (Unreachable) store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", expected));
}

#[tokio::test]
async fn an_unprotected_run_whose_response_is_not_stored_says_why() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    harness.inject(StoreOperation::Put, 1, StoreFault::LoseReply);
    throttle(&harness, StoreOperation::Read, 1);
    throttle(&harness, StoreOperation::Update, 4);
    let line = line_of_a_call(&harness, &unprotected()).await;
    let expected = "key={key} outcome=unprotected bypass=store_failed handler_ran=true handler=returned cause=the store \
                    failed, so the handler ran without a confirmed claim: an injected fault (Unreachable); its response \
                    is not stored: an injected fault (Throttled) store_requests=6";
    assert!(line.starts_with(&event("WARN", expected)), "{line}");
}

#[tokio::test]
async fn a_call_says_that_it_opened_found_or_closed_the_circuit() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 5);
    let charge = keyed(|of| of.circuit_breaker(true));
    let failed = "key={key} outcome=refused handler_ran=false error=IdempotencyStoreFailed cause=an injected fault \
                  (Throttled) store_requests=1 store_ms=0 handler_ms=0";
    for _ in 0..4 {
        let line = line_of_a_call(&harness, &charge).await;
        assert_eq!(line, event("WARN", failed));
    }
    let opened = failed.replace(" error=", " circuit=opened error=");
    let line = line_of_a_call(&harness, &charge).await;
    assert_eq!(line, event("WARN", &opened));

    let open = format!(
        "key={{key}} outcome=refused handler_ran=false circuit=open error=IdempotencyStoreFailed cause=nothing was sent, \
         because requests failed repeatedly and the circuit breaker is open until {}: retry after \
         that store_requests=0 store_ms=0 handler_ms=0",
        EpochMillis::new(START + 1_000)
    );
    let line = line_of_a_call(&harness, &charge).await;
    assert_eq!(line, event("WARN", &open));

    harness.clock.advance(Duration::from_millis(1_001));
    let line = line_of_a_call(&harness, &charge).await;
    let closed = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed circuit=closed \
                  store_requests=2 store_ms=0 handler_ms=0";
    assert_eq!(line, event("INFO", closed));
}

#[tokio::test]
async fn an_unprotected_run_without_a_request_names_the_open_circuit() {
    let harness = Harness::default();
    throttle(&harness, StoreOperation::Put, 5);
    let charge = keyed(|of| {
        of.circuit_breaker(true)
            .on_store_error(OnStoreError::RunUnprotected)
    });
    for _ in 0..5 {
        harness.call(&charge, order()).await.unwrap();
    }
    let line = line_of_a_call(&harness, &charge).await;
    let expected = format!(
        "key={{key}} outcome=unprotected bypass=store_failed handler_ran=true handler=returned circuit=open cause=the \
         store failed, so the handler ran without a confirmed claim: the circuit breaker is open until {} \
         store_requests=0 store_ms=0 handler_ms=0",
        EpochMillis::new(START + 1_000)
    );
    assert_eq!(line, event("WARN", &expected));
}

/// Stages a write that takes one from an account.
fn take_one(call: &Call) {
    let take = LedgerEntry::add("s3cr3t account", -1).at_least(0);
    let staged = call.stage(|writes: &mut MemoryWrites| {
        writes.push(take);
        Ok::<_, std::convert::Infallible>(())
    });
    staged.unwrap();
}

fn ledger(harness: &Harness) -> &MemoryStore {
    harness.store.inner()
}

/// Returns the line of a call whose handler stages a write and then ends with `end`.
async fn line_of_a_staging_call(
    harness: &Harness,
    operation: &Operation,
    payload: Value,
    end: impl AsyncFnOnce() -> Result<u32, BoxError>,
) -> String {
    let deadline = harness.deadline_in(Duration::from_secs(30));
    let call = operation.run(&payload, deadline, |call: Call| async move {
        take_one(&call);
        end().await
    });
    line_of(harness.within(call)).await
}

#[tokio::test]
async fn staged_writes_are_applied_with_the_completion() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let applied = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed staged=applied \
                   store_requests=2 store_ms=0 handler_ms=0";
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    assert_eq!(line, event("INFO", applied));
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 0);
    // The reply is lost, and the second transaction finds the completion.
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    ledger(&harness).set_balance("s3cr3t account", 1);
    harness.inject(StoreOperation::Transact, 1, StoreFault::LoseReply);
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    let found = "key={key} outcome=replayed source=completion handler_ran=true handler=returned staged=applied \
                 store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("INFO", found));
}

#[tokio::test]
async fn staged_writes_of_a_run_without_a_result_are_dropped() {
    let harness = Harness::default();
    let fails = async || Err("declined: s3cr3t".into());
    let failed = "key={key} outcome=failed handler_ran=true handler=failed stored=false claim=released staged=dropped \
                  store_requests=2 store_ms=0 handler_ms=0";
    let line = line_of_a_staging_call(&harness, &charge(), order(), fails).await;
    assert_eq!(line, event("INFO", failed));
    let unstored = keyed(|of| of.store_when("@ != `1`"));
    let line = line_of_a_staging_call(&harness, &unstored, order(), async || Ok(1)).await;
    let dropped = "key={key} outcome=executed handler_ran=true handler=returned stored=false claim=released staged=dropped \
                   cause=the response is not stored, so the 1 writes that the handler staged are dropped store_requests=2 \
                   store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", dropped));
}

#[tokio::test]
async fn a_rejection_names_the_write_and_not_its_content() {
    let harness = Harness::default();
    let line = line_of_a_staging_call(&harness, &charge(), order(), async || Ok(1)).await;
    let rejected = "key={key} outcome=rejected handler_ran=true handler=returned stored=false claim=released staged=rejected \
                    error=IdempotencyTransactionRejected cause=write 1 of 1 (change of the ledger): ConditionalCheckFailed \
                    store_requests=3 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", rejected));
}

#[tokio::test]
async fn writes_of_lost_replies_are_unknown_and_those_of_a_late_owner_are_dropped() {
    let harness = Harness::with_clock(ManualClock::auto_advancing(START));
    ledger(&harness).set_balance("s3cr3t account", 5);
    let charge = charge();
    (1..=4).for_each(|nth| {
        let lost = StoreFault::LoseRequest;
        harness.inject(StoreOperation::Transact, nth, lost);
    });
    let line = line_of_a_staging_call(&harness, &charge, order(), async || Ok(1)).await;
    assert!(line.contains("outcome=unconfirmed"), "{line}");
    assert!(line.contains("staged=unknown"), "{line}");

    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 5);
    let mut lines = recorded(async {
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let harness = &harness;
        let charge = &charge;
        let late = charge.run(&order(), deadline, |call: Call| async move {
            take_one(&call);
            harness.clock.advance(Duration::from_secs(31));
            harness.call_elsewhere(charge, order()).await?;
            Ok::<_, BoxError>(9_usize)
        });
        harness.within(late).await.unwrap();
    })
    .await;
    let line = lines.pop().unwrap();
    assert!(
        line.contains("source=completion") && line.contains("staged=dropped"),
        "{line}"
    );
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 5);
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_applied_alone() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let optional = keyed(|of| of.key_required(false));
    let keyless = || json!({ "card": "s3cr3t" });
    let line = line_of_a_staging_call(&harness, &optional, keyless(), async || Ok(1)).await;
    let applied = "outcome=bypassed bypass=no_key handler_ran=true handler=returned staged=applied cause=the \
                   payload has no idempotency key: the handler runs unprotected; the key expression `order_id` finds \
                   nothing in it (`key_required = true` refuses such a payload) store_requests=1 store_ms=0 handler_ms=0";
    assert_eq!(line, event("WARN", applied));
    let line = line_of_a_staging_call(&harness, &optional, keyless(), async || Ok(1)).await;
    assert!(
        line.contains("outcome=rejected") && line.contains("staged=rejected"),
        "{line}"
    );
    let fails = async || Err("declined".into());
    let line = line_of_a_staging_call(&harness, &optional, keyless(), fails).await;
    assert!(
        line.contains("outcome=bypassed") && line.contains("staged=dropped"),
        "{line}"
    );
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_dropped_if_its_response_is_not_stored_under_a_key() {
    let harness = Harness::default();
    ledger(&harness).set_balance("s3cr3t account", 1);
    let unstored = keyed(|of| of.key_required(false).store_when("@ != `1`"));
    let keyless = || json!({ "card": "s3cr3t" });
    let line = line_of_a_staging_call(&harness, &unstored, keyless(), async || Ok(1)).await;
    assert!(
        line.contains("outcome=bypassed") && line.contains("staged=dropped"),
        "{line}"
    );
    assert!(
        line.contains("so the 1 writes that the handler staged are dropped"),
        "{line}"
    );
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 1);
    let line = line_of_a_staging_call(&harness, &unstored, keyless(), async || Ok(2)).await;
    assert!(line.contains("staged=applied"), "{line}");
    assert_eq!(ledger(&harness).balance("s3cr3t account"), 0);
}

fn reads_first() -> Operation {
    keyed(|of| of.lookup(Lookup::ReadFirst))
}

#[tokio::test]
async fn the_event_of_a_run_counts_the_read() {
    let expected = "key={key} outcome=executed handler_ran=true handler=returned stored=true claim=completed \
                    store_requests=3 store_ms=0 handler_ms=0";
    let line = line_of_a_call(&Harness::default(), &reads_first()).await;
    assert_eq!(line, event("INFO", expected));
}

#[tokio::test]
async fn a_read_that_failed_is_a_note_of_a_warning_and_ends_no_call() {
    let harness = Harness::default();
    let fails = || {
        let read = StoreOperation::Read;
        harness.inject(read, 1, StoreFault::Throttle);
    };
    let cause = "cause=the read before the claim failed: an injected fault (Throttled)";
    fails();
    let expected = format!(
        "key={{key}} outcome=executed handler_ran=true handler=returned stored=true claim=completed {cause} \
         store_requests=3 store_ms=0 handler_ms=0"
    );
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", &expected));
    fails();
    let expected = format!(
        "key={{key}} outcome=replayed source=store handler_ran=false {cause} store_requests=2 store_ms=0 handler_ms=0"
    );
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", &expected));
}

#[tokio::test]
async fn the_error_of_a_claim_comes_before_the_note_of_the_read() {
    let harness = Harness::default();
    let inject = |operation, fault| harness.inject(operation, 1, fault);
    inject(StoreOperation::Read, StoreFault::LoseReply);
    inject(StoreOperation::Put, StoreFault::Throttle);
    let expected = "key={key} outcome=refused handler_ran=false error=IdempotencyStoreFailed cause=an injected fault \
                    (Throttled); the read before the claim failed: an injected fault (Unreachable) store_requests=2 store_ms=0 \
                    handler_ms=0";
    let line = line_of_a_call(&harness, &reads_first()).await;
    assert_eq!(line, event("WARN", expected));
}

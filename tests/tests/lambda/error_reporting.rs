//! Errors: what the caller, the record and duplicates get after a failure, whether the handler ran, and the cause.
//!
//! Handlers that panic, under each policy, and calls that are dropped: the claim, retries, and duplicates in the same process.

use std::error::Error as _;
use std::panic::resume_unwind;
use std::time::Duration;

use idempotency_core::record::{Data, Field, Status};
use idempotency_core::store::StoreError;
use idempotency_core::store::StoreErrorKind::{self, Throttled, Unreachable};
use idempotency_lambda::ErrorKind::{
    AlreadyInProgress, CompletionUnknown, CorruptRecord, Environment, InvalidPayload, KeyMissing,
    ResponseTypeChanged, StoreFailed, Unresolved,
};
use idempotency_lambda::{
    BoxError, Deadline, Error, ErrorKind, OnError, OnInProgress, OnTimeout, Operation,
    OperationBuilder, idempotent,
};
use idempotency_testkit::store::StoreFault;
use idempotency_testkit::store::StoreFault::{
    Backoff, Hang, HangAfter, LoseReply, LoseRequest, Throttle,
};
use idempotency_testkit::store::StoreOperation::{self, Delete, Put, Read, Update};
use idempotency_tests::End::{AfterRun, Failed, Ran, Refused};
use idempotency_tests::{End, Harness, claim_of_another, end, id, keyed, ours, unless_it_panics};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{charge, let_others_run, order};

/// Makes a call on a store with so many of each fault. Its pauses pass at once.
async fn error_of(faults: &[(StoreOperation, usize, StoreFault)]) -> (Harness, BoxError) {
    let harness = Harness::advancing();
    for &(operation, times, fault) in faults {
        harness.fail(operation, times, fault);
    }
    let error = harness.call(&charge(), order()).await.unwrap_err();
    (harness, error)
}

/// Returns the kind of our error, true if the handler ran, and the kind of the store's error that caused ours.
fn facts(error: &BoxError) -> (ErrorKind, bool, StoreErrorKind) {
    let mut source = ours(error).source();
    while let Some(cause) = source {
        if let Some(of_store) = cause.downcast_ref::<StoreError>() {
            let error = ours(error);
            return (error.kind(), error.handler_ran(), of_store.kind());
        }
        source = cause.source();
    }
    panic!("no error of the store caused {error:?}");
}

#[tokio::test]
async fn the_error_names_the_first_failure_and_not_failures_of_the_clean_up() {
    let faults = [
        (Put, 1, LoseRequest),
        (Read, 1, Throttle),
        (Delete, 1, Throttle),
    ];
    let (_, error) = error_of(&faults).await;
    assert_eq!(facts(&error), (StoreFailed, false, Unreachable));
    assert!(error.to_string().contains("(Unreachable)"), "{error}");
}

/// Makes a call that waits for a claim of another process, whose lease ends long after the call's deadline.
async fn wait_beside_a_dead_process(harness: &Harness) -> BoxError {
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    harness.insert(&charge, &json!(7), claim_of_another(3_600_000));
    harness.call(&charge, order()).await.unwrap_err()
}

#[tokio::test]
async fn a_wait_whose_last_read_failed_reports_that_failure() {
    let harness = Harness::advancing();
    harness.inject(Read, 1, LoseReply);
    (2..=1_000).for_each(|nth| harness.inject(Read, nth, Throttle));
    let error = wait_beside_a_dead_process(&harness).await;
    assert_eq!(facts(&error), (StoreFailed, false, Throttled));
    // The call polled until shortly before its deadline.
    assert!(harness.store.count(Read) > 10);
    let took = harness.elapsed();
    assert!((29_000..30_000).contains(&took), "{took} ms");
}

#[tokio::test]
async fn a_wait_whose_last_read_succeeded_does_not_report_an_earlier_failure() {
    let harness = Harness::advancing();
    harness.inject(Read, 2, Throttle);
    let error = wait_beside_a_dead_process(&harness).await;
    assert_eq!(ours(&error).kind(), AlreadyInProgress);
    assert!(harness.store.count(Read) > 10);
}

#[tokio::test]
async fn a_completion_that_fails_names_the_failure_of_its_own_sends() {
    let after_a_failed_claim = [(Put, 1, LoseReply), (Update, 4, Throttle)];
    let times_out_between_two_sends = [(Update, 1, Backoff)];
    for faults in [&after_a_failed_claim[..], &times_out_between_two_sends] {
        let (harness, error) = error_of(faults).await;
        let expected = (CompletionUnknown, true, Throttled);
        assert_eq!(facts(&error), expected, "{faults:?}");
        assert_eq!(harness.runs(), 1, "{faults:?}");
    }
}

#[tokio::test]
async fn a_late_owner_that_cannot_read_the_winners_response_gets_an_error_that_says_its_handler_ran()
 {
    let (harness, charge) = (Harness::default(), charge());
    let late = harness.end_with(&charge, order(), async |_| {
        harness.pass(31_000);
        let winner = harness.call_with(&charge, order(), async |_| Ok("text".to_owned()));
        winner.await?;
        Ok(1)
    });
    assert_eq!(late.await, AfterRun(ResponseTypeChanged));
}

#[tokio::test]
async fn a_recorded_failure_names_the_type_of_the_error_and_not_its_text() {
    let harness = Harness::default();
    let charge = keyed(|of| of.on_error(OnError::Record));
    let failed = harness.call_with(&charge, order(), async |_| Err::<(), _>("s3cr3t".into()));
    failed.await.unwrap_err();
    let name = std::any::type_name::<BoxError>().to_owned();
    let record = harness.record(&charge, &json!(7));
    assert_eq!(record.failure, Field::Value(name));
}

#[tokio::test]
async fn a_request_that_hangs_can_be_observed_on_an_auto_advancing_clock_and_then_times_out() {
    for (fault, is_stored) in [(Hang, false), (HangAfter, true)] {
        // Many times: `select!` polls its branches in any order.
        for _ in 0..32 {
            let (harness, charge) = (Harness::advancing(), charge());
            harness.fail(Put, 1, fault);
            tokio::select! {
                ended = harness.call(&charge, order()) => panic!("it did not hang: {ended:?}"),
                () = harness.store.hung() => {}
            }
            assert_eq!(!harness.store.inner().is_empty(), is_stored);
        }
    }
    let harness = Harness::advancing();
    harness.fail(Put, 1, Hang);
    let outcome = harness.call(&charge(), order()).await;
    // The claim is sent again, unless no time is left for it.
    assert!(harness.requests()[0] > 1 || outcome.is_err(), "{outcome:?}");
    assert!(
        harness.elapsed() > 0,
        "the time limit of the request has passed"
    );
}

#[tokio::test]
async fn a_claim_that_times_out_between_two_sends_was_not_applied_and_the_error_names_their_failure()
 {
    let (harness, error) = error_of(&[(Put, 1, Backoff)]).await;
    assert_eq!(facts(&error), (StoreFailed, false, Throttled));
    let text = error.to_string();
    assert!(
        text.contains("(Throttled)") && !text.contains("gave no response"),
        "{text}"
    );
    // It cannot be applied later, so nothing is read and nothing is released.
    assert_eq!(harness.requests(), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_claim_that_times_out_during_a_send_may_have_been_applied() {
    let (harness, error) = error_of(&[(Put, 1, Hang)]).await;
    assert_eq!(facts(&error), (StoreFailed, false, Unreachable));
    assert!(error.to_string().contains("can be reached"), "{error}");
    assert_eq!(harness.store.count(Update), 1);
}

#[tokio::test]
async fn bad_payloads_are_refused_before_the_handler_runs() {
    let harness = Harness::default();
    let strict = keyed(|of| of.key_required(true));
    for payload in [
        json!(null),
        json!("text"),
        json!({}),
        json!([]),
        json!({ "order_id": null }),
    ] {
        assert_eq!(harness.end(&strict, payload).await, Refused(KeyMissing));
    }
    let deep = (0..500).fold(json!(1), |deep, _| json!([deep]));
    assert_eq!(harness.end(&strict, deep).await, Refused(InvalidPayload));
    assert_eq!(harness.requests(), [0; 4]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_reported_with_its_key_and_the_handler_does_not_run() {
    let data = |text: &str| Field::Value(Data::new(text));
    let done = Status::Other("DONE".to_owned());
    for (status, data, what) in [
        (done, data("1"), "its status is unknown"),
        (Status::Completed, data("{"), "its data is not JSON"),
        (
            Status::Completed,
            Field::Unreadable,
            "its data is of an unknown type",
        ),
    ] {
        let (harness, charge) = (Harness::default(), charge());
        harness.call(&charge, order()).await.unwrap();
        let mut record = harness.record(&charge, &json!(7));
        record.status = Field::Value(status);
        record.data = data;
        harness.insert(&charge, &json!(7), record);
        let error = harness.call(&charge, order()).await.unwrap_err();
        assert_eq!(ours(&error).kind(), CorruptRecord);
        let (text, id) = (error.to_string(), id(&charge, &json!(7)));
        assert!(text.contains(what) && text.contains(id.as_str()), "{text}");
    }
}

#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("declined")]
    Declined,
    #[error(transparent)]
    Idempotency(#[from] Error),
}

#[idempotent(payload = order, key_prefix = "enum")]
async fn with_enum(order: u32) -> Result<u32, PaymentError> {
    match order {
        0 => Err(PaymentError::Declined),
        order => Ok(order),
    }
}

#[idempotent(payload = order, key_prefix = "anyhow")]
async fn with_anyhow(order: u32) -> anyhow::Result<u32> {
    Ok(order)
}

#[tokio::test]
async fn every_kind_of_error_type_keeps_the_handlers_error_and_ours() {
    let harness = Harness::default();
    let error = harness.within(with_enum(0)).await.unwrap_err();
    assert!(matches!(error, PaymentError::Declined));
    harness.clock.set(-1);
    let error = harness.within(with_enum(1)).await.unwrap_err();
    assert!(matches!(&error, PaymentError::Idempotency(error) if error.kind() == Environment));
    let reported = idempotency_lambda::diagnostic(error).error_type;
    assert_eq!(reported, "IdempotencyEnvironment");
    let error = harness.within(with_anyhow(1)).await.unwrap_err();
    let error = error.context("while paying");
    let reported = idempotency_lambda::diagnostic(error).error_type;
    assert_eq!(reported, "IdempotencyEnvironment");
}

fn held(settings: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Operation {
    keyed(|of| settings(of.local_cache(8).on_timeout(OnTimeout::Hold)))
}

/// Makes a call whose handler panics, and checks that its caller sees the panic.
async fn panics(harness: &Harness, charge: &Operation) {
    let handler = async |_| resume_unwind(Box::new("after the charge"));
    let call = harness.call_with::<u32, _>(charge, order(), handler);
    let panic = unless_it_panics(call).await.unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"after the charge"));
}

#[tokio::test]
async fn under_rerun_a_panic_propagates_and_leaves_a_mark() {
    for on_error in [OnError::Release, OnError::Record] {
        let (harness, charge) = (Harness::default(), keyed(|of| of.on_error(on_error)));
        panics(&harness, &charge).await;
        let mark = Field::Value("unreported: panic".to_owned());
        assert_eq!(harness.record(&charge, &json!(7)).failure, mark);
        assert_eq!(harness.requests(), [1, 1, 0, 0]);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_keeps_its_claim_until_the_lease_ends() {
    let (harness, charge) = (Harness::default(), charge());
    let handler = async |_| std::future::pending().await;
    let stuck = Box::pin(harness.end_with::<u32, _>(&charge, order(), handler));
    tokio::select! {
        biased;
        _ = stuck => unreachable!("it never returns"),
        () = std::future::ready(()) => {}
    }
    let again = async || harness.end(&charge, order()).await;
    assert_eq!(again().await, Refused(AlreadyInProgress));
    harness.pass(29_999);
    assert_eq!(again().await, Refused(AlreadyInProgress));
    harness.pass(2);
    assert_eq!(again().await, Ran(2));
}

#[tokio::test]
async fn under_hold_a_panic_propagates_is_not_recorded_and_its_key_waits_for_an_operator() {
    for on_error in [OnError::Release, OnError::Record] {
        let (harness, charge) = (Harness::default(), held(|of| of.on_error(on_error)));
        panics(&harness, &charge).await;
        let claim = harness.record(&charge, &json!(7));
        assert_eq!(claim.status, Field::Value(Status::InProgress));
        assert_eq!(claim.failure, Field::Absent);
        assert!(claim.owner.exists());
        assert_eq!(harness.requests(), [1, 1, 0, 0], "its lease has ended");

        let again = async || harness.end(&charge, order()).await;
        assert_eq!(again().await, Refused(Unresolved));
        harness.pass(30_001);
        assert_eq!(again().await, Refused(Unresolved));
        assert_eq!(harness.record(&charge, &json!(7)), claim);
    }
}

#[tokio::test]
async fn under_hold_a_returned_error_frees_the_key() {
    let (harness, charge) = (Harness::default(), held(|of| of));
    for _ in 0..2 {
        let declined = async |_| Err::<u32, _>("declined".into());
        let end = harness.end_with(&charge, order(), declined).await;
        assert_eq!(end, Failed("declined".to_owned()));
    }
    assert!(harness.store.inner().is_empty());
}

/// Makes a call that panics while a duplicate of its process follows it. Returns the duplicate's end and its time in milliseconds.
async fn beside_a_panic(charge: &Operation, harness: &Harness) -> (End<usize>, i64) {
    let (panics, now) = oneshot::channel::<()>();
    let first = async {
        let run = harness.call_with::<u32, _>(charge, order(), async |_| {
            now.await?;
            resume_unwind(Box::new("after the charge"))
        });
        assert!(
            unless_it_panics(run).await.is_err(),
            "the caller sees the panic"
        );
    };
    let duplicate = async {
        let_others_run(1).await;
        let deadline = harness.deadline_in(Duration::from_secs(60));
        let process = harness.backend.clone();
        let call = harness.call_in(process, deadline, charge, order(), async |run| Ok(run));
        (end(call.await), harness.elapsed())
    };
    let time = async {
        let_others_run(4).await;
        panics.send(()).unwrap();
        loop {
            let_others_run(4).await;
            harness.pass(100);
        }
    };
    let calls = async { tokio::join!(first, duplicate).1 };
    tokio::select! {
        biased;
        result = calls => result,
        () = time => unreachable!("time never ends"),
    }
}

#[tokio::test]
async fn under_hold_a_duplicate_that_follows_a_panicking_call_does_not_run_in_its_place() {
    let charge = held(|of| of.on_in_progress(OnInProgress::Wait));
    let harness = Harness::default();
    let (end, after) = beside_a_panic(&charge, &harness).await;
    assert_eq!(end, Refused(Unresolved));
    assert!(after < 3_000, "{after} ms");
    assert!(harness.record(&charge, &json!(7)).owner.exists());
}

#[tokio::test]
async fn under_hold_a_duplicate_in_the_process_of_a_panicking_call_gets_in_progress_at_once() {
    let (harness, charge) = (Harness::default(), held(|of| of));
    let refused = Refused(AlreadyInProgress);
    assert_eq!(beside_a_panic(&charge, &harness).await, (refused, 0));
    let process = harness.backend.clone();
    let now = Deadline::At(harness.now());
    let again = harness.call_in(process, now, &charge, order(), async |run| Ok(run));
    assert_eq!(end(again.await), Refused(Unresolved));
}

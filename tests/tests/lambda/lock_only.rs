//! `store_when = "`false`"`: no response is stored, so a key is a lock for as long as a run takes.

use std::time::Duration;

use idempotency_lambda::ErrorKind::{AlreadyInProgress, Unresolved};
use idempotency_lambda::{
    BoxError, Call, OnInProgress, OnTimeout, Operation, OperationBuilder, idempotent,
};
use idempotency_tests::End::{NotStored, Refused};
use idempotency_tests::{End, Harness, claim_of_another, keyed};
use serde_json::json;

use crate::{let_others_run, order, order_of};

fn lock() -> Operation {
    locking(|of| of)
}

fn locking(set: impl FnOnce(OperationBuilder) -> OperationBuilder) -> Operation {
    keyed(|of| set(of.store_when("`false`").local_cache(8)))
}

/// Runs `second` while a first call runs. Returns the ends of both.
async fn beside_a_run<T>(
    harness: &Harness,
    lock: &Operation,
    second: impl Future<Output = T>,
) -> (End<usize>, T) {
    let (start, started) = tokio::sync::oneshot::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let first = harness.end_with(lock, order(), async move |run| {
        start.send(()).unwrap();
        stopped.await.unwrap();
        Ok(run)
    });
    let second = async {
        started.await.unwrap();
        let mut second = Box::pin(second);
        for _ in 0..16 {
            tokio::select! {
                biased;
                end = &mut second => {
                    stop.send(()).unwrap();
                    return end;
                }
                () = let_others_run(1) => {}
            }
        }
        // It waits for the first call.
        stop.send(()).unwrap();
        second.await
    };
    tokio::join!(first, second)
}

#[tokio::test]
async fn each_call_runs_after_the_one_before_has_ended_and_none_gets_its_response() {
    let (harness, lock) = (Harness::default(), lock());
    for run in 1..=3 {
        assert_eq!(harness.end(&lock, order()).await, NotStored(run));
    }
    // The lock has no payload.
    assert_eq!(
        harness.end_elsewhere(&lock, order_of(43)).await,
        NotStored(4)
    );
}

#[tokio::test]
async fn a_call_beside_a_run_is_refused_in_this_process_and_in_others() {
    let (harness, lock) = (Harness::default(), lock());
    let (first, second) = beside_a_run(&harness, &lock, harness.end(&lock, order())).await;
    assert_eq!((first, second), (NotStored(1), Refused(AlreadyInProgress)));
    let elsewhere = harness.end_elsewhere(&lock, order());
    let (first, second) = beside_a_run(&harness, &lock, elsewhere).await;
    assert_eq!((first, second), (NotStored(2), Refused(AlreadyInProgress)));
    assert_eq!(harness.end(&lock, order()).await, NotStored(3));
}

#[tokio::test]
async fn a_call_that_waits_runs_after_the_first_and_does_not_get_its_response() {
    let lock = locking(|of| of.on_in_progress(OnInProgress::Wait));
    let harness = Harness::default();
    let (first, second) = beside_a_run(&harness, &lock, harness.end(&lock, order())).await;
    assert_eq!((first, second), (NotStored(1), NotStored(2)), "one process");
    let harness = Harness::advancing();
    let elsewhere = harness.end_elsewhere(&lock, order());
    let (first, second) = beside_a_run(&harness, &lock, elsewhere).await;
    assert_eq!(
        (first, second),
        (NotStored(1), NotStored(2)),
        "two processes"
    );
}

#[tokio::test]
async fn after_a_kill_the_key_is_free_when_the_lease_has_ended_and_held_under_hold() {
    let holds = locking(|of| of.on_timeout(OnTimeout::Hold));
    for (lock, after) in [(lock(), NotStored(1)), (holds, Refused(Unresolved))] {
        let harness = Harness::default();
        harness.insert(&lock, &json!(7), claim_of_another(1_000));
        assert_eq!(
            harness.end(&lock, order()).await,
            Refused(AlreadyInProgress)
        );
        harness.pass(1_001);
        assert_eq!(harness.end(&lock, order()).await, after);
    }
}

#[tokio::test]
async fn a_late_owner_cannot_free_the_claim_of_the_next_and_does_not_learn_of_it() {
    let (harness, lock) = (Harness::default(), lock());
    let late = harness.end_with(&lock, order(), async |run| {
        harness.pass(30_001);
        let next = harness.another_process();
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let taken = harness.call_in(next, deadline, &lock, order(), async |next| Ok((run, next)));
        Ok(taken.await?.into_response())
    });
    assert_eq!(late.await, NotStored((1, 2)), "two ran at once");
    let (harness, taken_over) = (Harness::default(), claim_of_another(90_000));
    let late = harness.end_with(&lock, order(), async |run| {
        harness.pass(30_001);
        harness.insert(&lock, &json!(7), taken_over.clone());
        Ok(run)
    });
    assert_eq!(late.await, NotStored(1));
    assert_eq!(harness.record(&lock, &json!(7)), taken_over);
    assert_eq!(
        harness.end(&lock, order()).await,
        Refused(AlreadyInProgress)
    );
}

#[idempotent(payload = customer, key_prefix = "locked", store_when = "`false`")]
async fn settle(customer: u64, call: Call) -> Result<String, BoxError> {
    Ok(format!("{customer}: {:?}", call.which_run()))
}

#[tokio::test]
async fn a_run_after_another_is_not_the_first() {
    let harness = Harness::default();
    for expected in ["7: First", "7: Unknown", "7: Unknown"] {
        let settled = harness.within(settle(7)).await;
        assert_eq!(settled.unwrap(), expected);
    }
}

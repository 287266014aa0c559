//! Duplicates of a call whose request to the store hangs: none of them waits long.

use std::time::Duration;

use idempotency_core::time::EpochMillis;
use idempotency_lambda::{BoxError, ErrorKind, Operation};
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, ours};
use tokio::sync::oneshot;

use super::{charge, charge_that_waits, order};

/// Makes several duplicates, one after another, of a call whose request hangs. Returns the result and the duration in
/// milliseconds of each.
async fn beside_a_hanging_request(
    harness: &Harness,
    charge: &Operation,
    first_ends: Result<&'static str, &'static str>,
    duplicates: usize,
) -> Vec<(i64, Result<String, ErrorKind>)> {
    let first = harness.call_with(charge, order(), async |_| {
        first_ends.map(str::to_owned).map_err(BoxError::from)
    });
    let duplicates = async {
        let mut results = Vec::new();
        tokio::task::yield_now().await;
        for _ in 0..duplicates {
            let begun = harness.now().get();
            let call = harness.call_with(charge, order(), async |_| Ok("again".to_owned()));
            let result = match call.await {
                Ok(outcome) => Ok(outcome.into_response()),
                Err(error) => Err(ours(&error).kind()),
            };
            results.push((harness.now().get() - begun, result));
        }
        results
    };
    let time = async {
        loop {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            harness.clock.advance(Duration::from_millis(100));
        }
    };
    let first = async {
        let _ = first.await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = first => unreachable!("it never ends"),
        results = duplicates => results,
        () = time => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn a_completion_whose_reply_hangs_delays_a_duplicate_by_one_second() {
    for charge in [charge(), charge_that_waits()] {
        let harness = Harness::default();
        let hangs = StoreFault::HangAfter;
        harness.store.inject(StoreOperation::Update, 1, hangs);
        let results = beside_a_hanging_request(&harness, &charge, Ok("paid"), 2).await;
        let paid = || Ok("paid".to_owned());
        assert_eq!(results, [(1_000, paid()), (0, paid())]);
    }
}

#[tokio::test]
async fn a_release_whose_reply_hangs_delays_a_duplicate_by_one_second() {
    let harness = Harness::default();
    let hangs = StoreFault::HangAfter;
    harness.store.inject(StoreOperation::Delete, 1, hangs);
    let results = beside_a_hanging_request(&harness, &charge(), Err("declined"), 1).await;
    assert_eq!(results, [(1_000, Ok("again".to_owned()))]);
}

#[tokio::test]
async fn a_claim_that_hangs_delays_one_duplicate_and_not_the_next() {
    let harness = Harness::default();
    harness
        .store
        .inject(StoreOperation::Put, 1, StoreFault::Hang);
    let results = beside_a_hanging_request(&harness, &charge(), Ok("paid"), 3).await;
    let again = || Ok("again".to_owned());
    assert_eq!(results, [(1_000, again()), (0, again()), (0, again())]);
}

/// Runs `second` while a first call of this process waits for a run in another process.
async fn beside_a_call_that_waits<T>(
    harness: &Harness,
    charge: &Operation,
    elsewhere_ends: impl Future<Output = Result<String, BoxError>>,
    second: impl AsyncFnOnce() -> T,
) -> T {
    let (backend, order) = (harness.another_process(), order());
    let deadline = harness.deadline_in(Duration::from_secs(600));
    let elsewhere = charge.run(&order, deadline, || elsewhere_ends);
    let elsewhere = idempotency_lambda::with_backend(backend, elsewhere);
    let first = async {
        tokio::task::yield_now().await;
        harness.call(charge, order.clone()).await
    };
    let second = async {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        second().await
    };
    let (elsewhere, first) = (async { drop(elsewhere.await) }, async { drop(first.await) });
    let others = async {
        tokio::join!(elsewhere, first);
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = others => unreachable!("it never ends"),
        second = second => second,
    }
}

#[tokio::test]
async fn a_duplicate_of_a_waiting_call_gets_the_end_of_the_other_processs_lease() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    let order = order();
    let error = beside_a_call_that_waits(&harness, &charge, std::future::pending(), async || {
        let deadline = harness.deadline_in(Duration::from_millis(200));
        let call = charge.run(&order, deadline, async || Ok::<_, BoxError>(String::new()));
        let call = idempotency_lambda::with_backend(harness.backend.clone(), call);
        call.await.unwrap_err()
    });
    let text = error.await.to_string();
    let lease_end = EpochMillis::new(idempotency_tests::START + 600_000);
    assert!(text.contains(&lease_end.to_string()), "{text}");
}

#[tokio::test]
async fn a_read_that_hangs_delays_a_waiting_call_by_three_seconds_at_most() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    harness
        .store
        .inject(StoreOperation::Read, 1, StoreFault::Hang);
    let (go_on, wait) = oneshot::channel();
    let ends = async {
        wait.await?;
        Ok("elsewhere".to_owned())
    };
    let took = beside_a_call_that_waits(&harness, &charge, ends, async || {
        let begun = harness.now().get();
        let second = harness.call_with(&charge, order(), async |_| Ok("again".to_owned()));
        let time = async {
            go_on.send(()).unwrap();
            loop {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                harness.clock.advance(Duration::from_millis(100));
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = second => outcome.unwrap(),
            () = time => unreachable!("it never ends"),
        };
        assert_eq!(outcome.into_response(), "elsewhere");
        harness.now().get() - begun
    });
    assert!((1..=3_000).contains(&took.await));
}

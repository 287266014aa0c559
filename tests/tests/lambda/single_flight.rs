//! Single flight: duplicates in one process follow the first call without a request to the store.
//!
//! Duplicates of a call whose request to the store hangs: none of them waits long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_core::protocol::Source;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{BoxError, ErrorKind, OnInProgress, Operation, Outcome, OutcomeKind};
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{Harness, Table, keyed, ours};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

fn charge() -> Operation {
    keyed(|of| of.validate("amount"))
}

fn charge_that_waits() -> Operation {
    keyed(|of| of.validate("amount").on_in_progress(OnInProgress::Wait))
}

fn is_shared<R>(outcome: &Outcome<R>) -> bool {
    matches!(outcome.kind(), OutcomeKind::Replayed(replay) if replay.source() == Source::ConcurrentCall)
}

/// Makes sixteen calls at once on a table. Returns their results, the number of runs, and the requests to the table.
async fn sixteen(charge: Operation) -> (Vec<Result<Outcome<usize>, BoxError>>, usize, Vec<String>) {
    let table = Arc::new(Table::start().await.unwrap());
    let (charge, runs) = (Arc::new(charge), Arc::new(AtomicUsize::new(0)));
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let (table, charge, runs) = (Arc::clone(&table), Arc::clone(&charge), Arc::clone(&runs));
        calls.spawn(async move {
            table
                .call(&charge, &order(), async || {
                    // Lets the other calls see that this one runs.
                    tokio::task::yield_now().await;
                    Ok(runs.fetch_add(1, Ordering::Relaxed) + 1)
                })
                .await
        });
    }
    let results = calls.join_all().await;
    let requests = table.requests().into_iter().map(|(operation, _)| operation);
    (results, runs.load(Ordering::Relaxed), requests.collect())
}

#[tokio::test]
async fn of_concurrent_duplicates_that_wait_one_asks_the_store_and_the_others_share_its_response() {
    let (results, runs, requests) = sixteen(charge_that_waits()).await;
    assert_eq!(runs, 1);
    assert_eq!(requests, ["PutItem", "UpdateItem"]);
    let outcomes: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        outcomes.iter().filter(|outcome| is_shared(outcome)).count(),
        15
    );
    assert!(outcomes.iter().all(|outcome| *outcome.response() == 1));
}

#[tokio::test]
async fn of_concurrent_duplicates_that_do_not_wait_all_but_one_are_refused_without_a_request() {
    let (results, runs, requests) = sixteen(charge()).await;
    assert_eq!(runs, 1);
    assert_eq!(requests, ["PutItem", "UpdateItem"]);
    let refused = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(|error| ours(error).kind());
    assert_eq!(
        refused.collect::<Vec<_>>(),
        vec![ErrorKind::AlreadyInProgress; 15]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_several_threads_every_follower_wakes_and_gets_the_same_response() {
    let harness = Arc::new(Harness::default());
    let charge = Arc::new(charge_that_waits());
    for key in 0..50 {
        let mut calls = JoinSet::new();
        for _ in 0..16 {
            let (harness, charge) = (Arc::clone(&harness), Arc::clone(&charge));
            calls.spawn(async move {
                let order = json!({ "order_id": key, "amount": 42 });
                let call = harness.call_with(&charge, order, async |run| {
                    tokio::task::yield_now().await;
                    Ok(run)
                });
                call.await.map(Outcome::into_response)
            });
        }
        let responses = calls.join_all().await;
        let responses: Vec<_> = responses.into_iter().map(Result::unwrap).collect();
        assert_eq!(responses, vec![key + 1; 16]);
    }
    assert_eq!(harness.runs(), 50);
}

/// Runs `second` while a first call runs. The first call ends when `second` sends on its channel.
async fn beside_a_run<T>(
    harness: &Harness,
    charge: &Operation,
    first_ends: Result<&'static str, &'static str>,
    second: impl AsyncFnOnce(oneshot::Sender<()>) -> T,
) -> T {
    let (go_on, wait) = oneshot::channel();
    let first = harness.call_with(charge, order(), async |_| {
        wait.await?;
        first_ends.map(str::to_owned).map_err(BoxError::from)
    });
    let second = async {
        tokio::task::yield_now().await;
        second(go_on).await
    };
    let (_, second) = tokio::join!(first, second);
    second
}

#[tokio::test]
async fn a_call_with_another_payload_gets_a_mismatch_and_not_in_progress() {
    let harness = Harness::default();
    let charge = charge();
    let error = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let other = json!({ "order_id": 7, "amount": 99 });
        let error = harness.call(&charge, other).await.unwrap_err();
        go_on.send(()).unwrap();
        error
    });
    assert_eq!(ours(&error.await).kind(), ErrorKind::PayloadMismatch);
}

#[tokio::test]
async fn another_operation_of_the_process_does_not_follow() {
    let harness = Harness::default();
    let refund = keyed(|of| of.key_prefix("refund"));
    let charge = charge();
    let outcome = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let outcome = harness.call(&refund, order()).await;
        go_on.send(()).unwrap();
        outcome
    });
    assert!(!outcome.await.unwrap().is_replayed());
}

#[tokio::test]
async fn a_follower_of_a_run_that_fails_runs_itself() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    let outcome = beside_a_run(&harness, &charge, Err("declined"), async |go_on| {
        let second = harness.call_with(&charge, order(), async |_| Ok("paid".to_owned()));
        let (outcome, ()) = tokio::join!(second, async { go_on.send(()).unwrap() });
        outcome
    })
    .await
    .unwrap();
    assert!(!outcome.is_replayed());
    assert_eq!(
        (harness.runs(), outcome.into_response()),
        (2, "paid".to_owned())
    );
    assert_eq!(harness.requests(), [2, 1, 1, 0], "no call polled the store");
}

#[tokio::test]
async fn a_follower_of_an_unconfirmed_response_asks_the_store() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    // No try of the completion reaches the store.
    for nth in 1..=4 {
        harness.inject(StoreOperation::Update, nth, StoreFault::LoseRequest);
    }
    let outcome = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let second = harness.call_with(&charge, order(), async |_| Ok("again".to_owned()));
        let others = async {
            go_on.send(()).unwrap();
            // The pauses between the tries of the first call, then the end of its lease.
            for _ in 0..200 {
                harness.clock.advance(Duration::from_millis(200));
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(second, others).0
    })
    .await;
    // The claim was never completed, and its lease outlasts the second call.
    assert_eq!(
        ours(&outcome.unwrap_err()).kind(),
        ErrorKind::AlreadyInProgress
    );
    let [puts, _, _, reads] = harness.requests();
    assert!(puts == 2 && reads > 0, "it asked the store itself");
}

#[tokio::test]
async fn a_run_that_outlives_its_lease_delays_no_duplicate() {
    for charge in [charge(), charge_that_waits()] {
        let harness = Harness::default();
        let outcome = beside_a_run(&harness, &charge, Ok("slow"), async |go_on| {
            harness.clock.advance(Duration::from_millis(30_001));
            let next = harness.call_with(&charge, order(), async |_| Ok("next".to_owned()));
            let outcome = next.await;
            go_on.send(()).unwrap();
            outcome
        });
        assert_eq!(outcome.await.unwrap().into_response(), "next");
    }
}

#[tokio::test]
async fn a_follower_asks_the_store_when_the_leaders_lease_expires() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    let outcome = beside_a_run(&harness, &charge, Ok("slow"), async |go_on| {
        // The second call has 10 s more than the first.
        harness.clock.advance(Duration::from_secs(10));
        let second = harness.call_with(&charge, order(), async |_| Ok("next".to_owned()));
        let others = async {
            tokio::task::yield_now().await;
            harness.clock.advance(Duration::from_millis(20_001));
            tokio::task::yield_now().await;
            go_on.send(()).unwrap();
        };
        tokio::join!(second, others).0
    });
    assert_eq!(outcome.await.unwrap().into_response(), "next");
}

#[tokio::test]
async fn followers_of_a_call_that_is_dropped_ask_the_store() {
    let harness = Harness::default();
    let charge = charge_that_waits();
    let (started, mut has_started) = watch::channel(false);
    let never_ends = harness.call_with(&charge, order(), async |_| {
        started.send_replace(true);
        std::future::pending::<Result<String, BoxError>>().await
    });
    let second = async {
        has_started.wait_for(|started| *started).await.unwrap();
        harness
            .call_with(&charge, order(), async |_| Ok("next".to_owned()))
            .await
    };
    let dropped = async {
        tokio::select! {
            biased;
            _ = never_ends => {}
            () = async { for _ in 0..8 { tokio::task::yield_now().await; } } => {}
        }
        // Its claim is still there until its lease expires.
        for _ in 0..40 {
            harness.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
    };
    let (outcome, ()) = tokio::join!(second, dropped);
    let error = outcome.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
    let [puts, _, _, reads] = harness.requests();
    assert!(puts >= 2 && reads > 0, "it asked the store itself");
}

#[tokio::test]
async fn another_process_asks_the_store() {
    let harness = Harness::default();
    let charge = charge();
    let puts = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let elsewhere = harness.another_process();
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let order = order();
        let call = charge.run(&order, deadline, async || Ok::<_, BoxError>(String::new()));
        let error = idempotency_lambda::with_backend(elsewhere, call).await;
        assert_eq!(
            ours(&error.unwrap_err()).kind(),
            ErrorKind::AlreadyInProgress
        );
        go_on.send(()).unwrap();
        harness.requests()[0]
    });
    assert_eq!(puts.await, 2);
}

#[tokio::test]
async fn a_cached_response_whose_window_has_ended_does_not_hide_a_running_call() {
    let harness = Harness::default();
    let charge = keyed(|of| of.local_cache(8).expires_after(Duration::from_secs(60)));
    harness.call(&charge, order()).await.unwrap();
    harness.clock.advance(Duration::from_secs(120));
    let puts = beside_a_run(&harness, &charge, Ok("new"), async |go_on| {
        for _ in 0..5 {
            assert_eq!(
                harness.refused(&charge, order()).await,
                ErrorKind::AlreadyInProgress
            );
        }
        go_on.send(()).unwrap();
        harness.requests()[0]
    });
    assert_eq!(puts.await, 2, "one of the old run and one of the new run");
}

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
        harness.inject(StoreOperation::Update, 1, hangs);
        let results = beside_a_hanging_request(&harness, &charge, Ok("paid"), 2).await;
        let paid = || Ok("paid".to_owned());
        assert_eq!(results, [(1_000, paid()), (0, paid())]);
    }
}

#[tokio::test]
async fn a_release_whose_reply_hangs_delays_a_duplicate_by_one_second() {
    let harness = Harness::default();
    let hangs = StoreFault::HangAfter;
    harness.inject(StoreOperation::Delete, 1, hangs);
    let results = beside_a_hanging_request(&harness, &charge(), Err("declined"), 1).await;
    assert_eq!(results, [(1_000, Ok("again".to_owned()))]);
}

#[tokio::test]
async fn a_claim_that_hangs_delays_one_duplicate_and_not_the_next() {
    let harness = Harness::default();
    harness.inject(StoreOperation::Put, 1, StoreFault::Hang);
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
        let call = harness.within(call);
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
    harness.inject(StoreOperation::Read, 1, StoreFault::Hang);
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

//! Single flight: duplicates in one process follow the first call without a request to the store.
//!
//! Duplicates of a call whose request to the store hangs: none of them waits long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_core::protocol::Source;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::ErrorKind::AlreadyInProgress;
use idempotency_lambda::{BoxError, OnInProgress, Operation, Outcome, OutcomeKind, with_backend};
use idempotency_testkit::store::StoreFault::{Hang, HangAfter, LoseRequest};
use idempotency_testkit::store::StoreOperation::{Delete, Put, Read, Update};
use idempotency_tests::End::{Ran, Refused, Replayed};
use idempotency_tests::{End, Harness, START, Table, end, keyed};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::{let_others_run, order};

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
    let shared = outcomes.iter().filter(|outcome| is_shared(outcome));
    assert_eq!(shared.count(), 15);
    assert!(outcomes.iter().all(|outcome| *outcome.response() == 1));
}

#[tokio::test]
async fn of_concurrent_duplicates_that_do_not_wait_all_but_one_are_refused_without_a_request() {
    let (results, runs, requests) = sixteen(charge()).await;
    assert_eq!(runs, 1);
    assert_eq!(requests, ["PutItem", "UpdateItem"]);
    let mut ends: Vec<_> = results.into_iter().map(end).collect();
    ends.retain(|end| *end != Ran(1));
    assert!(ends.iter().all(|end| *end == Refused(AlreadyInProgress)));
    assert_eq!(ends.len(), 15);
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

/// Calls with a handler that returns this text.
async fn call(harness: &Harness, charge: &Operation, text: &str) -> End<String> {
    let handler = async |_| Ok(text.to_owned());
    harness.end_with(charge, order(), handler).await
}

fn ran(text: &str) -> End<String> {
    Ran(text.to_owned())
}

fn replayed(text: &str) -> End<String> {
    Replayed(text.to_owned())
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
        let_others_run(1).await;
        second(go_on).await
    };
    tokio::join!(first, second).1
}

#[tokio::test]
async fn another_operation_of_the_process_does_not_follow() {
    let (harness, charge) = (Harness::default(), charge());
    let refund = keyed(|of| of.key_prefix("refund"));
    let end = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let end = harness.end(&refund, order()).await;
        go_on.send(()).unwrap();
        end
    });
    assert_eq!(end.await, Ran(2));
}

#[tokio::test]
async fn a_follower_of_a_run_that_fails_runs_itself() {
    let (harness, charge) = (Harness::default(), charge_that_waits());
    let end = beside_a_run(&harness, &charge, Err("declined"), async |go_on| {
        let go_on = async { go_on.send(()).unwrap() };
        tokio::join!(call(&harness, &charge, "paid"), go_on).0
    });
    assert_eq!(end.await, ran("paid"));
    assert_eq!(harness.runs(), 2);
    assert_eq!(harness.requests(), [2, 1, 1, 0], "no call polled the store");
}

#[tokio::test]
async fn a_follower_of_an_unconfirmed_response_asks_the_store() {
    let (harness, charge) = (Harness::default(), charge_that_waits());
    // No try of the completion reaches the store.
    harness.fail(Update, 4, LoseRequest);
    let end = beside_a_run(&harness, &charge, Ok("paid"), async |go_on| {
        let others = async {
            go_on.send(()).unwrap();
            // The pauses between the tries of the first call, then the end of its lease.
            for _ in 0..200 {
                harness.pass(200);
                let_others_run(1).await;
            }
        };
        tokio::join!(call(&harness, &charge, "again"), others).0
    });
    // The claim was never completed, and its lease outlasts the second call.
    assert_eq!(end.await, Refused(AlreadyInProgress));
    let [puts, _, _, reads] = harness.requests();
    assert!(puts == 2 && reads > 0, "it asked the store itself");
}

#[tokio::test]
async fn a_run_that_outlives_its_lease_delays_no_duplicate() {
    for charge in [charge(), charge_that_waits()] {
        let harness = Harness::default();
        let end = beside_a_run(&harness, &charge, Ok("slow"), async |go_on| {
            harness.pass(30_001);
            let end = call(&harness, &charge, "next").await;
            go_on.send(()).unwrap();
            end
        });
        assert_eq!(end.await, ran("next"));
    }
}

#[tokio::test]
async fn a_follower_asks_the_store_when_the_leaders_lease_expires() {
    let (harness, charge) = (Harness::default(), charge_that_waits());
    let end = beside_a_run(&harness, &charge, Ok("slow"), async |go_on| {
        // The second call has 10 s more than the first.
        harness.pass(10_000);
        let others = async {
            let_others_run(1).await;
            harness.pass(20_001);
            let_others_run(1).await;
            go_on.send(()).unwrap();
        };
        tokio::join!(call(&harness, &charge, "next"), others).0
    });
    assert_eq!(end.await, ran("next"));
}

#[tokio::test]
async fn followers_of_a_call_that_is_dropped_ask_the_store() {
    let (harness, charge) = (Harness::default(), charge_that_waits());
    let (started, mut has_started) = watch::channel(false);
    let never_ends = harness.call_with(&charge, order(), async |_| {
        started.send_replace(true);
        std::future::pending::<Result<String, BoxError>>().await
    });
    let second = async {
        has_started.wait_for(|started| *started).await.unwrap();
        call(&harness, &charge, "next").await
    };
    let dropped = async {
        tokio::select! {
            biased;
            _ = never_ends => {}
            () = let_others_run(8) => {}
        }
        // Its claim is still there until its lease expires.
        for _ in 0..40 {
            harness.pass(1_000);
            let_others_run(1).await;
        }
    };
    let (end, ()) = tokio::join!(second, dropped);
    assert_eq!(end, Refused(AlreadyInProgress));
    let [puts, _, _, reads] = harness.requests();
    assert!(puts >= 2 && reads > 0, "it asked the store itself");
}

#[tokio::test]
async fn a_cached_response_whose_window_has_ended_does_not_hide_a_running_call() {
    let harness = Harness::default();
    let charge = keyed(|of| of.local_cache(8).expires_after(Duration::from_secs(60)));
    harness.call(&charge, order()).await.unwrap();
    harness.pass(120_000);
    let puts = beside_a_run(&harness, &charge, Ok("new"), async |go_on| {
        for _ in 0..5 {
            let end = harness.end(&charge, order()).await;
            assert_eq!(end, Refused(AlreadyInProgress));
        }
        go_on.send(()).unwrap();
        harness.requests()[0]
    });
    assert_eq!(puts.await, 2, "one of the old run and one of the new run");
}

/// Lets time pass without an end.
async fn time_passes(harness: &Harness) {
    loop {
        let_others_run(2).await;
        harness.pass(100);
    }
}

/// Makes several duplicates, one after another, of a call whose request hangs. Returns the duration in milliseconds and the end of
/// each.
async fn beside_a_hanging_request(
    harness: &Harness,
    charge: &Operation,
    first_ends: Result<&'static str, &'static str>,
    duplicates: usize,
) -> Vec<(i64, End<String>)> {
    let first = harness.call_with(charge, order(), async |_| {
        first_ends.map(str::to_owned).map_err(BoxError::from)
    });
    let duplicates = async {
        let mut ends = Vec::new();
        let_others_run(1).await;
        for _ in 0..duplicates {
            let begun = harness.elapsed();
            let end = call(harness, charge, "again").await;
            ends.push((harness.elapsed() - begun, end));
        }
        ends
    };
    let first = async {
        let _ = first.await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = first => unreachable!("it never ends"),
        ends = duplicates => ends,
        () = time_passes(harness) => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn a_completion_whose_reply_hangs_delays_a_duplicate_by_one_second() {
    for charge in [charge(), charge_that_waits()] {
        let harness = Harness::default();
        harness.fail(Update, 1, HangAfter);
        let ends = beside_a_hanging_request(&harness, &charge, Ok("paid"), 2).await;
        assert_eq!(ends, [(1_000, replayed("paid")), (0, replayed("paid"))]);
    }
}

#[tokio::test]
async fn a_release_whose_reply_hangs_delays_a_duplicate_by_one_second() {
    let harness = Harness::default();
    harness.fail(Delete, 1, HangAfter);
    let ends = beside_a_hanging_request(&harness, &charge(), Err("declined"), 1).await;
    assert_eq!(ends, [(1_000, ran("again"))]);
}

#[tokio::test]
async fn a_claim_that_hangs_delays_one_duplicate_and_not_the_next() {
    let harness = Harness::default();
    harness.fail(Put, 1, Hang);
    let ends = beside_a_hanging_request(&harness, &charge(), Ok("paid"), 3).await;
    let again = || (0, replayed("again"));
    assert_eq!(ends, [(1_000, ran("again")), again(), again()]);
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
    let elsewhere = with_backend(backend, elsewhere);
    let first = async {
        let_others_run(1).await;
        harness.call(charge, order.clone()).await
    };
    let second = async {
        let_others_run(4).await;
        second().await
    };
    let others = async {
        let _ends = tokio::join!(elsewhere, first);
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
    let (harness, charge) = (Harness::default(), charge_that_waits());
    let error = beside_a_call_that_waits(&harness, &charge, std::future::pending(), async || {
        let deadline = harness.deadline_in(Duration::from_millis(200));
        let process = harness.backend.clone();
        let call = harness.call_in(process, deadline, &charge, order(), async |run| Ok(run));
        call.await.unwrap_err()
    });
    let text = error.await.to_string();
    let lease_end = EpochMillis::new(START + 600_000);
    assert!(text.contains(&lease_end.to_string()), "{text}");
}

#[tokio::test]
async fn a_read_that_hangs_delays_a_waiting_call_by_three_seconds_at_most() {
    let (harness, charge) = (Harness::default(), charge_that_waits());
    harness.fail(Read, 1, Hang);
    let (go_on, wait) = oneshot::channel();
    let ends = async {
        wait.await?;
        Ok("elsewhere".to_owned())
    };
    let took = beside_a_call_that_waits(&harness, &charge, ends, async || {
        let begun = harness.elapsed();
        let time = async {
            go_on.send(()).unwrap();
            time_passes(&harness).await;
        };
        let end = tokio::select! {
            biased;
            end = call(&harness, &charge, "again") => end,
            () = time => unreachable!("it never ends"),
        };
        assert_eq!(end, replayed("elsewhere"));
        harness.elapsed() - begun
    });
    assert!((1..=3_000).contains(&took.await));
}

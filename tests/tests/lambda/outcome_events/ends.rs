//! The event of each way in which a call can end: a row of `ends.txt`.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use idempotency_core::record::{Field, Record};
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites};
use idempotency_lambda::{
    Call, Deadline, LambdaEvent, Lookup, OnInProgress, OnStoreError, OnTimeout, Steps, idempotent,
};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::StoreFault::{LoseReply, LoseRequest, Throttle, TooLarge};
use idempotency_testkit::store::StoreOperation::{Delete, Put, Read, Transact, Update};
use idempotency_tests::{claim_of_another, unless_it_panics};

use super::*;
use crate::{Unwritable, variable};

const ENDS: &str = include_str!("ends.txt");

/// Checks that `calls` emit the events of these rows and no others.
async fn all_end(rows: &[&str], calls: impl Future<Output = ()>) {
    let lines = recorded(calls).await;
    assert_eq!(lines.len(), rows.len(), "{rows:?}: {lines:#?}");
    for (name, line) in rows.iter().zip(lines) {
        assert!(!line.contains("s3cr3t"), "{name}: {line}");
        let line = line.trim_end().replace(KEY, "{key}");
        let row = |row: &'static str| {
            row.strip_prefix(name)?
                .strip_prefix(" | ")?
                .split_once(" | ")
        };
        let Some((level, fields)) = ENDS.lines().find_map(row) else {
            panic!("{name} has no row: {line}");
        };
        let names_its_operation = fields.starts_with("operation=");
        let operation = if names_its_operation {
            ""
        } else {
            "operation=local.shop.charge "
        };
        let expected = format!("{level} idempotency idempotent call: {operation}{fields}");
        match expected.strip_suffix(" ..") {
            Some(begin) => assert!(line.starts_with(begin), "{name}: {line}"),
            None => assert_eq!(line, expected, "{name}"),
        }
    }
}

/// Checks the only event of a call. Other tests check its result.
async fn ends<R>(row: &str, call: impl Future<Output = Result<Outcome<R>, BoxError>>) {
    all_end(&[row], async { drop(call.await) }).await;
}

/// Checks the event of a call whose handler panics.
async fn panics(row: &str, harness: &Harness, operation: &Operation, payload: Value) {
    let handler = async |_| resume_unwind(Box::new("s3cr3t"));
    all_end(&[row], async {
        let call = harness.call_with::<(), _>(operation, payload, handler);
        let caught = unless_it_panics(call).await.unwrap_err();
        assert_eq!(caught.downcast_ref(), Some(&"s3cr3t"));
    })
    .await;
}

async fn declined(_run: usize) -> Result<u32, BoxError> {
    Err("declined: s3cr3t".into())
}

fn keyless() -> Value {
    json!({ "card": "s3cr3t" })
}

fn optional() -> Operation {
    keyed(|of| of.key_required(false))
}

#[tokio::test]
async fn the_event_of_a_run_has_its_times_and_that_of_a_replay_the_source_of_the_response() {
    let harness = Harness::default();
    let cached = keyed(|of| of.local_cache(1));
    for (row, charge) in [
        ("run", &charge()),
        ("replay from the store", &cached),
        ("replay from the cache", &cached),
    ] {
        let call = harness.call_with(charge, order(), async |_| {
            harness.pass(40);
            Ok("s3cr3t response".to_owned())
        });
        ends(row, call).await;
    }
}

#[tokio::test]
async fn the_event_of_a_replay_after_a_run_says_that_the_handler_ran() {
    let (harness, charge) = (Harness::default(), charge());
    all_end(&["run of a successor", "replay after a run"], async {
        let late = harness.call_with(&charge, order(), async |_| {
            harness.pass(31_000);
            harness.call_elsewhere(&charge, order()).await?;
            Ok(9)
        });
        assert!(late.await.unwrap().is_replayed());
    })
    .await;
}

#[tokio::test]
async fn the_event_of_a_run_without_a_deadline_counts_renewals_and_says_that_its_lease_expired() {
    let renewed = keyed(|of| of.renew(true));
    let fixed = keyed(|of| of.lease(Duration::from_secs(30)));
    for (row, operation, pauses) in [
        ("renewed run", &renewed, &[10_000, 10_000][..]),
        ("run that stood still", &renewed, &[40_000]),
        ("run beyond its lease", &fixed, &[40_000]),
    ] {
        let harness = Harness::default();
        let run = operation.run(&order(), Deadline::Inherited, async |_: Call| {
            tokio::task::yield_now().await;
            for pause in pauses {
                harness.pass(*pause);
                tokio::task::yield_now().await;
            }
            Ok::<_, BoxError>(9)
        });
        ends(row, harness.within(run)).await;
    }
}

#[tokio::test]
async fn the_event_of_a_run_whose_steps_are_undone_counts_them() {
    let (harness, keeps) = (Harness::default(), keyed(|of| of.steps(Steps::Keep)));
    let deadline = harness.deadline_in(Duration::from_secs(30));
    let run = keeps.run(&order(), deadline, async |call: Call| {
        let charge = call.named_step("charge");
        let charge = charge.undo(|_: u32, _| std::future::ready(Ok::<_, BoxError>(())));
        charge.run(async || Ok::<_, BoxError>(17)).await?;
        Ok::<_, BoxError>(call.undo(9))
    });
    ends("undone run", harness.within(run)).await;
}

#[tokio::test]
async fn concurrent_duplicates_in_one_process_have_one_event_each() {
    let harness = Harness::default();
    let charge = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    all_end(&["leader", "follower"], async {
        let first = harness.call_with(&charge, order(), async |run| {
            tokio::task::yield_now().await;
            Ok(run)
        });
        let (first, second) = tokio::join!(first, harness.call(&charge, order()));
        assert!(!first.unwrap().is_replayed() && second.unwrap().is_replayed());
    })
    .await;
}

#[tokio::test]
async fn the_event_of_a_failure_does_not_have_its_text() {
    let (harness, charge) = (Harness::default(), charge());
    ends("failure", harness.call_with(&charge, order(), declined)).await;
    harness.fail(Delete, 1, Throttle);
    let again = harness.call_with(&charge, order(), declined);
    ends("failure, release throttled", again).await;
}

#[tokio::test]
async fn a_panic_emits_its_event_before_it_propagates() {
    let harness = Harness::default();
    let held = keyed(|of| of.on_timeout(OnTimeout::Hold));
    panics("panic", &harness, &charge(), order()).await;
    panics("panic, held", &harness, &held, order()).await;
    panics("panic without a key", &harness, &optional(), json!({})).await;
}

#[tokio::test]
async fn the_event_of_a_call_without_protection_has_the_reason() {
    let harness = Harness::default();
    ends("no key", harness.call(&optional(), keyless())).await;
    let off = keyed(|of| of.variables(variable("IDEMPOTENCY_DISABLED", "1")));
    for _ in 0..2 {
        ends("disabled", harness.call(&off, order())).await;
    }
}

#[tokio::test]
async fn the_event_says_why_a_response_was_not_stored() {
    let harness = Harness::default();
    let by_policy = keyed(|of| of.store_when("`false`"));
    ends("not stored by policy", harness.call(&by_policy, order())).await;
    harness.fail(Update, 1, TooLarge);
    ends("too large", harness.call(&charge(), order())).await;
    ends("response unavailable", harness.call(&charge(), order())).await;
}

#[tokio::test]
async fn the_event_of_a_dropped_call_says_how_far_it_got() {
    let harness = Harness::default();
    all_end(&["dropped"], drop_a_call(&harness, order())).await;
}

#[tokio::test]
async fn a_refusal_before_the_claim_emits_one_event_in_every_form() {
    #[idempotent(key = "order_id", key_required = true, key_prefix = "annotated")]
    async fn annotated(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
        Ok(event.payload)
    }

    let harness = Harness::default();
    let required = keyed(|of| of.key_required(true));
    ends("key missing", harness.call(&required, keyless())).await;
    let event = LambdaEvent::new(keyless(), Default::default());
    let by_attribute = async { drop(harness.within(annotated(event)).await) };
    all_end(&["key missing, attribute"], by_attribute).await;
    let failing = keyed(|of| of.key("powertools_json(order_id)"));
    ends("expression failed", harness.call(&failing, order())).await;
    let unreadable = std::collections::BTreeMap::from([(vec![1], 1)]);
    ends("payload of another kind", run(&charge(), &unreadable)).await;
}

#[tokio::test]
async fn a_mistake_that_an_operator_must_correct_is_an_error_event_before_any_request() {
    let harness = Harness::with_clock(ManualClock::at(-1));
    ends("clock before 1970", harness.call(&charge(), order())).await;
    // Without a test's backend, in a process without a table.
    ends("no table", run(&charge(), &order())).await;
}

/// Makes a call without a test's backend.
async fn run(
    operation: &Operation,
    payload: &impl serde::Serialize,
) -> Result<Outcome<u32>, BoxError> {
    let handler = async || Ok(1);
    operation.run(payload, Deadline::Inherited, handler).await
}

#[tokio::test]
async fn the_event_of_a_refusal_by_a_record_has_its_kind() {
    let harness = Harness::default();
    let (charge, id) = (charge(), json!(1));
    harness.insert(&charge, &id, claim_of_another(5_000));
    ends("in progress", harness.call(&charge, order())).await;
    harness.insert(&charge, &id, claim_of_another(-5_000));
    let holds = keyed(|of| of.on_timeout(OnTimeout::Hold));
    ends("unresolved", harness.call(&holds, order())).await;
    let status = Field::Unreadable;
    let record = claim_of_another(5_000);
    harness.insert(&charge, &id, Record { status, ..record });
    ends("corrupt record", harness.call(&charge, order())).await;

    let harness = Harness::default();
    harness.call(&charge, order()).await.unwrap();
    let validates = keyed(|of| of.validate("card"));
    ends("other payload", harness.call(&validates, order())).await;
    let text = harness.call_with(&charge, order(), async |_| Ok(String::new()));
    ends("other response type", text).await;
}

#[tokio::test]
async fn a_call_without_time_has_an_event_of_its_kind() {
    let (harness, charge, order) = (Harness::default(), charge(), order());
    let deadline = harness.deadline_in(Duration::ZERO);
    harness.pass(1);
    let call = charge.run(&order, deadline, async || Ok::<_, BoxError>(1));
    ends("no time", harness.within(call)).await;
}

#[tokio::test]
async fn the_event_of_a_failed_store_has_the_cause_and_the_time() {
    let harness = Harness::advancing();
    harness.fail(Put, 1, Throttle);
    ends("claim throttled", harness.call(&charge(), order())).await;
    harness.fail(Update, 4, Throttle);
    ends("completion throttled", harness.call(&charge(), order())).await;
}

#[tokio::test]
async fn a_lost_claim_and_a_response_that_cannot_be_serialized_are_events_after_the_run() {
    let (harness, charge) = (Harness::default(), charge());
    let loses = harness.call_with(&charge, order(), async |run| {
        harness.insert(&charge, &json!(1), claim_of_another(60_000));
        Ok(run)
    });
    ends("lost ownership", loses).await;
    let harness = Harness::default();
    let unwritable = harness.call_with(&charge, order(), async |_| Ok(Unwritable));
    ends("response not serializable", unwritable).await;
}

#[tokio::test]
async fn the_error_of_a_nested_call_is_not_in_the_event_of_the_outer_call() {
    let (harness, outer) = (Harness::default(), charge());
    let inner = keyed(|of| of.key_prefix("inner").key_required(true));
    all_end(&["inner call", "outer call"], async {
        let call = harness.call_with(&outer, order(), async |_| {
            let inner = harness.call(&inner, json!({})).await;
            inner.map(Outcome::into_response)
        });
        idempotency_tests::ours(&call.await.unwrap_err());
    })
    .await;
}

#[tokio::test]
async fn a_call_with_its_own_store_has_the_same_event() {
    let own = keyed(|of| of.store(Arc::new(MemoryStore::new())));
    ends("own store", run(&own, &order())).await;
}

fn unprotected() -> Operation {
    keyed(|of| of.on_store_error(OnStoreError::RunUnprotected))
}

#[tokio::test]
async fn an_unprotected_run_is_an_outcome_of_its_own() {
    let (harness, charge) = (Harness::default(), unprotected());
    harness.fail(Put, 3, Throttle);
    ends("unprotected run", harness.call(&charge, order())).await;
    let fails = harness.call_with(&charge, order(), declined);
    ends("unprotected failure", fails).await;
    panics("unprotected panic", &harness, &charge, order()).await;
}

#[tokio::test]
async fn an_unprotected_run_whose_claim_was_applied_says_what_became_of_it() {
    for (row, throttled) in [
        ("unprotected run, claim applied", 0),
        ("unprotected run, not stored", 4),
    ] {
        let harness = Harness::advancing();
        harness.fail(Put, 1, LoseReply);
        harness.fail(Read, 1, Throttle);
        harness.fail(Update, throttled, Throttle);
        ends(row, harness.call(&unprotected(), order())).await;
    }
}

#[tokio::test]
async fn a_call_says_that_it_opened_found_or_closed_the_circuit() {
    let harness = Harness::default();
    harness.fail(Put, 5, Throttle);
    let charge = keyed(|of| of.circuit_breaker(true));
    for _ in 0..4 {
        ends("circuit still closed", harness.call(&charge, order())).await;
    }
    ends("circuit opened", harness.call(&charge, order())).await;
    ends("circuit open", harness.call(&charge, order())).await;
    let unprotected = keyed(|of| {
        of.circuit_breaker(true)
            .on_store_error(OnStoreError::RunUnprotected)
    });
    let call = harness.call(&unprotected, order());
    ends("unprotected run, circuit open", call).await;
    harness.pass(1_001);
    ends("circuit closed", harness.call(&charge, order())).await;
}

/// Checks the event of a call whose handler stages a write that takes one from an account, and then ends with `end`.
async fn ends_staged(
    row: &str,
    harness: &Harness,
    operation: &Operation,
    payload: Value,
    end: impl AsyncFnOnce(usize) -> Result<u32, BoxError>,
) {
    let deadline = harness.deadline_in(Duration::from_secs(30));
    let call = operation.run(&payload, deadline, |call: Call| async move {
        take_one(&call);
        end(1).await
    });
    ends(row, harness.within(call)).await;
}

fn take_one(call: &Call) {
    let take = LedgerEntry::add("s3cr3t account", -1).at_least(0);
    let staged = call.stage(|writes: &mut MemoryWrites| {
        writes.push(take);
        Ok::<_, std::convert::Infallible>(())
    });
    staged.unwrap();
}

/// Returns the account's ledger.
fn with_balance(harness: &Harness, balance: i64) -> &MemoryStore {
    let ledger = harness.store.inner();
    ledger.set_balance("s3cr3t account", balance);
    ledger
}

async fn returned(run: usize) -> Result<u32, BoxError> {
    Ok(u32::try_from(run)?)
}

#[tokio::test]
async fn staged_writes_are_applied_with_the_completion() {
    let (harness, charge) = (Harness::default(), charge());
    let ledger = with_balance(&harness, 1);
    ends_staged("staged, applied", &harness, &charge, order(), returned).await;
    assert_eq!(ledger.balance("s3cr3t account"), 0);
    // The reply is lost, and the second transaction finds the completion.
    let harness = Harness::advancing();
    with_balance(&harness, 1);
    harness.fail(Transact, 1, LoseReply);
    ends_staged(
        "staged, found applied",
        &harness,
        &charge,
        order(),
        returned,
    )
    .await;
}

#[tokio::test]
async fn staged_writes_that_are_not_applied_are_named_without_their_content() {
    let (harness, charge) = (Harness::default(), charge());
    let unstored = keyed(|of| of.store_when("@ != `1`"));
    ends_staged("staged, failed", &harness, &charge, order(), declined).await;
    ends_staged("staged, not stored", &harness, &unstored, order(), returned).await;
    ends_staged("staged, rejected", &harness, &charge, order(), returned).await;
}

#[tokio::test]
async fn writes_of_lost_replies_are_unknown_and_those_of_a_late_owner_are_dropped() {
    let (harness, charge) = (Harness::advancing(), charge());
    with_balance(&harness, 5);
    harness.fail(Transact, 4, LoseRequest);
    ends_staged("staged, unknown", &harness, &charge, order(), returned).await;

    let harness = Harness::default();
    let ledger = with_balance(&harness, 5);
    all_end(&["run of a successor", "staged by a late owner"], async {
        let deadline = harness.deadline_in(Duration::from_secs(30));
        let (harness, charge) = (&harness, &charge);
        let late = charge.run(&order(), deadline, |call: Call| async move {
            take_one(&call);
            harness.pass(31_000);
            harness.call_elsewhere(charge, order()).await?;
            Ok::<_, BoxError>(9_usize)
        });
        harness.within(late).await.unwrap();
    })
    .await;
    assert_eq!(ledger.balance("s3cr3t account"), 5);
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_applied_alone() {
    let (harness, optional) = (Harness::default(), optional());
    with_balance(&harness, 1);
    for (row, fails) in [("applied", false), ("rejected", false), ("failed", true)] {
        let row = format!("staged without a key, {row}");
        let end = async |run| {
            if fails {
                declined(run).await
            } else {
                returned(run).await
            }
        };
        ends_staged(&row, &harness, &optional, keyless(), end).await;
    }
}

#[tokio::test]
async fn the_writes_of_an_unprotected_run_are_dropped_if_its_response_is_not_stored_under_a_key() {
    let harness = Harness::default();
    let ledger = with_balance(&harness, 1);
    let unstored = keyed(|of| of.key_required(false).store_when("@ != `1`"));
    let row = "staged without a key, not stored";
    ends_staged(row, &harness, &unstored, keyless(), returned).await;
    assert_eq!(ledger.balance("s3cr3t account"), 1);
    let row = "staged without a key, applied";
    ends_staged(row, &harness, &unstored, keyless(), async |_| Ok(2)).await;
    assert_eq!(ledger.balance("s3cr3t account"), 0);
}

#[tokio::test]
async fn the_event_of_a_call_that_reads_first_counts_the_read_and_notes_its_failure() {
    let reads_first = keyed(|of| of.lookup(Lookup::ReadFirst));
    let harness = Harness::default();
    ends("run after a read", harness.call(&reads_first, order())).await;
    let harness = Harness::default();
    for row in ["run after a failed read", "replay after a failed read"] {
        harness.fail(Read, 1, Throttle);
        ends(row, harness.call(&reads_first, order())).await;
    }
    // The error of the claim comes first.
    let harness = Harness::default();
    harness.fail(Read, 1, LoseReply);
    harness.fail(Put, 1, Throttle);
    let row = "claim throttled after a lost read";
    ends(row, harness.call(&reads_first, order())).await;
}

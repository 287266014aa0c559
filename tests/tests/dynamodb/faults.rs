//! Whole calls on the embedded DynamoDB, with faults on the wire.
//!
//! The requests of each path: the table in `docs/reference/cost.md`.
//!
//! Which claims are takeovers: DynamoDB brings back the claim that they replaced.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::time::Clock;
use idempotency_lambda::{
    BoxError, Bypass, Deadline, ErrorKind, OnTimeout, Operation, observe, with_backend,
};
use idempotency_testkit::dynamodb::Fault;
use idempotency_tests::{End, Table, end, operation, ours, store_on};
use serde_json::{Value, json};

use super::{drop_in_handler, operations, returning};

fn charge() -> Operation {
    operation()
        .key("order_id")
        .validate("amount")
        .build()
        .unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

#[tokio::test]
async fn a_completed_record_has_the_names_and_values_that_other_languages_expect()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    table
        .call(&charge(), &order(), async || Ok(json!({ "paid": true })))
        .await?;
    let item = table.only_item().await?;
    assert_eq!(
        item["id"],
        "local.shop.charge#8f14e45fceea167a5a36dedd4bea2543"
    );
    assert_eq!(item["status"], "COMPLETED");
    assert_eq!(item["expiration"], "1700003600");
    assert_eq!(item["in_progress_expiration"], "1700000030500");
    assert_eq!(item["data"], r#"{"paid":true}"#);
    assert_eq!(item["validation"], "a1d0c6e83f027327d8461063f4ac58a6");
    assert_eq!(item["owner"].len(), 32);
    assert_eq!(item["operation"], "shop::charge");
    assert_eq!(item.len(), 8);
    Ok(())
}

#[tokio::test]
async fn falsy_responses_replay_from_the_table_as_themselves() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let responses = json!([0, false, "", [], {}, null]);
    for (order_id, response) in responses.as_array().unwrap().iter().enumerate() {
        let order = json!({ "order_id": order_id + 1, "amount": 42 });
        for expected in [End::Ran(response.clone()), End::Replayed(response.clone())] {
            let end = returning(&table, &charge(), &order, response.clone()).await;
            assert_eq!(end, expected);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_caller_does_not_notice_a_lost_reply_or_short_throttling() -> Result<(), BoxError> {
    let (put, update) = (|| Fault::on("PutItem"), || Fault::on("UpdateItem"));
    for (faults, expected) in [
        // The call does not get `in progress` because of its own write.
        (vec![put().drop_reply()], End::Ran(1)),
        // The record confirms the completion.
        (vec![update().drop_reply()], End::Replayed(1)),
        (vec![put().throttle(), update().throttle()], End::Ran(1)),
    ] {
        let table = Table::start().await?;
        for fault in faults {
            table.database.inject(fault);
        }
        let end = returning(&table, &charge(), &order(), 1).await;
        assert_eq!(end, expected);
        assert_eq!(table.only_item().await?["status"], "COMPLETED");
    }
    Ok(())
}

/// Asserts that a call completes although this happens while its handler runs, and that a duplicate gets its response.
async fn assert_completes(
    table: &Table,
    meanwhile: impl AsyncFnOnce() -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let handler = async || {
        meanwhile().await?;
        Ok(1)
    };
    let outcome = table.call(&charge(), &order(), handler).await?;
    assert_eq!(outcome.into_response(), 1);
    let duplicate = returning(table, &charge(), &order(), 2).await;
    assert_eq!(duplicate, End::Replayed(1));
    Ok(())
}

#[tokio::test]
async fn a_claim_that_arrives_after_its_caller_gave_up_does_not_change_the_running_calls_claim()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let late = table.database.inject(Fault::on("PutItem").late_arrival());
    let arrives = async || {
        late.release().await;
        Ok(())
    };
    assert_completes(&table, arrives).await
}

#[tokio::test]
async fn a_call_whose_claim_was_evicted_still_completes() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let evicts = async || {
        let id = table.only_item().await?["id"].clone();
        table.database.delete("idempotency", [("id", id)]).await?;
        Ok(())
    };
    assert_completes(&table, evicts).await
}

#[tokio::test]
async fn of_six_duplicates_in_six_processes_one_runs_and_each_gets_its_response_or_is_refused()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    let (runs, order) = (AtomicUsize::new(0), order());
    let call = |process| {
        let deadline = Deadline::At(table.clock.now().plus(Duration::from_secs(30)));
        let call = charge.run(&order, deadline, || async {
            tokio::task::yield_now().await;
            Ok::<_, BoxError>(runs.fetch_add(1, Ordering::Relaxed) + 1)
        });
        with_backend(table.another_process(process), call)
    };
    let (a, b, c, d, e, f) = tokio::join!(call(1), call(2), call(3), call(4), call(5), call(6));
    for result in [a, b, c, d, e, f] {
        match result {
            Ok(outcome) => assert_eq!(outcome.into_response(), 1),
            Err(error) => assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress),
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let requests = table.requests();
    let claims = requests.iter().filter(|(name, _)| name == "PutItem");
    assert_eq!(claims.count(), 6);
    Ok(())
}

#[tokio::test]
async fn a_response_over_400_kb_that_is_not_split_goes_to_its_caller_and_the_handler_never_runs_again()
-> Result<(), BoxError> {
    let off = Table::start_with(|store| store.compress_above(None).split_large_responses(false));
    let table = off.await?;
    let large = "x".repeat(410 * 1024);
    let own = returning(&table, &charge(), &order(), large.clone()).await;
    assert!(own == End::NotStored(large));
    table.clock.advance(Duration::from_secs(60));
    let duplicate = returning(&table, &charge(), &order(), String::new()).await;
    assert_eq!(duplicate, End::Refused(ErrorKind::ResponseUnavailable));
    Ok(())
}

#[tokio::test]
async fn errors_of_permissions_and_missing_tables_name_the_table_and_the_remedy()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let denied = Fault::on("PutItem").respond_with(400, "AccessDeniedException");
    table.database.inject(denied);
    let missing = store_on(&table.database).table("elsewhere").build()?;
    let elsewhere = operation().key("order_id").store(Arc::new(missing));
    let (elsewhere, handler) = (elsewhere.build()?, || async { Ok(1) });
    let elsewhere = elsewhere.run(&order(), Deadline::Inherited, handler);
    let (charge, order) = (charge(), order());
    let denied = table.call(&charge, &order, handler);
    for (called, words) in [
        (denied.await, ["idempotency", "dynamodb:PutItem"]),
        (elsewhere.await, ["elsewhere", "IDEMPOTENCY_TABLE"]),
    ] {
        let error = called.unwrap_err();
        let error = ours(&error);
        assert_eq!(error.kind(), ErrorKind::StoreFailed);
        assert!(!error.handler_ran());
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    Ok(())
}

/// Makes calls one after another. Asserts the end of each, and the requests that it costs.
async fn assert_costs<const N: usize>(
    calls: [(&Operation, End<u8>, &str); N],
) -> Result<(), BoxError> {
    let table = Table::start().await?;
    for (charge, expected, costs) in calls {
        assert_eq!(returning(&table, charge, &order(), 1).await, expected);
        assert_eq!(operations(&table), costs);
    }
    Ok(())
}

#[tokio::test]
async fn each_call_costs_the_documented_requests() -> Result<(), BoxError> {
    let keyed = || operation().key("order_id");
    let (plain, cached) = (keyed().build()?, keyed().local_cache(8).build()?);
    let without = operation().key("receipt_id").key_required(false);
    let without = without.build()?;
    let first = |charge| (charge, End::Ran(1), "PutItem UpdateItem");
    let again = |charge, costs| (charge, End::Replayed(1), costs);
    let free = (&without, End::Bypassed(Bypass::NoKey, 1), "");
    assert_costs([first(&plain), again(&plain, "PutItem!")]).await?;
    assert_costs([first(&cached), again(&cached, "")]).await?;
    // A response that was read from the table is cached too.
    let (read, from_cache) = (again(&cached, "PutItem!"), again(&cached, ""));
    assert_costs([first(&plain), read, from_cache]).await?;
    assert_costs([free]).await
}

#[tokio::test]
async fn a_failed_handler_costs_a_claim_and_a_release() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    let declines = async || Err::<(), _>("declined".into());
    let failed = end(table.call(&charge, &order(), declines).await);
    assert_eq!(failed, End::Failed("declined".to_owned()));
    assert_eq!(operations(&table), "PutItem DeleteItem");
    Ok(())
}

#[tokio::test]
async fn the_writes_of_a_first_run_are_conditional_and_request_the_old_record()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    table.call(&charge, &order(), async || Ok(1)).await?;
    for request in table.database.requests() {
        let (name, body) = (request.operation, request.body);
        let brings_back = &body["ReturnValuesOnConditionCheckFailure"];
        assert_eq!(brings_back, "ALL_OLD", "{name}");
        assert!(body["ConditionExpression"].is_string(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_on_the_record_of_a_dropped_run_is_a_takeover_after_the_lease()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation()
        .key("order_id")
        .key_prefix("takeovers")
        .on_timeout(OnTimeout::Rerun)
        .expires_after(Duration::from_secs(3_600))
        .build()?;
    let taken_over = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&taken_over);
    observe(move |call| {
        if call.operation() == "takeovers" {
            seen.lock().unwrap().push(call.taken_over());
        }
    });
    let order = json!({ "order_id": 7 });
    // The claim of a dropped run stays, as after a timeout.
    drop_in_handler(&table, &charge, &order).await;
    table.clock.advance(Duration::from_secs(31));
    assert_eq!(returning(&table, &charge, &order, 1).await, End::Ran(1));
    // The window of the completed record ends. A claim on it is no takeover.
    table.clock.advance(Duration::from_secs(3_700));
    assert_eq!(returning(&table, &charge, &order, 2).await, End::Ran(2));
    assert_eq!(*taken_over.lock().unwrap(), [false, true, false]);
    Ok(())
}

//! Whole calls on the embedded DynamoDB, through the AWS SDK, with faults on the wire.
//!
//! The requests of each path: the table in `docs/reference/cost.md`.
//!
//! A takeover is known: DynamoDB brings back the claim that a claim replaced.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::time::Clock;
use idempotency_lambda::{
    BoxError, Deadline, ErrorKind, OnTimeout, Operation, observe, with_backend,
};
use idempotency_testkit::dynamodb::Fault;
use idempotency_tests::{Table, operation, ours, store_on};
use serde_json::{Value, json};

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
    let responses = [
        json!(0),
        json!(false),
        json!(""),
        json!([]),
        json!({}),
        json!(null),
    ];
    for (order_id, response) in responses.into_iter().enumerate() {
        let order = json!({ "order_id": order_id + 1, "amount": 42 });
        for is_duplicate in [false, true] {
            let outcome = table
                .call(&charge(), &order, async || Ok(response.clone()))
                .await?;
            assert_eq!(
                (outcome.is_replayed(), outcome.into_response()),
                (is_duplicate, response.clone())
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_call_whose_claims_reply_is_lost_does_not_get_in_progress_because_of_its_own_write()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    table.database.inject(Fault::on("PutItem").drop_reply());
    let outcome = table.call(&charge(), &order(), async || Ok(1)).await?;
    assert_eq!(outcome.into_response(), 1);
    Ok(())
}

#[tokio::test]
async fn a_completion_whose_reply_is_lost_on_the_wire_is_confirmed_by_the_record()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    table.database.inject(Fault::on("UpdateItem").drop_reply());
    let outcome = table.call(&charge(), &order(), async || Ok(1)).await?;
    assert_eq!(outcome.into_response(), 1);
    assert_eq!(table.only_item().await?["status"], "COMPLETED");
    Ok(())
}

#[tokio::test]
async fn the_caller_does_not_notice_short_throttling() -> Result<(), BoxError> {
    let table = Table::start().await?;
    table.database.inject(Fault::on("PutItem").throttle());
    table.database.inject(Fault::on("UpdateItem").throttle());
    let outcome = table.call(&charge(), &order(), async || Ok(1)).await?;
    assert_eq!(outcome.into_response(), 1);
    Ok(())
}

#[tokio::test]
async fn a_claim_that_arrives_after_its_caller_gave_up_does_not_change_the_running_calls_claim()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let late = table.database.inject(Fault::on("PutItem").late_arrival());
    let outcome = table
        .call(&charge(), &order(), async || {
            late.release().await;
            Ok(1)
        })
        .await?;
    assert_eq!(outcome.into_response(), 1);
    assert!(
        table
            .call(&charge(), &order(), async || Ok(2))
            .await?
            .is_replayed()
    );
    Ok(())
}

#[tokio::test]
async fn of_six_duplicates_in_six_processes_one_runs_and_all_get_its_response()
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
    let claims = table
        .requests()
        .into_iter()
        .filter(|(operation, _)| operation == "PutItem");
    assert_eq!(claims.count(), 6);
    Ok(())
}

#[tokio::test]
async fn a_response_over_400_kb_that_is_not_split_goes_to_its_caller_and_the_handler_never_runs_again()
-> Result<(), BoxError> {
    let off = Table::start_with(|store| store.compress_above(None).split_large_responses(false));
    let table = off.await?;
    let large = "x".repeat(410 * 1024);
    let outcome = table
        .call(&charge(), &order(), async || Ok(large.clone()))
        .await?;
    assert_eq!(outcome.into_response().len(), large.len());
    table.clock.advance(Duration::from_secs(60));
    let error = table
        .call(&charge(), &order(), async || Ok(String::new()))
        .await
        .unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::ResponseUnavailable);
    Ok(())
}

#[tokio::test]
async fn a_call_whose_claim_was_evicted_still_completes() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let outcome = table
        .call(&charge(), &order(), async || {
            let id = table.only_item().await?["id"].clone();
            table.database.delete("idempotency", [("id", id)]).await?;
            Ok(1)
        })
        .await?;
    assert_eq!(outcome.into_response(), 1);
    assert!(
        table
            .call(&charge(), &order(), async || Ok(2))
            .await?
            .is_replayed()
    );
    Ok(())
}

#[tokio::test]
async fn errors_of_permissions_and_missing_tables_name_the_table_and_the_remedy()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    table
        .database
        .inject(Fault::on("PutItem").respond_with(400, "AccessDeniedException"));
    let error = table
        .call(&charge(), &order(), async || Ok(1))
        .await
        .unwrap_err();
    let error = ours(&error);
    assert_eq!(error.kind(), ErrorKind::StoreFailed);
    assert!(!error.handler_ran());
    let text = error.to_string();
    assert!(
        text.contains("idempotency") && text.contains("dynamodb:PutItem"),
        "{text}"
    );

    let missing = store_on(&table.database).table("elsewhere").build()?;
    let charge = operation()
        .key("order_id")
        .store(std::sync::Arc::new(missing))
        .build()?;
    let deadline = idempotency_lambda::Deadline::Inherited;
    let error: BoxError = charge
        .run(&order(), deadline, || async { Ok::<_, BoxError>(1) })
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("elsewhere") && text.contains("IDEMPOTENCY_TABLE"),
        "{text}"
    );
    Ok(())
}

/// Returns the operations that the table received. `!` marks a write whose condition failed.
fn operations(table: &Table) -> Vec<String> {
    let mark = |status| if status == Some(200) { "" } else { "!" };
    table
        .requests()
        .into_iter()
        .map(|(operation, status)| format!("{operation}{}", mark(status)))
        .collect()
}

#[tokio::test]
async fn a_first_run_costs_two_writes_and_a_duplicate_one_refused_write() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    table.call(&charge, &order(), async || Ok(1)).await?;
    assert_eq!(operations(&table), ["PutItem", "UpdateItem"]);
    assert!(
        table
            .call(&charge, &order(), async || Ok(2))
            .await?
            .is_replayed()
    );
    assert_eq!(operations(&table), ["PutItem!"]);
    Ok(())
}

#[tokio::test]
async fn a_cached_duplicate_costs_nothing() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").local_cache(8).build()?;
    table.call(&charge, &order(), async || Ok(1)).await?;
    operations(&table);
    assert!(
        table
            .call(&charge, &order(), async || Ok(2))
            .await?
            .is_replayed()
    );
    assert!(operations(&table).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_response_read_from_the_table_is_cached_too() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let elsewhere = operation().key("order_id").build()?;
    table.call(&elsewhere, &order(), async || Ok(1)).await?;
    operations(&table);
    let charge = operation().key("order_id").local_cache(8).build()?;
    for costs in [vec!["PutItem!"], vec![]] {
        let outcome = table.call(&charge, &order(), async || Ok(2)).await?;
        assert!(outcome.is_replayed());
        assert_eq!(operations(&table), costs);
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_handler_costs_a_claim_and_a_release() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    let failed = table
        .call(&charge, &order(), async || Err::<(), _>("declined".into()))
        .await;
    assert_eq!(failed.unwrap_err().to_string(), "declined");
    assert_eq!(operations(&table), ["PutItem", "DeleteItem"]);
    Ok(())
}

#[tokio::test]
async fn a_call_without_a_key_costs_nothing() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("receipt_id").key_required(false).build()?;
    table.call(&charge, &order(), async || Ok(1)).await?;
    assert!(operations(&table).is_empty());
    Ok(())
}

#[tokio::test]
async fn the_writes_of_a_first_run_are_conditional_and_request_the_old_record()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation().key("order_id").build()?;
    table.call(&charge, &order(), async || Ok(1)).await?;
    for request in table.database.requests() {
        assert_eq!(
            request.body["ReturnValuesOnConditionCheckFailure"],
            "ALL_OLD"
        );
        assert!(
            request.body["ConditionExpression"].is_string(),
            "{}",
            request.operation
        );
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
    // The first run is dropped in its handler, as a timeout does it. Its claim stays.
    let (begun, begins) = tokio::sync::oneshot::channel();
    let stuck = table.call(&charge, &order, async || {
        let _ = begun.send(());
        std::future::pending::<Result<u8, BoxError>>().await
    });
    tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), _ = begins => {} }
    table.clock.advance(Duration::from_secs(31));
    let again = table.call(&charge, &order, async || Ok(1)).await?;
    assert!(!again.is_replayed());
    // The window of the completed record ends. A claim on it is no takeover.
    table.clock.advance(Duration::from_secs(3_700));
    let later = table.call(&charge, &order, async || Ok(2)).await?;
    assert!(!later.is_replayed());
    assert_eq!(*taken_over.lock().unwrap(), [false, true, false]);
    Ok(())
}

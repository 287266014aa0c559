//! An operator's decision about a held key, and what running processes do right after it.

use std::time::Duration;

use idempotency_core::protocol::decision::{Decision, Ending};
use idempotency_core::record::{Data, Record, RecordId};
use idempotency_core::store::{Store as _, StoreReply};
use idempotency_core::time::Clock;
use idempotency_lambda::{
    Backend, BoxError, Deadline, DynamoDbStore, ErrorKind, OnTimeout, Operation, with_backend,
};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{End, Table, end, operation, store_on};
use serde_json::{Value, json};

use super::{drop_in_handler, returning};

fn charge() -> Operation {
    operation()
        .key("order_id")
        .validate("amount")
        .on_timeout(OnTimeout::Hold)
        .build()
        .unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
}

fn completed(response: &str) -> Ending {
    Ending::Completed {
        response: Data::new(response),
        expiration: None,
    }
}

/// Returns a store on the table, the id of the only record, and the record.
async fn record(table: &Table) -> Result<(DynamoDbStore, RecordId, Record), BoxError> {
    let store = store_on(&table.database).table("idempotency").build()?;
    let id = RecordId::new(&table.only_item().await?["id"]);
    match store.get(&id).await {
        StoreReply::Found {
            record: Some(record),
            ..
        } => Ok((store, id, record)),
        _ => Err("there is no record".into()),
    }
}

/// Writes the decision about a record that an operator was shown.
async fn write(
    table: &Table,
    (store, id, shown): &(DynamoDbStore, RecordId, Record),
    ending: Ending,
) -> Result<StoreReply, BoxError> {
    let decision = Decision {
        ending,
        by: "ana".to_owned(),
        reason: "seen at the provider".to_owned(),
    };
    let decided = decision.about(shown, table.clock.now(), false, store.limits())?;
    Ok(store.write(id, decided.write, &decided.condition).await)
}

/// Decides about the only record, as `idempotency resolve` does.
async fn decide(table: &Table, ending: Ending) -> Result<(), BoxError> {
    match write(table, &record(table).await?, ending).await? {
        StoreReply::Applied { .. } => Ok(()),
        other => Err(format!("not applied: {other:?}").into()),
    }
}

/// Begins a run that is dropped in its handler, as in a kill, and lets its lease expire.
async fn leave_held(table: &Table, charge: &Operation) {
    drop_in_handler(table, charge, &order()).await;
    table.clock.advance(Duration::from_secs(31));
}

/// Calls the operation in this process. The handler returns 1.
async fn end_in(table: &Table, backend: &Backend, charge: &Operation) -> End<u8> {
    let deadline = Deadline::At(table.clock.now().plus(Duration::from_secs(30)));
    let order = order();
    let call = charge.run(&order, deadline, async || Ok::<u8, BoxError>(1));
    end(with_backend(backend.clone(), call).await)
}

#[tokio::test]
async fn duplicates_of_a_held_key_get_the_response_that_an_operator_gave() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation()
        .key("order_id")
        .validate("amount")
        .on_timeout(OnTimeout::Hold)
        .local_cache(8)
        .build()?;
    leave_held(&table, &charge).await;
    let another = table.another_process(1);
    for process in [&table.backend, &another] {
        let held = end_in(&table, process, &charge).await;
        assert_eq!(held, End::Refused(ErrorKind::Unresolved));
    }
    decide(&table, completed("9")).await?;
    for process in [&table.backend, &another] {
        assert_eq!(end_in(&table, process, &charge).await, End::Replayed(9));
    }
    // Both have it in their local caches now.
    table.requests();
    for process in [&table.backend, &another] {
        assert_eq!(end_in(&table, process, &charge).await, End::Replayed(9));
    }
    assert!(table.requests().is_empty());
    let other_payload = json!({ "order_id": 7, "amount": 43 });
    let refused = returning(&table, &charge, &other_payload, 1).await;
    assert_eq!(refused, End::Refused(ErrorKind::PayloadMismatch));
    Ok(())
}

#[tokio::test]
async fn a_key_that_an_operator_freed_runs_once_more_and_its_record_is_a_new_one()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = charge();
    leave_held(&table, &charge).await;
    decide(&table, Ending::Rerun).await?;
    let item = table.only_item().await?;
    assert_eq!(item["status"], "INPROGRESS");
    assert_eq!(item["failure"], "ResolvedByOperator");
    assert!(item["decision"].contains("\"by\":\"ana\""), "{item:?}");
    let another = table.another_process(1);
    assert_eq!(end_in(&table, &another, &charge).await, End::Ran(1));
    let again = end_in(&table, &table.backend, &charge).await;
    assert_eq!(again, End::Replayed(1));
    let item = table.only_item().await?;
    assert!(!item.contains_key("decision") && !item.contains_key("failure"));
    Ok(())
}

#[tokio::test]
async fn a_late_owner_gets_the_response_that_an_operator_gave_and_overwrites_nothing()
-> Result<(), BoxError> {
    for response in [json!(1), json!("x".repeat(7 * 1024 * 1024))] {
        let table = Table::start().await?;
        let charge = charge();
        let handler = async || {
            table.clock.advance(Duration::from_secs(31));
            decide(&table, completed("9")).await?;
            // A duplicate in the process of the late owner does not wait for it.
            let duplicate = end_in(&table, &table.backend, &charge).await;
            assert_eq!(duplicate, End::Replayed(9));
            Ok(response.clone())
        };
        let late = end(table.call(&charge, &order(), handler).await);
        assert_eq!(late, End::Replayed(json!(9)));
        assert_eq!(table.only_item().await?["data"], "9");
    }
    Ok(())
}

#[tokio::test]
async fn a_late_owner_that_fails_leaves_the_decision_as_it_is() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = charge();
    let handler = async || -> Result<u8, BoxError> {
        table.clock.advance(Duration::from_secs(31));
        decide(&table, completed("9")).await?;
        Err("declined".into())
    };
    let failed = table.call(&charge, &order(), handler).await;
    assert!(failed.unwrap_err().to_string().contains("declined"));
    let duplicate = end_in(&table, &table.backend, &charge).await;
    assert_eq!(duplicate, End::Replayed(9));
    Ok(())
}

#[tokio::test]
async fn a_late_owner_of_a_freed_key_loses_it_or_gets_the_response_of_the_next_run()
-> Result<(), BoxError> {
    for has_next_run in [false, true] {
        let table = Table::start().await?;
        let charge = charge();
        let handler = async || {
            table.clock.advance(Duration::from_secs(31));
            decide(&table, Ending::Rerun).await?;
            if has_next_run {
                let next = end_in(&table, &table.another_process(1), &charge).await;
                assert_eq!(next, End::Ran(1));
            }
            Ok(2)
        };
        let late = end(table.call(&charge, &order(), handler).await);
        if has_next_run {
            assert_eq!(late, End::Replayed(1));
        } else {
            assert_eq!(late, End::AfterRun(ErrorKind::LostOwnership));
            assert_eq!(table.only_item().await?["status"], "INPROGRESS");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_took_the_key_over_is_not_overwritten() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let rerun = operation().key("order_id").build()?;
    leave_held(&table, &rerun).await;
    let shown = record(&table).await?;
    let handler = async || {
        for ending in [completed("9"), Ending::Rerun] {
            let written = write(&table, &shown, ending).await?;
            let refused = matches!(
                &written,
                StoreReply::ConditionFailed {
                    existing: Some(_),
                    ..
                }
            );
            assert!(refused, "{written:?}");
        }
        Ok(3)
    };
    let taken_over = end(table.call(&rerun, &order(), handler).await);
    assert_eq!(taken_over, End::Ran(3));
    Ok(())
}

//! An operator's decision about a held key, and what running processes do right after it.

use std::time::Duration;

use idempotency_core::protocol::decision::{Decision, Ending};
use idempotency_core::record::{Data, RecordId};
use idempotency_core::store::{SendLog, Store, StoreReply, StoreRequest};
use idempotency_core::time::Clock;
use idempotency_lambda::{
    Backend, BoxError, Deadline, ErrorKind, OnTimeout, Operation, with_backend,
};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{Table, operation, ours, store_on};
use serde_json::{Value, json};

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

/// Decides about the only record, as `idempotency resolve` does.
async fn decide(table: &Table, ending: Ending) -> Result<(), BoxError> {
    let store = store_on(&table.database).table("idempotency").build()?;
    let id = RecordId::new(&table.only_item().await?["id"]);
    let StoreReply::Found {
        record: Some(read), ..
    } = store.get(&id).await
    else {
        return Err("there is no record".into());
    };
    let decision = Decision {
        ending,
        by: "ana".to_owned(),
        reason: "seen at the provider".to_owned(),
    };
    let decided = decision.about(&read, table.clock.now(), false)?;
    let log = SendLog::new();
    let written = store.send(
        StoreRequest::write(&id, &decided.write, &decided.condition),
        &log,
    );
    match written.await {
        StoreReply::Applied { .. } => Ok(()),
        other => Err(format!("not applied: {other:?}").into()),
    }
}

/// Begins a run that is dropped in its handler, as a kill does it, and lets its lease expire.
async fn leave_held(table: &Table, charge: &Operation) -> Result<(), BoxError> {
    let (begun, begins) = tokio::sync::oneshot::channel();
    let order = order();
    let stuck = table.call(charge, &order, async || {
        let _ = begun.send(());
        std::future::pending::<Result<u8, BoxError>>().await
    });
    tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), _ = begins => {} }
    table.clock.advance(Duration::from_secs(31));
    Ok(())
}

/// Calls the operation in this process. The handler returns 1. Returns the response, and true if it is replayed.
async fn call_in(
    table: &Table,
    backend: &Backend,
    charge: &Operation,
) -> Result<(u8, bool), BoxError> {
    let deadline = Deadline::At(table.clock.now().plus(Duration::from_secs(30)));
    let order = order();
    let call = charge.run(&order, deadline, async || Ok::<u8, BoxError>(1));
    let outcome = with_backend(backend.clone(), call).await?;
    let replayed = outcome.is_replayed();
    Ok((outcome.into_response(), replayed))
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
    leave_held(&table, &charge).await?;
    let another = table.another_process(1);
    for process in [&table.backend, &another] {
        let held = call_in(&table, process, &charge).await.unwrap_err();
        assert_eq!(ours(&held).kind(), ErrorKind::Unresolved);
    }
    decide(&table, completed("9")).await?;
    for process in [&table.backend, &another] {
        assert_eq!(call_in(&table, process, &charge).await?, (9, true));
    }
    // Both have it in their local caches now.
    table.requests();
    for process in [&table.backend, &another] {
        assert_eq!(call_in(&table, process, &charge).await?, (9, true));
    }
    assert!(table.requests().is_empty());
    let other_payload = json!({ "order_id": 7, "amount": 43 });
    let refused = table
        .call(&charge, &other_payload, async || Ok(1))
        .await
        .unwrap_err();
    assert_eq!(ours(&refused).kind(), ErrorKind::PayloadMismatch);
    Ok(())
}

#[tokio::test]
async fn a_key_that_an_operator_freed_runs_once_more_and_its_record_is_a_new_one()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = charge();
    leave_held(&table, &charge).await?;
    decide(&table, Ending::Rerun).await?;
    let item = table.only_item().await?;
    assert_eq!(item["status"], "INPROGRESS");
    assert_eq!(item["failure"], "ResolvedByOperator");
    assert!(item["decision"].contains("\"by\":\"ana\""), "{item:?}");
    let another = table.another_process(1);
    assert_eq!(call_in(&table, &another, &charge).await?, (1, false));
    assert_eq!(call_in(&table, &table.backend, &charge).await?, (1, true));
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
        let outcome = table
            .call(&charge, &order(), async || {
                table.clock.advance(Duration::from_secs(31));
                decide(&table, completed("9")).await?;
                // A duplicate in the process of the late owner does not wait for it.
                assert_eq!(call_in(&table, &table.backend, &charge).await?, (9, true));
                Ok(response.clone())
            })
            .await?;
        assert!(outcome.is_replayed());
        assert_eq!(outcome.into_response(), json!(9));
        assert_eq!(table.only_item().await?["data"], "9");
    }
    Ok(())
}

#[tokio::test]
async fn a_late_owner_that_fails_leaves_the_decision_as_it_is() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = charge();
    let failed = table
        .call(&charge, &order(), async || -> Result<u8, BoxError> {
            table.clock.advance(Duration::from_secs(31));
            decide(&table, completed("9")).await?;
            Err("declined".into())
        })
        .await;
    assert!(failed.unwrap_err().to_string().contains("declined"));
    assert_eq!(call_in(&table, &table.backend, &charge).await?, (9, true));
    Ok(())
}

#[tokio::test]
async fn a_late_owner_of_a_freed_key_loses_it_or_gets_the_response_of_the_next_run()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = charge();
    let lost = table
        .call(&charge, &order(), async || {
            table.clock.advance(Duration::from_secs(31));
            decide(&table, Ending::Rerun).await?;
            Ok(2)
        })
        .await;
    assert_eq!(ours(&lost.unwrap_err()).kind(), ErrorKind::LostOwnership);
    assert_eq!(table.only_item().await?["status"], "INPROGRESS");

    let table = Table::start().await?;
    let another = table.another_process(1);
    let late = table
        .call(&charge, &order(), async || {
            table.clock.advance(Duration::from_secs(31));
            decide(&table, Ending::Rerun).await?;
            assert_eq!(call_in(&table, &another, &charge).await?, (1, false));
            Ok(2)
        })
        .await?;
    assert!(late.is_replayed());
    assert_eq!(late.into_response(), 1);
    Ok(())
}

#[tokio::test]
async fn a_run_that_took_the_key_over_is_not_overwritten() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let rerun = operation().key("order_id").build()?;
    leave_held(&table, &rerun).await?;
    let store = store_on(&table.database).table("idempotency").build()?;
    let id = RecordId::new(&table.only_item().await?["id"]);
    let StoreReply::Found {
        record: Some(shown),
        ..
    } = store.get(&id).await
    else {
        return Err("there is no record".into());
    };
    let outcome = table
        .call(&rerun, &order(), async || {
            for ending in [completed("9"), Ending::Rerun] {
                let decision = Decision {
                    ending,
                    by: "ana".to_owned(),
                    reason: "seen at the provider".to_owned(),
                };
                let decided = decision.about(&shown, table.clock.now(), false)?;
                let log = SendLog::new();
                let written = store
                    .send(
                        StoreRequest::write(&id, &decided.write, &decided.condition),
                        &log,
                    )
                    .await;
                assert!(matches!(
                    written,
                    StoreReply::ConditionFailed {
                        existing: Some(_),
                        ..
                    }
                ));
            }
            Ok(3)
        })
        .await?;
    assert!(!outcome.is_replayed());
    assert_eq!(outcome.into_response(), 3);
    Ok(())
}

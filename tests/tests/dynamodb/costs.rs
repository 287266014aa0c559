//! The requests of each path: the table in `docs/reference/cost.md`.

use idempotency_lambda::BoxError;
use idempotency_tests::{Table, operation};
use serde_json::{Value, json};

fn order() -> Value {
    json!({ "order_id": 7, "amount": 42 })
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

//! A function whose processes are killed, or have faults, or are not set up correctly.

mod steps;

use std::time::Duration;

use idempotency_lambda::{BoxError, LambdaEvent, Raw, idempotent};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, Request};
use idempotency_testkit::lambda::{FunctionProcess, LocalLambda};
use idempotency_tests::process::{self, end_leases, error_type};
use idempotency_tests::{has_sdk_client, with_the_sdk_client};
use serde::Deserialize;
use serde_json::json;

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    match role {
        "plain" => lambda_runtime::run(lambda_runtime::service_fn(payment)).await,
        "concurrent" => {
            idempotency_lambda::init().await?;
            let service = idempotency_lambda::service(payment);
            lambda_runtime::run_concurrent(service).await
        }
        "order" => idempotency_lambda::run(steps::handler).await,
        _ => idempotency_lambda::run(payment).await,
    }
}

/// These tests, and the matrix of faults for an annotated function, run again with the other client.
#[test]
fn each_test_passes_with_the_sdk_client() {
    with_the_sdk_client(&[
        "processes::",
        "an_annotated_function",
        "--skip",
        "each_test_passes",
    ]);
}

async fn start() -> Result<(EmbeddedDynamoDb, LocalLambda), BoxError> {
    process::start("processes/payment").await
}

fn order(card: &str, amount: u32) -> String {
    json!({ "order_id": "o-1", "amount": amount, "card": card }).to_string()
}

/// Invokes the function. Returns the name of the error, or `a response`.
async fn ended(lambda: &LocalLambda, card: &str, amount: u32) -> String {
    error_type(lambda.invoke(order(card, amount)).await)
}

/// Kills a process in its run.
async fn kill_in_a_run(process: &FunctionProcess) -> Result<(), BoxError> {
    let pending = process.invoke(order("stuck", 1)).start();
    process.wait_for_line("charging the card").await?;
    process.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    Ok(())
}

#[tokio::test]
async fn concurrent_duplicates_in_one_process_are_refused_without_a_request_to_the_table()
-> Result<(), BoxError> {
    let (database, lambda) =
        process::start_with("processes/concurrent", |function| function.concurrency(4)).await?;
    let process = lambda.start_process().await?;
    let first = process.invoke(order("stuck", 1)).start();
    process.wait_for_line("charging the card").await?;
    for _ in 0..3 {
        assert_eq!(
            error_type(process.invoke(order("stuck", 1)).await),
            "IdempotencyAlreadyInProgress"
        );
    }
    assert_eq!(
        error_type(process.invoke(order("stuck", 2)).await),
        "IdempotencyPayloadMismatch"
    );
    let requests = database.requests();
    let claims = requests.iter();
    let claims = claims.filter(|request| request.operation == "PutItem");
    assert_eq!(
        claims.count(),
        2,
        "one of the first call and one of the other payload"
    );
    // The lean client does not say which attempt a request is.
    let is_lean = |request: &Request| request.attempt.is_none();
    assert!(
        requests
            .iter()
            .all(|request| is_lean(request) != has_sdk_client())
    );
    process.kill().await;
    assert_eq!(first.await.unwrap_err().error_type, "Runtime.ExitError");
    Ok(())
}

#[tokio::test]
async fn a_store_that_hangs_is_reported_before_the_process_is_killed() -> Result<(), BoxError> {
    let (database, lambda) = start().await?;
    database.inject(Fault::on("PutItem").always().hold());
    database.inject(Fault::on("GetItem").nth(2).always().hold());
    database.inject(Fault::on("DeleteItem").always().hold());
    let process = lambda.start_process().await?;
    let result = process
        .invoke(order("good", 1))
        .deadline_in(Duration::from_secs(2))
        .await;
    assert_eq!(error_type(result), "IdempotencyStoreFailed");
    Ok(())
}

/// Starts a function whose runs need no confirmed claim when the store fails.
async fn start_unprotected() -> Result<(EmbeddedDynamoDb, LocalLambda), BoxError> {
    process::start_with("processes/payment", |function| {
        function.env("IDEMPOTENCY_ON_STORE_ERROR", "run-unprotected")
    })
    .await
}

#[tokio::test]
async fn a_process_that_is_killed_in_a_run_without_a_claim_leaves_its_key_free()
-> Result<(), BoxError> {
    let (database, lambda) = start_unprotected().await?;
    database.inject(Fault::on("PutItem").always().throttle());
    kill_in_a_run(&lambda.start_process().await?).await?;
    assert_eq!(ended(&lambda, "good", 1).await, "a response");
    assert!(database.items("idempotency").await?.is_empty());
    database.clear_faults();
    // Nothing is known of the two runs, so the next call runs too, and is protected.
    assert_eq!(ended(&lambda, "good", 1).await, "a response");
    let other = ended(&lambda, "good", 2).await;
    assert_eq!(other, "IdempotencyPayloadMismatch");
    Ok(())
}

#[tokio::test]
async fn a_claim_that_was_applied_before_an_unprotected_run_refuses_duplicates_after_a_kill()
-> Result<(), BoxError> {
    let (database, lambda) = start_unprotected().await?;
    let killed = lambda.start_process().await?;
    killed.ready().await?;
    database.inject(Fault::on("PutItem").always().drop_reply());
    database.inject(Fault::on("GetItem").always().throttle());
    kill_in_a_run(&killed).await?;
    database.clear_faults();
    let duplicate = ended(&lambda, "good", 1).await;
    assert_eq!(duplicate, "IdempotencyAlreadyInProgress");
    end_leases(&database).await?;
    assert_eq!(ended(&lambda, "good", 1).await, "a response");
    Ok(())
}

#[tokio::test]
async fn without_a_table_the_function_stops_at_start_and_names_the_variable() -> Result<(), BoxError>
{
    let function = process::function("processes/payment")?.env("AWS_REGION", "eu-central-1");
    let lambda = LocalLambda::start(function).await?;
    let error = lambda.invoke(order("good", 1)).await.unwrap_err();
    assert_eq!(error.error_type, "IdempotencyConfiguration");
    assert!(
        error.to_string().contains("IDEMPOTENCY_TABLE is not set"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_reported_at_start_and_at_every_event() -> Result<(), BoxError> {
    let (_database, lambda) = process::start_with("processes/payment", |function| {
        function.env("IDEMPOTENCY_TABLE", "nowhere")
    })
    .await?;
    let process = lambda.start_process().await?;
    for _ in 0..2 {
        let error = process.invoke(order("good", 1)).await.unwrap_err();
        assert_eq!(error.error_type, "IdempotencyStoreFailed");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
    let warning = "the idempotency store cannot be used yet";
    process.wait_for_line(warning).await?;
    Ok(())
}

#[tokio::test]
async fn events_that_are_not_orders_get_an_error_and_the_next_event_is_served()
-> Result<(), BoxError> {
    let (_database, lambda) = start().await?;
    let process = lambda.start_process().await?;
    let deep = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    for event in ["null", "\"text\"", "{\"order_id\": 1}", "{}", &deep] {
        let ended = error_type(process.invoke(event).await);
        assert_ne!(ended, "a response", "{event}");
    }
    process.invoke(order("good", 1)).await?;
    Ok(())
}

#[tokio::test]
async fn a_sort_key_setting_for_a_table_without_one_stops_the_function_before_records_collide()
-> Result<(), BoxError> {
    for role in ["processes/payment", "processes/plain"] {
        let (database, lambda) = process::start_with(role, |function| {
            function.env("IDEMPOTENCY_SORT_KEY_ATTR", "sk")
        })
        .await?;
        let error = lambda.invoke(order("good", 1)).await.unwrap_err();
        assert!(error.to_string().contains("sort key"), "{role}: {error}");
        assert!(database.items("idempotency").await?.is_empty());
    }
    Ok(())
}

#[derive(Deserialize)]
struct Order {
    card: String,
}

/// A function whose errors reach Lambda, which is what these tests look at.
#[idempotent(
    key_prefix = "payment",
    key = "order_id",
    key_required = "all",
    validate = "amount",
    expires_after = "24h"
)]
async fn payment(event: LambdaEvent<Raw<Order>>) -> Result<String, BoxError> {
    tracing::info!("charging the card");
    if event.payload.card == "stuck" {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    Ok(event.context.request_id)
}

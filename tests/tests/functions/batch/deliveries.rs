//! A function of a queue as real processes under the local Lambda, with faults of the table and kills.

use std::time::Duration;

use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_lambda_events::streams::KinesisEventResponse;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, LambdaEvent, Operation};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionProcess, Reply};
use idempotency_tests::process::{start, start_with};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Serialize, Deserialize)]
struct Order {
    order_id: String,
    /// `stuck` never ends, and `refused` is an error.
    does: String,
}

async fn reserve(order: Order) -> Result<String, BoxError> {
    match order.does.as_str() {
        "stuck" => {
            tracing::info!("stuck in {}", order.order_id);
            std::future::pending().await
        }
        "refused" => Err("s3cr3t".into()),
        _ => {
            tracing::info!("reserved {}", order.order_id);
            Ok(order.order_id)
        }
    }
}

async fn handler(event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, BoxError> {
    let operation = Operation::builder("batch::deliveries")
        .key("order_id")
        .key_prefix("batch.deliveries")
        .build()?;
    Ok(Batch::new(&operation).run(event, reserve).await?)
}

/// The same function for a stream.
async fn stream_handler(
    event: LambdaEvent<KinesisEvent>,
) -> Result<KinesisEventResponse, BoxError> {
    let operation = Operation::builder("batch::deliveries::stream")
        .key("order_id")
        .key_prefix("batch.deliveries.stream")
        .build()?;
    Ok(Batch::new(&operation).run(event, reserve).await?)
}

pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    match role {
        "concurrent" => {
            idempotency_lambda::init().await?;
            let service = idempotency_lambda::service(handler);
            lambda_runtime::run_concurrent(service).await
        }
        "stream" => idempotency_lambda::run(stream_handler).await,
        _ => idempotency_lambda::run(handler).await,
    }
}

/// Returns an event with one message for each order. `b!stuck` is the order `b`, which is stuck. The id of the message is
/// `m-` and the order.
fn queue(orders: &[&str]) -> String {
    let messages = orders.iter().map(|text| {
        let (id, does) = text.split_once('!').unwrap_or((text, "good"));
        let body = json!({ "order_id": id, "does": does });
        events::AwsRecord::json(&body).id(format!("m-{id}"))
    });
    events::sqs("orders").records(messages).to_string()
}

fn returned(reply: &Reply) -> Vec<String> {
    super::shop::named(&reply.json().unwrap())
}

/// Returns the orders that this process reserved, sorted.
fn reserved(process: &FunctionProcess) -> Vec<String> {
    let log = process.log();
    let orders = log
        .iter()
        .filter_map(|line| line.text.split_once("reserved "));
    let mut orders: Vec<_> = orders.map(|(_, order)| order.trim().to_owned()).collect();
    orders.sort();
    orders
}

/// Returns how many lines this process has written that contain this text.
fn count(process: &FunctionProcess, text: &str) -> usize {
    let log = process.log();
    log.iter().filter(|line| line.text.contains(text)).count()
}

#[tokio::test]
async fn only_the_message_that_fails_is_returned_and_its_text_is_not_logged() -> Result<(), BoxError>
{
    let (_database, lambda) = start("batch/queue").await?;
    let process = lambda.start_process().await?;
    let reply = process.invoke(queue(&["a", "b!refused", "c"])).await?;
    assert_eq!(returned(&reply), ["m-b"]);
    assert_eq!(reserved(&process), ["a", "c"]);
    let line = process.wait_for_line("record returned").await?.text;
    assert!(line.contains("m-b") && line.contains("WARN"), "{line}");
    let log = process.log();
    assert!(log.iter().all(|line| !line.text.contains("s3cr3t")));
    Ok(())
}

#[tokio::test]
async fn after_a_kill_only_the_message_that_was_not_done_runs_again() -> Result<(), BoxError> {
    let (_database, lambda) = start("batch/queue").await?;
    let killed = lambda.start_process().await?;
    killed.ready().await?;
    let pending = killed
        .invoke(queue(&["a", "b!stuck", "c"]))
        .deadline_in(Duration::from_secs(5))
        .start();
    // The outcome event of a call comes after its completion.
    while count(&killed, "outcome=\"executed\"") < 2 || count(&killed, "stuck in b") < 1 {
        killed.wait_for_line("").await?;
    }
    killed.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    // The whole batch is delivered again. Until the lease of `b` ends, `b` is in progress.
    let process = lambda.start_process().await?;
    let batch = queue(&["a", "b", "c"]);
    let mut reply = process.invoke(batch.as_str()).await?;
    while returned(&reply) == ["m-b"] {
        reply = process.invoke(batch.as_str()).await?;
    }
    assert!(returned(&reply).is_empty());
    assert_eq!(reserved(&process), ["b"]);
    Ok(())
}

#[tokio::test]
async fn after_a_kill_the_first_retry_of_a_stream_waits_for_the_lease_and_runs()
-> Result<(), BoxError> {
    let (_database, lambda) = start("batch/stream").await?;
    let killed = lambda.start_process().await?;
    killed.ready().await?;
    let record = |id: &str, does: &str| {
        events::AwsRecord::json(&json!({ "order_id": id, "does": does })).group("p")
    };
    let shard = |does| {
        events::kinesis("orders").records([
            record("a", "good"),
            record("b", does),
            record("c", "good"),
        ])
    };
    let pending = killed
        .invoke(shard("stuck").to_string())
        .deadline_in(Duration::from_secs(4))
        .start();
    killed.wait_for_line("stuck in b").await?;
    killed.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    // Lambda delivers the batch again at once, with `MaximumRetryAttempts: 1`.
    let process = lambda.start_process().await?;
    let retry = process.invoke(shard("good").to_string());
    let reply = retry.deadline_in(Duration::from_secs(20)).await?;
    assert_eq!(returned(&reply), Vec::<String>::new());
    assert_eq!(reserved(&process), ["b", "c"]);
    Ok(())
}

#[tokio::test]
async fn a_record_that_never_ends_times_out_with_its_batch_and_the_others_stay_done()
-> Result<(), BoxError> {
    let (_database, lambda) = start("batch/queue").await?;
    let first = lambda.start_process().await?;
    first.ready().await?;
    let result = first
        .invoke(queue(&["a", "b!stuck"]))
        .deadline_in(Duration::from_secs(3))
        .await;
    assert_eq!(result.unwrap_err().error_type, "Sandbox.Timedout");
    let process = lambda.start_process().await?;
    let reply = process.invoke(queue(&["a", "b"])).await?;
    assert!(returned(&reply).is_empty());
    assert_eq!(reserved(&process), ["b"]);
    Ok(())
}

#[tokio::test]
async fn a_table_that_refuses_claims_returns_every_message_without_a_run() -> Result<(), BoxError> {
    let (database, lambda) = start("batch/queue").await?;
    let fault = Fault::on("PutItem").always().throttle();
    database.inject(fault);
    let process = lambda.start_process().await?;
    let reply = process
        .invoke(queue(&["a", "b"]))
        .deadline_in(Duration::from_secs(4))
        .await?;
    assert_eq!(returned(&reply), ["m-a", "m-b"]);
    assert!(reserved(&process).is_empty());
    database.clear_faults();
    let reply = process.invoke(queue(&["a", "b"])).await?;
    assert!(returned(&reply).is_empty());
    assert_eq!(reserved(&process), ["a", "b"]);
    Ok(())
}

#[tokio::test]
async fn a_message_that_a_slow_process_still_handles_is_returned_by_another() -> Result<(), BoxError>
{
    let (_database, lambda) = start("batch/queue").await?;
    let slow = lambda.start_process().await?;
    let pending = slow.invoke(queue(&["a!stuck"])).start();
    slow.wait_for_line("stuck in a").await?;
    let process = lambda.start_process().await?;
    let reply = process.invoke(queue(&["a", "b"])).await?;
    assert_eq!(returned(&reply), ["m-a"]);
    assert_eq!(reserved(&process), ["b"]);
    slow.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    Ok(())
}

#[tokio::test]
async fn duplicates_inside_and_across_batches_run_once() -> Result<(), BoxError> {
    let (_database, lambda) = start("batch/queue").await?;
    let process = lambda.start_process().await?;
    let body = json!({ "order_id": "a", "does": "good" });
    for ids in [["m-1", "m-2"], ["m-3", "m-4"]] {
        let messages = ids.map(|id| events::AwsRecord::json(&body).id(id));
        let reply = process
            .invoke(events::sqs("orders").records(messages).to_string())
            .await?;
        assert!(returned(&reply).is_empty());
    }
    assert_eq!(reserved(&process), ["a"]);
    Ok(())
}

#[tokio::test]
async fn an_invocation_without_time_returns_every_message_without_a_run() -> Result<(), BoxError> {
    let (_database, lambda) = start("batch/queue").await?;
    let process = lambda.start_process().await?;
    let reply = process
        .invoke(queue(&["a", "b"]))
        .deadline(1_700_000_000_000)
        .enforce_deadline(false)
        .await?;
    assert_eq!(returned(&reply), ["m-a", "m-b"]);
    assert!(reserved(&process).is_empty());
    let warning = "no record can start: the time that is left is not longer than the reserve";
    assert_eq!(count(&process, warning), 1);
    Ok(())
}

#[tokio::test]
async fn tenants_in_one_process_do_not_share_the_messages_of_a_batch() -> Result<(), BoxError> {
    let (_database, lambda) =
        start_with("batch/concurrent", |function| function.concurrency(2)).await?;
    let process = lambda.start_process().await?;
    let stuck = process.invoke(queue(&["a!stuck"])).tenant("blue").start();
    process.wait_for_line("stuck in a").await?;
    // The batch of another tenant runs beside it, with the same order.
    let reply = process.invoke(queue(&["a", "b"])).tenant("green").await?;
    assert!(returned(&reply).is_empty());
    let reply = process.invoke(queue(&["a", "b"])).tenant("blue").await?;
    assert_eq!(returned(&reply), ["m-a"]);
    assert_eq!(reserved(&process), ["a", "b", "b"]);
    process.kill().await;
    assert_eq!(stuck.await.unwrap_err().error_type, "Runtime.ExitError");
    Ok(())
}

//! Large responses of processes.

use std::time::Duration;

use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
use idempotency_testkit::dynamodb::Fault;
use idempotency_testkit::lambda::FunctionProcess;
use idempotency_tests::process::{end_leases, start};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The largest response that Lambda accepts, in bytes of JSON.
const LARGEST: usize = 6_291_556;

#[derive(Deserialize, Serialize)]
struct Report {
    report_id: String,
    /// The length of the response's JSON.
    length: usize,
}

/// Returns a text that differs in each run, so that a second run cannot be taken for a replay.
#[idempotent(key = "report_id", key_required = "all", key_prefix = "shop.report")]
async fn report(event: LambdaEvent<Report>) -> Result<String, BoxError> {
    println!("writing the report");
    let letters = (0..event.payload.length - 2).map(|_| fastrand::alphanumeric());
    Ok(letters.collect())
}

pub(crate) async fn serve() -> Result<(), BoxError> {
    idempotency_lambda::run(report).await
}

/// Returns true if the handler ran in this process.
fn has_run(process: &FunctionProcess) -> bool {
    let log = process.log();
    log.iter()
        .any(|line| line.text.contains("writing the report"))
}

fn event(length: usize) -> String {
    json!({ "report_id": "r-1", "length": length }).to_string()
}

#[tokio::test]
async fn the_largest_response_is_replayed_byte_for_byte_by_another_process() -> Result<(), BoxError>
{
    let (database, lambda) = start("large_responses/report").await?;
    let first = lambda.start_process().await?;
    let own = first.invoke(event(LARGEST)).await?.json()?;
    let again = lambda.start_process().await?;
    let replayed = again.invoke(event(LARGEST)).await?.json()?;
    assert_eq!(own.as_str().unwrap().len(), LARGEST - 2);
    assert!(own == replayed);
    assert!(!has_run(&again));
    // No other permission is needed.
    let known = ["GetItem", "PutItem", "UpdateItem"];
    for request in database.requests() {
        assert!(known.contains(&&*request.operation), "{request:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_process_that_is_killed_between_pieces_loses_nothing() -> Result<(), BoxError> {
    // The first put is the claim. The next three are the pieces.
    for nth in 2..=4 {
        for after in [false, true] {
            let (database, lambda) = start("large_responses/report").await?;
            let fault = Fault::on("PutItem").nth(nth);
            let held = if after {
                fault.hold_reply()
            } else {
                fault.hold()
            };
            let held = database.inject(held);
            let killed = lambda.start_process().await?;
            let pending = killed.invoke(event(1_300_000));
            let pending = pending.deadline_in(Duration::from_secs(4)).start();
            held.reached().await;
            killed.kill().await;
            assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
            // The piece of the dead process arrives.
            held.release().await;
            end_leases(&database).await?;
            let response = lambda.invoke(event(1_300_000)).await?.json()?;
            let duplicate = lambda.start_process().await?;
            let replayed = duplicate.invoke(event(1_300_000)).await?.json()?;
            assert!(replayed == response, "piece {nth}, after: {after}");
            assert!(!has_run(&duplicate));
        }
    }
    Ok(())
}

//! The events of a batch: each returned record, and the summary.

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, Context, LambdaEvent};
use idempotency_testkit::events::{self, AwsRecord};
use idempotency_tests::{Harness, keyed};
use serde_json::{Value, json};

use super::recorded;

/// Returns the events of a batch with a failure, a duplicate, a body that is no order, and no time for the rest.
async fn lines(name: &str, log_errors: bool) -> Vec<String> {
    let harness = Harness::default();
    let operation = keyed(|of| of.key_prefix(name).validate("card"));
    let message = |id: &str, order: u32| {
        AwsRecord::json(&json!({ "order_id": order, "card": "s3cr3t" })).id(id)
    };
    let event = events::sqs("orders").records([
        message("ok", 1),
        message("again", 1),
        AwsRecord::new("s3cr3t").id("broken"),
        message("fails", 2),
        message("late", 3),
    ]);
    let mut context = Context::default();
    context.request_id = "r-1".to_owned();
    let deadline = harness.now().plus(Duration::from_secs(10));
    context.deadline = u64::try_from(deadline.get()).unwrap();
    let event = LambdaEvent::new(event.parse::<SqsEvent>().unwrap(), context);
    let batch = Batch::new(&operation).concurrency(1).log_errors(log_errors);
    let handler = async |order: Value| {
        if order["order_id"] == 2 {
            harness.clock.advance(Duration::from_secs(9));
            let cause = std::io::Error::other("the card s3cr3t is refused");
            return Err(BoxError::from(cause));
        }
        Ok(())
    };
    let lines = recorded(async {
        let response = harness.within(batch.run(event, handler)).await;
        assert_eq!(response.unwrap().batch_item_failures.len(), 3);
    });
    let lines = lines.await.into_iter();
    let of_batches = lines.filter(|line| line.contains(" idempotency::batch "));
    of_batches
        .map(|line| line.replace(&format!(" event_source=sqs operation={name}"), ""))
        .collect()
}

#[tokio::test]
async fn a_batch_logs_returned_records_and_a_summary_and_the_text_of_an_error_only_on_request() {
    let name = "shop.events";
    assert_eq!(
        lines(name, false).await,
        [
            "WARN idempotency::batch record returned: record=broken reason=undecodable error=IdempotencyInvalidPayload",
            "WARN idempotency::batch record returned: record=fails reason=failed error=Error",
            "DEBUG idempotency::batch record returned without a run: record=late reason=no_time",
            "WARN idempotency::batch batch: records=5 done=2 duplicates=1 failed=2 undecodable=1 not_started=1",
        ]
    );
    assert_eq!(
        lines(name, true).await[1],
        "WARN idempotency::batch record returned: record=fails reason=failed error=Error \
         cause=the card s3cr3t is refused"
    );
}

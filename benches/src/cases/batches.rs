//! Batches of SQS over a store that does nothing: what a record costs must not grow with the number of records.

use std::cell::LazyCell;
use std::hint::black_box;
use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use idempotency_core::example::ready;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, Context, LambdaEvent, Operation};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Cases, Run, read};
use crate::store::NoStore;

/// The numbers of records. Lambda sends at most 10,000 of a standard queue.
const RECORDS: [usize; 2] = [100, 10_000];

#[derive(Deserialize, Serialize)]
struct Order {
    order_id: String,
}

/// Adds a batch of a standard queue, and one of a FIFO queue with ten records of each group, for each number of records.
pub(super) fn add(cases: &mut Cases<'_>) {
    for records in RECORDS {
        for (name, fifo) in [("standard", false), ("fifo", true)] {
            let text = LazyCell::new(|| event(records, fifo));
            cases.add_prepared(format!("batch/{name}/{records}"), &text, |text| {
                let text = text.to_owned();
                move || {
                    let operation = Operation::builder("benches::reserve")
                        .key("order_id")
                        .store(Arc::new(NoStore::default()))
                        .build()
                        .expect("the settings are right");
                    let mut event = Some(read::<SqsEvent>(&text));
                    Box::new(move || {
                        let event = event.take().expect("it runs once");
                        let event = LambdaEvent::new(event, Context::default());
                        let run = Batch::new(&operation).run(event, async |order: Order| {
                            Ok::<_, BoxError>(order.order_id.len())
                        });
                        let response = ready(run).expect("a response");
                        assert!(response.batch_item_failures.is_empty());
                        drop(black_box(response));
                    }) as Run
                }
            });
        }
    }
}

fn event(records: usize, fifo: bool) -> String {
    let queue = if fifo { "orders.fifo" } else { "orders" };
    let records = (0..records).map(|number| {
        let mut record = json!({
            "messageId": format!("00000000-0000-4000-8000-{number:012}"),
            "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
            "body": json!({"order_id": format!("o-{number:08}"), "amount": 4_200}).to_string(),
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": format!("arn:aws:sqs:eu-west-1:123456789012:{queue}"),
            "awsRegion": "eu-west-1",
        });
        if fifo {
            record["attributes"]["MessageGroupId"] = json!(format!("g-{}", number / 10));
        }
        record
    });
    json!({"Records": records.collect::<Vec<_>>()}).to_string()
}

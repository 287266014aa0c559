//! What every source has in common: which records a batch returns, which run, and which run when they are delivered again.

use std::time::Duration;

use idempotency_lambda::ErrorKind;
use idempotency_lambda::batch::Batch;
use idempotency_testkit::events::{self, AwsBatch};
use serde_json::{Value, json};

use super::shop::Source::{Changes, Fifo, PartitionKey, Shard, Standard};
use super::shop::{MARKS, MINUTE, Shop, Source, builder, order_of};

/// The source, the most records at once, the records, those that are returned, the orders that run, and those that run when the handler
/// of each record succeeds and the whole event is delivered again.
type Row = (
    Source,
    usize,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// The texts are those of [`Shop::deliver_text`].
const ROWS: [Row; 16] = [
    (Standard, 10, "a b c", "", "a b c", ""),
    (Standard, 10, "a b! c", "b", "a b c", "b"),
    (Standard, 10, "a* b", "a", "a b", "a"),
    (
        Standard,
        10,
        "a?text b?{\"order_id\":7} c d?",
        "a?text b?{\"order_id\":7} d?",
        "c",
        "",
    ),
    // Records with one key run once and end alike.
    (Standard, 10, "a~ a", "", "a", ""),
    (Standard, 10, "a! a!", "a a", "a", "a"),
    (
        Fifo,
        1,
        "a1 a2! b1 a3 b2 a4",
        "a2 a3 a4",
        "a1 a2 b1 b2",
        "a2 a3 a4",
    ),
    (Fifo, 1, "a?text a1 b1", "a?text a1", "b1", ""),
    // A duplicate in another group waits, and keeps the order of its group.
    (Fifo, 3, "a:x~ b:x b:y", "", "x y", ""),
    (Shard, 1, "a1 a2! b1 a3", "a2", "a1 a2", "a2 b1 a3"),
    (Shard, 1, "a1 a?text a2", "a?text", "a1", ""),
    // `b1` fails while `a1` runs. `a1` is before the failure, and `a2` is not.
    (PartitionKey, 3, "a1~ b1! c1~ a2", "b1", "a1 b1 c1", "b1 a2"),
    (PartitionKey, 1, "a1* b1", "a1", "a1", "a1 b1"),
    (Changes, 1, "a1 a2 b1", "", "a1 a2 b1", ""),
    (Changes, 1, "a1 a2! b1 a3", "a2", "a1 a2", "a2 b1 a3"),
    (Changes, 1, "a1 b?text c1", "b?text", "a1", ""),
];

#[tokio::test]
async fn a_response_names_what_is_not_done_and_the_next_delivery_runs_nothing_else() {
    for (source, most, records, returned, ran, again) in ROWS {
        let shop = Shop::new();
        let batch = Batch::new(&shop.operation("batch.sources")).concurrency(most);
        let first = shop.deliver_text(source, &batch, records, MINUTE).await;
        assert_eq!(
            first,
            (returned.into(), ran.into()),
            "{source:?}: {records}"
        );
        let good = records.replace(MARKS, "");
        let (_, ran) = shop.deliver_text(source, &batch, &good, MINUTE).await;
        assert_eq!(ran, again, "{source:?}: {good} again");
    }
}

#[tokio::test]
async fn records_that_would_not_end_before_the_deadline_are_returned_and_run_later() {
    // 1 s or a tenth of the time is kept, and the next record is expected to take as long as the longest before.
    for (source, most, left, records, returned, ran, again) in [
        (Standard, 1, 30, "a+ b+ c+ d+", "c d", "a b", "c d"),
        (Fifo, 1, 25, "a1+ b1+ a2+ b2+", "a2 b2", "a1 b1", "a2 b2"),
        (Shard, 1, 20, "a1+ a2 a3", "a2", "a1", "a2 a3"),
        (Changes, 1, 20, "a1+ a2 a3", "a2", "a1", "a2 a3"),
        (Standard, 10, 0, "a b", "a b", "", "a b"),
        (Shard, 10, 0, "a b", "a", "", "a b"),
    ] {
        let shop = Shop::new();
        let batch = Batch::new(&shop.operation("batch.deadline")).concurrency(most);
        let left = Duration::from_secs(left);
        let first = shop.deliver_text(source, &batch, records, left).await;
        assert_eq!(
            first,
            (returned.into(), ran.into()),
            "{source:?}: {records}"
        );
        let (_, ran) = shop.deliver_text(source, &batch, records, MINUTE).await;
        assert_eq!(ran, again, "{source:?}: {records} again");
    }
}

#[tokio::test]
async fn ten_messages_of_a_standard_queue_run_at_a_time_by_default_and_one_record_of_another_source()
 {
    let many: Vec<_> = (0..25).map(|number| format!("{number}~")).collect();
    let groups = "a1~ a2~ b1~ b2~ c1~ c2~";
    for (source, records, concurrency, most) in [
        (Standard, &*many.join(" "), None, 10),
        (Standard, &*many.join(" "), Some(3), 3),
        (Standard, &*many.join(" "), Some(0), 1),
        (Standard, &*many.join(" "), Some(100), 25),
        (Fifo, groups, None, 1),
        (Fifo, groups, Some(8), 3),
        (Shard, groups, None, 1),
        (Shard, groups, Some(8), 1),
        (PartitionKey, groups, None, 1),
        (PartitionKey, groups, Some(8), 3),
        (Changes, groups, None, 1),
    ] {
        let shop = Shop::new();
        let mut batch = Batch::new(&shop.operation("batch.concurrency"));
        if let Some(concurrency) = concurrency {
            batch = batch.concurrency(concurrency);
        }
        let (returned, ran) = shop.deliver_text(source, &batch, records, MINUTE).await;
        let name = format!("{source:?}, {concurrency:?}: {ran}");
        assert_eq!((&*returned, shop.most_at_once()), ("", most), "{name}");
        let ran: Vec<_> = ran.split(' ').collect();
        assert_eq!(ran.len(), records.split(' ').count(), "{name}");
        if source != Standard {
            for group in ["a", "b", "c"] {
                let of_group = ran.iter().filter(|order| order.starts_with(group));
                assert!(of_group.is_sorted(), "{name}");
            }
        }
    }
}

/// Returns an event of two orders.
fn two_orders(source: Source) -> AwsBatch {
    source.event(&["a", "b"].map(|id| (id.to_owned(), Ok(id.to_owned()))))
}

#[tokio::test]
async fn a_record_without_what_a_response_names_fails_the_whole_batch_before_a_handler_runs() {
    for (source, field, absent) in [
        (Standard, "messageId", vec![json!(""), Value::Null]),
        (Shard, "kinesis.sequenceNumber", vec![json!("")]),
        (
            Changes,
            "dynamodb.SequenceNumber",
            vec![json!(""), Value::Null],
        ),
    ] {
        let shop = Shop::new();
        let batch = Batch::new(&shop.operation("batch.nameless"));
        for absent in absent {
            let place = format!("/Records/1/{}", field.replace('.', "/"));
            let event = two_orders(source).with(place, absent);
            let error = shop.deliver(source, &batch, &event, MINUTE).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidPayload, "{field}");
            let text = error.to_string();
            for part in [
                &*format!("record 2 of 2 has no `{field}`"),
                "come from a source of `",
                "the handler did not run",
            ] {
                assert!(text.contains(part), "{text}");
            }
        }
        assert!(shop.ran().is_empty(), "{field}");
    }
}

#[tokio::test]
async fn without_a_key_expression_the_key_is_the_id_of_the_record() {
    for source in Source::ALL {
        let shop = Shop::new();
        let operation = builder("batch.own_id").build().unwrap();
        let batch = Batch::new(&operation);
        let event = two_orders(source);
        for ran in [vec!["a", "b"], vec![]] {
            let returned = shop.deliver(source, &batch, &event, MINUTE).await;
            assert_eq!(
                (returned.unwrap(), shop.ran()),
                (vec![], ran.iter().map(ToString::to_string).collect())
            );
        }
        let record = &event.to_value()["Records"][0];
        let key = match source {
            Standard | Fifo => json!("m-0"),
            Shard | PartitionKey => json!([record["eventSourceARN"], record["eventID"]]),
            Changes => record["eventID"].clone(),
        };
        shop.harness.record(&operation, &key);
        // The same order in another queue, or at the same position of another stream, is another record.
        let other = match source {
            Standard | Fifo => events::sqs("orders").json(&order_of("a")),
            Shard | PartitionKey => events::kinesis("other").json(&order_of("a")),
            Changes => {
                let (key, image) = (json!({ "order_id": "a" }), order_of("a"));
                events::dynamodb_stream("other").change(&key, None, Some(&image))
            }
        };
        let returned = shop.deliver(source, &batch, &other, MINUTE).await;
        assert_eq!(
            (returned.unwrap(), shop.ran()),
            (vec![], vec!["a".to_owned()]),
            "{source:?}"
        );
    }
}

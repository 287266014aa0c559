//! What every source has in common: which records a batch returns, which run, and which run when they are delivered again.

use std::time::Duration;

use idempotency_lambda::ErrorKind;
use idempotency_lambda::batch::Batch;
use idempotency_testkit::events::{self, AwsBatch};
use idempotency_tests::rows;
use serde_json::{Value, json};

use super::shop::Source::{Changes, Fifo, PartitionKey, Shard, Standard};
use super::shop::{MARKS, MINUTE, Shop, Source, builder, order_of};

#[tokio::test]
async fn a_response_names_what_is_not_done_and_the_next_delivery_runs_nothing_else() {
    for (row, cells) in rows(include_str!("sources.txt")) {
        let [source, most, left, records, returned, ran, again] = cells;
        let is_named = |known: &Source| format!("{known:?}") == source;
        let source = Source::ALL.into_iter().find(is_named).expect(row);
        let left = Duration::from_secs(left.parse().expect(row));
        let shop = Shop::new();
        let batch = Batch::new(&shop.operation("batch.sources"));
        let batch = batch.concurrency(most.parse().expect(row));
        let first = shop.deliver_text(source, &batch, records, left).await;
        assert_eq!(first, (returned.into(), ran.into()), "{row}");
        let good = records.replace(MARKS, "");
        let (_, ran) = shop.deliver_text(source, &batch, &good, MINUTE).await;
        assert_eq!(ran, again, "{row}, again");
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
        (Standard, "messageId", json!("")),
        (Standard, "messageId", Value::Null),
        (Shard, "kinesis.sequenceNumber", json!("")),
        (Changes, "dynamodb.SequenceNumber", json!("")),
        (Changes, "dynamodb.SequenceNumber", Value::Null),
    ] {
        let shop = Shop::new();
        let batch = Batch::new(&shop.operation("batch.nameless"));
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

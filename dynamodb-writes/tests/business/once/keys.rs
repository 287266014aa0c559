//! Old keys of idle items, and many keys.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;

use super::super::{Item, client, database};
use super::*;

/// Returns the digest that an update of this event stores now, and the name of its set.
async fn digest(client: &Client, once: &Once, event: &str) -> (String, Blob) {
    let prepared = count(once, event).prepare(client).await.unwrap();
    let prepared = prepared.transact_item();
    let update = prepared.update().unwrap();
    let values = update.expression_attribute_values().unwrap();
    let set = update.update_expression().split(' ').rev().nth(1).unwrap();
    let set = update.expression_attribute_names().unwrap()[set].clone();
    (set, values[":idem_add"].as_bs().unwrap()[0].clone())
}

/// Returns the keys of each set of the item.
async fn keys(db: &EmbeddedDynamoDb) -> HashMap<String, usize> {
    let item = stored(db, "c").await.unwrap();
    let sets = item.into_iter().filter_map(|(name, value)| match value {
        AttributeValue::Bs(keys) => Some((name, keys.len())),
        _ => None,
    });
    sets.collect()
}

async fn count_events(client: &Client, once: &Once, name: &str, events: u32) {
    for event in 0..events {
        assert!(counted(client, once, &format!("{name}-{event}")).await);
    }
}

#[tokio::test]
async fn keys_leave_the_item_as_time_passes() {
    let db = database().await;
    let client = client(&db, 1);
    let (once, clock) = once();
    for bucket in 0..20 {
        count_events(&client, &once, &format!("evt-{bucket}"), 3).await;
        let keys: usize = keys(&db).await.values().sum();
        assert_eq!(keys, 3 * (bucket + 1).min(7), "seven buckets");
        clock.advance(BUCKET);
    }
    assert_eq!(updates(&db), 60, "one request for each update");
}

#[tokio::test]
async fn an_idle_item_with_few_old_keys_takes_one_request() {
    let db = database().await;
    let client = client(&db, 1);
    let (once, clock) = once();
    count_events(&client, &once, "old", 3).await;
    // The same slot again.
    clock.advance(BUCKET * 9);
    db.clear_requests();
    assert!(
        counted(&client, &once, "old-0").await,
        "a key of long ago is another one now"
    );
    assert!(!counted(&client, &once, "old-0").await);
    assert_eq!(updates(&db), 2);
    assert_eq!(keys(&db).await.values().sum::<usize>(), 4);
}

#[tokio::test]
async fn an_idle_item_with_many_old_keys_takes_one_more_request_and_loses_them() {
    for idle in [7, 8, 9, 10, 13, 90, 7 + 9 * 1_000] {
        let db = database().await;
        let client = client(&db, 1);
        let (once, clock) = once();
        count_events(&client, &once, "old", 4).await;
        clock.advance(BUCKET * idle);
        db.clear_requests();
        let in_sight = idle % 9 != 7;
        assert!(counted(&client, &once, "old-0").await, "idle for {idle}");
        assert_eq!(
            updates(&db),
            if in_sight { 2 } else { 1 },
            "idle for {idle}"
        );
        assert_eq!(
            keys(&db).await.values().sum::<usize>(),
            1,
            "idle for {idle}"
        );
        assert!(!counted(&client, &once, "old-0").await);
        assert!(counted(&client, &once, "old-1").await);
        assert_eq!(units(&db).await, 6);
    }
}

#[tokio::test]
async fn parallel_writers_of_an_idle_item_all_count() {
    let db = database().await;
    let client = client(&db, 5);
    let (once, clock) = once();
    count_events(&client, &once, "old", 40).await;
    clock.advance(BUCKET * 9);
    super::super::lose_replies(&db, |count| count % 3 == 0);
    let writers: Vec<_> = (0..24)
        .map(|send| {
            let (client, once) = (client.clone(), once.clone());
            tokio::spawn(async move { counted(&client, &once, &format!("new-{}", send % 8)).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(units(&db).await, 48);
    assert_eq!(keys(&db).await.values().sum::<usize>(), 8);
}

#[tokio::test]
async fn a_condition_of_the_caller_is_also_checked_on_an_idle_item() {
    let db = database().await;
    let client = client(&db, 1);
    let (once, clock) = once();
    count_events(&client, &once, "old", 40).await;
    clock.advance(BUCKET * 9);
    let limited = |most| {
        count(&once, "evt")
            .condition("units < :most")
            .value(":most", number(most))
    };
    let failed = condition_failed(limited(40).send(&client).await);
    assert_eq!(number_in(failed.item().unwrap(), "units"), 40);
    assert!(send(&client, limited(41)).await.is_applied());
    assert_eq!(units(&db).await, 41);
}

#[tokio::test]
async fn thirty_thousand_keys_are_known_by_one_item() {
    let most = once::plan(1.965, Duration::from_secs(3 * 3_600));
    let estimate = most.estimate().unwrap();
    let bucket = Duration::from_secs(2_172);
    let clock = ManualClock::at(2_172_000 * 900_000);
    let once = Once::new(most).unwrap().clock(Arc::new(clock.clone()));
    let db = database().await;
    let client = client(&db, 1);

    // The first update of each bucket writes its number; the other keys are put beside its own. Those that are sent later have their
    // digest, and the rest has other bytes of its length.
    let mut sets = HashMap::<String, Vec<Blob>>::new();
    for index in 0..7_u8 {
        assert!(counted(&client, &once, &format!("first-{index}")).await);
        let (set, _) = digest(&client, &once, "any").await;
        let mut keys = Vec::new();
        for event in 0..4_284_u32 {
            keys.push(match event {
                0 | 2_142 | 4_283 => {
                    digest(&client, &once, &format!("evt-{index}-{event}"))
                        .await
                        .1
                }
                _ => Blob::new([[0; 4], [index; 4], event.to_be_bytes()].concat()),
            });
        }
        sets.insert(set, keys);
        if index < 6 {
            clock.advance(bucket);
        }
    }
    let mut item: Item = stored(&db, "c").await.unwrap();
    for (name, digests) in sets {
        let AttributeValue::Bs(known) = item.get_mut(&name).unwrap() else {
            panic!("a set is expected");
        };
        known.extend(digests);
    }
    let put = client.put_item().table_name(TABLE).set_item(Some(item));
    put.send().await.unwrap();
    db.clear_requests();

    for index in 0..7 {
        for event in [0, 2_142, 4_283] {
            assert!(!counted(&client, &once, &format!("evt-{index}-{event}")).await);
        }
    }
    count_events(&client, &once, "new", 5).await;
    assert!(!counted(&client, &once, "new-0").await);
    assert_eq!(units(&db).await, 12);
    let stored: usize = keys(&db).await.values().sum();
    assert_eq!(stored, 30_000);
    assert!(stored as u64 <= estimate.keys());
    assert_eq!(updates(&db), 21 + 6);
}

#[tokio::test]
async fn an_item_that_is_full_refuses_and_applies_nothing() {
    let db = database().await;
    let client = client(&db, 1);
    let (once, _) = once();
    let put = client
        .put_item()
        .table_name(TABLE)
        .item("id", super::super::text("c"));
    // Own data up to the limit: more than the plan says.
    let data = super::super::text(&"x".repeat(409_580));
    put.item("data", data).send().await.unwrap();
    let error = count(&once, "evt-1").send(&client).await.unwrap_err();
    assert!(matches!(error, OnceError::ItemTooLarge(_)), "{error}");
    assert!(!stored(&db, "c").await.unwrap().contains_key("units"));
}

//! Old keys of idle items, and many keys.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::Fault;

use super::super::{disturb, lose_replies, text};
use super::*;

/// Returns the name of the current set, and the digest that an update of this event adds to it.
async fn digest(client: &Client, once: &Once, event: &str) -> (String, Blob) {
    let prepared = count(once, event).prepare(client).await.unwrap();
    let prepared = prepared.transact_item();
    let update = prepared.update().unwrap();
    let values = update.expression_attribute_values().unwrap();
    let set = update.update_expression().split(' ').rev().nth(1).unwrap();
    let set = update.expression_attribute_names().unwrap()[set].clone();
    (set, values[":idem_add"].as_bs().unwrap()[0].clone())
}

/// Returns the number of keys in the item.
async fn keys(db: &EmbeddedDynamoDb) -> usize {
    let item = stored(db, "c").await.unwrap();
    let sets = item.values().filter_map(|value| value.as_bs().ok());
    sets.map(Vec::len).sum()
}

async fn count_events(client: &Client, once: &Once, name: &str, events: u32) {
    for event in 0..events {
        assert!(counted(client, once, &format!("{name}-{event}")).await);
    }
}

#[tokio::test]
async fn keys_leave_the_item_as_time_passes() {
    let (db, client, once, clock) = counting(1).await;
    for bucket in 0..20 {
        count_events(&client, &once, &format!("evt-{bucket}"), 3).await;
        let expected = 3 * (bucket + 1).min(7);
        assert_eq!(keys(&db).await, expected, "seven buckets");
        clock.advance(BUCKET);
    }
    assert_eq!(updates(&db), 60, "one request for each update");
}

#[tokio::test]
async fn an_idle_item_with_few_old_keys_takes_one_request() {
    let (db, client, once, clock) = counting(1).await;
    count_events(&client, &once, "old", 3).await;
    // The same slot again.
    clock.advance(BUCKET * 9);
    db.clear_requests();
    assert!(
        counted(&client, &once, "old-0").await,
        "the old key is forgotten"
    );
    assert!(!counted(&client, &once, "old-0").await);
    assert_eq!(updates(&db), 2);
    assert_eq!(keys(&db).await, 4);
}

#[tokio::test]
async fn an_idle_item_with_many_old_keys_takes_one_more_request_and_loses_them() {
    for idle in [7, 8, 9, 10, 13, 90, 7 + 9 * 1_000] {
        let (db, client, once, clock) = counting(1).await;
        count_events(&client, &once, "old", 4).await;
        clock.advance(BUCKET * idle);
        db.clear_requests();
        let in_sight = idle % 9 != 7;
        assert!(counted(&client, &once, "old-0").await, "idle for {idle}");
        let expected = if in_sight { 2 } else { 1 };
        assert_eq!(updates(&db), expected, "idle for {idle}");
        assert_eq!(keys(&db).await, 1, "idle for {idle}");
        assert!(!counted(&client, &once, "old-0").await);
        assert!(counted(&client, &once, "old-1").await);
        assert_eq!(units(&db).await, 6);
    }
}

#[tokio::test]
async fn parallel_writers_of_an_idle_item_all_count() {
    let (db, client, once, clock) = counting(5).await;
    count_events(&client, &once, "old", 40).await;
    clock.advance(BUCKET * 9);
    lose_replies(&db, |count| count % 3 == 0);
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
    assert_eq!(keys(&db).await, 8);
}

#[tokio::test]
async fn a_condition_of_the_caller_is_also_checked_on_an_idle_item() {
    let (db, client, once, clock) = counting(1).await;
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
    let (db, client) = started(1).await;

    // The first update of each bucket writes its number; the other keys are put beside its own. Keys that are sent below
    // have their own digest, and the other ones have made-up bytes of the same length.
    for index in 0..7_u8 {
        clock.advance(bucket);
        assert!(counted(&client, &once, &format!("first-{index}")).await);
        let (set, _) = digest(&client, &once, "any").await;
        let mut item = stored(&db, "c").await.unwrap();
        let Some(AttributeValue::Bs(keys)) = item.get_mut(&set) else {
            panic!("a set is expected");
        };
        for event in 0..4_284_u32 {
            let name = format!("evt-{index}-{event}");
            keys.push(match event {
                0 | 2_142 | 4_283 => digest(&client, &once, &name).await.1,
                _ => Blob::new([[0; 4], [index; 4], event.to_be_bytes()].concat()),
            });
        }
        db.put(TABLE, item).await.unwrap();
    }
    db.clear_requests();

    for index in 0..7 {
        for event in [0, 2_142, 4_283] {
            assert!(!counted(&client, &once, &format!("evt-{index}-{event}")).await);
        }
    }
    count_events(&client, &once, "new", 5).await;
    assert!(!counted(&client, &once, "new-0").await);
    assert_eq!(units(&db).await, 12);
    let stored = keys(&db).await;
    assert_eq!(stored, 30_000);
    assert!(stored as u64 <= estimate.keys());
    assert_eq!(updates(&db), 21 + 6);
}

#[tokio::test]
async fn an_item_that_is_full_refuses_and_applies_nothing() {
    let (db, client, once, _) = counting(1).await;
    // Own data up to the limit: more than the plan says.
    let data = text(&"x".repeat(409_580));
    let item = [("id", text("c")), ("data", data)];
    db.put(TABLE, item).await.unwrap();
    let error = count(&once, "evt-1").send(&client).await.unwrap_err();
    assert!(matches!(error, OnceError::ItemTooLarge(_)), "{error}");
    assert!(!stored(&db, "c").await.unwrap().contains_key("units"));
}

#[tokio::test]
async fn a_clock_before_1970_is_refused_before_anything_is_sent() {
    let (db, client) = started(1).await;
    let (once, _) = once_at(-5_000);
    let error = count(&once, "evt-1").send(&client).await.unwrap_err();
    assert!(matches!(error, OnceError::ClockBehind { .. }), "{error}");
    assert_eq!(updates(&db), 0);
}

// A billing counter whose feed delivers every event three times, in parallel, while requests and replies are lost.

const EVENTS: u32 = 90;
const CUSTOMERS: u32 = 3;

fn amount(event: u32) -> i64 {
    i64::from(event % 7) + 1
}

/// Returns the update that bills an event to its customer.
fn bill(once: &Once, event: u32) -> OnceUpdate {
    let customer = format!("customer-{}", event % CUSTOMERS);
    let update = once.update(TABLE, key(&customer), format!("evt-{event}"));
    let update = update.expression("ADD billed :amount SET paid = :no");
    let update = update.value(":amount", number(amount(event)));
    update.value(":no", number(0))
}

async fn billed(db: &EmbeddedDynamoDb) -> Vec<i64> {
    let mut billed = Vec::new();
    for customer in 0..CUSTOMERS {
        let item = stored(db, &format!("customer-{customer}")).await.unwrap();
        billed.push(number_in(&item, "billed"));
    }
    billed
}

#[tokio::test]
async fn a_billing_counter_that_gets_every_event_three_times_is_exact() {
    let (db, client) = started(5).await;
    // Two groups of writers, whose clocks differ by the skew. Both cross the end of a bucket.
    let writers = [0, 60_000].map(|ahead| once_at(START + 900_000 - 100 + ahead));
    let clocks = writers.each_ref().map(|(_, clock)| clock.clone());
    disturb(&db, |count| match count % 10 {
        0 | 3 => Some(Fault::on_any().drop_reply()),
        5 => Some(Fault::on_any().drop_request()),
        7 => Some(Fault::on_any().internal_error_although_applied()),
        9 => Some(Fault::on_any().throttle()),
        _ => None,
    });
    let deliveries: Vec<_> = (0..3 * EVENTS)
        .map(|delivery| {
            let event = delivery % EVENTS;
            let (once, _) = &writers[(delivery + delivery / EVENTS) as usize % 2];
            let update = bill(once, event);
            let (client, clocks) = (client.clone(), clocks.clone());
            tokio::spawn(async move {
                for clock in clocks {
                    clock.advance(Duration::from_millis(1));
                }
                if delivery == event && event.is_multiple_of(4) {
                    // This process dies early or late in its call.
                    tokio::select! {
                        _ = update.send(&client) => {}
                        () = yield_often(event) => {}
                    }
                    return None;
                }
                Some((event, send(&client, update).await))
            })
        })
        .collect();
    let mut applied = [0; EVENTS as usize];
    for delivery in deliveries {
        if let Some((event, outcome)) = delivery.await.unwrap() {
            applied[event as usize] += u32::from(outcome.is_applied());
        }
    }
    assert!(applied.iter().all(|times| *times <= 1), "{applied:?}");

    let expected = (0..CUSTOMERS).map(|customer| {
        let events = (0..EVENTS).filter(|event| event % CUSTOMERS == customer);
        events.map(amount).sum::<i64>()
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(billed(&db).await, expected);

    // The whole feed once more, at the end of the lifetime of its first event.
    db.clear_faults();
    for clock in &clocks {
        clock.advance(LIFETIME - SKEW);
    }
    for event in 0..EVENTS {
        let again = send(&client, bill(&writers[1].0, event)).await;
        assert!(!again.is_applied(), "event {event}");
    }
    assert_eq!(billed(&db).await, expected);
}

/// Lets other tasks run for a while.
async fn yield_often(count: u32) {
    for _ in 0..count * 4 {
        tokio::task::yield_now().await;
    }
}

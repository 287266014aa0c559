//! A billing counter whose feed delivers every event three times, in parallel, while requests and replies are lost.

use idempotency_testkit::dynamodb::Fault;

use super::super::{client, database};
use super::*;

const EVENTS: u32 = 90;
const CUSTOMERS: u32 = 3;

fn amount(event: u32) -> i64 {
    i64::from(event % 7) + 1
}

/// Returns the update that bills an event to its customer.
fn bill(once: &Once, event: u32) -> OnceUpdate {
    let customer = key_of(event % CUSTOMERS);
    let update = once.update(TABLE, [("id", customer)], format!("evt-{event}"));
    let update = update.expression("ADD billed :amount SET paid = :no");
    let update = update.value(":amount", number(amount(event)));
    update.value(":no", number(0))
}

fn key_of(customer: u32) -> aws_sdk_dynamodb::types::AttributeValue {
    super::super::text(&format!("customer-{customer}"))
}

async fn billed(db: &EmbeddedDynamoDb) -> Vec<i64> {
    let mut billed = Vec::new();
    for customer in 0..CUSTOMERS {
        let item = stored(db, &format!("customer-{customer}")).await.unwrap();
        billed.push(number_in(&item, "billed"));
    }
    billed
}

/// Loses requests and replies, and throttles. The third send of a call is spared, so that no call runs out of sends.
fn disturb(db: &EmbeddedDynamoDb) {
    let mut count = 0;
    db.inject_chosen(move |request| {
        let spared = request.attempt.is_none_or(|attempt| attempt >= 3);
        if request.operation != "UpdateItem" || spared {
            return None;
        }
        count += 1;
        match count % 10 {
            0 | 3 => Some(Fault::on_any().drop_reply()),
            5 => Some(Fault::on_any().drop_request()),
            7 => Some(Fault::on_any().internal_error_although_applied()),
            9 => Some(Fault::on_any().throttle()),
            _ => None,
        }
    });
}

#[tokio::test]
async fn a_billing_counter_that_gets_every_event_three_times_is_exact() {
    let db = database().await;
    let client = client(&db, 5);
    // Two groups of writers, whose clocks differ by the skew. Both cross the end of a bucket.
    let clocks = [Duration::ZERO, SKEW].map(|ahead| {
        let clock = ManualClock::at(START);
        clock.advance(BUCKET - Duration::from_millis(100) + ahead);
        clock
    });
    let writers = clocks.clone().map(|clock| {
        let once = Once::new(plan()).unwrap();
        once.clock(Arc::new(clock))
    });
    disturb(&db);
    let deliveries: Vec<_> = (0..3 * EVENTS)
        .map(|delivery| {
            let event = delivery % EVENTS;
            let update = bill(&writers[(delivery + delivery / EVENTS) as usize % 2], event);
            let (client, clocks) = (client.clone(), clocks.clone());
            tokio::spawn(async move {
                for clock in clocks {
                    clock.advance(Duration::from_millis(1));
                }
                if delivery == event && event.is_multiple_of(4) {
                    // This process dies early or late in its call.
                    tokio::select! {
                        _ = update.send(&client) => {}
                        () = steps(event) => {}
                    }
                    return None;
                }
                Some((event, send(&client, update).await))
            })
        })
        .collect();
    let mut applied = [0; EVENTS as usize];
    for delivery in deliveries {
        if let Some((event, OnceOutcome::Applied(_))) = delivery.await.unwrap() {
            applied[event as usize] += 1;
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
        let again = send(&client, bill(&writers[1], event)).await;
        assert!(!again.is_applied(), "event {event}");
    }
    assert_eq!(billed(&db).await, expected);
}

/// Lets other tasks run for a while.
async fn steps(count: u32) {
    for _ in 0..count * 4 {
        tokio::task::yield_now().await;
    }
}

//! Lost replies, failed and late requests, merged expressions, several plans, transactions, and texts without values.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::Fault;

use super::super::text;
use super::*;

#[tokio::test]
async fn the_current_values_are_returned_without_the_keys() {
    let (_db, client, once, _) = counting(1).await;
    let silent = send(&client, count(&once, "evt-1")).await;
    assert!(silent.is_applied() && silent.item().is_none());
    let new = send(&client, count(&once, "evt-2").return_item()).await;
    let duplicate = send(&client, count(&once, "evt-1")).await;
    assert!(new.is_applied() && !duplicate.is_applied());
    for outcome in [new, duplicate] {
        let item = outcome.item().unwrap();
        assert_eq!(item.len(), 2, "the key and the units");
        assert_eq!(number_in(item, "units"), 2);
    }
}

#[tokio::test]
async fn a_lost_reply_is_an_update_that_was_applied_before() {
    let (db, client, once, _) = counting(3).await;
    db.inject(Fault::on("UpdateItem").drop_reply());
    let second_send = send(&client, count(&once, "evt-1")).await;
    assert!(!second_send.is_applied() && second_send.maybe_by_this_call());
    let duplicate = send(&client, count(&once, "evt-1")).await;
    assert!(!duplicate.is_applied() && !duplicate.maybe_by_this_call());
    // A request that was lost, and not its reply, is applied by the second send.
    db.inject(Fault::on("UpdateItem").drop_request());
    assert!(counted(&client, &once, "evt-2").await);
    assert_eq!(units(&db).await, 2);
}

#[tokio::test]
async fn a_failed_request_can_be_sent_again_with_its_key() {
    let (db, client, once, _) = counting(1).await;
    let update = || Fault::on("UpdateItem");
    for (fault, maybe) in [
        (update().drop_reply(), true),
        (update().internal_error_although_applied(), true),
        (update().throttle(), false),
    ] {
        db.inject(fault);
        let error = count(&once, "evt-1").send(&client).await.unwrap_err();
        let OnceError::Request(request) = &error else {
            panic!("a failed request is expected: {error}");
        };
        // After the first fault the key is known, so the second call was refused; its 500 says nothing about that.
        assert_eq!(request.maybe_applied(), maybe, "{error}");
    }
    assert!(!counted(&client, &once, "evt-1").await);
    assert_eq!(units(&db).await, 1);
}

#[tokio::test]
async fn a_request_that_arrives_after_its_key_was_forgotten_is_not_applied() {
    let (db, client, once, clock) = counting(3).await;
    let late = db.inject(Fault::on("UpdateItem").late_arrival());
    assert!(counted(&client, &once, "evt-1").await, "the second send");
    // Other updates remove the key.
    for event in 0..8 {
        clock.advance(BUCKET);
        assert!(counted(&client, &once, &format!("other-{event}")).await);
    }
    late.release().await;
    assert_eq!(units(&db).await, 9);
    assert!(
        counted(&client, &once, "evt-1").await,
        "the key is forgotten"
    );
}

#[tokio::test]
async fn a_call_whose_key_was_forgotten_between_its_sends_says_that_it_may_have_been_applied() {
    let (db, client, once, clock) = counting(3).await;
    db.inject(Fault::on("UpdateItem").drop_reply());
    let again = db.inject(Fault::on("UpdateItem").nth(2).hold());
    let (sender, update) = (client.clone(), count(&once, "evt-1"));
    let call = tokio::spawn(async move { update.send(&sender).await });
    again.reached().await;
    clock.advance(BUCKET * 7);
    assert!(counted(&client, &once, "other").await);
    again.release().await;
    let error = call.await.unwrap().unwrap_err();
    let OnceError::ClockBehind { maybe_applied, .. } = &error else {
        panic!("the call is refused: {error}");
    };
    assert!(maybe_applied);
    let text = error.to_string();
    assert!(text.contains("may have been applied"), "{text}");
    assert!(!text.contains("was not applied"), "{text}");
    assert_eq!(units(&db).await, 2);
}

#[tokio::test]
async fn all_clauses_of_an_update_expression_are_merged() {
    let (_db, client, once, _) = counting(1).await;
    let tags =
        |tags: &[&str]| AttributeValue::Ss(tags.iter().map(|tag| (*tag).to_owned()).collect());
    let first = once.update(TABLE, key("c"), "evt-1");
    let first = first.expression("ADD tags :tags SET legacy = :x");
    let first = first.value(":tags", tags(&["a", "b"]));
    let first = send(&client, first.value(":x", text("x"))).await;
    assert!(first.is_applied());
    let all =
        "delete tags :b set units = if_not_exists(units, :n) + :n remove legacy add visits :n";
    let update = once.update(TABLE, key("c"), "evt-2").return_item();
    let update = update
        .expression(all)
        .condition("(attribute_exists(#legacy))")
        .name("#legacy", "legacy")
        .value(":b", tags(&["b"]))
        .value(":n", number(1));
    let outcome = send(&client, update.clone()).await;
    let item = outcome.item().unwrap();
    assert_eq!(number_in(item, "units"), 2);
    assert_eq!(number_in(item, "visits"), 1);
    assert_eq!(item["tags"].as_ss().unwrap(), &["a"]);
    assert!(!item.contains_key("legacy"));
    assert!(!send(&client, update).await.is_applied());
}

#[tokio::test]
async fn two_counters_in_one_item_keep_their_keys_apart() {
    let (db, client, once, clock) = counting(1).await;
    let other = Once::new(plan().attributes("visits_").key_bytes(16)).unwrap();
    let other = other.clock(Arc::new(clock));
    assert!(counted(&client, &once, "evt-1").await);
    assert!(counted(&client, &other, "evt-1").await);
    assert!(!counted(&client, &once, "evt-1").await);
    assert!(!counted(&client, &other, "evt-1").await);
    assert_eq!(units(&db).await, 2);
}

#[tokio::test]
async fn another_plan_is_refused() {
    let (db, client, once, clock) = counting(1).await;
    assert!(counted(&client, &once, "evt-1").await);
    let other = Once::new(once::plan(0.1, LIFETIME * 2)).unwrap();
    let other = other.clock(Arc::new(clock));
    let error = count(&other, "evt-1").send(&client).await.unwrap_err();
    assert!(matches!(error, OnceError::OtherPlan(_)), "{error}");
    let plans = "`6x900s 12B` and not by `6x1788s 12B`";
    assert!(error.to_string().contains(plans), "{error}");
    assert_eq!(units(&db).await, 1);
}

#[tokio::test]
async fn an_update_of_an_idle_item_is_part_of_a_transaction() {
    let (db, client, once, clock) = counting(1).await;
    for event in 0..5 {
        assert!(counted(&client, &once, &format!("old-{event}")).await);
    }
    clock.advance(BUCKET * 9);
    let commit = async |prepared: once::PreparedUpdate| {
        let item = prepared.transact_item();
        let transaction = client.transact_write_items().transact_items(item);
        transaction.send().await.is_ok()
    };
    let prepared = count(&once, "evt-1").prepare(&client).await.unwrap();
    assert!(commit(prepared.clone()).await);
    assert!(!commit(prepared).await, "the key is known");
    assert_eq!(units(&db).await, 6);
    // Another writer removes old keys after the item was read.
    clock.advance(BUCKET * 9);
    for event in 6..12 {
        assert!(counted(&client, &once, &format!("old-{event}")).await);
    }
    clock.advance(BUCKET * 9);
    let prepared = count(&once, "evt-2").prepare(&client).await.unwrap();
    assert!(counted(&client, &once, "evt-3").await);
    assert!(!commit(prepared).await, "the keys that were seen are gone");
    db.inject(Fault::on("GetItem").throttle());
    let error = count(&once, "evt-2").prepare(&client).await.unwrap_err();
    assert!(matches!(error, OnceError::Request(_)), "{error}");
    let prepared = count(&once, "evt-2").prepare(&client).await.unwrap();
    assert!(commit(prepared).await);
}

#[tokio::test]
async fn debug_and_errors_show_no_value() {
    let (_db, client, once, _) = counting(1).await;
    let update = once.update(TABLE, key("c"), "secret-key");
    let update = update
        .expression("SET name_of = :n")
        .value(":n", text("secret"))
        .return_item();
    let failing = update.clone().condition("name_of <> :n");
    let prepared = update.clone().prepare(&client).await;
    let applied = update.clone().send(&client).await;
    let again = update.clone().send(&client).await;
    let error = once.update(TABLE, key("c"), "other-secret");
    let error = error
        .expression("SET name_of = :n")
        .condition("name_of <> :n")
        .value(":n", text("secret"));
    let error = error.send(&client).await.unwrap_err();
    let texts = format!(
        "{update:?} {prepared:?} {once:?} {applied:?} {again:?} {error} {error:?} {failing:?}"
    );
    assert!(!texts.contains("secret"), "{texts}");
}

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::time::EpochMillis;

use super::*;
use crate::once::{Once, OnceUpdate, plan};

/// A clock that stands still in bucket 1,000.
struct Still;

/// The bucket of [`Still`], with the plan of [`update`].
const BUCKET: i64 = 1_000;

impl idempotency_core::clock::Clock for Still {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(BUCKET * 900_000)
    }

    fn sleep(&self, _: Duration) -> idempotency_core::future::BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn update() -> OnceUpdate {
    let once = Once::new(plan(0.1, Duration::from_secs(4_440))).unwrap();
    let once = once.clock(Arc::new(Still));
    let key = [("id", AttributeValue::S("c-1".to_owned()))];
    let update = once.update("usage", key, "evt-1");
    update
        .expression("ADD units :n")
        .value(":n", AttributeValue::N("5".to_owned()))
}

fn prepared() -> PreparedUpdate {
    update().build().unwrap()
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Returns an item whose slot has this number and so many other keys.
fn item(bucket: i64, stored: i64, keys: u32) -> Item {
    let layout = prepared().layout;
    let keys = (0..keys).map(|key| Blob::new(key.to_be_bytes()));
    let set = AttributeValue::Bs(keys.collect());
    Item::from([
        ("units".to_owned(), number(7)),
        (layout.plan(), AttributeValue::S(layout.plan_text())),
        (layout.set(bucket), set),
        (layout.number(bucket), number(stored)),
    ])
}

/// Returns the item with the key in a bucket.
fn with_key(mut item: Item, bucket: i64) -> Item {
    let prepared = prepared();
    let digest = Blob::new(prepared.layout.digest(bucket, b"evt-1"));
    let set = item.entry(prepared.layout.set(bucket));
    match set.or_insert(AttributeValue::Bs(Vec::new())) {
        AttributeValue::Bs(digests) => digests.push(digest),
        _ => panic!("a set is expected"),
    }
    item
}

fn meaning(prepared: &PreparedUpdate, item: Item) -> &'static str {
    match prepared.refusal(Some(item), false) {
        OnceRefusal::AlreadyApplied(_) => "already",
        OnceRefusal::SendInstead(_) => "instead",
        OnceRefusal::Error(OnceError::ConditionFailed(_)) => "condition",
        OnceRefusal::Error(OnceError::ClockBehind(_)) => "clock",
        OnceRefusal::Error(OnceError::OtherPlan(_)) => "plan",
        OnceRefusal::Error(OnceError::Foreign { .. }) => "foreign",
        OnceRefusal::Error(_) => "other",
    }
}

#[test]
fn the_expression_is_the_users_with_ours() {
    let update = prepared().update;
    assert_eq!(
        update.update_expression,
        "SET #idem_p = :idem_p, #idem_b1 = :idem_b1 REMOVE #idem_s3, #idem_b3 ADD units :n, #idem_s1 :idem_add"
    );
    let condition = update.condition_expression.unwrap();
    assert!(condition.len() < 1_000, "{}", condition.len());
    let per_slot = "#idem_b1 > :idem_b1 OR (#idem_b1 < :idem_b1 AND size(#idem_s1) >= :idem_few) OR contains(#idem_s1, :idem_k1) OR ";
    assert!(condition.contains(per_slot), "{condition}");
    assert!(
        condition.ends_with(" OR #idem_b3 >= :idem_b3)"),
        "{condition}"
    );
    let names = update.expression_attribute_names.unwrap();
    assert_eq!(names["#idem_s1"], "once_1");
    assert_eq!(names["#idem_b1"], "once_1b");
}

#[test]
fn the_key_in_each_bucket_that_can_have_it_means_that_it_was_applied() {
    let prepared = prepared();
    for bucket in BUCKET - 6..=BUCKET + 1 {
        assert_eq!(
            meaning(&prepared, with_key(item(bucket, bucket, 1), bucket)),
            "already"
        );
    }
    // In another bucket the same key has another digest.
    for bucket in [BUCKET - 7, BUCKET + 2] {
        assert_ne!(
            meaning(&prepared, with_key(item(bucket, bucket, 1), bucket)),
            "already"
        );
    }
}

#[test]
fn a_condition_of_the_caller_counts_only_if_the_key_is_not_known() {
    let prepared = update().condition("units < :n").build().unwrap();
    assert_eq!(meaning(&prepared, item(BUCKET, BUCKET, 1)), "condition");
    assert_eq!(
        meaning(&prepared, with_key(item(BUCKET, BUCKET, 1), BUCKET)),
        "already"
    );
    let absent = prepared.refusal(None, true);
    let OnceRefusal::Error(OnceError::ConditionFailed(failed)) = absent else {
        panic!("a failed condition is expected");
    };
    assert!(failed.item().is_none() && failed.may_still_arrive());
}

#[test]
fn the_item_is_returned_without_the_keys() {
    let OnceRefusal::AlreadyApplied(already) =
        prepared().refusal(Some(with_key(item(BUCKET, BUCKET, 1), BUCKET)), true)
    else {
        panic!("the key is known");
    };
    assert!(already.maybe_by_this_call());
    assert_eq!(already.item, Item::from([("units".to_owned(), number(7))]));
}

#[test]
fn a_bucket_far_ahead_means_that_the_clock_is_behind() {
    let prepared = prepared();
    for (ahead, seconds) in [(2, 900), (3, 1_800), (7, 5_400), (70, 62_100)] {
        let bucket = BUCKET + ahead;
        let refusal = prepared.refusal(Some(item(bucket, bucket, 1)), false);
        let OnceRefusal::Error(OnceError::ClockBehind(behind)) = refusal else {
            panic!("the clock is behind");
        };
        assert_eq!(behind.at_least().as_secs(), seconds);
        assert!(!behind.maybe_applied());
    }
    // One bucket ahead is within the plan: the condition holds, so the failure has another reason.
    assert_eq!(
        meaning(&prepared, item(BUCKET + 1, BUCKET + 1, 1)),
        "foreign"
    );
}

#[test]
fn a_slot_with_many_old_keys_is_replaced_by_the_next_update() {
    let prepared = prepared();
    let old = item(BUCKET, BUCKET - 9, 4);
    let OnceRefusal::SendInstead(instead) = prepared.refusal(Some(old.clone()), false) else {
        panic!("another update is expected");
    };
    assert_eq!(
        instead.update.update_expression,
        "SET #idem_p = :idem_p, #idem_b1 = :idem_b1, #idem_s1 = :idem_add REMOVE #idem_s3, #idem_b3 ADD units :n"
    );
    let condition = instead.update.condition_expression.clone().unwrap();
    assert!(
        condition.contains("AND #idem_b1 = :idem_o1 AND"),
        "{condition}"
    );
    let elsewhere = item(BUCKET - 3, BUCKET - 12, 4);
    let OnceRefusal::SendInstead(instead) = instead.refusal(Some(elsewhere), false) else {
        panic!("another update is expected");
    };
    assert_eq!(
        instead.update.update_expression,
        "SET #idem_p = :idem_p, #idem_b1 = :idem_b1 REMOVE #idem_s7, #idem_b7, #idem_s3, #idem_b3 ADD units :n, #idem_s1 :idem_add"
    );
    // Another writer removed them in the meantime: back to the first form.
    let OnceRefusal::SendInstead(first) = instead.refusal(Some(item(BUCKET, BUCKET, 50)), false)
    else {
        panic!("another update is expected");
    };
    assert_eq!(first.update, prepared.update);
}

#[test]
fn an_update_for_an_item_that_was_read_removes_its_old_keys() {
    let old = item(BUCKET, BUCKET - 9, 4);
    let for_item = |item: &Item| prepared().for_item(item).unwrap().update;
    let OnceRefusal::SendInstead(instead) = prepared().refusal(Some(old.clone()), false) else {
        panic!("another update is expected");
    };
    assert_eq!(for_item(&old), instead.update);
    for same in [
        Item::new(),
        item(BUCKET, BUCKET - 9, 3),
        item(BUCKET, BUCKET, 50),
        with_key(old, BUCKET - 1),
        item(BUCKET + 2, BUCKET + 2, 1),
    ] {
        assert_eq!(for_item(&same), prepared().update);
    }
}

#[test]
fn a_rejection_that_is_no_condition_says_nothing_of_the_item() {
    let known = with_key(item(BUCKET, BUCKET, 1), BUCKET);
    for (code, is_known) in [
        (RejectedWrite::CONDITION, true),
        ("ValidationError", false),
        ("", false),
    ] {
        let write = RejectedWrite::new(0, "update", code).with_item(known.clone());
        let refusal = prepared().rejected(&write);
        assert_eq!(
            matches!(refusal, Some(OnceRefusal::AlreadyApplied(_))),
            is_known,
            "{code}"
        );
        assert_eq!(refusal.is_some(), is_known, "{code}");
    }
}

#[test]
fn a_few_old_keys_need_no_other_update() {
    let prepared = update().condition("units < :n").build().unwrap();
    assert_eq!(meaning(&prepared, item(BUCKET, BUCKET - 9, 3)), "condition");
    assert_eq!(meaning(&prepared, item(BUCKET, BUCKET, 5_000)), "condition");
}

#[test]
fn what_another_program_or_plan_wrote_is_refused() {
    let prepared = prepared();
    let layout = &prepared.layout;
    let mut other = item(BUCKET, BUCKET, 1);
    other.insert(layout.plan(), AttributeValue::S("4x60s 12B".to_owned()));
    assert_eq!(meaning(&prepared, other), "plan");
    // An error shows a plan, and no value of another program.
    for text in ["gold", "", "x", "4x60s 12B secret", "4xs 12B", "sx4 B"] {
        let mut other = item(BUCKET, BUCKET, 1);
        other.insert(layout.plan(), AttributeValue::S(text.to_owned()));
        assert_eq!(meaning(&prepared, other), "foreign", "{text}");
    }
    for attribute in [
        layout.plan(),
        layout.set(BUCKET - 1),
        layout.number(BUCKET + 2),
    ] {
        let mut foreign = item(BUCKET, BUCKET, 1);
        foreign.insert(attribute, AttributeValue::Bool(true));
        assert_eq!(meaning(&prepared, foreign), "foreign");
    }
}

#[test]
fn an_update_without_an_expression_or_a_key_is_refused() {
    let key = || [("id", AttributeValue::S("c-1".to_owned()))];
    let once = Once::new(plan(0.1, Duration::from_secs(60))).unwrap();
    let without_expression = once.update("usage", key(), "evt-1").build();
    let without_key = once
        .update("usage", key(), "")
        .expression("REMOVE a")
        .build();
    let key_of_ours = [("once_1", AttributeValue::S("c-1".to_owned()))];
    let key_of_ours = once.update("usage", key_of_ours, "evt-1");
    let key_of_ours = key_of_ours.expression("REMOVE a").build();
    let of_ours = once
        .update("usage", key(), "evt-1")
        .expression("REMOVE once_3")
        .build();
    let long = format!("SET a = {}b", "b + ".repeat(1_000));
    let too_long = once
        .update("usage", key(), "evt-1")
        .expression(long)
        .build();
    for refused in [
        without_expression,
        without_key,
        key_of_ours,
        of_ours,
        too_long,
    ] {
        assert!(matches!(refused, Err(OnceError::Invalid(_))), "{refused:?}");
    }
}

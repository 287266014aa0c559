//! The limits of staged writes, and the meaning of cancellations.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, ConditionCheck, Delete, Put, TransactWriteItem, Update,
};
use idempotency_core::store::RejectedWrite;

use super::*;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn put(table: &str, id: &str) -> TransactWriteItem {
    let put = Put::builder().table_name(table).item("id", text(id));
    let put = put.item("total", AttributeValue::N("5".to_owned()));
    TransactWriteItem::builder()
        .put(put.build().unwrap())
        .build()
}

fn update(table: &str, id: &str) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(table)
        .key("id", text(id))
        .update_expression("SET a = :a")
        .expression_attribute_values(":a", text("x"));
    TransactWriteItem::builder()
        .update(update.build().unwrap())
        .build()
}

fn delete(table: &str, id: &str) -> TransactWriteItem {
    let delete = Delete::builder().table_name(table).key("id", text(id));
    TransactWriteItem::builder()
        .delete(delete.build().unwrap())
        .build()
}

fn check(table: &str, id: &str) -> TransactWriteItem {
    let check = ConditionCheck::builder()
        .table_name(table)
        .key("id", text(id))
        .condition_expression("attribute_exists(id)");
    TransactWriteItem::builder()
        .condition_check(check.build().unwrap())
        .build()
}

/// Returns the deletion of an item with a binary key.
fn binary(key: &[u8]) -> TransactWriteItem {
    let delete = Delete::builder().table_name("t");
    let delete = delete.key("id", AttributeValue::B(Blob::new(key)));
    TransactWriteItem::builder()
        .delete(delete.build().unwrap())
        .build()
}

fn writes_of(items: impl IntoIterator<Item = TransactWriteItem>) -> Result<Writes, String> {
    let mut writes = Writes::default();
    for item in items {
        writes.push(item).map_err(|error| error.to_string())?;
    }
    Ok(writes)
}

#[test]
fn ninety_nine_writes_can_be_staged() {
    let writes = |count: usize| writes_of((0..count).map(|n| update("t", &n.to_string())));
    assert_eq!(writes(99).unwrap().count(), 99);
    let error = writes(100).err().unwrap();
    assert!(error.contains("at most 99 writes"), "{error}");
}

#[test]
fn two_operations_of_any_kind_on_one_item_are_refused() {
    for (first, second) in [
        (update("t", "1"), update("t", "1")),
        (update("t", "1"), delete("t", "1")),
        (check("t", "1"), update("t", "1")),
        (put("t", "1"), delete("t", "1")),
        (check("t", "1"), put("t", "1")),
        (
            update("arn:aws:dynamodb:eu-west-1:1:table/t", "1"),
            delete("t", "1"),
        ),
    ] {
        let error = writes_of([first, second]).err().unwrap();
        assert!(
            error.contains("write 2") && error.contains("write 1 have the same item"),
            "{error}"
        );
        assert!(error.contains("`t`"), "{error}");
    }
    // The key of the table is known from the third write only.
    assert!(
        writes_of([put("t", "1"), put("t", "1")]).is_ok(),
        "DynamoDB refuses it"
    );
    let error = writes_of([update("t", "2"), put("t", "1"), put("t", "1")])
        .err()
        .unwrap();
    assert!(
        error.contains("write 3") && error.contains("write 2 have"),
        "{error}"
    );
    assert!(writes_of([update("t", "1"), update("u", "1"), put("t", "2")]).is_ok());
    // The key of another table says nothing about this one: both puts have the same `total`.
    let other = Delete::builder().table_name("u");
    let other = other.key("total", AttributeValue::N("5".to_owned()));
    let other = TransactWriteItem::builder().delete(other.build().unwrap());
    assert!(writes_of([other.build(), put("t", "1"), put("t", "2")]).is_ok());
}

#[test]
fn a_write_without_a_key_a_table_or_an_operation_is_refused() {
    let nothing = TransactWriteItem::builder().build();
    let error = writes_of([nothing]).err().unwrap();
    assert_eq!(
        error,
        "write 1 must be exactly one put, update, delete or condition check"
    );
    for (item, why) in [
        (update("", "1"), "names no table"),
        (update("t", ""), "has an empty value in its key"),
        (binary(b""), "has an empty value in its key"),
    ] {
        let error = writes_of([item]).err().unwrap();
        assert!(error.ends_with(why), "{error}");
    }
    // An attribute of a put need not be its key.
    assert!(writes_of([binary(b"1"), put("t", "")]).is_ok());
}

#[test]
fn items_of_more_than_400_kb_and_transactions_of_more_than_4_mb_are_refused() {
    let large = |id: &str, bytes: usize| {
        let put = Put::builder().table_name("t").item("id", text(id));
        let put = put.item("b", AttributeValue::B(Blob::new(vec![0; bytes])));
        TransactWriteItem::builder()
            .put(put.build().unwrap())
            .build()
    };
    let error = writes_of([large("1", 400 * 1024)]).err().unwrap();
    assert!(
        error.starts_with("write 1 (put into table `t`) has 409604 bytes"),
        "{error}"
    );
    // Ten of 409,600 bytes, the most that an item can have, and one of the 98,304 bytes that are left.
    let writes = |bytes: usize| {
        let ten = (0..10).map(|n| large(&n.to_string(), 409_596));
        writes_of(ten.chain([large("10", bytes)]))
    };
    assert_eq!(writes(98_299).unwrap().count(), 11);
    let error = writes(98_300).err().unwrap();
    assert!(
        error.contains("with write 11") && error.contains("4 MB"),
        "{error}"
    );
    assert!(writes_of([large("1", 409_597)]).is_err());
    assert!(too_large(4 * 1024 * 1024, 1).is_some() && too_large(4 * 1024 * 1024, 0).is_none());
}

#[test]
fn a_refused_write_is_not_staged() {
    let mut writes = writes_of([update("t", "1")]).unwrap();
    let before = writes.bytes();
    assert!(writes.push(delete("t", "1")).is_err());
    assert_eq!((writes.count(), writes.bytes()), (1, before));
}

#[test]
fn the_item_of_the_record_is_found_among_the_staged_writes() {
    let writes = writes_of([update("t", "1"), put("records", "shop#1")]).unwrap();
    let key = |id: &str| Item::from([("id".to_owned(), text(id))]);
    let arn = "arn:aws:dynamodb:eu-west-1:1:table/records";
    assert_eq!(writes.position_of(arn, &key("shop#1")), Some(1));
    assert_eq!(writes.position_of("records", &key("shop#2")), None);
}

fn reason(code: &str) -> CancellationReason {
    CancellationReason::builder().code(code).build()
}

fn explained(codes: &[&str]) -> Cancellation {
    let writes = writes_of([update("accounts", "1"), put("orders", "2")]).unwrap();
    Cancellation::of(codes.iter().copied().map(reason).collect(), true, &writes)
}

const FAILED: &str = RejectedWrite::CONDITION;

#[test]
fn the_condition_on_the_record_decides_first() {
    for others in [
        ["None", "None"],
        [FAILED, FAILED],
        ["TransactionConflict", FAILED],
    ] {
        let codes = [FAILED, others[0], others[1]];
        assert!(
            matches!(explained(&codes), Cancellation::Record(None)),
            "{codes:?}"
        );
    }
}

#[test]
fn nothing_is_concluded_from_the_staged_writes_while_another_transaction_has_the_record() {
    let explained = explained(&["TransactionConflict", FAILED, "None"]);
    assert!(matches!(explained, Cancellation::Conflict));
    let throttled = self::explained(&["ThrottlingError", FAILED, "None"]);
    assert!(matches!(throttled, Cancellation::Throttled(_)));
}

#[test]
fn a_staged_write_that_is_rejected_decides_before_conflicts_and_throttling() {
    let Cancellation::Staged(rejection) = explained(&["None", FAILED, "TransactionConflict"])
    else {
        panic!("a condition of a staged write failed");
    };
    assert_eq!(
        rejection.to_string(),
        "write 1 of 2 (update of table `accounts`): ConditionalCheckFailed"
    );
    for code in ["ValidationError", "Other"] {
        let Cancellation::Staged(rejection) = explained(&["None", FAILED, code]) else {
            panic!("both staged writes were rejected");
        };
        assert_eq!(rejection.writes().len(), 2);
        assert!(!rejection.writes()[1].is_condition() && !rejection.is_by_conditions());
    }
}

#[test]
fn conflicts_and_throttling_of_staged_items_pass_by_themselves() {
    for codes in [
        ["None", "TransactionConflict", "None"],
        ["None", "TransactionConflict", "ThrottlingError"],
    ] {
        assert!(
            matches!(explained(&codes), Cancellation::Conflict),
            "{codes:?}"
        );
    }
    let throttled = explained(&["None", "None", "ProvisionedThroughputExceeded"]);
    assert!(matches!(throttled, Cancellation::Throttled(_)));
}

#[test]
fn reasons_that_do_not_fit_the_request_explain_nothing() {
    for codes in [
        &[][..],
        &["None", "None", "None"],
        &[FAILED],
        &["Other", "None", "None"],
        &["Other", FAILED, "None"],
    ] {
        assert!(
            matches!(explained(codes), Cancellation::Unknown(_)),
            "{codes:?}"
        );
    }
}

#[test]
fn a_record_that_is_too_large_and_a_staged_item_that_is_differ() {
    let writes = writes_of([update("accounts", "1")]).unwrap();
    let size = || {
        CancellationReason::builder()
            .code("ValidationError")
            .message("Item size to update has exceeded the maximum allowed size")
            .build()
    };
    let record = Cancellation::of(vec![size(), reason("None")], true, &writes);
    assert!(matches!(record, Cancellation::RecordTooLarge));
    let item = Cancellation::of(vec![reason("None"), size()], true, &writes);
    assert!(matches!(item, Cancellation::Staged(_)));
}

#[test]
fn the_old_item_is_returned_and_never_shown() {
    let writes = writes_of([update("accounts", "1")]).unwrap();
    let failed = CancellationReason::builder()
        .code(FAILED)
        .item("balance", text("s3cr3t"))
        .build();
    let Cancellation::Staged(rejection) = Cancellation::of(vec![failed], false, &writes) else {
        panic!("the condition failed");
    };
    let item = rejection.write(0).and_then(|write| write.item::<Item>());
    assert_eq!(item.unwrap()["balance"], text("s3cr3t"));
    assert!(!format!("{rejection} {rejection:?}").contains("s3cr3t"));
    // Without an item DynamoDB can send an empty one.
    let failed = reason(FAILED);
    let empty = CancellationReason::builder()
        .code(FAILED)
        .set_item(Some(Item::new()));
    for reason in [failed, empty.build()] {
        let Cancellation::Staged(rejection) = Cancellation::of(vec![reason], false, &writes) else {
            panic!("the condition failed");
        };
        assert!(rejection.writes()[0].item::<Item>().is_none());
    }
}

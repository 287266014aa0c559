//! Transactions on the wire: what is sent, and what each reply means.

use idempotency_core::record::{Data, Field, Record, Status};
use idempotency_core::store::{
    Change, LedgerEntry, MemoryWrites, RecordWrite, SendLog, Staged, Store, StoreReply,
    StoreRequest, TransactionRequest, Write,
};
use idempotency_dynamodb::transact;
use serde_json::{Value, json};

use super::{assert_applied, assert_sent, fence, id, replies, store};
use crate::script::{Reply, Wire};
use crate::{columns, rows, said, text_of};

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};

fn update(table: &str, id: &str) -> TransactWriteItem {
    let update = Update::builder()
        .table_name(table)
        .key("id", AttributeValue::S(id.to_owned()))
        .update_expression("SET a = :a")
        .expression_attribute_values(":a", AttributeValue::N("5".to_owned()));
    TransactWriteItem::builder()
        .update(update.build().unwrap())
        .build()
}

pub(crate) fn staged() -> Staged {
    transact::staged([update("accounts", "alice")]).unwrap()
}

fn completion() -> Write {
    Write::Update(Change {
        set: Record {
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("[1]")),
            ..Record::default()
        },
        remove: Vec::new(),
    })
}

/// Sends the completion with these writes, and notes its sends in this log.
async fn completed(wire: &Wire, staged: &Staged, log: &SendLog) -> StoreReply {
    let (id, write, condition) = (id(), completion(), fence());
    let transaction = TransactionRequest {
        record: Some(RecordWrite {
            id: &id,
            write: &write,
            condition: &condition,
        }),
        staged,
        token: "07070707070707070707070707070707-c",
    };
    let request = StoreRequest::Transact(transaction);
    store(wire).send(request, log).await
}

/// Returns a cancellation with these codes. If the condition on the record failed, it brings the record back.
pub(crate) fn cancelled(record: &str, staged: &str) -> Reply {
    let mut reasons = json!([{ "Code": record }, { "Code": staged }]);
    if record == "ConditionalCheckFailed" {
        reasons[0]["Item"] = json!({ "id": { "S": "charge#42" }, "data": { "S": "[7]" } });
    }
    cancelled_for(&reasons)
}

fn cancelled_for(reasons: &Value) -> Reply {
    let body = json!({
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons",
        "CancellationReasons": reasons,
    });
    Reply::with_code(400, "TransactionCanceledException", body)
}

#[tokio::test]
async fn the_record_comes_first_under_its_fence_and_the_request_has_the_token() {
    let wire = Wire::new([Reply::ok()]);
    assert_applied(&completed(&wire, &staged(), &SendLog::new()).await);
    assert_sent(
        &wire,
        "in a transaction the record comes first under its fence",
    );
}

#[tokio::test]
async fn a_transaction_without_a_record_contains_the_staged_writes_alone() {
    let wire = Wire::new([Reply::ok()]);
    let transaction = TransactionRequest {
        record: None,
        staged: &staged(),
        token: "t",
    };
    let request = StoreRequest::Transact(transaction);
    assert_applied(&store(&wire).send(request, &SendLog::new()).await);
    let name = "a transaction without a record contains the staged writes alone";
    assert_sent(&wire, name);
}

#[tokio::test]
async fn the_outcome_of_a_transaction_follows_from_its_reasons_and_its_earlier_sends() {
    for row in rows(include_str!("transactions.txt")) {
        let [words, outcome, text] = columns(row);
        let wire = Wire::new(replies(words));
        let reply = completed(&wire, &staged(), &SendLog::new()).await;
        assert_eq!(said(&reply), outcome, "{row}");
        assert!(text_of(&reply).contains(text), "{row}: {reply:?}");
        wire.requests();
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_after_its_condition_failed_is_noted_as_a_refusal() {
    let manifest = json!({
        "bytes": 3, "encoding": "text", "pieces": 1, "sha256": "a".repeat(64), "text": 3,
    });
    let split = "split over the items of data_pieces; on a table shared with another language set \
                 IDEMPOTENCY_LARGE_RESPONSES=off";
    let item = json!({
        "id": { "S": "charge#42" },
        "data": { "S": split },
        "data_pieces": { "S": manifest.to_string() },
    });
    let wire = Wire::new([
        cancelled_for(
            &json!([{ "Code": "ConditionalCheckFailed", "Item": item }, { "Code": "None" }]),
        ),
        Reply::error("AccessDeniedException", "no"),
    ]);
    let log = SendLog::new();
    let outcome = completed(&wire, &staged(), &log).await;
    assert_eq!(said(&outcome), "AccessDenied");
    assert!(log.is_refused());
    wire.requests();
}

#[tokio::test]
async fn a_transaction_that_cannot_be_sent_was_not_applied() {
    let (wire, other) = (Wire::new([]), LedgerEntry::add("alice", 1));
    for staged in [
        Staged::new(MemoryWrites::from([other])),
        transact::staged([update("payments", "charge#42")]).unwrap(),
    ] {
        let outcome = completed(&wire, &staged, &SendLog::new()).await;
        assert_eq!(said(&outcome), "Rejected");
    }
    assert!(wire.requests().is_empty());
}

//! Transactions on the wire: what is sent, and what each reply means.

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Data, Field, OwnerToken, Record, Status};
use idempotency_core::store::{
    Change, LedgerEntry, MemoryWrites, RecordWrite, SendLog, Staged, Store, StoreErrorKind,
    StoreReply, StoreRequest, TransactionRequest, Write,
};
use idempotency_dynamodb::transact;
use serde_json::{Value, json};

use super::script::{Reply, Wire};
use super::{assert_applied, failure, id, store};

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

fn fence() -> Condition {
    held_by(&OwnerToken::from_bytes([7; 16]))
}

async fn completed(wire: &Wire, staged: &Staged) -> StoreReply {
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
    store(wire)
        .send(StoreRequest::Transact(transaction), &SendLog::new())
        .await
}

/// Returns a cancellation with these codes, and for the first one this item.
fn cancelled(codes: &[&str], item: Option<Value>) -> Reply {
    let mut reasons: Vec<_> = codes.iter().map(|code| json!({ "Code": code })).collect();
    if let Some(item) = item {
        reasons[0]["Item"] = item;
    }
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
        "Message": "Transaction cancelled, please refer cancellation reasons for specific reasons",
        "CancellationReasons": reasons,
    });
    Reply::Response(400, body)
}

async fn failed(replies: impl IntoIterator<Item = Reply>) -> (bool, StoreErrorKind, String) {
    let wire = Wire::new(replies);
    match completed(&wire, &staged()).await {
        StoreReply::Failed {
            maybe_applied,
            error,
        } => {
            wire.requests();
            (maybe_applied, error.kind(), error.to_string())
        }
        other => panic!("the transaction did not fail: {other:?}"),
    }
}

#[tokio::test]
async fn the_record_comes_first_under_its_fence_and_the_request_has_the_token() {
    let wire = Wire::new([Reply::ok()]);
    assert_applied(&completed(&wire, &staged()).await);
    let [(action, body)] = &wire.requests()[..] else {
        panic!("one request");
    };
    assert_eq!(action, "TransactWriteItems");
    assert_eq!(
        *body,
        json!({
            "ClientRequestToken": "07070707070707070707070707070707-c",
            "TransactItems": [
                { "Update": {
                    "TableName": "payments",
                    "Key": { "id": { "S": "charge#42" } },
                    "UpdateExpression": "SET #a = :a, #b = :b",
                    "ConditionExpression": "#c = :c AND #a = :d",
                    "ExpressionAttributeNames": { "#a": "status", "#b": "data", "#c": "owner" },
                    "ExpressionAttributeValues": {
                        ":a": { "S": "COMPLETED" },
                        ":b": { "S": "[1]" },
                        ":c": { "S": "07070707070707070707070707070707" },
                        ":d": { "S": "INPROGRESS" },
                    },
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                } },
                { "Update": {
                    "TableName": "accounts",
                    "Key": { "id": { "S": "alice" } },
                    "UpdateExpression": "SET a = :a",
                    "ExpressionAttributeValues": { ":a": { "N": "5" } },
                } },
            ],
        })
    );
}

#[tokio::test]
async fn a_failed_condition_on_the_record_returns_it_for_any_result_of_the_staged_writes() {
    for staged_code in ["None", "ConditionalCheckFailed", "TransactionConflict"] {
        let item = json!({ "id": { "S": "charge#42" }, "data": { "S": "[7]" } });
        let wire = Wire::new([cancelled(
            &["ConditionalCheckFailed", staged_code],
            Some(item),
        )]);
        let StoreReply::ConditionFailed {
            existing,
            maybe_applied: false,
            ..
        } = completed(&wire, &staged()).await
        else {
            panic!("{staged_code}");
        };
        assert_eq!(existing.unwrap().data, Field::Value(Data::new("[7]")));
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
        cancelled(&["ConditionalCheckFailed", "None"], Some(item)),
        Reply::error("AccessDeniedException", "no"),
    ]);
    let (id, write, condition) = (id(), completion(), fence());
    let staged = staged();
    let transaction = TransactionRequest {
        record: Some(RecordWrite {
            id: &id,
            write: &write,
            condition: &condition,
        }),
        staged: &staged,
        token: "07070707070707070707070707070707-c",
    };
    let log = SendLog::new();
    let outcome = store(&wire)
        .send(StoreRequest::Transact(transaction), &log)
        .await;
    let denied = StoreErrorKind::AccessDenied;
    assert!(
        matches!(&outcome, StoreReply::Failed { error, .. } if error.kind() == denied),
        "{outcome:?}"
    );
    assert!(log.is_refused());
    wire.requests();
}

#[tokio::test]
async fn a_failed_condition_of_a_staged_write_names_its_position_and_its_table() {
    let wire = Wire::new([cancelled(&["None", "ConditionalCheckFailed"], None)]);
    let StoreReply::Rejected {
        rejection,
        maybe_applied: false,
    } = completed(&wire, &staged()).await
    else {
        panic!("a staged write was rejected");
    };
    assert_eq!(
        rejection.to_string(),
        "write 1 of 1 (update of table `accounts`): ConditionalCheckFailed"
    );
    wire.requests();
}

#[tokio::test]
async fn conflicts_throttling_and_transactions_in_progress_can_be_sent_again() {
    let conflict = failed([cancelled(&["None", "TransactionConflict"], None)]).await;
    assert_eq!((conflict.0, conflict.1), (false, StoreErrorKind::Conflict));
    let throttled = failed([cancelled(&["None", "ThrottlingError"], None)]).await;
    assert_eq!(
        (throttled.0, throttled.1),
        (false, StoreErrorKind::Throttled)
    );
    // An earlier send has the token, and may still be applied. The client of the SDK sends again by itself.
    let busy = || Reply::error("TransactionInProgressException", "in progress");
    let in_progress = failed([busy(), busy(), busy()]).await;
    assert_eq!(
        (in_progress.0, in_progress.1),
        (true, StoreErrorKind::Conflict)
    );
}

#[tokio::test]
async fn an_earlier_send_that_may_have_been_applied_is_not_forgotten() {
    let wire = Wire::new([
        Reply::Reset,
        cancelled(&["None", "ConditionalCheckFailed"], None),
    ]);
    let outcome = completed(&wire, &staged()).await;
    assert!(
        matches!(
            outcome,
            StoreReply::Rejected {
                maybe_applied: true,
                ..
            }
        ),
        "{outcome:?}"
    );
    wire.requests();
    let wire = Wire::new([
        Reply::Reset,
        cancelled(&["ConditionalCheckFailed", "None"], None),
    ]);
    let outcome = completed(&wire, &staged()).await;
    assert!(
        matches!(
            outcome,
            StoreReply::ConditionFailed {
                existing: None,
                maybe_applied: true,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn an_error_says_which_permission_or_table_is_missing_and_quotes_no_values() {
    let (_, kind, text) = failed([Reply::error(
        "AccessDeniedException",
        "User is not authorized to perform dynamodb:UpdateItem on accounts",
    )])
    .await;
    assert_eq!(kind, StoreErrorKind::AccessDenied);
    assert!(
        text.contains("dynamodb:ConditionCheckItem") && text.contains("on accounts"),
        "{text}"
    );
    let (_, kind, text) = failed([Reply::error("ResourceNotFoundException", "no table")]).await;
    assert_eq!(kind, StoreErrorKind::TableMissing);
    assert!(text.starts_with("a table of the transaction"), "{text}");
    let quoted = "1 validation error detected: Value '[s3cr3t]' at 'transactItems'";
    let (_, kind, text) = failed([Reply::error("ValidationException", quoted)]).await;
    assert_eq!(kind, StoreErrorKind::Rejected);
    assert!(!text.contains("s3cr3t"), "{text}");
    let mismatch = Reply::error("IdempotentParameterMismatchException", "other parameters");
    let (maybe_applied, kind, _) = failed([mismatch]).await;
    assert_eq!((maybe_applied, kind), (false, StoreErrorKind::Rejected));
}

#[tokio::test]
async fn a_transaction_without_a_record_contains_the_staged_writes_alone() {
    let wire = Wire::new([Reply::ok()]);
    let staged = staged();
    let transaction = TransactionRequest {
        record: None,
        staged: &staged,
        token: "t",
    };
    let outcome = store(&wire)
        .send(StoreRequest::Transact(transaction), &SendLog::new())
        .await;
    assert_applied(&outcome);
    let [(_, body)] = &wire.requests()[..] else {
        panic!("one request");
    };
    assert_eq!(body["TransactItems"].as_array().map(Vec::len), Some(1));
    assert_eq!(body["ClientRequestToken"], "t");
}

#[tokio::test]
async fn a_transaction_that_cannot_be_sent_was_not_applied() {
    let (wire, other) = (Wire::new([]), LedgerEntry::add("alice", 1));
    for staged in [
        Staged::new(MemoryWrites::from([other])),
        transact::staged([update("payments", "charge#42")]).unwrap(),
    ] {
        let outcome = completed(&wire, &staged).await;
        let (maybe_applied, error) = failure(outcome);
        assert!(!maybe_applied, "{error}");
        assert_eq!(error.kind(), StoreErrorKind::Rejected);
    }
    assert!(wire.requests().is_empty());
}

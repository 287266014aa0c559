//! The outcome of one write whose response is in pieces: a fenced one, and one whose pieces may have been applied.

use std::time::Duration;

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId, Status};
use idempotency_core::store::{
    Change, SendLog, Store as _, StoreErrorKind, StoreReply, StoreRequest, Write,
};
use idempotency_lambda::{BoxError, DynamoDbStore, ErrorKind, OnStoreError};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, Request, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{Table, operation, ours, store_on};

use super::large::{call, duplicate_fails, of_three_pieces};

/// A table with a store over it, and a claim of `owner(1)`.
struct Claimed {
    database: EmbeddedDynamoDb,
    store: DynamoDbStore,
    id: RecordId,
}

fn owner(number: u8) -> OwnerToken {
    OwnerToken::from_bytes([number; 16])
}

fn claim(number: u8) -> Record {
    Record {
        owner: Field::Value(owner(number)),
        status: Field::Value(Status::InProgress),
        ..Record::default()
    }
}

fn completion(response: &str) -> Change {
    Change {
        set: Record {
            data: Field::Value(Data::new(format!("\"{response}\""))),
            status: Field::Value(Status::Completed),
            ..Record::default()
        },
        remove: Vec::new(),
    }
}

impl Claimed {
    async fn start() -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new("idempotency")).await?;
        let store = store_on(&database).table("idempotency").build()?;
        let id = RecordId::new("shop#42b7");
        let placed = store.put(&id, &claim(1), &Condition::NoRecord).await;
        assert!(matches!(placed, StoreReply::Applied { .. }));
        Ok(Self {
            database,
            store,
            id,
        })
    }
}

#[tokio::test]
async fn a_late_owner_that_wrote_its_pieces_gets_the_winners_response() -> Result<(), BoxError> {
    let claimed = Claimed::start().await?;
    let Claimed { store, id, .. } = &claimed;
    let takeover = store.put(id, &claim(2), &held_by(&owner(1))).await;
    assert!(matches!(takeover, StoreReply::Applied { .. }));
    let winner = completion(&of_three_pieces(6));
    let won = store.update(id, &winner, &held_by(&owner(2))).await;
    assert!(matches!(won, StoreReply::Applied { .. }));
    let late = completion(&of_three_pieces(5));
    match store.update(id, &late, &held_by(&owner(1))).await {
        StoreReply::ConditionFailed {
            existing: Some(existing),
            maybe_applied: false,
            ..
        } => assert!(existing.data == winner.set.data),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn pieces_whose_replies_are_lost_leave_the_completion_not_applied() -> Result<(), BoxError> {
    let Claimed {
        database,
        store,
        id,
    } = Claimed::start().await?;
    database.inject(
        Fault::on("PutItem")
            .always()
            .internal_error_although_applied(),
    );
    let change = completion(&of_three_pieces(11));
    let owner = owner(1);
    let written = store.update(&id, &change, &held_by(&owner)).await;
    let StoreReply::Failed {
        maybe_applied: false,
        error,
    } = written
    else {
        panic!("{written:?}");
    };
    // Without its response the key can still be completed.
    assert_eq!(error.kind(), StoreErrorKind::TooLarge, "{error}");
    let record = database
        .item("idempotency", [("id", id.as_str())])
        .await?
        .unwrap();
    assert!(
        !record.contains_key("data"),
        "no reader can take it for a response"
    );
    database.clear_faults();
    let written = store.update(&id, &change, &held_by(&owner)).await;
    assert!(matches!(written, StoreReply::Applied { .. }));
    Ok(())
}

#[tokio::test]
async fn a_write_that_is_sent_again_does_not_write_its_pieces_again() -> Result<(), BoxError> {
    let Claimed {
        database,
        store,
        id,
    } = Claimed::start().await?;
    let change = completion(&of_three_pieces(12));
    let held = held_by(&owner(1));
    let pieces = || {
        let requests = database.requests();
        let puts = requests.iter().filter(|request| is_piece(request));
        puts.count()
    };
    database.inject(Fault::on("UpdateItem").always().throttle());
    for _ in 0..2 {
        let written = store.update(&id, &change, &held).await;
        assert!(matches!(written, StoreReply::Failed { .. }));
        assert_eq!(pieces(), 3);
    }
    database.clear_faults();
    let written = store.update(&id, &change, &held).await;
    assert!(matches!(written, StoreReply::Applied { .. }));
    assert_eq!(pieces(), 3);
    // The next owner of the key knows nothing of them: the record can have been evicted with its pieces.
    let again = Condition::Exists(Attribute::Data);
    let claimed = store.put(&id, &claim(1), &again).await;
    assert!(matches!(claimed, StoreReply::Applied { .. }));
    let written = store.update(&id, &change, &held).await;
    assert!(matches!(written, StoreReply::Applied { .. }));
    assert_eq!(pieces(), 6);
    Ok(())
}

/// Returns true for the put of a piece.
fn is_piece(request: &Request) -> bool {
    let id = request.key("id");
    request.operation == "PutItem" && id.is_some_and(|id| id.matches('#').count() > 1)
}

/// Lets this fault happen to every write of a piece.
fn on_each_piece(database: &EmbeddedDynamoDb, fault: fn() -> Fault) {
    database.inject_chosen(move |request| is_piece(request).then(fault));
}

#[tokio::test]
async fn throttled_pieces_never_let_the_handler_run_again() -> Result<(), BoxError> {
    let table = Table::start().await?;
    on_each_piece(&table.database, || Fault::on("PutItem").throttle());
    let text = of_three_pieces(16);
    let (own, is_replayed) = call(&table, &text).await?;
    assert!(!is_replayed && own == text);
    // The lease would have ended.
    table.clock.advance(Duration::from_secs(31));
    let (kind, _) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::ResponseUnavailable);
    Ok(())
}

#[tokio::test]
async fn pieces_leave_time_for_the_completion_without_the_response() -> Result<(), BoxError> {
    let Claimed {
        database,
        store,
        id,
    } = Claimed::start().await?;
    on_each_piece(&database, || {
        Fault::on("PutItem").delay(Duration::from_secs(60))
    });
    let limit = Duration::from_secs(4);
    let log = SendLog::with_limit(limit);
    let (change, held) = (completion(&of_three_pieces(17)), held_by(&owner(1)));
    let write = Write::Update(change);
    let written = tokio::time::timeout(
        limit,
        store.send(StoreRequest::write(&id, &write, &held), &log),
    )
    .await?;
    let StoreReply::Failed {
        maybe_applied: false,
        error,
    } = written
    else {
        panic!("{written:?}");
    };
    assert_eq!(error.kind(), StoreErrorKind::TooLarge, "{error}");
    assert!(
        error.to_string().contains("could not be written"),
        "{error}"
    );
    Ok(())
}

/// The claim of the duplicate is refused, so its key has a record. It only cannot be read.
#[tokio::test]
async fn a_duplicate_whose_pieces_cannot_be_fetched_does_not_run_unprotected()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    call(&table, &of_three_pieces(18)).await?;
    table
        .database
        .inject(Fault::on("GetItem").always().throttle());
    let unprotected = operation()
        .key("order_id")
        .on_store_error(OnStoreError::RunUnprotected)
        .build()?;
    let order = serde_json::json!({ "order_id": 7 });
    let duplicate = table.call(
        &unprotected,
        &order,
        async || -> Result<String, BoxError> { panic!("the key is completed") },
    );
    let error = duplicate.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
    // A claim that is throttled itself says nothing of the key.
    table
        .database
        .inject(Fault::on("PutItem").always().throttle());
    let runs = table.call(&unprotected, &order, async || Ok("unprotected".to_owned()));
    assert_eq!(runs.await?.into_response(), "unprotected");
    Ok(())
}

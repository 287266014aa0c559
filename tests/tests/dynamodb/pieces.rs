//! The outcome of one write whose response is in pieces: a fenced one, and one whose pieces may have been applied.

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Data, Field, Record, RecordId, Status};
use idempotency_core::store::{Change, WriteOutcome};
use idempotency_lambda::{BoxError, DynamoDbStore};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::store_on;

use crate::large::of_three_pieces;

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
        assert!(matches!(placed, WriteOutcome::Applied));
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
    assert!(matches!(takeover, WriteOutcome::Applied));
    let winner = completion(&of_three_pieces(6));
    let won = store.update(id, &winner, &held_by(&owner(2))).await;
    assert!(matches!(won, WriteOutcome::Applied));
    let late = completion(&of_three_pieces(5));
    match store.update(id, &late, &held_by(&owner(1))).await {
        WriteOutcome::ConditionFailed {
            existing: Some(existing),
            maybe_applied: false,
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
    let WriteOutcome::Failed {
        maybe_applied: false,
        error,
    } = written
    else {
        panic!("{written:?}");
    };
    assert!(error.kind().is_transient(), "{error}");
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
    assert!(matches!(written, WriteOutcome::Applied));
    Ok(())
}

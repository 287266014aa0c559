//! Large responses on the embedded DynamoDB: how they are compressed and split, and every fault of a piece.
//!
//! The tests with `Claimed` send each write to the store themselves, without the engine.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{
    Change, SendLog, Store as _, StoreError, StoreErrorKind, StoreReply, StoreRequest, Write,
};
use idempotency_lambda::{BoxError, DynamoDbStore, ErrorKind, OnStoreError, Operation};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, Request, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{End, Table, operation, ours, store_on};
use serde_json::{Value, json};

use super::{operations, returning};

/// The largest text of a response that is stored: Lambda's limit.
const LARGEST: usize = 6_291_556;

fn export() -> Operation {
    operation().key("order_id").build().unwrap()
}

fn order() -> Value {
    json!({ "order_id": 7 })
}

/// Returns a response whose JSON text has this length. Compression makes it a quarter smaller.
fn response(length: usize, seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length - 2).map(|_| random.alphanumeric()).collect()
}

/// Returns a response of three pieces.
fn of_three_pieces(seed: u64) -> String {
    response(1_300_000, seed)
}

/// Calls with this response.
async fn call(table: &Table, response: &str) -> End<String> {
    returning(table, &export(), &order(), response.to_owned()).await
}

/// Asserts that a call runs, and that its caller gets its own response.
async fn assert_runs(table: &Table, response: &str) {
    match call(table, response).await {
        End::Ran(own) | End::NotStored(own) => assert!(own == response, "another response"),
        other => panic!("{other:?}"),
    }
}

/// Asserts that a duplicate gets this response.
async fn assert_replays(table: &Table, response: &str) {
    let End::Replayed(replayed) = call(table, "from a run that must not happen").await else {
        panic!("it is not replayed");
    };
    let lengths = (replayed.len(), response.len());
    assert!(replayed == response, "{lengths:?}");
}

/// Calls a second time, and returns the error. Asserts that the handler did not run.
async fn duplicate_fails(table: &Table) -> (ErrorKind, String) {
    let (export, order) = (export(), order());
    let duplicate = table.call(&export, &order, async || -> Result<String, BoxError> {
        panic!("the handler runs")
    });
    let error = duplicate.await.unwrap_err();
    (ours(&error).kind(), error.to_string())
}

type Item = std::collections::HashMap<String, AttributeValue>;

/// Returns the record, and its pieces in order.
async fn stored(table: &Table) -> (Item, Vec<Item>) {
    let items = table.database.items("idempotency").await.unwrap();
    let (mut pieces, records): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| item.contains_key("data_piece"));
    assert_eq!(records.len(), 1);
    pieces.sort_by_key(|piece| piece["id"].as_s().unwrap().clone());
    (records.into_iter().next().unwrap(), pieces)
}

/// Deletes an item of the table.
async fn evict(table: &Table, item: &Item) -> Result<(), BoxError> {
    let key = [("id", item["id"].as_s().unwrap().clone())];
    Ok(table.database.delete("idempotency", key).await?)
}

#[tokio::test]
async fn a_response_is_stored_in_the_form_of_its_length_and_replayed_byte_for_byte()
-> Result<(), BoxError> {
    for (text, form, pieces) in [
        ("x".repeat(16_384 - 2), "", 0..=0),
        (response(16_385, 1), "compressed in data_zstd", 0..=0),
        (
            of_three_pieces(15),
            "split over the items of data_pieces",
            3..=3,
        ),
        (
            response(LARGEST, 2),
            "split over the items of data_pieces",
            11..=16,
        ),
    ] {
        let table = Table::start().await?;
        assert_runs(&table, &text).await;
        let requests = operations(&table);
        let (record, stored) = stored(&table).await;
        let count = stored.len();
        assert!(pieces.contains(&count), "{count}");
        // Each piece costs one put, and one get of a duplicate.
        assert_eq!(requests, "PutItem ".repeat(count + 1) + "UpdateItem");
        let data = record["data"].as_s().unwrap();
        if form.is_empty() {
            assert_eq!(*data, format!("\"{text}\""));
        } else {
            assert!(data.starts_with(form), "{data}");
        }
        assert_eq!(record.len(), 7 + usize::from(!form.is_empty()));
        if let Some(compressed) = record.get("data_zstd") {
            assert!(compressed.as_b().unwrap().as_ref().len() < 13_000);
        }
        for piece in &stored {
            // The same end as the record's, so that TTL deletes all of them.
            assert_eq!(piece["expiration"], record["expiration"]);
            assert_eq!(piece.len(), 3);
            let prefix = format!("{}#", record["id"].as_s().unwrap());
            assert!(piece["id"].as_s().unwrap().starts_with(&prefix));
        }
        assert_replays(&table, &text).await;
        let expected = "PutItem!".to_owned() + &" GetItem".repeat(count);
        assert_eq!(operations(&table), expected);
    }
    Ok(())
}

#[tokio::test]
async fn one_byte_more_than_lambdas_limit_goes_to_its_own_caller_alone() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = "x".repeat(LARGEST - 1);
    assert_runs(&table, &text).await;
    let (kind, _) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::ResponseUnavailable);
    assert_eq!(stored(&table).await.1.len(), 0);
    // Other stores are compared with it.
    let page = include_str!("../../../docs/guide/valkey.md");
    assert!(page.contains(&format!("in pieces, up to {} MB", LARGEST >> 20)));
    Ok(())
}

/// Kills a call at its request with this number of this kind, before or after it is applied. Then another call takes over, and
/// at last the request of the dead call arrives.
async fn killed_at(operation: &str, nth: usize, after: bool) -> Result<(), BoxError> {
    let place = format!("{operation} {nth}, after: {after}");
    let table = Table::start().await?;
    let fault = Fault::on(operation).nth(nth);
    let fault = if after {
        fault.hold_reply()
    } else {
        fault.hold()
    };
    let held = table.database.inject(fault);
    let (first, second) = (of_three_pieces(3), of_three_pieces(4));
    tokio::select! {
        _ = call(&table, &first) => panic!("{place}: the call ended"),
        () = held.reached() => {}
    }
    if operation == "UpdateItem" && after {
        assert_replays(&table, &first).await;
        return Ok(());
    }
    let claimed = !(operation == "PutItem" && nth == 1) || after;
    if claimed {
        let (kind, _) = duplicate_fails(&table).await;
        assert_eq!(kind, ErrorKind::AlreadyInProgress, "{place}");
        table.clock.advance(Duration::from_secs(31));
    }
    assert_runs(&table, &second).await;
    held.release().await;
    assert_replays(&table, &second).await;
    Ok(())
}

#[tokio::test]
async fn a_kill_at_any_request_loses_nothing() -> Result<(), BoxError> {
    for after in [false, true] {
        // The claim and three pieces.
        for nth in 1..=4 {
            killed_at("PutItem", nth, after).await?;
        }
        killed_at("UpdateItem", 1, after).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_owner_whose_lease_ends_while_it_writes_pieces_changes_nothing() -> Result<(), BoxError>
{
    let table = Table::start().await?;
    let held = table.database.inject(Fault::on("PutItem").nth(3).hold());
    let (late, winner) = (of_three_pieces(5), of_three_pieces(6));
    let overtaken = call(&table, &late);
    tokio::pin!(overtaken);
    tokio::select! {
        _ = &mut overtaken => panic!("it is held"),
        () = held.reached() => {}
    }
    table.clock.advance(Duration::from_secs(31));
    assert_runs(&table, &winner).await;
    held.release().await;
    let unknown = End::AfterRun(ErrorKind::CompletionUnknown);
    assert_eq!(overtaken.await, unknown);
    assert_replays(&table, &winner).await;
    Ok(())
}

#[tokio::test]
async fn two_runs_with_the_same_response_share_its_pieces_for_the_longer_window()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(7);
    let with_window = async |hours: u64| {
        let window = Duration::from_secs(hours * 3_600);
        let export = operation().key("order_id").expires_after(window).build()?;
        let ended = returning(&table, &export, &order(), text.clone()).await;
        assert!(ended == End::Ran(text.clone()));
        let (record, pieces) = stored(&table).await;
        assert_eq!(pieces.len(), 3);
        let end = |item: &Item| item["expiration"].as_n().unwrap().parse::<i64>().unwrap();
        let ends: Vec<_> = pieces.iter().map(end).collect();
        assert!(ends.iter().all(|piece| *piece == ends[0]));
        evict(&table, &record).await?;
        Ok::<_, BoxError>((end(&record), ends[0]))
    };
    let (record, pieces) = with_window(2).await?;
    assert_eq!(record, pieces);
    let (longer, pieces) = with_window(3).await?;
    assert_eq!((longer, pieces), (record + 3_600, record + 3_600));
    // A shorter window never shortens the life of a piece that another record may use.
    let (shorter, pieces) = with_window(1).await?;
    assert_eq!((shorter, pieces), (record - 3_600, longer));
    Ok(())
}

#[tokio::test]
async fn a_missing_or_damaged_piece_is_an_error_and_the_handler_does_not_run()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    assert_runs(&table, &of_three_pieces(8)).await;
    let (_, pieces) = stored(&table).await;
    let mut damaged = pieces[1].clone();
    let mut bytes = damaged["data_piece"].as_b().unwrap().clone().into_inner();
    bytes[17] ^= 1;
    let blob = aws_sdk_dynamodb::primitives::Blob::new(bytes);
    damaged.insert("data_piece".to_owned(), AttributeValue::B(blob));
    table.database.put("idempotency", damaged).await?;
    let (kind, text) = duplicate_fails(&table).await;
    let damaged = text.contains("a piece of its response is damaged");
    assert!(kind == ErrorKind::CorruptRecord && damaged, "{text}");
    evict(&table, &pieces[1]).await?;
    let (kind, text) = duplicate_fails(&table).await;
    let missing = text.contains("piece 2 of 3 of its response is missing");
    assert!(kind == ErrorKind::CorruptRecord && missing, "{text}");
    Ok(())
}

#[tokio::test]
async fn a_piece_that_cannot_be_fetched_is_a_failed_request_not_a_damaged_record()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(9);
    assert_runs(&table, &text).await;
    let throttled = Fault::on("GetItem").always().throttle();
    table.database.inject(throttled);
    let (kind, error) = duplicate_fails(&table).await;
    let throttled = error.contains("throttles requests");
    assert!(kind == ErrorKind::StoreFailed && throttled, "{error}");
    table.database.clear_faults();
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn lost_replies_and_throttled_pieces_are_sent_again() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(10);
    let put = |nth| Fault::on("PutItem").nth(nth);
    for fault in [
        put(2).drop_reply(),
        put(3).throttle(),
        put(4).drop_request(),
    ] {
        table.database.inject(fault);
    }
    assert_runs(&table, &text).await;
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn an_evicted_record_leaves_pieces_that_a_later_run_uses() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(13);
    assert_runs(&table, &text).await;
    let (record, _) = stored(&table).await;
    evict(&table, &record).await?;
    assert_runs(&table, &text).await;
    assert_replays(&table, &text).await;
    assert_eq!(stored(&table).await.1.len(), 3);
    Ok(())
}

#[tokio::test]
async fn the_response_of_an_expired_record_is_not_fetched_by_the_claim_that_replaces_it()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    assert_runs(&table, &of_three_pieces(14)).await;
    operations(&table);
    table.clock.advance(Duration::from_secs(3_700));
    assert_runs(&table, "short").await;
    assert_eq!(operations(&table), "PutItem UpdateItem");
    Ok(())
}

/// A table with a store over it, and a claim of owner 1.
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
        let claimed = Self {
            database,
            store,
            id,
        };
        claimed.claim(1, &Condition::NoRecord).await;
        Ok(claimed)
    }

    /// Claims the key for this owner.
    async fn claim(&self, number: u8, condition: &Condition) {
        let placed = self
            .store
            .write(&self.id, Write::Put(claim(number)), condition)
            .await;
        assert!(matches!(placed, StoreReply::Applied { .. }), "{placed:?}");
    }

    /// Completes the key with this response, as this owner.
    async fn complete(&self, number: u8, response: &str) -> StoreReply {
        let (change, held) = (completion(response), held_by(&owner(number)));
        self.store
            .write(&self.id, Write::Update(change), &held)
            .await
    }

    /// Completes the key as this owner, and asserts that the completion is applied.
    async fn completes(&self, number: u8, response: &str) {
        let written = self.complete(number, response).await;
        assert!(matches!(written, StoreReply::Applied { .. }), "{written:?}");
    }
}

/// Returns the error of a completion that was not applied because its pieces are not written. The key can still be completed without
/// its response.
fn without_pieces(written: StoreReply) -> StoreError {
    match written {
        StoreReply::Failed {
            maybe_applied: false,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_late_owner_that_wrote_its_pieces_gets_the_winners_response() -> Result<(), BoxError> {
    let claimed = Claimed::start().await?;
    claimed.claim(2, &held_by(&owner(1))).await;
    let winner = of_three_pieces(6);
    claimed.completes(2, &winner).await;
    match claimed.complete(1, &of_three_pieces(5)).await {
        StoreReply::ConditionFailed {
            existing: Some(existing),
            maybe_applied: false,
            ..
        } => assert!(existing.data == completion(&winner).set.data),
        other => panic!("{other:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn pieces_whose_replies_are_lost_leave_the_completion_not_applied() -> Result<(), BoxError> {
    let claimed = Claimed::start().await?;
    let (database, response) = (&claimed.database, of_three_pieces(11));
    let lost = Fault::on("PutItem").always();
    database.inject(lost.internal_error_although_applied());
    without_pieces(claimed.complete(1, &response).await);
    let key = [("id", claimed.id.as_str())];
    let record = database.item("idempotency", key).await?.unwrap();
    // No reader can take it for a response.
    assert!(!record.contains_key("data"));
    database.clear_faults();
    claimed.completes(1, &response).await;
    Ok(())
}

#[tokio::test]
async fn a_write_that_is_sent_again_does_not_write_its_pieces_again() -> Result<(), BoxError> {
    let claimed = Claimed::start().await?;
    let (database, response) = (&claimed.database, of_three_pieces(12));
    let pieces = || database.requests().iter().filter(|it| is_piece(it)).count();
    database.inject(Fault::on("UpdateItem").always().throttle());
    for _ in 0..2 {
        let written = claimed.complete(1, &response).await;
        assert!(matches!(written, StoreReply::Failed { .. }));
        assert_eq!(pieces(), 3);
    }
    database.clear_faults();
    claimed.completes(1, &response).await;
    assert_eq!(pieces(), 3);
    // The next owner of the key knows nothing of them: the record can have been evicted with its pieces.
    claimed.claim(1, &Condition::Exists(Attribute::Data)).await;
    claimed.completes(1, &response).await;
    assert_eq!(pieces(), 6);
    Ok(())
}

/// Returns true for the put of a piece.
fn is_piece(request: &Request) -> bool {
    let id = request.key("id");
    request.operation == "PutItem" && id.is_some_and(|id| id.matches('#').count() > 1)
}

/// Lets this fault happen to every write of a piece.
fn on_each_piece(database: &EmbeddedDynamoDb, fault: impl Fn() -> Fault + Send + 'static) {
    database.inject_chosen(move |request| is_piece(request).then(&fault));
}

#[tokio::test]
async fn a_table_that_refuses_or_throttles_pieces_completes_the_key_without_the_response()
-> Result<(), BoxError> {
    // As under an IAM condition that allows only the ids of records.
    let refused = || Fault::on("PutItem").respond_with(400, "AccessDeniedException");
    let throttled = || Fault::on("PutItem").throttle();
    for fault in [refused as fn() -> Fault, throttled] {
        let table = Table::start().await?;
        on_each_piece(&table.database, fault);
        assert_runs(&table, &of_three_pieces(16)).await;
        // A key that was still in progress would be claimed and run now.
        table.clock.advance(Duration::from_secs(31));
        let (kind, _) = duplicate_fails(&table).await;
        assert_eq!(kind, ErrorKind::ResponseUnavailable);
    }
    Ok(())
}

#[tokio::test]
async fn pieces_leave_time_for_the_completion_without_the_response() -> Result<(), BoxError> {
    let claimed = Claimed::start().await?;
    let late = Duration::from_secs(60);
    on_each_piece(&claimed.database, move || {
        Fault::on("PutItem").release_after(late).hold()
    });
    let limit = Duration::from_secs(4);
    let log = SendLog::with_limit(limit);
    let write = Write::Update(completion(&of_three_pieces(17)));
    let held = held_by(&owner(1));
    let request = StoreRequest::write(&claimed.id, &write, &held);
    let sent = claimed.store.send(request, &log);
    let error = without_pieces(tokio::time::timeout(limit, sent).await?);
    let text = error.to_string();
    assert!(text.contains("could not be written"), "{text}");
    Ok(())
}

/// The claim of the duplicate is refused, so its key has a record. It only cannot be read.
#[tokio::test]
async fn a_duplicate_whose_pieces_cannot_be_fetched_does_not_run_unprotected()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    assert_runs(&table, &of_three_pieces(18)).await;
    let throttled = |operation| Fault::on(operation).always().throttle();
    table.database.inject(throttled("GetItem"));
    let unprotected = operation().key("order_id");
    let unprotected = unprotected.on_store_error(OnStoreError::RunUnprotected);
    let unprotected = unprotected.build()?;
    let own = || "unprotected".to_owned();
    let duplicate = returning(&table, &unprotected, &order(), own()).await;
    assert_eq!(duplicate, End::Refused(ErrorKind::StoreFailed));
    // A claim that is throttled itself says nothing of the key.
    table.database.inject(throttled("PutItem"));
    let runs = returning(&table, &unprotected, &order(), own()).await;
    assert!(matches!(runs, End::Bypassed(..)), "{runs:?}");
    Ok(())
}

//! Large responses on the embedded DynamoDB: compressed, split, and every fault of a piece.
//!
//! The outcome of one write whose response is in pieces: a fenced one, and one whose pieces may have been applied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Attribute, Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{
    Change, SendLog, Store as _, StoreErrorKind, StoreReply, StoreRequest, Write,
};
use idempotency_lambda::{BoxError, DynamoDbStore, ErrorKind, OnStoreError, Operation};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, Request, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::{Table, operation, ours, store_on};
use serde_json::{Value, json};

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

/// A response of three pieces.
pub(crate) fn of_three_pieces(seed: u64) -> String {
    response(1_300_000, seed)
}

/// Returns the requests since the last call of this function, without repetitions: how many of each. `!` marks a write whose
/// condition failed.
fn requests(table: &Table) -> Vec<(String, usize)> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for (operation, status) in table.requests() {
        let mark = if status == Some(200) { "" } else { "!" };
        let name = format!("{operation}{mark}");
        match counted.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => counted.push((name, 1)),
        }
    }
    counted
}

#[track_caller]
fn assert_requests(table: &Table, expected: &[(&str, usize)]) {
    let requests = requests(table);
    let counted = requests.iter().map(|(name, count)| (name.as_str(), *count));
    assert_eq!(counted.collect::<Vec<_>>(), expected);
}

/// Calls with this response. Returns the response that the caller gets, and whether it is replayed.
pub(crate) async fn call(table: &Table, response: &str) -> Result<(String, bool), BoxError> {
    let outcome = table
        .call(&export(), &order(), async || Ok(response.to_owned()))
        .await?;
    let is_replayed = outcome.is_replayed();
    Ok((outcome.into_response(), is_replayed))
}

/// Asserts that a duplicate gets this response.
async fn assert_replays(table: &Table, response: &str) {
    let (replayed, is_replayed) = call(table, "from a run that must not happen")
        .await
        .unwrap();
    assert!(is_replayed);
    assert!(
        replayed == response,
        "{} of {} bytes",
        replayed.len(),
        response.len()
    );
}

/// Calls a second time, and returns the error. Asserts that the handler did not run.
pub(crate) async fn duplicate_fails(table: &Table) -> (ErrorKind, String) {
    let runs = AtomicUsize::new(0);
    let (export, order) = (export(), order());
    let duplicate = table.call(&export, &order, async || {
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(String::new())
    });
    let error = duplicate.await.unwrap_err();
    assert_eq!(runs.into_inner(), 0);
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

#[tokio::test]
async fn a_response_of_at_most_16_kib_is_stored_as_before() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = "x".repeat(16_384 - 2);
    call(&table, &text).await?;
    let (record, pieces) = stored(&table).await;
    assert_eq!(record["data"], AttributeValue::S(format!("\"{text}\"")));
    assert_eq!((record.len(), pieces.len()), (7, 0));
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn a_response_of_one_byte_more_is_compressed() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = response(16_385, 1);
    call(&table, &text).await?;
    assert_requests(&table, &[("PutItem", 1), ("UpdateItem", 1)]);
    let (record, pieces) = stored(&table).await;
    assert!(record["data_zstd"].as_b().unwrap().as_ref().len() < 13_000);
    assert!(
        record["data"]
            .as_s()
            .unwrap()
            .starts_with("compressed in data_zstd")
    );
    assert_eq!((record.len(), pieces.len()), (8, 0));
    assert_replays(&table, &text).await;
    assert_requests(&table, &[("PutItem!", 1)]);
    Ok(())
}

#[tokio::test]
async fn the_largest_response_of_lambda_is_replayed_byte_for_byte() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = response(LARGEST, 2);
    let (own, _) = call(&table, &text).await?;
    assert!(own == text);
    let (record, pieces) = stored(&table).await;
    assert!((11..=16).contains(&pieces.len()), "{}", pieces.len());
    for piece in &pieces {
        // The same end as the record's, so that TTL deletes all of them.
        assert_eq!(piece["expiration"], record["expiration"]);
        assert_eq!(piece.len(), 3);
        let prefix = format!("{}#", record["id"].as_s().unwrap());
        assert!(piece["id"].as_s().unwrap().starts_with(&prefix));
    }
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn each_piece_costs_one_put_and_one_get_of_a_duplicate() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(15);
    call(&table, &text).await?;
    assert_requests(&table, &[("PutItem", 4), ("UpdateItem", 1)]);
    assert_replays(&table, &text).await;
    assert_requests(&table, &[("PutItem!", 1), ("GetItem", 3)]);
    Ok(())
}

#[tokio::test]
async fn one_byte_more_than_lambdas_limit_goes_to_its_own_caller_alone() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = "x".repeat(LARGEST - 1);
    let (own, _) = call(&table, &text).await?;
    assert!(own == text);
    let (kind, _) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::ResponseUnavailable);
    assert_eq!(stored(&table).await.1.len(), 0);
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
    let completed = operation == "UpdateItem" && after;
    if completed {
        assert_replays(&table, &first).await;
        return Ok(());
    }
    let claimed = !(operation == "PutItem" && nth == 1) || after;
    if claimed {
        let (kind, _) = duplicate_fails(&table).await;
        assert_eq!(kind, ErrorKind::AlreadyInProgress, "{place}");
        table.clock.advance(Duration::from_secs(31));
    }
    let (own, is_replayed) = call(&table, &second).await?;
    assert!(!is_replayed && own == second, "{place}");
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
    call(&table, &winner).await?;
    held.release().await;
    let error = overtaken.await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::CompletionUnknown);
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
        let outcome = table
            .call(&export, &order(), async || Ok(text.clone()))
            .await?;
        assert!(!outcome.is_replayed());
        let (record, pieces) = stored(&table).await;
        assert_eq!(pieces.len(), 3);
        let end = |item: &Item| item["expiration"].as_n().unwrap().parse::<i64>().unwrap();
        let ends: Vec<_> = pieces.iter().map(end).collect();
        assert!(ends.iter().all(|piece| *piece == ends[0]));
        let key = [("id", record["id"].as_s().unwrap().clone())];
        table.database.delete("idempotency", key).await?;
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
    call(&table, &of_three_pieces(8)).await?;
    let (_, pieces) = stored(&table).await;
    let mut damaged = pieces[1].clone();
    let mut bytes = damaged["data_piece"].as_b().unwrap().clone().into_inner();
    bytes[17] ^= 1;
    let blob = aws_sdk_dynamodb::primitives::Blob::new(bytes);
    damaged.insert("data_piece".to_owned(), AttributeValue::B(blob));
    table.database.put("idempotency", damaged).await?;
    let (kind, text) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::CorruptRecord);
    assert!(
        text.contains("a piece of its response is damaged"),
        "{text}"
    );
    let key = [("id", pieces[1]["id"].as_s().unwrap().clone())];
    table.database.delete("idempotency", key).await?;
    let (kind, text) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::CorruptRecord);
    assert!(
        text.contains("piece 2 of 3 of its response is missing"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_piece_that_cannot_be_fetched_is_a_failed_request_not_a_damaged_record()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(9);
    call(&table, &text).await?;
    table
        .database
        .inject(Fault::on("GetItem").always().throttle());
    let (kind, text_of_error) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::StoreFailed);
    assert!(
        text_of_error.contains("throttles requests"),
        "{text_of_error}"
    );
    table.database.clear_faults();
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn lost_replies_and_throttled_pieces_are_sent_again() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(10);
    table
        .database
        .inject(Fault::on("PutItem").nth(2).drop_reply());
    table
        .database
        .inject(Fault::on("PutItem").nth(3).throttle());
    table
        .database
        .inject(Fault::on("PutItem").nth(4).drop_request());
    let (own, is_replayed) = call(&table, &text).await?;
    assert!(!is_replayed && own == text);
    assert_replays(&table, &text).await;
    Ok(())
}

#[tokio::test]
async fn a_table_that_refuses_pieces_completes_the_key_without_the_response() -> Result<(), BoxError>
{
    let table = Table::start().await?;
    // An IAM condition that admits record ids alone.
    table.database.inject_chosen(|request| {
        let is_piece = request
            .key("id")
            .is_some_and(|id| id.matches('#').count() > 1);
        is_piece.then(|| Fault::on("PutItem").respond_with(400, "AccessDeniedException"))
    });
    let text = of_three_pieces(12);
    let (own, is_replayed) = call(&table, &text).await?;
    assert!(!is_replayed && own == text);
    let (kind, _) = duplicate_fails(&table).await;
    assert_eq!(kind, ErrorKind::ResponseUnavailable);
    Ok(())
}

#[tokio::test]
async fn an_evicted_record_leaves_pieces_that_a_later_run_uses() -> Result<(), BoxError> {
    let table = Table::start().await?;
    let text = of_three_pieces(13);
    call(&table, &text).await?;
    let (record, _) = stored(&table).await;
    let key = [("id", record["id"].as_s().unwrap().clone())];
    table.database.delete("idempotency", key).await?;
    let (own, is_replayed) = call(&table, &text).await?;
    assert!(!is_replayed && own == text);
    assert_replays(&table, &text).await;
    assert_eq!(stored(&table).await.1.len(), 3);
    Ok(())
}

#[tokio::test]
async fn the_response_of_an_expired_record_is_not_fetched_by_the_claim_that_replaces_it()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    call(&table, &of_three_pieces(14)).await?;
    requests(&table);
    table.clock.advance(Duration::from_secs(3_700));
    let (own, is_replayed) = call(&table, "short").await?;
    assert!(!is_replayed && own == "short");
    assert_requests(&table, &[("PutItem", 1), ("UpdateItem", 1)]);
    Ok(())
}

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
        Fault::on("PutItem")
            .release_after(Duration::from_secs(60))
            .hold()
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

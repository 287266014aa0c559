//! The pieces of a long response: how often each is sent, and what is read from them.

use std::time::Duration;

use idempotency_core::record::{Data, Field, Record, Status};
use idempotency_core::store::{Change, Consistency, SendLog, Store as _, StoreErrorKind};
use idempotency_core::store::{StoreReply, StoreRequest, Write};
use idempotency_dynamodb::DynamoDbStore;
use serde_json::{Value, json};

use super::{KIND, assert_applied, failure, fence, id};
use idempotency_testkit::store::StoreExt;
use crate::script::{Reply, Wire};

/// The bytes of every piece but the last.
const PIECE: usize = 396 * 1024;

fn store(wire: &Wire) -> DynamoDbStore {
    let store = KIND.with_client(wire.client()).compress_above(None);
    store.build().unwrap()
}

/// Returns a response of two pieces.
fn response() -> Data {
    Data::new(format!("\"{}{}\"", "x".repeat(PIECE), "y".repeat(10_000)))
}

/// Completes the key with a response of two pieces.
async fn completed(store: &DynamoDbStore) -> StoreReply {
    let set = Record {
        data: Field::Value(response()),
        status: Field::Value(Status::Completed),
        ..Record::default()
    };
    let remove = Vec::new();
    let write = Write::Update(Change { set, remove });
    store.write(&id(), write, &fence()).await
}

/// Returns the pieces that were sent, in the order of their ids, and the description of them.
fn sent(wire: &Wire) -> (Vec<Value>, Vec<Value>) {
    let (puts, updates): (Vec<_>, Vec<_>) = wire
        .requests()
        .into_iter()
        .partition(|(action, _)| action == "PutItem");
    let mut pieces: Vec<_> = puts.into_iter().map(|(_, body)| body["Item"].clone()).collect();
    pieces.sort_by_key(|piece| piece["id"]["S"].to_string());
    let values = |body: &Value| body["ExpressionAttributeValues"].clone();
    (pieces, updates.iter().map(|(_, body)| values(body)).collect())
}

/// Returns how often the first piece was sent. The others are sent at the same time.
fn sends_of_a_piece(wire: &Wire) -> usize {
    let sent = wire.take();
    let ids = sent.iter().map(|sent| &sent.body["Item"]["id"]["S"]);
    let ids: Vec<_> = ids.collect();
    ids.iter().filter(|id| **id == ids[0]).count()
}

#[tokio::test]
async fn a_piece_that_fails_for_a_moment_is_requested_four_times_with_longer_pauses() {
    let wire = Wire::beginning_with((0..100).map(|_| Reply::error("InternalServerError", "")));
    let (maybe_applied, error) = failure(completed(&store(&wire)).await);
    assert_eq!((maybe_applied, error.kind()), (false, StoreErrorKind::TooLarge));
    // The client sends each request three times, with random pauses.
    assert_eq!(sends_of_a_piece(&wire), 4 * 3);
    let pauses = [25, 50, 100, 200, 400].map(|milliseconds| {
        let pause = Duration::from_millis(milliseconds);
        wire.pauses().contains(&pause)
    });
    assert_eq!(pauses, [false, true, true, true, false]);
}

#[tokio::test]
async fn a_piece_that_is_refused_is_requested_once_and_its_error_says_if_the_record_can_be_written() {
    for (code, kind) in [
        ("AccessDeniedException", StoreErrorKind::TooLarge),
        ("ResourceNotFoundException", StoreErrorKind::TableMissing),
    ] {
        let wire = Wire::beginning_with((0..2).map(|_| Reply::error(code, "")));
        let (maybe_applied, error) = failure(completed(&store(&wire)).await);
        assert_eq!((maybe_applied, error.kind()), (false, kind), "{code}");
        assert_eq!(sends_of_a_piece(&wire), 1, "{code}");
    }
}

#[tokio::test]
async fn a_response_is_read_back_from_its_pieces_or_the_piece_is_named_that_is_missing_or_short() {
    let wire = Wire::default();
    assert_applied(&completed(&store(&wire)).await);
    let (pieces, updates) = sent(&wire);
    assert_eq!((pieces.len(), updates.len()), (2, 1));
    let values = updates[0].as_object().unwrap().values();
    let texts = values.filter_map(|value| value["S"].as_str());
    let (manifest, data): (Vec<_>, Vec<_>) = texts.partition(|text| text.starts_with('{'));
    let mark = data.into_iter().find(|text| text.starts_with("split over"));
    let record = json!({
        "id": { "S": id().as_str() },
        "status": { "S": "COMPLETED" },
        "data": { "S": mark.unwrap() },
        "data_pieces": { "S": manifest[0] },
    });
    let found = |item: Value| Reply::new(200, json!({ "Item": item }));
    let mut short = pieces[1].clone();
    short["data_piece"]["B"] = json!("eHg=");
    for (second, expected) in [
        (found(pieces[1].clone()), None),
        (found(short), Some("piece 2 of 2 of its response is damaged")),
        (Reply::ok(), Some("piece 2 of 2 of its response is missing")),
    ] {
        let wire = Wire::new([found(record.clone()), found(pieces[0].clone()), second]);
        let (store, id, log) = (store(&wire), id(), SendLog::new());
        let reply = store.send(StoreRequest::Read(&id, Consistency::Strong), &log).await;
        let StoreReply::Found { record: Some(record), unreadable } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(unreadable.as_deref(), expected);
        let data = expected.map_or_else(|| Field::Value(response()), |_| Field::Unreadable);
        assert!(record.data == data);
    }
}

//! Writes and reads the pieces of a large response.
//!
//! A piece is an item of its own. No send of one touches the record, so none counts as "maybe applied" for the record's write.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::AsyncSleep as _;
use aws_smithy_async::future::timeout::Timeout;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use idempotency_core::compression::decompress;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId};
use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use idempotency_core::time::EpochSeconds;

use super::items::Items;
use crate::item;
use crate::large::{ItemForm, Manifest, Pieces, record_of_piece};
use crate::limits::LARGEST_RESPONSE;
use crate::request::{GET, Request};
use crate::sends::{PIECES_AT_A_TIME, Sends};
use crate::value::{Item, Value};

/// The most requests for one piece, each of which the client repeats on its own.
const MAX_TRIES: u32 = 4;

/// The pause before a piece is requested again. It doubles with each further pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The most pieces that a store remembers: those of sixteen of the largest responses.
const REMEMBERED: usize = 256;

/// The pieces that are known to be written, of records whose own write has not ended: a write that is sent again, because it met
/// another transaction or was throttled, need not write them again.
#[derive(Default)]
pub(super) struct WrittenPieces(Mutex<VecDeque<(String, Option<EpochSeconds>)>>);

impl WrittenPieces {
    /// Returns true if the piece is known to be written with this expiration.
    fn contains(&self, piece: &str, expiration: Option<EpochSeconds>) -> bool {
        let known = (piece, expiration);
        let pieces = self.pieces();
        pieces
            .iter()
            .any(|(piece, end)| (piece.as_str(), *end) == known)
    }

    fn insert(&self, piece: String, expiration: Option<EpochSeconds>) {
        let mut pieces = self.pieces();
        if pieces.len() == REMEMBERED {
            pieces.pop_front();
        }
        pieces.push_back((piece, expiration));
    }

    /// Forgets the pieces of a record: its write has ended.
    pub(super) fn forget(&self, id: &RecordId) {
        let is_other = |piece: &str| record_of_piece(piece) != Some(id.as_str());
        self.pieces().retain(|(piece, _)| is_other(piece));
    }

    /// Returns the pieces. A panic cannot leave them half written, so a poisoned lock is still good.
    fn pieces(&self) -> MutexGuard<'_, VecDeque<(String, Option<EpochSeconds>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the pieces of a response, before the record that names them.
    ///
    /// A piece that is there already is kept, unless it expires earlier. One that an earlier send of the write has written is not sent.
    ///
    /// # Errors
    ///
    /// If a piece could not be written, even after further sends. The handler has run, so the error is that of a response that is too large
    /// unless the record cannot be written either: the key can then be completed without its response, and the handler does not run again.
    pub(super) async fn write(
        &self,
        items: &Items,
        id: &RecordId,
        stored: &Pieces<'_>,
        expiration: Option<EpochSeconds>,
        log: &SendLog,
    ) -> Result<(), StoreError> {
        let writing = async {
            items.check_keys(log).await?;
            // A piece without an expiration stays until it is deleted.
            let longer = match expiration {
                Some(at) => Condition::Below(Attribute::Expiration, Operand::Seconds(at)),
                None => Condition::Exists(Attribute::Expiration),
            };
            let condition = Condition::Any(vec![Condition::NoRecord, longer]);
            let pieces = stored.pieces().enumerate();
            let pieces: Vec<_> = pieces
                .map(|(index, bytes)| (stored.manifest.piece(id, index).to_string(), bytes))
                .filter(|(piece, _)| !self.contains(piece, expiration))
                .map(|(piece, bytes)| {
                    self.write_piece(items, piece, bytes, expiration, &condition, log)
                })
                .collect();
            let written = stream::iter(pieces).buffer_unordered(usize::from(PIECES_AT_A_TIME));
            written.try_for_each(|()| ready(Ok(()))).await
        };
        let limit = log.limit().map(time_for_pieces);
        let written = match limit.zip(items.transport.sleep()) {
            None => writing.await,
            Some((limit, timer)) => {
                let written = Timeout::new(writing, timer.sleep(limit)).await;
                written.unwrap_or_else(|_| {
                    let text = format!("{} took longer than {limit:?} for them", items.table);
                    Err(StoreError::new(StoreErrorKind::Unreachable, text))
                })
            }
        };
        written.map_err(|error| match error.kind() {
            // The record cannot be written either.
            StoreErrorKind::Credentials | StoreErrorKind::TableMissing => error,
            _ => items.table.no_pieces(error),
        })
    }

    /// Writes one piece, and requests it again after an error that is temporary.
    async fn write_piece(
        &self,
        items: &Items,
        piece: String,
        bytes: &[u8],
        expiration: Option<EpochSeconds>,
        condition: &Condition,
        log: &SendLog,
    ) -> Result<(), StoreError> {
        let (mut tries, mut pause) = (1, FIRST_PAUSE);
        loop {
            let mut item = items.key(&piece, 2);
            item.push((&items.names.data_piece, Value::Bytes(bytes)));
            item.extend(expiration.map(|at| {
                let name = items.names.expiration.as_str();
                (name, Value::Number(at.get()))
            }));
            let request = Request::Put {
                item,
                expressions: items.shapes.condition(condition),
                returns_replaced: false,
                returns_existing: false,
            };
            let sends = Sends::of_piece(log, &items.table, request.target());
            let sent = items.transport.send(request, &sends).await;
            match (sent, items.transport.sleep()) {
                (Err(error), Some(timer)) if error.kind().is_transient() && tries < MAX_TRIES => {
                    timer.sleep(pause).await;
                    tries += 1;
                    pause *= 2;
                }
                // A failed condition: the piece is there, and lives as long as this one would.
                (sent, _) => {
                    sent?;
                    self.insert(piece, expiration);
                    return Ok(());
                }
            }
        }
    }
}

/// Returns how long all pieces may take if the caller waits for `limit`. The rest is for the record: with the pieces, or without
/// the response.
fn time_for_pieces(limit: Duration) -> Duration {
    limit * 3 / 4
}

impl Items {
    /// Reads the record of an item, with a response that is compressed or in pieces.
    ///
    /// A response that cannot be read is [`Field::Unreadable`]. The text then says why.
    ///
    /// # Errors
    ///
    /// If the request for a piece failed.
    pub(super) async fn record(
        &self,
        id: &RecordId,
        mut item: Item,
        log: &SendLog,
    ) -> Result<(Record, Option<String>), StoreError> {
        let taken = ItemForm::of(&mut item, &self.names);
        let mut record = item::record(item, &self.names);
        let response = match taken {
            ItemForm::Plain => return Ok((record, None)),
            ItemForm::Compressed(bytes) => {
                let text = decompress(&bytes, LARGEST_RESPONSE);
                text.map(Data::new).map_err(str::to_owned)
            }
            // Boxed, so that the future of every other request stays small.
            ItemForm::Split(manifest) => Box::pin(self.read_pieces(id, &manifest, log))
                .await?
                .and_then(|bytes| manifest.response(bytes).map_err(str::to_owned)),
            ItemForm::Damaged(defect) => Err(defect.to_owned()),
        };
        let (data, unreadable) = match response {
            Ok(data) => (Field::Value(data), None),
            Err(defect) => (Field::Unreadable, Some(defect)),
        };
        record.data = data;
        Ok((record, unreadable))
    }

    /// Reads the record that a write replaced. A large response is not read: nothing needs it.
    pub(super) fn replaced(&self, mut item: Item) -> Record {
        let taken = ItemForm::of(&mut item, &self.names);
        let mut record = item::record(item, &self.names);
        if !matches!(taken, ItemForm::Plain) {
            record.data = Field::Unreadable;
        }
        record
    }

    /// Reads the bytes of all pieces. The inner error says which piece is missing or has another length.
    async fn read_pieces(
        &self,
        id: &RecordId,
        manifest: &Manifest,
        log: &SendLog,
    ) -> Result<Result<Vec<u8>, String>, StoreError> {
        let count = manifest.pieces();
        let pieces: Vec<_> = (0..count)
            .map(|index| self.read_piece(manifest.piece(id, index).to_string(), log))
            .collect();
        let mut read = stream::iter(pieces).buffered(usize::from(PIECES_AT_A_TIME));
        let mut all = Vec::with_capacity(manifest.bytes());
        for index in 0..count {
            match read.try_next().await?.flatten() {
                Some(bytes) if bytes.len() == manifest.length(index) => all.extend(bytes),
                bytes => {
                    let what = if bytes.is_some() {
                        "damaged"
                    } else {
                        "missing"
                    };
                    let number = index + 1;
                    return Ok(Err(format!(
                        "piece {number} of {count} of its response is {what}"
                    )));
                }
            }
        }
        Ok(Ok(all))
    }

    /// Reads the bytes of a piece. `None` if it is missing.
    async fn read_piece(
        &self,
        piece: String,
        log: &SendLog,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let sends = Sends::of_piece(log, &self.table, GET);
        let request = Request::Get {
            key: self.key(&piece, 0),
            consistent: true,
        };
        let item = self.read_item(request, &sends).await?;
        Ok(item.and_then(|mut item| item::bytes(&mut item, &self.names.data_piece)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use aws_sdk_dynamodb::types::AttributeValue;

    use super::super::tests::store;
    use super::*;
    use crate::large::SPLIT;

    /// Returns the id of a piece of this record.
    fn piece(record: &str, index: usize) -> String {
        format!("{record}#{}.{index:04}", "0".repeat(64))
    }

    #[test]
    fn the_last_pieces_that_were_written_are_known_until_the_write_of_their_record_ends() {
        let (pieces, end) = (WrittenPieces::default(), Some(EpochSeconds::new(5)));
        for index in 0..=REMEMBERED {
            pieces.insert(piece("a#1", index), end);
        }
        // The first one had to go.
        let known =
            [0, 1, REMEMBERED, REMEMBERED + 1].map(|at| pieces.contains(&piece("a#1", at), end));
        assert_eq!(known, [false, true, true, false]);
        assert!(!pieces.contains(&piece("a#1", 1), None));
        pieces.insert(piece("b#1", 0), None);
        pieces.forget(&RecordId::new("a#1"));
        assert!(!pieces.contains(&piece("a#1", REMEMBERED), end));
        assert!(pieces.contains(&piece("b#1", 0), None));
    }

    #[test]
    fn pieces_leave_a_quarter_of_the_time_to_the_record() {
        let time = time_for_pieces(Duration::from_secs(4));
        assert_eq!(time, Duration::from_secs(3));
    }

    #[test]
    fn a_split_response_that_a_write_replaced_is_not_read() {
        let items = store(false).items;
        let item = |data: &str| {
            let data = AttributeValue::S(data.to_owned());
            HashMap::from([("data".to_owned(), data)])
        };
        assert_eq!(items.replaced(item(SPLIT)).data, Field::Unreadable);
        let plain = items.replaced(item("42"));
        assert_eq!(plain.data, Field::Value(Data::new("42")));
    }
}

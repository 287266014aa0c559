//! The listing of a store's records: a `SCAN` of each primary.

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, Record, RecordId, StoredEvent};
use idempotency_core::store::{
    Condition, ScanPage, ScanRequest, SendLog, StoreError, StoreErrorKind, StoreScan, UNLISTED,
};
use serde_json::json;

use crate::address::Address;
use crate::connection::{LONGEST, Server};
use crate::failure::{Failure, Next};
use crate::info::Info;
use crate::reply::Fields;
use crate::request::FORMAT;
use crate::store::ValkeyStore;

/// The most records of a page. Meanwhile the server serves no other request, and the replies take its memory.
const MOST_RECORDS: usize = 1_000;

/// Where a page begins: at a cursor of a server, after the records that its last step found beyond the limit of a page.
struct Position {
    /// `None`: at the first server.
    server: Option<Address>,
    cursor: String,
    /// The ids that were found already.
    left: Vec<String>,
}

impl Position {
    /// Returns the begin of a server.
    fn first() -> Self {
        Self {
            server: None,
            cursor: "0".to_owned(),
            left: Vec::new(),
        }
    }

    /// Reads the text of a page.
    fn of(text: &str) -> Option<Self> {
        let (server, cursor, left): (String, String, Vec<String>) =
            serde_json::from_str(text).ok()?;
        cursor.parse::<u64>().ok()?;
        Some(Self {
            server: Some(Address::of(&server)?),
            cursor,
            left,
        })
    }

    fn text(&self, server: &Address) -> String {
        json!([server.to_string(), self.cursor, self.left]).to_string()
    }
}

/// A page has the records that one `SCAN` of one server finds, and at most `limit`. Beside those of the filter it reads no other ones.
///
/// The [`next`](ScanPage::next) of a page names the server and its cursor.
impl StoreScan for ValkeyStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let mut position = match request.after {
                None => Position::first(),
                Some(after) => Position::of(after).ok_or_else(|| {
                    self.rejected("the page to go on after is none of this store")
                })?,
            };
            let nodes = &self.sender.nodes;
            if !nodes.is_cluster() {
                nodes.learn(nodes.seed(), true).await;
            }
            let servers = nodes.primaries();
            let at = match &position.server {
                None => 0,
                Some(address) => servers.iter().position(|it| it.address == *address).ok_or_else(|| {
                    self.rejected("the server to go on with is no primary any more, so the listing is not complete: list again")
                })?,
            };
            let server = &servers[at];
            let limit = request.limit.clamp(1, MOST_RECORDS);
            if position.left.is_empty() {
                self.step(server, request.prefix, limit, &mut position)
                    .await?;
            }
            let ids: Vec<_> = position
                .left
                .drain(..limit.min(position.left.len()))
                .collect();
            let read = ids.len();
            let records = self.shown(server, ids, request.filter).await?;
            let is_done = position.left.is_empty() && position.cursor == "0";
            let next = match is_done {
                false => Some(position.text(&server.address)),
                true => servers
                    .get(at + 1)
                    .map(|next| Position::first().text(&next.address)),
            };
            Ok(ScanPage {
                records,
                read,
                billed: None,
                next,
            })
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let log = SendLog::new();
            log.preparing();
            let fields = self.fields(id, &log).await?;
            let event = fields.map_or(Ok(None), |mut fields| fields.take_event());
            event.map_err(|why| {
                self.rejected(&format!(
                    "the event of the record `{id}` cannot be read: {why}"
                ))
            })
        })
    }
}

impl ValkeyStore {
    /// Makes one step of `SCAN`, and puts what it finds into the position. It is empty if nothing was found.
    async fn step(
        &self,
        server: &Server,
        prefix: &str,
        limit: usize,
        position: &mut Position,
    ) -> Result<(), StoreError> {
        // A server that is no primary any more can have old records.
        let mut both = redis::pipe();
        both.cmd("INFO").arg("replication");
        both.cmd("SCAN").arg(&position.cursor);
        both.arg("MATCH").arg(self.settings.prefix.pattern(prefix));
        both.arg("COUNT").arg(limit).arg("TYPE").arg("hash");
        let replies = server.ask(&both, LONGEST).await;
        let mut replies = replies.map_err(|failure| failure.error)?.into_iter();
        let [info, scan] = [replies.next(), replies.next()].map(Option::unwrap_or_default);
        let check = |reply| Failure::check(reply, &server.address).map_err(|failure| failure.error);
        if Info::of(check(info)?).is_replica() {
            server.disconnect();
            return Err(self.rejected(
                "the server is no primary any more, so the listing is not complete: list again",
            ));
        }
        let (cursor, keys): (_, Vec<Vec<u8>>) =
            redis::from_redis_value(check(scan)?).map_err(|_| {
                self.rejected(
                    "the reply to SCAN cannot be read: check what stands before the server",
                )
            })?;
        position.cursor = cursor;
        // The key of another program can be no UTF-8.
        let keys = keys
            .into_iter()
            .filter_map(|key| String::from_utf8(key).ok());
        let ids = keys.filter_map(|key| self.settings.prefix.id(&key));
        position.left = ids.map(|id| id.as_str().to_owned()).collect();
        Ok(())
    }

    /// Returns the records with these ids that the filter keeps, in one round trip unless a key is moving.
    async fn shown(
        &self,
        server: &Server,
        ids: Vec<String>,
        filter: Option<&Condition>,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let ids: Vec<_> = ids.into_iter().map(RecordId::new).collect();
        // The values of the other ones can be long, and are not shown.
        let listed = Attribute::ALL
            .into_iter()
            .filter(|it| !UNLISTED.contains(it));
        let names: Vec<_> = [FORMAT.0]
            .into_iter()
            .chain(listed.map(Attribute::default_name))
            .collect();
        let mut commands = redis::pipe();
        for id in &ids {
            commands.cmd("HMGET").arg(self.key(id)).arg(&names);
        }
        let replies = match ids.is_empty() {
            true => Vec::new(),
            false => server
                .ask(&commands, LONGEST)
                .await
                .map_err(|failure| failure.error)?,
        };
        let mut records = Vec::new();
        for (id, reply) in ids.into_iter().zip(replies) {
            let fields = match Failure::check(reply, &server.address) {
                Ok(values) => Fields::named(&names, values),
                Err(Failure {
                    next: Next::Follow(_) | Next::Ask(_),
                    ..
                }) => {
                    let log = SendLog::new();
                    log.preparing();
                    self.fields(&id, &log).await?
                }
                Err(failure) => return Err(failure.error),
            };
            // Deleted since, if there is none.
            let record = fields.map(|fields| fields.record().0.listed());
            let record = record.filter(|it| filter.is_none_or(|filter| filter.holds(Some(it))));
            records.extend(record.map(|record| (id, record)));
        }
        Ok(records)
    }

    fn rejected(&self, text: &str) -> StoreError {
        StoreError::new(
            StoreErrorKind::Rejected,
            format!("{}: {text}", idempotency_core::store::Store::name(self)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_in_another_process_and_another_text_is_none() {
        let server = Address::of("[::1]:7").unwrap();
        let position = Position {
            cursor: "18446744073709551615".to_owned(),
            left: vec!["pay#\"1\"".to_owned()],
            ..Position::first()
        };
        let text = position.text(&server);
        assert_eq!(text, r#"["[::1]:7","18446744073709551615",["pay#\"1\""]]"#);
        let read = Position::of(&text).unwrap();
        assert_eq!(
            (read.server, read.cursor, read.left),
            (Some(server), position.cursor, position.left)
        );
        for other in [
            "",
            "7",
            "pay#1",
            r#"["a:7","-1",[]]"#,
            r#"["a","1",[]]"#,
            r#"["a:7","1"]"#,
        ] {
            assert!(Position::of(other).is_none(), "{other}");
        }
    }
}

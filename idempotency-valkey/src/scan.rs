//! The listing of a store's records: a `SCAN` of each primary.

use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Record, RecordId, StoredEvent};
use idempotency_core::store::{
    ScanPage, ScanRequest, SendLog, StoreError, StoreErrorKind, StoreScan,
};
use serde_json::json;

use crate::address::Address;
use crate::connection::Server;
use crate::reply::Reply;
use crate::request::Request;
use crate::start::Info;
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
            let records = self
                .shown(server, ids, &Request::list(request.filter))
                .await?;
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
        server: &Arc<Server>,
        prefix: &str,
        limit: usize,
        position: &mut Position,
    ) -> Result<(), StoreError> {
        // A server that is no primary any more can have old records.
        let mut both = redis::pipe();
        both.cmd("INFO").arg("replication");
        both.cmd("SCAN").arg(&position.cursor);
        both.arg("MATCH").arg(self.prefix.pattern(prefix));
        both.arg("COUNT").arg(limit).arg("TYPE").arg("hash");
        let replies = self.sender.read_all(server, &both).await;
        let replies = replies.map_err(|failure| failure.error)?;
        let mut replies = replies.into_iter().flatten();
        if replies
            .next()
            .is_some_and(|info| Info::of(info).is_replica())
        {
            server.disconnect();
            return Err(self.rejected(
                "the server is no primary any more, so the listing is not complete: list again",
            ));
        }
        let read = redis::from_redis_value(replies.next().unwrap_or_default());
        let (cursor, keys): (_, Vec<Vec<u8>>) = read.map_err(|_| {
            self.rejected("the reply to SCAN cannot be read: check what stands before the server")
        })?;
        position.cursor = cursor;
        // The key of another program can be no UTF-8.
        let keys = keys
            .into_iter()
            .filter_map(|key| String::from_utf8(key).ok());
        let ids = keys.filter_map(|key| self.prefix.id(&key));
        position.left = ids.map(|id| id.as_str().to_owned()).collect();
        Ok(())
    }

    /// Returns the records with these ids that the filter keeps, in one round trip unless a key is moving.
    async fn shown(
        &self,
        server: &Arc<Server>,
        ids: Vec<String>,
        filter: &Request,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let key = |id: &str| self.prefix.key(&RecordId::new(id));
        let script = self.sender.script(filter);
        // The first one brings the script.
        let mut commands = redis::pipe();
        for (number, id) in ids.iter().enumerate() {
            commands.add_command(script.command(&key(id), filter, number == 0));
        }
        let replies = self.sender.read_all(server, &commands).await;
        let replies = replies.map_err(|failure| failure.error)?;
        let mut records = Vec::new();
        for (id, reply) in ids.into_iter().zip(replies) {
            let reply = match reply {
                Some(reply) => Reply::of(reply),
                None => {
                    let log = SendLog::new();
                    log.preparing();
                    Some(self.sender.run(&key(&id), filter, false, &log).await?)
                }
            };
            // Deleted since, or left out by the filter, if it is not shown.
            if let Some(Reply::Applied(Some(fields))) = reply {
                records.push((RecordId::new(id), fields.record().0));
            }
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

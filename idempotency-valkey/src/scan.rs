//! The listing of a store's records: a `SCAN` of each primary.

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Record, RecordId, StoredEvent};
use idempotency_core::store::{
    Condition, ScanPage, ScanRequest, SendLog, StoreError, StoreErrorKind, StoreScan, UNLISTED,
};
use redis::Value;
use serde_json::json;

use crate::address::Address;
use crate::connection::{LONGEST, Server};
use crate::failure::Failure;
use crate::info::Info;
use crate::reply::Found;
use crate::script::{FORMAT, bit, named, names};
use crate::store::ValkeyStore;

/// The most records of a page. Meanwhile the server serves no other request, and the replies take its memory.
const MOST_RECORDS: usize = 1_000;

/// Said of a listing that cannot go on.
const AGAIN: &str = "the server is no primary any more, so the listing is not complete: list again";

/// Where a page begins.
#[derive(Debug, PartialEq)]
struct Position {
    server: Address,
    cursor: String,
    /// The ids that the last step found beyond the limit of a page.
    left: Vec<String>,
}

impl Position {
    /// Returns the begin of a server.
    fn first(server: &Server) -> Self {
        Self {
            server: server.address.clone(),
            cursor: "0".to_owned(),
            left: Vec::new(),
        }
    }

    /// Reads the text of a page.
    fn of(text: &str) -> Option<Self> {
        let (server, cursor, left): (String, String, _) = serde_json::from_str(text).ok()?;
        cursor.parse::<u64>().ok()?;
        let server = Address::of(&server)?;
        Some(Self {
            server,
            cursor,
            left,
        })
    }

    fn text(&self) -> String {
        json!([self.server.to_string(), self.cursor, self.left]).to_string()
    }
}

/// A page has the records that one `SCAN` of one server finds, and at most `limit`. Beside those of the filter it reads no other ones.
///
/// The [`next`](ScanPage::next) of a page names the server and its cursor.
impl StoreScan for ValkeyStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let nodes = &self.sender.nodes;
            if !nodes.is_cluster() {
                nodes.learn(nodes.seed(), true).await;
            }
            let servers = nodes.primaries();
            let position = match request.after {
                None => Some(Position::first(&servers[0])),
                Some(after) => Position::of(after),
            };
            let none = || self.rejected("the page to go on after is none of this store");
            let mut position = position.ok_or_else(none)?;
            let at = servers.iter().position(|it| it.address == position.server);
            let at = at.ok_or_else(|| self.rejected(AGAIN))?;
            let limit = request.limit.clamp(1, MOST_RECORDS);
            if position.left.is_empty() {
                self.step(&servers[at], request.prefix, limit, &mut position)
                    .await?;
            }
            let limit = limit.min(position.left.len());
            let ids = position.left.drain(..limit).map(RecordId::new).collect();
            let is_done = position.left.is_empty() && position.cursor == "0";
            Ok(ScanPage {
                records: self.shown(&servers[at], ids, request.filter).await?,
                read: limit,
                billed: None,
                next: match is_done {
                    false => Some(position.text()),
                    true => servers.get(at + 1).map(|next| Position::first(next).text()),
                },
            })
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let found = self.find(id, &SendLog::new()).await?;
            let event = found.map_or(Ok(None), |found| found.event);
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
        let replies = server
            .ask(&both, LONGEST)
            .await
            .map_err(|failure| failure.error)?;
        let mut replies = replies
            .into_iter()
            .map(|reply| Failure::check(reply, &server.address));
        let mut next = || {
            let reply = replies.next().unwrap_or(Ok(Value::Nil));
            reply.map_err(|failure| failure.error)
        };
        if Info::of(next()?).is_replica() {
            server.disconnect();
            return Err(self.rejected(AGAIN));
        }
        let read = redis::from_redis_value(next()?);
        let (cursor, keys): (_, Vec<Vec<u8>>) = read.map_err(|_| {
            self.rejected("the reply to SCAN cannot be read: check what stands before the server")
        })?;
        position.cursor = cursor;
        // The key of another program can be no UTF-8.
        let keys = keys.into_iter().flat_map(String::from_utf8);
        let ids = keys.filter_map(|key| self.settings.prefix.id(&key));
        position.left = ids.map(|id| id.as_str().to_owned()).collect();
        Ok(())
    }

    /// Returns the records with these ids that the filter keeps, in one round trip unless a key is moving.
    async fn shown(
        &self,
        server: &Server,
        ids: Vec<RecordId>,
        filter: Option<&Condition>,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        // The values of the other ones can be long, and are not shown.
        let unlisted = UNLISTED.iter().fold(0, |all, it| all | bit(*it));
        let shown = names(!unlisted | filter.map(named).unwrap_or_default());
        let names: Vec<_> = [FORMAT.0].into_iter().chain(shown).collect();
        let mut commands = redis::pipe();
        for id in &ids {
            commands.cmd("HMGET").arg(self.key(id)).arg(&names);
        }
        let mut replies = Vec::new();
        if !ids.is_empty() {
            let asked = server.ask(&commands, LONGEST).await;
            replies = asked.map_err(|failure| failure.error)?;
        }
        let mut records = Vec::new();
        for (id, reply) in ids.into_iter().zip(replies) {
            let found = match Failure::check(reply, &server.address) {
                Ok(values) => Found::named(&names, &values),
                Err(failure) if failure.is_redirect() => self.find(&id, &SendLog::new()).await?,
                Err(failure) => return Err(failure.error),
            };
            // Deleted since, if there is none.
            let record = found.map(|found| found.record);
            let record = record.filter(|it| filter.is_none_or(|filter| filter.holds(Some(it))));
            records.extend(record.map(|record| (id, record.listed())));
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
        let position = Position {
            server: Address::of("[::1]:7").unwrap(),
            cursor: "18446744073709551615".to_owned(),
            left: vec!["pay#\"1\"".to_owned()],
        };
        let text = position.text();
        assert_eq!(text, r#"["[::1]:7","18446744073709551615",["pay#\"1\""]]"#);
        assert_eq!(Position::of(&text), Some(position));
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

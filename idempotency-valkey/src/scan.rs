//! The listing of a store's records: a `SCAN` of each primary.

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, Record, RecordId, StoredEvent};
use idempotency_core::store::{Condition, ScanPage, ScanRequest, StoreError, StoreScan, UNLISTED};
use redis::Value;
use serde_json::json;

use crate::connection::{LONGEST, Server};
use crate::failure::Failure;
use crate::fields::{Fields, NoRecord};
use crate::info::Info;
use crate::store::ValkeyStore;

/// The most records of a page. Meanwhile the server serves no other request, and the replies take its memory.
const MOST_RECORDS: usize = 1_000;

/// How many bytes of a value a listing reads first. What it shows is shorter, but for the trace of an undo.
const BEGINNING: usize = 4_096;

/// Said of a listing that cannot go on.
const AGAIN: &str = "a server is no primary any more, or slots have moved, so the listing is not complete: list again";

/// Where a page begins: the server, its cursor, the ids that the last step found beyond the limit of a page, and who had which slots at the
/// begin of the listing.
type Position = (String, u64, Vec<String>, u64);

/// Returns the begin of a server.
fn first(server: &Server, owners: u64) -> Position {
    (server.address.to_string(), 0, Vec::new(), owners)
}

/// A page has the records that one `SCAN` of one server finds, and at most `limit`. Beside those of the filter it reads no other ones.
///
/// The [`next`](ScanPage::next) of a page names the server and its cursor.
impl StoreScan for ValkeyStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let nodes = &self.sender.nodes;
            // Of the same server each time: after a change others can say something else for a moment.
            if request.after.is_none() || !nodes.is_cluster() {
                nodes.learn(nodes.seed(), true).await;
            }
            let servers = nodes.primaries();
            let none = |_| self.rejected("the page to go on after is none of this store");
            let mut position = match request.after {
                None => first(&servers[0], nodes.owners()),
                Some(after) => serde_json::from_str(after).map_err(none)?,
            };
            let at = servers
                .iter()
                .position(|it| it.address.to_string() == position.0);
            let at = at.ok_or_else(|| self.rejected(AGAIN))?;
            let limit = request.limit.clamp(1, MOST_RECORDS);
            if position.2.is_empty() {
                self.step(&servers[at], request.prefix, limit, &mut position)
                    .await?;
                if nodes.is_cluster() {
                    nodes.learn(nodes.seed(), true).await;
                }
            }
            let (_, cursor, left, owners) = &mut position;
            let owners = *owners;
            // A record can have moved to a server that was listed before.
            if owners != nodes.owners() {
                return Err(self.rejected(AGAIN));
            }
            let limit = limit.min(left.len());
            let ids = left.drain(..limit).map(RecordId::new).collect();
            let next = match left.is_empty() && *cursor == 0 {
                false => Some(position),
                true => servers.get(at + 1).map(|next| first(next, owners)),
            };
            Ok(ScanPage {
                records: self.shown(&servers[at], ids, request.filter).await?,
                read: limit,
                billed: None,
                next: next.map(|next| json!(next).to_string()),
            })
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(self.event(id))
    }
}

impl ValkeyStore {
    /// Makes one step of `SCAN`, and puts what it finds into the position. It is empty if nothing was found.
    async fn step(
        &self,
        server: &Server,
        prefix: &str,
        limit: usize,
        (_, cursor, left, _): &mut Position,
    ) -> Result<(), StoreError> {
        // A server that is no primary any more can have old records.
        let mut both = redis::pipe();
        both.cmd("INFO").arg("replication");
        both.cmd("SCAN").arg(*cursor);
        both.arg("MATCH").arg(self.settings.prefix.pattern(prefix));
        both.arg("COUNT").arg(limit).arg("TYPE").arg("string");
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
        let (next, keys): (_, Vec<Vec<u8>>) = read.map_err(|_| {
            self.rejected("the reply to SCAN cannot be read: check what stands before the server")
        })?;
        *cursor = next;
        // The key of another program can be no UTF-8.
        let keys = keys.into_iter().flat_map(String::from_utf8);
        let ids = keys.filter_map(|key| self.settings.prefix.id(&key));
        *left = ids.map(|id| id.as_str().to_owned()).collect();
        Ok(())
    }

    /// Returns the records with these ids that the filter keeps, in one round trip unless a key is moving.
    async fn shown(
        &self,
        server: &Server,
        ids: Vec<RecordId>,
        filter: Option<&Condition>,
    ) -> Result<Vec<(RecordId, Record)>, StoreError> {
        let asks_rest = filter.is_some_and(names_unlisted);
        let mut commands = redis::pipe();
        for id in &ids {
            let command = commands.cmd("GETRANGE");
            command.arg(self.key(id)).arg(0).arg(BEGINNING - 1);
        }
        let mut replies = Vec::new();
        if !ids.is_empty() {
            let asked = server.ask(&commands, LONGEST).await;
            replies = asked.map_err(|failure| failure.error)?;
        }
        let mut records = Vec::new();
        for (id, reply) in ids.into_iter().zip(replies) {
            let record = match Failure::check(reply, &server.address) {
                Ok(Value::BulkString(value)) => {
                    // More can follow, also where a field ends.
                    let is_cut = value.len() == BEGINNING;
                    let read = if is_cut {
                        Fields::read_beginning
                    } else {
                        Fields::read
                    };
                    match read(&value) {
                        Ok(fields) if is_cut && (asks_rest || !fields.has_unlisted()) => {
                            self.record(&id).await?
                        }
                        Ok(fields) => Some(fields.record().0),
                        // Deleted since, or of another program.
                        Err(NoRecord::Foreign) => None,
                        Err(why) => return Err(self.no_record(why)),
                    }
                }
                Ok(_) => None,
                Err(failure) if failure.is_redirect() => self.record(&id).await?,
                Err(failure) => return Err(failure.error),
            };
            let record = record.filter(|it| filter.is_none_or(|filter| filter.holds(Some(it))));
            records.extend(record.map(|record| (id, record.listed())));
        }
        Ok(records)
    }
}

/// Returns true if a condition names an attribute that a listing does not show.
fn names_unlisted(condition: &Condition) -> bool {
    use Condition::{All, Any, Below, Differs, Equals, Exists, Missing, NoRecord};
    let is_unlisted = |it: &Attribute| UNLISTED.contains(it);
    match condition {
        NoRecord => false,
        Exists(it) | Missing(it) | Equals(it, _) | Differs(it, _) | Below(it, _) => is_unlisted(it),
        All(parts) | Any(parts) => parts.iter().any(names_unlisted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_reads_back_in_another_process_and_another_text_is_none() {
        let read = |text: &str| serde_json::from_str::<Position>(text).ok();
        let left = vec!["pay#\"1\"".to_owned()];
        let position = ("[::1]:7".to_owned(), u64::MAX, left, 7);
        let text = json!(position).to_string();
        assert_eq!(text, r#"["[::1]:7",18446744073709551615,["pay#\"1\""],7]"#);
        assert_eq!(read(&text), Some(position));
        for other in ["", "7", "pay#1", r#"["a:7",-1,[],7]"#, r#"["a:7",1,[]]"#] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}

//! The store: one command for each request.

use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::events::{keeps_event, permit_events};
use idempotency_core::store::{
    RecordWrite, SendLog, Store, StoreError, StoreLimits, StoreReply, StoreRequest, Write,
};
use idempotency_core::time::EpochSeconds;

use crate::key::KeyPrefix;
use crate::reply::Found;
use crate::request::{LARGEST_VALUE, Request};
use crate::send::Sender;

/// A store of records on a server of Valkey or Redis, or on a cluster.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_core::store::Store;
/// use idempotency_valkey::ValkeyStore;
///
/// let store = ValkeyStore::builder("rediss://cache.example.com:6379").prefix("shop").build()?;
/// store.warm_up(false).await?;
/// # Ok(())
/// # }
/// ```
pub struct ValkeyStore {
    pub(crate) sender: Sender,
    pub(crate) settings: Settings,
    /// True if the server was checked, and can be used.
    is_checked: AtomicBool,
}

/// The id on whose key the start tries what a write needs. It has another form than that of a record.
const PROBED: &str = "#warm-up";

/// The settings of a store besides its servers.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) prefix: KeyPrefix,
    pub(crate) durability: Durability,
    pub(crate) compress_above: Option<usize>,
    /// True if events may be kept.
    pub(crate) unencrypted_events: bool,
}

/// Whether the server can lose a write that it has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// It can, in a failover to a replica that has not got the write yet, or in a restart. Then a handler can run again. The start says so
    /// once.
    #[default]
    Asynchronous,
    /// It cannot: MemoryDB, ElastiCache with synchronous durability, or a single server with `appendfsync always` and
    /// `no-appendfsync-on-rewrite no`.
    Synchronous,
}

impl ValkeyStore {
    pub(crate) fn new(sender: Sender, settings: Settings) -> Self {
        Self {
            sender,
            settings,
            is_checked: AtomicBool::new(false),
        }
    }

    /// Checks the server, if there was no check: a new connection asks what it is, and a request tries what a write needs.
    async fn check(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.is_checked.load(Ordering::Acquire) {
            return Ok(());
        }
        // Boxed, so that the future of every other write stays small.
        Box::pin(async {
            let nodes = &self.sender.nodes;
            let probe = Request::probe(&self.sender.scripts, self.key(&RecordId::new(PROBED)));
            self.sender.run(&probe, false, log).await?;
            nodes.learn(nodes.seed(), true).await;
            let is_first = !self.is_checked.swap(true, Ordering::AcqRel);
            if is_first && self.settings.durability == Durability::Asynchronous {
                tracing::warn!(
                    "{seed} may lose a write that it has acknowledged, in a failover or a restart: then a handler can run again. If it cannot, say \
                     so: set IDEMPOTENCY_VALKEY_DURABILITY to `synchronous`, or `durability` of the builder",
                    seed = nodes.seed().address,
                );
            }
            Ok(())
        })
        .await
    }

    pub(crate) fn key(&self, id: &RecordId) -> String {
        self.settings.prefix.key(id)
    }

    /// Performs a write, after a check of the server if there was none.
    async fn write(
        &self,
        record: RecordWrite<'_>,
        log: &SendLog,
    ) -> Result<StoreReply, StoreError> {
        if matches!(record.write, Write::Put(_)) {
            self.check(log).await?;
        }
        if keeps_event(record.write) {
            permit_events(self.settings.unencrypted_events, self)?;
        }
        let (scripts, key) = (&self.sender.scripts, self.key(record.id));
        let compress_above = self.settings.compress_above;
        let request = Request::write(scripts, key, record, now(), compress_above)?;
        let reply = self.sender.run(&request, true, log).await?;
        let (there, unreadable) = split(reply.found);
        Ok(match record.write {
            _ if !reply.is_applied => {
                log.ended(false, None);
                StoreReply::ConditionFailed {
                    existing: there,
                    unreadable,
                    maybe_applied: false,
                }
            }
            Write::Put(_) => StoreReply::replaced(there),
            _ => StoreReply::applied(),
        })
    }

    /// Returns a record, or `None` if there is none.
    pub(crate) async fn find(
        &self,
        id: &RecordId,
        log: &SendLog,
    ) -> Result<Option<Found>, StoreError> {
        let read = Request::read(&self.sender.scripts, self.key(id));
        let reply = self.sender.run(&read, false, log).await;
        reply.map(|reply| reply.found)
    }
}

/// Returns the record, if there is one, and why its response cannot be read.
fn split(found: Option<Found>) -> (Option<Record>, Option<String>) {
    let (record, unreadable) = found.map(|it| (it.record, it.unreadable)).unzip();
    (record, unreadable.flatten().map(str::to_owned))
}

/// Returns the time of this process, from which the server's TTL is counted. The times of the protocol are those of its caller.
fn now() -> EpochSeconds {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    EpochSeconds::new(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

impl Store for ValkeyStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        log.preparing();
        match request {
            StoreRequest::Write(record) => Box::pin(async move {
                let reply = self.write(record, log).await;
                reply.unwrap_or_else(StoreReply::failed).add_notes(log)
            }),
            // Of a primary, which the script makes sure of.
            StoreRequest::Read(id, _) => Box::pin(async move {
                match self.find(id, log).await {
                    Ok(found) => {
                        let (record, unreadable) = split(found);
                        StoreReply::Found { record, unreadable }
                    }
                    Err(error) => StoreReply::failed(error),
                }
            }),
            StoreRequest::Transact(transaction) => {
                let error = transaction.staged.unsupported(&self.name());
                Box::pin(ready(StoreReply::failed(error)))
            }
        }
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits {
            steps: Some(LARGEST_VALUE),
            token: Duration::MAX,
            ..StoreLimits::NONE
        }
    }

    fn name(&self) -> String {
        format!("Valkey at {}", self.sender.nodes.seed().address)
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        let also = match was_sent {
            true => "its load",
            false => "its address, whether it needs TLS (`rediss://`)",
        };
        format!("check that the server runs, {also}, and the network (the security groups of both)")
    }

    /// Connects, logs in, and checks that the server is a primary of a supported version that evicts nothing.
    fn warm_up(&self, keeps_events: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.check(&SendLog::new()).await?;
            permit_events(self.settings.unencrypted_events || !keeps_events, self)
        })
    }
}

impl fmt::Debug for ValkeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValkeyStore")
            .field("address", &self.sender.nodes.seed().address.to_string())
            .field("prefix", &self.settings.prefix.as_str())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::store::retention::{CLAIM_KEPT_AFTER_EXPIRATION, KEPT_AFTER_EXPIRATION};

    use super::*;
    use crate::connection::{CONNECT, PING, TRUSTED_FOR};
    use crate::failure::PERMISSIONS;
    use crate::send::{FIRST_PAUSE, MOST_PAUSES};

    #[test]
    fn the_page_has_the_numbers_and_the_commands_of_the_code() {
        let page = include_str!("../../docs/guide/valkey.md");
        let (commands, _) = PERMISSIONS.split_once("` for").unwrap();
        let (_, commands) = commands.split_once('`').unwrap();
        assert_eq!((KEPT_AFTER_EXPIRATION.as_secs(), MOST_PAUSES), (3_600, 4));
        let weeks = CLAIM_KEPT_AFTER_EXPIRATION.as_secs() / (7 * 24 * 60 * 60);
        assert_eq!(weeks, 2);
        for text in [
            commands.to_owned(),
            format!("up to {} MB", LARGEST_VALUE / 1_048_576),
            format!("no reply came for {} s", TRUSTED_FOR.as_secs()),
            format!("waits up to {CONNECT:?}").replace("1.5s", "1.5 s"),
            format!("pauses of {} ms", FIRST_PAUSE.as_millis()),
            "one hour after `expiration` if it is completed, otherwise two weeks after".to_owned(),
            "up to five times".to_owned(),
        ] {
            assert!(page.contains(&text), "{text}");
        }
        assert!(PING == Duration::from_secs(1) && page.contains("within a second"));
    }
}

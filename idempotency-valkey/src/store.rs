//! The store: what a request makes of the value of its key.

use std::fmt;
use std::future::ready;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::Replaced;
use idempotency_core::record::{Record, RecordId, StoredEvent};
use idempotency_core::store::events::{keeps_event, permit_events};
use idempotency_core::store::{
    RecordWrite, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
    Write,
};
use idempotency_core::time::EpochSeconds;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::claims::Claims;
use crate::failure::FOREIGN;
use crate::fields::{Fields, LARGEST_VALUE, NoRecord};
use crate::key::{KeyPrefix, slot};
use crate::request::{Reply, Request};
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
    claims: Claims,
    /// Locks that are held while a step is recorded, one for many keys. A step writes the whole record, so the steps of one key take turns.
    steps: Box<[Mutex<()>]>,
    /// True after a check of the server that found no fault.
    is_checked: AtomicBool,
}

/// The beginning of an id under which the check of the server writes. No record has an id of this form.
const PROBED: &str = "#warm-up";

/// The error about a server that replies to the writes of the check in another way than Valkey and Redis.
const STRANGE: &str =
    "its replies to `SET` or to a script are not those of Valkey or Redis: use one of these";

/// The longest time for which the server keeps a key of the check, in seconds.
const PROBED_FOR: i64 = 60;

/// The number of locks for steps: at most as many keys record a step at the same time.
const LANES: usize = 256;

/// How long a step waits for its lock. After that it is recorded without the lock, because the holder may be a future that is no longer polled.
const TURN: Duration = Duration::from_secs(1);

/// The most times that a write tries to replace the value that it has read. A try fails if another write was faster.
const MOST_RACES: usize = 1_000;

/// A record as the server has it.
struct Stored {
    value: Vec<u8>,
    record: Record,
    /// Why its response cannot be read.
    unreadable: Option<&'static str>,
}

/// What a write makes of a record.
struct New {
    value: Vec<u8>,
    /// For how many seconds the server keeps it. `None`: for ever.
    life: Option<i64>,
    is_claim: bool,
}

/// The settings of a store besides its servers.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) prefix: KeyPrefix,
    pub(crate) durability: Durability,
    pub(crate) compress_above: Option<usize>,
    /// True if events may be kept.
    pub(crate) unencrypted_events: bool,
}

/// Says if the server can lose a write that it has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// It can lose a write in a failover to a replica that does not have the write yet, or in a restart. Then a handler can run again. The
    /// check at the start warns of it once.
    #[default]
    Asynchronous,
    /// It loses no write: MemoryDB, ElastiCache with synchronous durability, or a single server with `appendfsync always` and
    /// `no-appendfsync-on-rewrite no`.
    Synchronous,
}

impl ValkeyStore {
    pub(crate) fn new(sender: Sender, settings: Settings) -> Self {
        Self {
            sender,
            settings,
            claims: Claims::new(),
            steps: (0..LANES).map(|_| Mutex::default()).collect(),
            is_checked: AtomicBool::new(false),
        }
    }

    /// Checks the server once: a new connection asks for its version and role, and requests try what a write needs.
    async fn check(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.is_checked.load(Ordering::Acquire) {
            return Ok(());
        }
        // Boxed, so that the future of every other write stays small.
        Box::pin(async {
            let nodes = &self.sender.nodes;
            // A key of this process alone, so that the replies are known. The time makes it new after a restore from a snapshot.
            let number = RandomState::new().hash_one(SystemTime::now());
            let key = self.key(&RecordId::new(format!("{PROBED}-{number:x}")));
            let swap = |old, new| Request::replace(&key, old, new, Some(PROBED_FOR));
            let there = |value: &[u8]| Some(Reply::Present(Some(value.to_vec())));
            // The values are no records. A write whose reply was lost is sent again, and then has another reply: so a successful write has
            // no expected one.
            let [one, two, other] = [&b"1"[..], b"2", b"3"].map(Some);
            for (request, expected) in [
                (swap(None, one), None),
                (swap(None, other), there(b"1")),
                (swap(one, two), None),
                (swap(one, other), there(b"2")),
                (swap(two, None), None),
                (Request::read(&key), Some(Reply::Present(None))),
            ] {
                let reply = self.sender.run(request, false, log).await?;
                if expected.is_some_and(|expected| expected != reply) {
                    return Err(self.rejected(STRANGE));
                }
                log.ended(false, None);
            }
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
        let (key, condition) = (self.key(record.id), record.condition);
        let _turn = match record.write {
            Write::Step { .. } => {
                let steps = self.steps[usize::from(slot(&key)) % LANES].lock();
                Box::pin(timeout(TURN, steps)).await.ok()
            }
            _ => None,
        };
        // The value under the key, or a guess. The server compares it with the real value.
        let mut old: Option<Stored> = None;
        let mut holds = condition.holds(None);
        if !holds {
            let claim = self.claims.take(&key);
            old = claim.map(|value| self.stored(value)).transpose()?;
            holds = condition.holds(old.as_ref().map(|it| &it.record));
        }
        if !holds {
            old = self.read(&key, log).await?;
            log.ended(false, None);
            holds = condition.holds(old.as_ref().map(|it| &it.record));
        }
        for _ in 0..MOST_RACES {
            if !holds {
                let (existing, unreadable) = split(old);
                return Ok(StoreReply::ConditionFailed {
                    existing,
                    unreadable,
                    maybe_applied: log.maybe_applied(),
                });
            }
            let new = self.written(record.write, old.as_ref())?;
            let (value, life) = match &new {
                Some(new) => (Some(&*new.value), new.life),
                None => (None, None),
            };
            let old_value = old.as_ref().map(|it| &*it.value);
            let request = Request::replace(&key, old_value, value, life);
            match self.sender.run(request, true, log).await? {
                Reply::Replaced => {
                    if let Some(claim) = new.filter(|new| new.is_claim) {
                        self.claims.keep(key, claim.value);
                    }
                    return Ok(StoreReply::Applied {
                        replaced: match record.write {
                            Write::Put(_) => split(old).0.into(),
                            _ => Replaced::Unknown,
                        },
                        maybe_again: log.maybe_again(),
                    });
                }
                Reply::Present(value) => {
                    log.ended(false, None);
                    old = value.map(|value| self.stored(value)).transpose()?;
                    holds = condition.holds(old.as_ref().map(|it| &it.record));
                }
            }
        }
        let text = format!("other requests have changed the record {MOST_RACES} times meanwhile");
        Err(StoreError::new(StoreErrorKind::Conflict, text))
    }

    /// Returns what a write makes of a record. `None`: it is deleted.
    ///
    /// # Errors
    ///
    /// If a value is larger than the store accepts, or if the record has no steps.
    fn written(&self, write: &Write, old: Option<&Stored>) -> Result<Option<New>, StoreError> {
        let above = self.settings.compress_above;
        let there = || old.map_or(Ok(Fields::default()), |old| self.fields(&old.value));
        let fields = match write {
            Write::Put(record) => Fields::of(record, above)?,
            Write::Update(change) => {
                let mut fields = there()?;
                fields.update(change, above)?;
                fields
            }
            Write::Delete => return Ok(None),
            Write::Step { name, result } => {
                let mut fields = there()?;
                if !fields.has_steps() {
                    return Err(self.rejected("the record was made without steps"));
                }
                fields.set_step(name, result, above)?;
                fields
            }
        };
        Ok(Some(New {
            value: fields.to_value(),
            life: fields.life(now()),
            is_claim: !fields.is_completed(),
        }))
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    ///
    /// If it is that of no record.
    pub(crate) fn fields<'a>(&self, value: &'a [u8]) -> Result<Fields<'a>, StoreError> {
        Fields::read(value).map_err(|why| self.no_record(why))
    }

    pub(crate) fn no_record(&self, why: NoRecord) -> StoreError {
        let text = match why {
            NoRecord::Foreign => FOREIGN,
            NoRecord::Later => "a later version of this crate wrote the record: use that one",
        };
        StoreError::new(
            StoreErrorKind::WrongSchema,
            format!("{}: {text}", self.name()),
        )
    }

    pub(crate) fn rejected(&self, text: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Rejected, format!("{}: {text}", self.name()))
    }

    fn stored(&self, value: Vec<u8>) -> Result<Stored, StoreError> {
        let (record, unreadable) = self.fields(&value)?.record();
        Ok(Stored {
            value,
            record,
            unreadable,
        })
    }

    /// Returns the value of a key, or `None` if there is none.
    async fn value(&self, key: &str, log: &SendLog) -> Result<Option<Vec<u8>>, StoreError> {
        match self.sender.run(Request::read(key), false, log).await? {
            Reply::Present(value) => Ok(value),
            Reply::Replaced => Ok(None),
        }
    }

    async fn read(&self, key: &str, log: &SendLog) -> Result<Option<Stored>, StoreError> {
        let value = self.value(key, log).await?;
        value.map(|value| self.stored(value)).transpose()
    }

    /// Returns a record, or `None` if there is none.
    pub(crate) async fn record(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        let stored = self.read(&self.key(id), &SendLog::new()).await?;
        Ok(split(stored).0)
    }

    /// Returns the event of a record.
    pub(crate) async fn event(&self, id: &RecordId) -> Result<Option<StoredEvent>, StoreError> {
        let Some(value) = self.value(&self.key(id), &SendLog::new()).await? else {
            return Ok(None);
        };
        self.fields(&value)?.event().map_err(|why| {
            self.rejected(&format!(
                "the event of the record `{id}` cannot be read: {why}"
            ))
        })
    }
}

/// Returns the record, if there is one, and why its response cannot be read.
fn split(stored: Option<Stored>) -> (Option<Record>, Option<String>) {
    match stored {
        None => (None, None),
        Some(it) => (Some(it.record), it.unreadable.map(str::to_owned)),
    }
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
                reply.unwrap_or_else(|error| StoreReply::failed(error).add_notes(log))
            }),
            // The script makes sure that a primary replies.
            StoreRequest::Read(id, _) => Box::pin(async move {
                match self.read(&self.key(id), log).await {
                    Ok(stored) => {
                        let (record, unreadable) = split(stored);
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

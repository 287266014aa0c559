//! The store: one command for each request.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::events::{keeps_event, permit_events};
use idempotency_core::store::{
    RecordWrite, SendLog, Store, StoreError, StoreErrorKind, StoreLimits, StoreReply, StoreRequest,
    Write,
};
use idempotency_core::time::EpochSeconds;

use crate::key::KeyPrefix;
use crate::reply::{Fields, Reply};
use crate::request::{LARGEST_VALUE, Request, TooLarge};
use crate::send::Sender;
use crate::start::{Checks, Durability};

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
/// store.warm_up().await?;
/// # Ok(())
/// # }
/// ```
pub struct ValkeyStore {
    pub(crate) sender: Sender,
    pub(crate) prefix: KeyPrefix,
    compress_above: Option<usize>,
    /// True if events may be kept.
    unencrypted_events: bool,
    checks: Checks,
}

/// The id on whose key the start tries what a write needs. It has another form than that of a record.
const PROBED: &str = "#warm-up";

/// The settings of a store besides its servers.
pub(crate) struct Settings {
    pub(crate) prefix: KeyPrefix,
    pub(crate) durability: Durability,
    pub(crate) compress_above: Option<usize>,
    pub(crate) unencrypted_events: bool,
}

impl ValkeyStore {
    pub(crate) fn new(sender: Sender, settings: Settings) -> Self {
        Self {
            sender,
            prefix: settings.prefix,
            compress_above: settings.compress_above,
            unencrypted_events: settings.unencrypted_events,
            checks: Checks::new(settings.durability),
        }
    }

    /// Checks the server, if there was no check.
    async fn check(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.checks.have_passed() {
            return Ok(());
        }
        // Boxed, so that the future of every other write stays small.
        let key = self.prefix.key(&RecordId::new(PROBED));
        Box::pin(self.checks.pass(&self.sender, &key, log)).await
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
            permit_events(self.unencrypted_events, self)?;
        }
        let request = Request::write(record, now(), self.compress_above)
            .map_err(|error| self.too_large(&error))?;
        let key = self.prefix.key(record.id);
        Ok(match self.sender.run(&key, &request, true, log).await? {
            Reply::Applied(replaced) => match record.write {
                Write::Put(_) => StoreReply::replaced(replaced.map(|fields| fields.record().0)),
                _ => StoreReply::applied(),
            },
            Reply::Refused(existing) => {
                log.ended(false, None);
                let (existing, unreadable) = existing.map(Fields::record).unzip();
                StoreReply::ConditionFailed {
                    existing,
                    unreadable: unreadable.flatten(),
                    maybe_applied: false,
                }
            }
            Reply::NoSteps | Reply::Failed { .. } => {
                log.ended(false, None);
                let text = format!(
                    "the record of {key} on {} was made without steps",
                    self.name()
                );
                return Err(StoreError::new(StoreErrorKind::Rejected, text));
            }
        })
    }

    /// Returns the fields of a record, or `None` if there is no record.
    pub(crate) async fn fields(
        &self,
        id: &RecordId,
        log: &SendLog,
    ) -> Result<Option<Fields>, StoreError> {
        let key = self.prefix.key(id);
        match self.sender.run(&key, &Request::read(), false, log).await? {
            Reply::Refused(fields) => Ok(fields),
            reply => {
                let text = format!("{} replied {reply:?} to a read", self.name());
                Err(StoreError::new(StoreErrorKind::Rejected, text))
            }
        }
    }

    fn too_large(&self, error: &TooLarge) -> StoreError {
        let what = match error {
            TooLarge::Bytes(bytes) => {
                format!("a value of {bytes} bytes, and at most {LARGEST_VALUE} are stored")
            }
            TooLarge::Fields(fields) => format!("{fields} steps"),
        };
        StoreError::new(
            StoreErrorKind::TooLarge,
            format!("the record has {what} on {}", self.name()),
        )
    }
}

/// Returns the time of this process, from which the server's TTL is counted. The times of the protocol are those of its caller.
fn now() -> EpochSeconds {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
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
                match self.fields(id, log).await {
                    Ok(fields) => {
                        let (record, unreadable) = fields.map(Fields::record).unzip();
                        StoreReply::Found {
                            record,
                            unreadable: unreadable.flatten(),
                        }
                    }
                    Err(error) => StoreReply::failed(error),
                }
            }),
            StoreRequest::Transact(transaction) => {
                let error = transaction.staged.unsupported(&self.name());
                Box::pin(std::future::ready(StoreReply::failed(error)))
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

    fn check_events(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(permit_events(
            self.unencrypted_events,
            self,
        )))
    }

    fn timeout_advice(&self, was_sent: bool) -> String {
        let advice = match was_sent {
            true => {
                "check that the server runs, its load, and the network (the security groups of both)"
            }
            false => {
                "check that the server runs, its address, the network (the security groups of both), and whether it needs TLS (`rediss://`)"
            }
        };
        advice.to_owned()
    }

    /// Connects, logs in, and checks that the server is a primary of a supported version that evicts nothing.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let log = SendLog::new();
            log.preparing();
            self.check(&log).await
        })
    }
}

impl fmt::Debug for ValkeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValkeyStore")
            .field("address", &self.sender.nodes.seed().address.to_string())
            .field("prefix", &self.prefix.as_str())
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

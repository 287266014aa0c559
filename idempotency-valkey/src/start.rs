//! Checks of the server, once, before the first claim: whether it would lose records, and whether it is the right one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use redis::Value;

use crate::address::Address;
use crate::connection::Server;
use crate::request::Request;
use crate::send::Sender;

/// The oldest version of Redis that performs the script, which each Valkey states too.
const OLDEST: (u32, u32) = (6, 2);

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

/// Whether the server was checked.
pub(crate) struct Checks {
    passed: AtomicBool,
    durability: Durability,
}

impl Checks {
    pub(crate) fn new(durability: Durability) -> Self {
        Self {
            passed: AtomicBool::new(false),
            durability,
        }
    }

    /// Returns true if the server was checked, and can be used.
    pub(crate) fn have_passed(&self) -> bool {
        self.passed.load(Ordering::Acquire)
    }

    /// Checks the servers. `key` is one of no record.
    ///
    /// # Errors
    ///
    /// If a server cannot be used, or if that cannot be found out.
    pub(crate) async fn pass(
        &self,
        sender: &Sender,
        key: &str,
        log: &SendLog,
    ) -> Result<(), StoreError> {
        let seed = Arc::clone(sender.nodes.seed());
        let of_seed = info(sender, &seed, log).await?;
        if of_seed.field("cluster_enabled") == Some("1") {
            sender.nodes.learn(&seed, true).await;
            for server in sender.nodes.primaries() {
                info(sender, &server, log).await?.check(&server.address)?;
            }
        } else {
            of_seed.check(&seed.address)?;
        }
        sender.run(key, &Request::probe(), false, log).await?;
        if !self.passed.swap(true, Ordering::AcqRel) && self.durability == Durability::Asynchronous
        {
            tracing::warn!(
                "{seed} may lose a write that it has acknowledged, in a failover or a restart: then a handler can run again. If it cannot, say so: \
                 set IDEMPOTENCY_VALKEY_DURABILITY to `synchronous`, or `durability` of the builder",
                seed = seed.address,
            );
        }
        Ok(())
    }
}

/// Asks a server what it is.
async fn info(sender: &Sender, server: &Arc<Server>, log: &SendLog) -> Result<Info, StoreError> {
    let value = sender.read(server, &redis::cmd("INFO"), log).await?;
    Ok(Info::of(value))
}

/// The reply to `INFO`: a field a line.
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn of(reply: Value) -> Self {
        let text = redis::from_redis_value::<Vec<u8>>(reply).unwrap_or_default();
        Self(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns true if the server performs no writes, and can have old records.
    pub(crate) fn is_replica(&self) -> bool {
        self.field("role") == Some("slave")
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// Checks a server.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    fn check(&self, address: &Address) -> Result<(), StoreError> {
        let version = self.field("redis_version").unwrap_or_default();
        let policy = self.field("maxmemory_policy").unwrap_or_default();
        let is_old = read_version(version).is_none_or(|version| version < OLDEST);
        let (kind, text) = if is_old {
            let text =
                format!("says that its version is `{version}`: use Redis 6.2 or later, or Valkey");
            (StoreErrorKind::WrongSchema, text)
        } else if self.is_replica() {
            let text = "is a replica, which performs no write: write the endpoint of the primary, or wait for the failover";
            (StoreErrorKind::Internal, text.to_owned())
        } else if policy.is_empty() {
            let text = "does not say its `maxmemory-policy`: ask a server of Valkey or Redis that has `noeviction`";
            (StoreErrorKind::WrongSchema, text.to_owned())
        } else if policy != "noeviction" {
            let text = format!(
                "has the `maxmemory-policy` `{policy}`, and deletes claims and responses when it is full, so that handlers run again: set it to \
                 `noeviction`, or use a server that can (ElastiCache Serverless cannot)"
            );
            (StoreErrorKind::WrongSchema, text)
        } else {
            return Ok(());
        };
        Err(StoreError::new(kind, format!("{address} {text}")))
    }
}

fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_would_lose_records_or_cannot_perform_writes_is_refused() {
        let good = [
            ("redis_version", "7.2.4"),
            ("role", "master"),
            ("maxmemory_policy", "noeviction"),
        ];
        let check = |name: &str, value: &str| {
            let lines = good.iter().map(|(field, of_good)| {
                let value = if *field == name { value } else { of_good };
                format!("{field}:{value}\r\n")
            });
            let info = Info(format!("# Server\r\n{}", lines.collect::<String>()));
            info.check(&Address::of("cache:6379").unwrap())
        };
        assert!(check("", "").is_ok() && check("redis_version", "6.2.0").is_ok());
        for (name, value, kind, text) in [
            (
                "redis_version",
                "6.0.16",
                StoreErrorKind::WrongSchema,
                "its version is `6.0.16`: use Redis 6.2",
            ),
            (
                "redis_version",
                "",
                StoreErrorKind::WrongSchema,
                "its version is ``",
            ),
            (
                "role",
                "slave",
                StoreErrorKind::Internal,
                "is a replica, which performs no write",
            ),
            (
                "maxmemory_policy",
                "volatile-lru",
                StoreErrorKind::WrongSchema,
                "`volatile-lru`, and deletes claims",
            ),
            (
                "maxmemory_policy",
                "",
                StoreErrorKind::WrongSchema,
                "does not say its `maxmemory-policy`",
            ),
        ] {
            let error = check(name, value).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(
                error.to_string().starts_with("cache:6379") && error.to_string().contains(text),
                "{error}"
            );
        }
    }
}

//! What a server says of itself: whether it can be used, because it would lose no records and performs writes.

use idempotency_core::store::StoreErrorKind;
use redis::Value;

use crate::address::Address;
use crate::failure::{Failure, REPLICA};

/// The oldest version of Redis that performs the script, which each Valkey states too.
const OLDEST: (u32, u32) = (6, 2);

/// The reply to `INFO`: a field a line.
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn of(reply: Value) -> Self {
        let text = redis::from_redis_value::<Vec<u8>>(reply).unwrap_or_default();
        Self(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns true if the server performs no writes, and can have old records.
    pub(crate) fn is_replica(&self) -> bool {
        self.field("role") == "slave"
    }

    fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines();
        let field = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        field.unwrap_or_default()
    }

    /// Checks a server.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    pub(crate) fn check(&self, address: &Address) -> Result<(), Failure> {
        let refuse = |kind, text: &str| {
            let text = format!("{address} cannot be used: {text}");
            Err(Failure::unsent(kind, text))
        };
        let version = self.field("redis_version");
        if read_version(version).is_none_or(|version| version < OLDEST) {
            let text = format!("its version is `{version}`: use Redis 6.2 or later, or Valkey");
            return refuse(StoreErrorKind::WrongSchema, &text);
        }
        if self.field("loading") == "1" {
            return refuse(
                StoreErrorKind::Internal,
                "it is LOADING its data: wait until it has",
            );
        }
        // A replica in a cluster says where the primary is.
        if self.is_replica() && self.field("cluster_enabled") != "1" {
            return refuse(StoreErrorKind::Internal, REPLICA);
        }
        let policy = self.field("maxmemory_policy");
        if policy != "noeviction" {
            let text = format!(
                "its `maxmemory-policy` is `{policy}`, so it deletes claims and responses when it is full, and handlers run again: set it to \
                 `noeviction`, or use a server that can (ElastiCache Serverless cannot)"
            );
            return refuse(StoreErrorKind::WrongSchema, &text);
        }
        Ok(())
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
            ("loading", "0"),
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
                "loading",
                "1",
                StoreErrorKind::Internal,
                "it is LOADING its data",
            ),
            (
                "role",
                "slave",
                StoreErrorKind::Internal,
                "it is a replica, which performs no write",
            ),
            (
                "maxmemory_policy",
                "volatile-lru",
                StoreErrorKind::WrongSchema,
                "`maxmemory-policy` is `volatile-lru`",
            ),
            (
                "maxmemory_policy",
                "",
                StoreErrorKind::WrongSchema,
                "`maxmemory-policy` is ``",
            ),
        ] {
            let error = check(name, value).unwrap_err().error;
            assert_eq!(error.kind(), kind, "{error}");
            assert!(
                error.to_string().starts_with("cache:6379") && error.to_string().contains(text),
                "{error}"
            );
        }
    }
}

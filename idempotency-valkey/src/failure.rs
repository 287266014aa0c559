//! What an error means: whether the write may be applied, whether the store sends again, and what to do.

use idempotency_core::store::{StoreError, StoreErrorKind};
use redis::{ErrorKind, RedisError, Value};

use crate::address::Address;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    /// True if a write may have been applied, or may still be.
    pub(crate) maybe_applied: bool,
    pub(crate) next: Next,
}

/// What the store does after a failure. It sends a write again only if it was certainly not applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: the failure is the reply.
    Fail,
    /// Sends the whole script, which the server does not have.
    SendScript,
    /// Sends the script instead of `SET`: the server writes nothing now, or does not know this `SET` and so `always` needs the script.
    AskScript { always: bool },
    /// Sends to this server, which has the key now.
    Follow(Address),
    /// Sends to this server, which gets the key, after `ASKING`.
    Ask(Address),
    /// Asks for the servers of the cluster, and sends after a pause, over a new connection: the server may be no primary any more.
    Pause,
    /// The same in a cluster, where another server may have the key by now. Without one nothing, because a second wait would last as long.
    Elsewhere,
}

/// Returns what a code of the server means: its kind, whether it passes by itself, and what to do. None of them was applied: the server says
/// so before it performs the command, which is the only one of the script that changes something.
fn meaning(code: &str) -> Option<(StoreErrorKind, bool, &'static str)> {
    let advice = match code {
        "LOADING" => "wait until it has loaded its data",
        "CLUSTERDOWN" => "wait for the failover, or check the cluster",
        "MASTERDOWN" => "wait for the failover, or check the primary",
        "TRYAGAIN" => "wait until the slot has moved",
        "BUSY" => "find the script that blocks it",
        "CLIENTS" => "raise `maxclients`, or let fewer processes connect",
        "READONLY" => REPLICA,
        "MOVED" | "ASK" => "check the cluster: it sends the store from server to server",
        "NOREPLICAS" => "check its replicas (`min-replicas-to-write`)",
        "MISCONF" => "it cannot write to its disk: check it",
        "OOM" => "the server is full: give it more memory (`maxmemory`)",
        "NOSCRIPT" => "it forgets scripts: check it",
        "NOAUTH" => NO_PASSWORD,
        "WRONGPASS" => LOGIN,
        "NOPERM" => PERMISSIONS,
        "WRONGTYPE" => FOREIGN,
        "SYNTAX" => UNKNOWN,
        _ => return None,
    };
    let kind = match code {
        "NOAUTH" | "WRONGPASS" => StoreErrorKind::Credentials,
        "NOPERM" => StoreErrorKind::AccessDenied,
        "WRONGTYPE" => StoreErrorKind::WrongSchema,
        _ => StoreErrorKind::Internal,
    };
    let passes = matches!(
        code,
        "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "CLIENTS" | "READONLY"
    );
    Some((kind, passes, advice))
}

const UNKNOWN: &str = "check that it is Redis 6.2 or later, or Valkey, and what stands before it";
pub(crate) const REPLICA: &str = "it is a replica, which performs no write: write the endpoint of the primary, or wait for the failover";
const LOGIN: &str =
    "check IDEMPOTENCY_VALKEY_USER and IDEMPOTENCY_VALKEY_PASSWORD, or those of the URL";
const DATABASE: &str = "check the database number of the URL, which is 0 in a cluster";
const NO_PASSWORD: &str = "set IDEMPOTENCY_VALKEY_PASSWORD, or the password in the URL";
pub(crate) const FOREIGN: &str = "the key of the record holds no record: another program uses the prefix, so set another one (IDEMPOTENCY_VALKEY_PREFIX, `prefix` of the builder)";

/// What a user of the server needs.
pub(crate) const PERMISSIONS: &str = "give its user `+evalsha +eval +info +cluster|slots +set +get +getex +getrange +del +scan +ping +select +asking` for the keys of the prefix";

impl Failure {
    fn new(kind: StoreErrorKind, text: String, maybe_applied: bool, next: Next) -> Self {
        Self {
            error: StoreError::new(kind, text),
            maybe_applied,
            next,
        }
    }

    /// Returns the failure of a connection: nothing was sent.
    pub(crate) fn unsent(kind: StoreErrorKind, text: String) -> Self {
        let next = if kind.is_transient() {
            Next::Pause
        } else {
            Next::Fail
        };
        Self::new(kind, text, false, next)
    }

    /// Returns the failure of a command whose reply says nothing.
    pub(crate) fn unreadable(server: &Address) -> Self {
        let text = format!(
            "the reply of {server} cannot be read: check that it is Valkey or Redis, and what stands before it"
        );
        Self::new(StoreErrorKind::Rejected, text, true, Next::Fail)
    }

    /// Returns the failure of a connection that broke after a command was sent to this server. What changes nothing is sent again.
    pub(crate) fn broken(error: &RedisError, server: &Address) -> Self {
        let error = match error.kind() {
            // It quotes the reply.
            ErrorKind::Parse => "the reply is none of Valkey or Redis".to_owned(),
            _ => short(&error.to_string()),
        };
        let text = format!(
            "no reply came from {server} ({error}): check that the server runs, and the network"
        );
        Self::new(StoreErrorKind::Unreachable, text, true, Next::Pause)
    }

    /// Returns true if another server has the key, or gets it.
    pub(crate) fn is_redirect(&self) -> bool {
        matches!(self.next, Next::Follow(_) | Next::Ask(_))
    }

    /// Returns a reply of this server, or what it means if it is an error.
    pub(crate) fn check(reply: Value, server: &Address) -> Result<Value, Self> {
        match reply {
            Value::ServerError(error) => {
                let text = [error.code(), error.details().unwrap_or_default()].join(" ");
                Err(Self::of(&text, server))
            }
            reply => Ok(reply),
        }
    }

    /// Returns what an error means that this server replied.
    fn of(error: &str, server: &Address) -> Self {
        // Redis 6.2 says first where in the script: `@user_script: 9: -OOM ..`.
        let in_line = error.strip_prefix("@user_script: ");
        let error = in_line
            .and_then(|it| it.split_once(": -"))
            .map_or(error, |(_, it)| it);
        let mut words = error.split(' ');
        let code = words.next().unwrap_or_default();
        let to = words.nth(1).and_then(Address::of);
        let to = to.map(|to| server.named(to.host, to.port));
        // Said in place of a reply to the first command, before the server closes the connection.
        let is_full = code == "ERR" && error.contains("max number of clients");
        // In a script this one has no code.
        let is_denied = error.contains("ACL failure") || error.contains("can't run this command");
        let is_syntax = error == "ERR syntax error";
        let code = match code {
            _ if is_full => "CLIENTS",
            _ if is_denied => "NOPERM",
            _ if is_syntax => "SYNTAX",
            code => code,
        };
        let known = meaning(code);
        // A login and the choice of a database have no code.
        let of_database = error.contains("DB index") || error.contains("SELECT");
        let advice = if of_database { DATABASE } else { UNKNOWN };
        let unknown = match error.contains(" AUTH ") {
            true => (StoreErrorKind::Credentials, false, LOGIN),
            false => (StoreErrorKind::Rejected, false, advice),
        };
        let (kind, passes, advice) = known.unwrap_or(unknown);
        let next = match (code, to) {
            ("MOVED", Some(to)) => Next::Follow(to),
            ("ASK", Some(to)) => Next::Ask(to),
            ("NOSCRIPT", _) => Next::SendScript,
            ("OOM" | "MISCONF" | "NOREPLICAS", _) => Next::AskScript { always: false },
            ("SYNTAX", _) => Next::AskScript { always: true },
            _ if passes => Next::Pause,
            _ => Next::Fail,
        };
        let text = format!("{server} replied `{}`: {advice}", short(error));
        // What is not known may come from something between.
        Self::new(kind, text, known.is_none(), next)
    }
}

/// Returns the beginning of a text, without control characters.
fn short(text: &str) -> String {
    // It can quote the arguments of a command that it does not know.
    let text = text.split(", with args").next().unwrap_or_default();
    let letters = text.chars().filter(|letter| !letter.is_control());
    letters.take(200).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Address {
        Address::of("cache:6379").unwrap()
    }

    /// Returns the failure of an error as it is read from the wire.
    fn replied(line: &str) -> Failure {
        let reply = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        Failure::check(reply, &server()).unwrap_err()
    }

    #[test]
    fn what_the_server_says_before_it_performs_a_command_was_not_applied() {
        let to = || Address::of("10.0.0.2:7000").unwrap();
        let at_home = Address::of("cache:7000").unwrap();
        for (line, kind, next) in [
            ("NOSCRIPT No matching script.", "Internal", Next::SendScript),
            ("MOVED 7 10.0.0.2:7000", "Internal", Next::Follow(to())),
            ("MOVED 7 :7000", "Internal", Next::Follow(at_home)),
            ("ASK 7 10.0.0.2:7000", "Internal", Next::Ask(to())),
            ("LOADING Redis is loading", "Internal", Next::Pause),
            ("CLUSTERDOWN Hash slot not served", "Internal", Next::Pause),
            ("TRYAGAIN Multiple keys", "Internal", Next::Pause),
            ("BUSY Redis is busy", "Internal", Next::Pause),
            ("ERR max number of clients reached", "Internal", Next::Pause),
            ("READONLY You can't write", "Internal", Next::Pause),
            (
                "OOM command not allowed",
                "Internal",
                Next::AskScript { always: false },
            ),
            (
                "MISCONF Redis is configured",
                "Internal",
                Next::AskScript { always: false },
            ),
            (
                "NOREPLICAS Not enough",
                "Internal",
                Next::AskScript { always: false },
            ),
            (
                "ERR syntax error",
                "Internal",
                Next::AskScript { always: true },
            ),
            ("NOAUTH Authentication required.", "Credentials", Next::Fail),
            (
                "NOPERM this user has no permissions",
                "AccessDenied",
                Next::Fail,
            ),
            ("WRONGTYPE Operation against", "WrongSchema", Next::Fail),
        ] {
            let failure = replied(line);
            assert_eq!(format!("{:?}", failure.error.kind()), kind, "{line}");
            assert_eq!(failure.next, next, "{line}");
            assert!(!failure.maybe_applied, "{line}");
            let text = failure.error.to_string();
            assert!(
                text.starts_with("cache:6379 replied `") && text.contains("`: "),
                "{text}"
            );
        }
    }

    #[test]
    fn a_lost_reply_and_an_error_that_is_not_known_may_be_applied() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        for error in [closed.into(), (ErrorKind::Parse, "s3cr3t").into()] {
            let broken = Failure::broken(&error, &server());
            assert!(broken.maybe_applied);
            assert_eq!(broken.error.kind(), StoreErrorKind::Unreachable);
            assert!(!broken.error.to_string().contains("s3cr3t"));
        }
        for error in ["ERR something else", "UNKNOWN code"] {
            let failure = replied(error);
            assert!(failure.maybe_applied);
            assert_eq!(failure.error.kind(), StoreErrorKind::Rejected);
        }
    }

    #[test]
    fn a_failure_in_the_script_was_not_applied() {
        for (line, kind) in [
            ("OOM command not allowed", StoreErrorKind::Internal),
            (
                "@user_script: 9: -OOM command not allowed",
                StoreErrorKind::Internal,
            ),
            (
                "@user_script: 9: -READONLY You can't write",
                StoreErrorKind::Internal,
            ),
            (
                "ERR ACL failure in script: no permissions",
                StoreErrorKind::AccessDenied,
            ),
            (
                "ERR The user executing the script can't run this command",
                StoreErrorKind::AccessDenied,
            ),
        ] {
            let failure = replied(line);
            assert_eq!(
                (failure.error.kind(), failure.maybe_applied),
                (kind, false),
                "{line}"
            );
        }
    }

    #[test]
    fn an_error_is_one_line_without_the_arguments_that_a_server_quotes() {
        let line = "ERR unknown command 'EVALSHA', with args beginning with: 's3cr3t'";
        let failure = replied(line);
        let text = failure.error.to_string();
        assert!(
            text.contains("unknown command") && !text.contains("s3cr3t"),
            "{text}"
        );
        let long = format!("ERR {}", "x".repeat(1_000));
        let text = replied(&long).error.to_string();
        assert!(text.len() < 500, "{text}");
    }
}

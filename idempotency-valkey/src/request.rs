//! A request on one key as a command: it reads the value, or replaces the one that was read.

use redis::{Cmd, Value};

use crate::address::Address;
use crate::failure::Failure;

/// The script that replaces a value, if it is the one that was read.
const SWAP: &str = include_str!("swap.lua");

/// A request on the key of one record.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) key: &'a str,
    /// `None`: nothing is replaced.
    change: Option<Change<'a>>,
}

#[derive(Clone, Copy)]
struct Change<'a> {
    /// The value that is replaced. An empty one: there is no key.
    old: &'a [u8],
    /// The value that replaces it. An empty one: the key is deleted.
    new: &'a [u8],
    /// For how many seconds the server keeps it. `None`: for ever.
    life: Option<i64>,
}

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As `SET .. NX GET`, which Redis has since 7.0, or as `SET .. IFEQ .. GET`, which Valkey has since 8.1. Not for a read and a deletion.
    Set,
    /// As the digest of the script.
    Digest,
    /// As the whole script, which the server keeps then.
    Whole,
}

impl<'a> Request<'a> {
    /// Returns a request that reads the value.
    pub(crate) fn read(key: &'a str) -> Self {
        Self { key, change: None }
    }

    /// Returns a request that replaces a value by another one. `None`: no key.
    pub(crate) fn replace(
        key: &'a str,
        old: Option<&'a [u8]>,
        new: Option<&'a [u8]>,
        life: Option<i64>,
    ) -> Self {
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let change = Some(Change { old, new, life });
        Self { key, change }
    }

    /// Returns true if the request creates a key.
    pub(crate) fn creates(&self) -> bool {
        self.change.is_some_and(|it| it.old.is_empty())
    }

    /// Returns true if the request has the form [`Form::Set`].
    pub(crate) fn sets(&self) -> bool {
        self.change.is_some_and(|it| !it.new.is_empty())
    }

    /// Returns the command.
    pub(crate) fn command(&self, form: Form, digest: &str) -> Cmd {
        let bytes = self.change.map_or(0, |it| it.old.len() + it.new.len());
        let mut command = Cmd::with_capacity(8, 160 + bytes);
        match form {
            Form::Set => command.arg("SET").arg(self.key),
            Form::Digest => command.arg("EVALSHA").arg(digest).arg(1).arg(self.key),
            Form::Whole => command.arg("EVAL").arg(SWAP).arg(1).arg(self.key),
        };
        let Some(Change { old, new, life }) = self.change else {
            return command;
        };
        match form {
            Form::Set if old.is_empty() => command.arg(new).arg("NX").arg("GET"),
            Form::Set => command.arg(new).arg("IFEQ").arg(old).arg("GET"),
            Form::Digest | Form::Whole => command.arg(old).arg(new),
        };
        if let Some(life) = life {
            if form == Form::Set {
                command.arg("EX");
            }
            command.arg(life);
        }
        command
    }

    /// Reads the reply of this server to a form of the request. `None`: the script must say what is there.
    ///
    /// # Errors
    ///
    /// If it is none to a request.
    pub(crate) fn reply(
        &self,
        form: Form,
        value: Value,
        server: &Address,
    ) -> Result<Option<Reply>, Failure> {
        // What `SET` returns is the value before.
        let before = self
            .change
            .filter(|it| form == Form::Set && !it.old.is_empty());
        Ok(Some(match (value, before) {
            (Value::BulkString(value), Some(it)) if value == it.old => Reply::Replaced,
            (Value::BulkString(value), _) => Reply::Present(Some(value)),
            (Value::Nil, Some(_)) => return Ok(None),
            (Value::Nil, None) => Reply::Replaced,
            (Value::Int(0), _) => Reply::Present(None),
            _ => return Err(Failure::unreadable(server)),
        }))
    }
}

/// Returns the digest of the script, by which the servers that have it know it.
pub(crate) fn digest() -> String {
    redis::Script::new(SWAP).get_hash().to_owned()
}

/// The reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The value was replaced.
    Replaced,
    /// The value is this one, or there is none. Nothing was changed.
    Present(Option<Vec<u8>>),
}

#[cfg(test)]
mod tests {
    use redis::Arg;

    use super::*;

    fn words(request: &Request<'_>, form: Form) -> String {
        let command = request.command(form, "digest");
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(b"") => "''",
            Arg::Simple(word) => std::str::from_utf8(word).unwrap(),
            _ => panic!("an argument is a text"),
        });
        words.collect::<Vec<_>>().join(" ").replace(SWAP, "script")
    }

    #[test]
    fn each_request_is_a_command() {
        let replace = |old, life| Request::replace("key", old, Some(b"new"), life);
        for (request, set, script) in [
            (replace(None, Some(7)), "new NX GET EX 7", "'' new 7"),
            (replace(None, None), "new NX GET", "'' new"),
            (
                replace(Some(b"old"), Some(7)),
                "new IFEQ old GET EX 7",
                "old new 7",
            ),
            (replace(Some(b"old"), None), "new IFEQ old GET", "old new"),
        ] {
            assert!(request.sets());
            assert_eq!(words(&request, Form::Set), format!("SET key {set}"));
            assert_eq!(
                words(&request, Form::Digest),
                format!("EVALSHA digest 1 key {script}")
            );
        }
        for (request, arguments) in [
            (Request::replace("key", Some(b"a"), None, None), " a ''"),
            (Request::replace("key", None, None, None), " '' ''"),
            (Request::read("key"), ""),
        ] {
            assert!(!request.sets());
            for (form, begin) in [
                (Form::Digest, "EVALSHA digest"),
                (Form::Whole, "EVAL script"),
            ] {
                let expected = format!("{begin} 1 key{arguments}");
                assert_eq!(words(&request, form), expected);
            }
        }
    }

    #[test]
    fn each_reply_has_its_meaning_and_other_replies_have_none() {
        let of = |old, form, value| {
            let request = Request::replace("key", old, Some(b"new"), None);
            request.reply(form, value, &Address::of("cache:6379").unwrap())
        };
        let text = || Value::BulkString(b"old".to_vec());
        let present = || Reply::Present(Some(b"old".to_vec()));
        for (old, form, value, expected) in [
            (None, Form::Set, Value::Nil, Some(Reply::Replaced)),
            (None, Form::Set, text(), Some(present())),
            (Some(&b"old"[..]), Form::Set, text(), Some(Reply::Replaced)),
            (Some(b"other"), Form::Set, text(), Some(present())),
            (Some(b"old"), Form::Set, Value::Nil, None),
            (
                Some(b"old"),
                Form::Digest,
                Value::Nil,
                Some(Reply::Replaced),
            ),
            (Some(b"old"), Form::Digest, text(), Some(present())),
            (
                Some(b"old"),
                Form::Whole,
                Value::Int(0),
                Some(Reply::Present(None)),
            ),
        ] {
            assert_eq!(of(old, form, value).unwrap(), expected, "{form:?}");
        }
        for other in [Value::Int(1), Value::Okay, Value::Array(Vec::new())] {
            let failure = of(None, Form::Set, other).unwrap_err();
            assert!(failure.maybe_applied && failure.next == crate::failure::Next::Fail);
        }
    }
}

//! The command as a process: its arguments, streams and exit code.
#![allow(clippy::unwrap_used)]

mod cost;
mod invoke;
mod jsonl;
mod key;
mod kinds;
mod list;
#[cfg(feature = "__servers")]
mod postgres;
mod records;
mod resolve;
mod snapshots;
mod table;
mod template;
mod terminal;

use std::collections::HashMap;
use std::io::Write;
use std::ops::Deref;
use std::process::{Child, Command, Output, Stdio};

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use serde_json::Value;

const KEY: &str = "shop#42b7b4f2921788ea14dac5566e6f06d0";
/// A key without a record.
const NO_RECORD: &str = "shop#00000000000000000000000000000000";
/// Times in the far past and in the far future, in seconds.
const EARLY: i64 = 1_600_000_000;
const LATE: i64 = 32_503_680_000;

/// Returns the command, without the developer's own environment variables. Its arguments are the words of the line; single quotes keep
/// a text together, and `$KEY` stands for [`KEY`].
fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idempotency"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let prefixes = ["IDEMPOTENCY_", "AWS_", "CLICOLOR", "NO_COLOR"];
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    for (number, part) in line.replace("$KEY", KEY).split('\'').enumerate() {
        match number % 2 {
            0 => command.args(part.split_whitespace()),
            _ => command.arg(part),
        };
    }
    command
}

fn start(mut command: Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the command on this input, which is written while the output is read.
fn finish(command: Command, input: impl Into<Vec<u8>>) -> Ran {
    let (mut child, input) = (start(command), input.into());
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // A command that does not read its input closes the pipe.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::from(output)
}

fn run(line: &str) -> Ran {
    finish(command(line), "")
}

/// The result of a command.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// Checks the exit code.
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Checks that the standard output has this text.
    #[track_caller]
    fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text}: {self:?}");
        self
    }

    /// Checks that the standard error has this text.
    #[track_caller]
    fn complains(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text}: {self:?}");
        self
    }

    /// Checks the exit code, and that the standard error has this text.
    #[track_caller]
    fn fails(self, code: i32, text: &str) -> Self {
        self.exits(code).complains(text)
    }

    /// Checks that no output has this text.
    #[track_caller]
    fn hides(self, text: &str) -> Self {
        let shown = self.stdout.contains(text) || self.stderr.contains(text);
        assert!(!shown, "{text}: {self:?}");
        self
    }

    /// Checks the exit code, and returns the standard output.
    #[track_caller]
    fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, Some(code), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

type Item = HashMap<String, AttributeValue>;

/// The table `idempotency` of an embedded database.
struct Table(EmbeddedDynamoDb);

impl Table {
    async fn new(table: impl Into<Option<TableSpec>>) -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        if let Some(table) = table.into() {
            database.create_table(table).await.unwrap();
        }
        Self(database)
    }

    /// Returns a table with one record.
    async fn with(status: &str, window: i64, lease: i64) -> Self {
        let table = Self::new(TableSpec::new("idempotency")).await;
        table.write(status, window, lease, "0707").await;
        table
    }

    /// Writes the record.
    async fn write(&self, status: &str, window: i64, lease: i64, owner: &str) {
        let item = [
            ("id", text(KEY)),
            ("status", text(status)),
            ("expiration", number(window)),
            ("in_progress_expiration", number(lease * 1_000)),
            ("owner", text(owner)),
            ("operation", text("shop::charge")),
            ("data", text("{\"card\":\"4242\"}")),
        ];
        self.put("idempotency", item).await.unwrap();
    }

    /// Returns a table with a claim whose lease ended long ago.
    async fn held() -> Self {
        let table = Self::with("INPROGRESS", LATE, EARLY).await;
        table.set("data", None).await;
        table
    }

    /// Returns the only record.
    async fn item(&self) -> Item {
        let mut items = self.items("idempotency").await.unwrap();
        assert_eq!(items.len(), 1);
        items.remove(0)
    }

    /// Sets or removes an attribute of the only record.
    async fn set(&self, name: &str, value: impl Into<Option<AttributeValue>>) {
        let mut item = self.item().await;
        item.remove(name);
        item.extend(value.into().map(|value| (name.to_owned(), value)));
        self.put("idempotency", item).await.unwrap();
    }

    async fn record_count(&self) -> usize {
        self.items("idempotency").await.unwrap().len()
    }

    /// Writes a live claim of another call.
    async fn take_over(&self) {
        self.write("INPROGRESS", LATE, LATE, "0808").await;
    }

    /// Returns the command on the database, with its table in the environment.
    fn command(&self, line: &str) -> Command {
        let mut command = command(line);
        command
            .envs(self.environment())
            .env("IDEMPOTENCY_TABLE", "idempotency");
        command
    }

    fn run(&self, line: &str) -> Ran {
        finish(self.command(line), "")
    }
}

impl Deref for Table {
    type Target = EmbeddedDynamoDb;

    fn deref(&self) -> &EmbeddedDynamoDb {
        &self.0
    }
}

#[test]
fn wrong_usage_has_its_exit_code_and_says_what_to_write() {
    for row in include_str!("usage.txt").lines().skip(1) {
        let (line, text) = row.split_once(" | ").unwrap();
        let ran = run(line);
        let says = ran.code == Some(2) && ran.stderr.contains(text);
        assert!(says, "{row}: {ran:?}");
    }
}

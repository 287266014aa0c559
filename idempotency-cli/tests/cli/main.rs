//! The command as a process: its arguments, streams and exit code.
#![allow(clippy::unwrap_used)]

mod cost;
mod invoke;
mod jsonl;
mod key;
mod list;
mod records;
mod resolve;
mod table;
mod template;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use serde_json::Value;

/// Returns the command, without the developer's own environment variables.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_idempotency"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("IDEMPOTENCY_") || name.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.args(arguments);
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
fn run_on(command: Command, input: Vec<u8>) -> Ran {
    let mut child = start(command);
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        // A command that does not read its input closes the pipe.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::from(output)
}

fn run(command: Command) -> Ran {
    run_on(command, Vec::new())
}

/// Returns the command, on the table `idempotency` of an embedded database.
fn on_table(database: &EmbeddedDynamoDb, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command
        .envs(database.environment())
        .env("IDEMPOTENCY_TABLE", "idempotency");
    command
}

fn run_on_table(database: &EmbeddedDynamoDb, arguments: &[&str]) -> Ran {
    run(on_table(database, arguments))
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
    fn exits(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:?}");
    }

    /// Checks that the standard output has this text.
    #[track_caller]
    fn prints(&self, text: &str) {
        assert!(self.stdout.contains(text), "{text}: {self:?}");
    }

    /// Checks that the standard error has this text.
    #[track_caller]
    fn complains(&self, text: &str) {
        assert!(self.stderr.contains(text), "{text}: {self:?}");
    }

    /// Checks the exit code, and that the standard error has this text.
    #[track_caller]
    fn fails(&self, code: i32, text: &str) {
        self.exits(code);
        self.complains(text);
    }

    fn json(&self) -> Value {
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

#[test]
fn help_lists_the_exit_codes_and_wrong_usage_has_its_own() {
    let help = run(command(&["--help"]));
    help.exits(0);
    help.prints("4  not evicted");
    assert_eq!(run(command(&["key", "--hash", "md6"])).code, Some(2));
    run(command(&["get", records::KEY])).fails(2, "add `--table NAME`");
}

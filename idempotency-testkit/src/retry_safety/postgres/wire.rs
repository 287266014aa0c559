//! The wire protocol of PostgreSQL, as far as the gate needs it: where a request ends, what it executes, and where its reply ends.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::TcpStream as Blocking;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::super::RECORDS;

/// How long the server is waited for, before it is asked whether a lock keeps it from replying.
const PATIENCE: Duration = Duration::from_millis(100);

/// The longest text of SQL that a report shows.
const LONGEST_LABEL: usize = 60;

/// The messages that a client sends before it waits for a reply.
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    /// The statement that it executes. `None` if it executes none.
    pub(super) statement: Option<String>,
}

/// What the server sends until it waits for the client.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) state: State,
    /// The id of the process of the session, if the reply has it.
    pub(super) pid: Option<i32>,
    /// The last statement that was performed, with the number of its rows: `INSERT 0 1`.
    tag: String,
}

impl Reply {
    /// Returns true if the statement has written rows.
    pub(super) fn wrote(&self) -> bool {
        let verbs = ["INSERT", "UPDATE", "DELETE", "MERGE", "COPY"];
        verbs.iter().any(|verb| self.tag.starts_with(verb)) && !self.tag.ends_with(" 0")
    }

    /// Returns true if the transaction was rolled back.
    pub(super) fn rolled_back(&self) -> bool {
        self.tag == "ROLLBACK"
    }
}

/// What the server waits for after a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It closed the connection.
    #[default]
    Closed,
    /// What it has asked for: a part of a password, the data of a COPY.
    More,
    /// A statement, outside of a transaction.
    Idle,
    /// A statement, in a transaction.
    InTransaction,
}

/// Reads the first message of a connection, which has no type.
pub(super) async fn read_startup(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = client.read_i32().await?.to_be_bytes().to_vec();
    read_body(client, &mut message).await?;
    Ok(message)
}

/// Reads one message.
pub(super) async fn read_message(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![client.read_u8().await?];
    message.extend(client.read_i32().await?.to_be_bytes());
    read_body(client, &mut message).await?;
    Ok(message)
}

/// Reads what follows a length, which counts itself.
async fn read_body(client: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let start = message.len();
    message.resize(start + body_length(&message[start - 4..])?, 0);
    client.read_exact(&mut message[start..]).await?;
    Ok(())
}

fn body_length(length: &[u8]) -> io::Result<usize> {
    let length: [u8; 4] = length.try_into().map_err(io::Error::other)?;
    let length = usize::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
    length
        .checked_sub(4)
        .ok_or(io::ErrorKind::InvalidData.into())
}

/// The statements that a client has prepared, by their names.
#[derive(Default)]
pub(super) struct Prepared(HashMap<Vec<u8>, String>);

impl Prepared {
    /// Reads the messages of a client until the server must reply. `None` if the client ends the session.
    pub(super) async fn read_batch(&mut self, client: &mut TcpStream) -> io::Result<Option<Batch>> {
        let mut batch = Batch {
            bytes: Vec::new(),
            statement: None,
        };
        let mut bound = None;
        loop {
            let message = read_message(client).await?;
            let body = &message[5..];
            let mut texts = body.split(|byte| *byte == 0);
            let mut text = || texts.next().unwrap_or_default();
            match message[0] {
                b'X' => return Ok(None),
                b'Q' => batch.statement = Some(sql(text())).filter(|text| !text.is_empty()),
                b'P' => {
                    self.0.insert(text().to_vec(), sql(text()));
                }
                b'B' => {
                    let _portal = text();
                    bound = self.0.get(text()).cloned();
                }
                b'E' => batch.statement = bound.take(),
                _ => {}
            }
            batch.bytes.extend(&message);
            // Also at the end of the data of a COPY.
            if matches!(message[0], b'Q' | b'S' | b'c' | b'f') {
                return Ok(Some(batch));
            }
        }
    }
}

/// Returns the text of a statement in one line.
fn sql(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ")
}

/// Returns the verb of a statement of the framework on its table, which has this schema. `None` for every other statement.
pub(super) fn verb_on_records(statement: &str, schema: &str) -> Option<&'static str> {
    let is_on = |verb: &str| statement.contains(&format!("{verb} {schema}.{RECORDS} "));
    for verb in ["INSERT INTO", "UPDATE", "DELETE FROM"] {
        if is_on(verb) {
            return verb.split(' ').next();
        }
    }
    // The last one asks for the schema.
    let reads =
        is_on("FROM") || is_on("JOIN") || statement.ends_with(&format!("'{RECORDS}'::regclass"));
    reads.then_some("SELECT")
}

/// Returns what a report calls a statement of the function.
pub(super) fn label(statement: &str) -> String {
    if statement.starts_with("BEGIN") {
        return "BEGIN".to_owned();
    }
    // A report is a table, and `/` divides the parts of a path.
    let plain = statement.replace(['|', '/'], " ");
    plain.chars().take(LONGEST_LABEL).collect()
}

/// Returns a request that fails as a server does that lacks memory: a transaction that is open is aborted, and a commit rolls back.
pub(super) fn refusal(statement: &str) -> Vec<u8> {
    let ends = statement.starts_with("COMMIT");
    let rollback = if ends { "ROLLBACK; " } else { "" };
    let text = format!(
        "{rollback}DO $$ BEGIN RAISE EXCEPTION 'refused by retry_safety: it was not applied' USING ERRCODE = '53200'; END $$\0"
    );
    let length = i32::try_from(text.len() + 4).unwrap_or(i32::MAX);
    [b"Q".as_slice(), &length.to_be_bytes(), text.as_bytes()].concat()
}

/// Reads until the server waits for the client. Calls `blocked` each time that no reply has come for [`PATIENCE`].
pub(super) fn read_reply(server: &mut Blocking, blocked: impl Fn()) -> Reply {
    let mut reply = Reply::default();
    loop {
        let Ok(message) = read_reply_message(server, &blocked) else {
            reply.state = State::Closed;
            return reply;
        };
        reply.bytes.extend(&message);
        let body = &message[5..];
        let number = |from: usize| {
            let bytes = body.get(from..from + 4)?.try_into().ok()?;
            Some(i32::from_be_bytes(bytes))
        };
        match message[0] {
            b'K' => reply.pid = number(0),
            // The command tag, such as `INSERT 0 1`.
            b'C' => reply.tag = sql(body.split(|byte| *byte == 0).next().unwrap_or_default()),
            b'G' => {
                reply.state = State::More;
                return reply;
            }
            // Neither "let in" nor the last message of a password.
            b'R' if !matches!(number(0), Some(0 | 12)) => {
                reply.state = State::More;
                return reply;
            }
            b'Z' => {
                reply.state = match body.first() {
                    Some(b'I') => State::Idle,
                    _ => State::InTransaction,
                };
                return reply;
            }
            _ => {}
        }
    }
}

fn read_reply_message(server: &mut Blocking, blocked: &impl Fn()) -> io::Result<Vec<u8>> {
    server.set_read_timeout(Some(PATIENCE))?;
    while let Err(error) = server.peek(&mut [0]) {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => blocked(),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
    server.set_read_timeout(None)?;
    let mut message = vec![0; 5];
    server.read_exact(&mut message)?;
    let start = message.len();
    message.resize(start + body_length(&message[1..])?, 0);
    server.read_exact(&mut message[start..])?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_the_function_is_not_that_of_the_framework() {
        for (statement, expected) in [
            ("UPDATE s.idempotency SET a = 1", Some("UPDATE")),
            ("DELETE FROM billing.idempotency WHERE a = 1", None),
            ("UPDATE idempotency SET a = 1", None),
            ("UPDATE s.idempotency_log SET a = 1", None),
            ("SELECT idempotency FROM s.orders", None),
        ] {
            assert_eq!(verb_on_records(statement, "s"), expected, "{statement}");
        }
    }

    #[test]
    fn a_label_is_the_begin_of_a_statement() {
        for (statement, expected) in [
            ("BEGIN; SET LOCAL idempotency.transaction = 'open'", "BEGIN"),
            ("SELECT a || b FROM t", "SELECT a    b FROM t"),
            ("COMMIT", "COMMIT"),
        ] {
            assert_eq!(label(statement), expected);
        }
        assert_eq!(label(&"x".repeat(99)).len(), LONGEST_LABEL);
    }

    #[test]
    fn the_tag_of_a_statement_says_whether_it_wrote() {
        let of = |tag: &str| Reply {
            tag: tag.to_owned(),
            ..Reply::default()
        };
        for (tag, wrote) in [
            ("INSERT 0 1", true),
            ("UPDATE 0", false),
            ("DELETE 12", true),
            ("SELECT 3", false),
            ("COMMIT", false),
            ("", false),
        ] {
            assert_eq!(of(tag).wrote(), wrote, "{tag}");
        }
        assert!(of("ROLLBACK").rolled_back());
    }

    #[test]
    fn a_refused_commit_rolls_back_and_every_other_statement_aborts() {
        let text = |statement| String::from_utf8(refusal(statement)[5..].to_vec()).unwrap();
        assert!(text("COMMIT").starts_with("ROLLBACK; DO "));
        assert!(text("UPDATE a SET b = 1").starts_with("DO "));
        let refusal = refusal("COMMIT");
        assert_eq!(body_length(&refusal[1..5]).unwrap(), refusal.len() - 5);
    }
}

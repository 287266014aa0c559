//! The sessions of a process: each statement passes the gate, goes to the server, and blocks the process until its reply is there. So
//! no virtual time passes meanwhile.

use std::io::{self, Write as _};
use std::net::TcpStream as Blocking;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::super::RECORDS;
use super::super::gate::{FaultKind, Service};
use super::super::process::{Process, RequestFate};
use super::wire::{
    Prepared, Reply, State, label, read_message, read_reply, read_startup, refusal, verb_on_records,
};
use super::{Schema, Session};
use crate::lock::lock;

/// Serves PostgreSQL on the runtime of this process, if the check has one.
pub(in crate::retry_safety) fn serve(process: &Arc<Process>) {
    let Some(schema) = &process.shared.postgres else {
        return;
    };
    // Those of a process that has ended.
    schema.listener().waiting().for_each(drop);
    let Ok(Ok(listener)) = schema.listener().clone_socket().map(TcpListener::from_std) else {
        return;
    };
    let process = Arc::clone(process);
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((client, _)) => start(&process, client),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
}

/// Accepts what this process has connected, before it stands still.
pub(in crate::retry_safety) fn take_connections(process: &Arc<Process>) {
    let schema = process.shared.postgres.iter();
    for client in schema.flat_map(|schema| schema.listener().waiting()) {
        let client = client.set_nonblocking(true).map(|()| client);
        if let Ok(Ok(client)) = client.map(TcpStream::from_std) {
            start(process, client);
        }
    }
}

fn start(process: &Arc<Process>, client: TcpStream) {
    process.exchange();
    let process = Arc::clone(process);
    tokio::spawn(async move {
        // An error means that one of the two has closed the connection. The other one is closed with it.
        if let Some(schema) = &process.shared.postgres {
            let _ = pass_on(&process, schema, client).await;
        }
    });
}

/// Passes on what the client and the server say, until one of them ends the session.
async fn pass_on(process: &Arc<Process>, schema: &Schema, mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = schema.connect()?;
    server.set_nodelay(true)?;
    let mut message = read_startup(&mut client).await?;
    let pid = loop {
        process.exchange();
        server.write_all(&message)?;
        let reply = read_reply(&mut server, || ());
        client.write_all(&reply.bytes).await?;
        match reply.state {
            State::Closed => return Ok(()),
            State::More => message = read_message(&mut client).await?,
            State::Idle | State::InTransaction => break reply.pid.unwrap_or_default(),
        }
    };
    lock(&schema.sessions).push(Session {
        delivery: process.delivery,
        pid,
        ends_itself: false,
    });
    let ended = statements(process, schema, (&mut client, &mut server, pid)).await;
    // Its locks must not last until the server notices that the connection is closed.
    schema.end_session(pid);
    ended
}

/// Passes on statements and their replies.
async fn statements(
    process: &Arc<Process>,
    schema: &Schema,
    (client, server, pid): (&mut TcpStream, &mut Blocking, i32),
) -> io::Result<()> {
    let (mut prepared, mut writes) = (Prepared::default(), Writes::default());
    while let Some(batch) = prepared.read_batch(client).await? {
        process.exchange();
        let mut exchange = |bytes: &[u8]| exchange(schema, server, pid, bytes);
        let statement = batch.statement.as_deref();
        let statement = statement.map(|it| {
            let verb = verb_on_records(it, &schema.name);
            let label = verb.map_or_else(|| label(it), |verb| format!("{verb} {RECORDS}"));
            (it, label, verb.is_some())
        });
        let reply = match &statement {
            None => exchange(&batch.bytes)?,
            Some((statement, label, _)) => {
                let refuses = |fault| fault == Some(FaultKind::Refused);
                let perform = |_| exchange(&batch.bytes);
                let passed = process.pass(Service::Postgres, label.clone(), refuses, perform);
                let fate = tokio::select! {
                    biased;
                    fate = passed => fate,
                    // It waited for a reply that never arrives.
                    () = closed(client) => return Ok(()),
                };
                match fate {
                    RequestFate::Lost => return Ok(()),
                    RequestFate::Done(reply) => reply?,
                    RequestFate::Refused => exchange(&refusal(statement))?,
                }
            }
        };
        if let Some((statement, label, is_record)) = statement {
            writes.note(process, &reply, label, is_record);
            schema.note(pid, reply.state, statement);
        }
        process.shared.note_items();
        client.write_all(&reply.bytes).await?;
        if reply.state == State::Closed {
            return Ok(());
        }
    }
    Ok(())
}

/// Waits until the client has closed its connection.
async fn closed(client: &TcpStream) {
    if let Ok(1) = client.peek(&mut [0]).await {
        std::future::pending().await
    }
}

/// What the transaction of a session has written.
#[derive(Default)]
struct Writes {
    /// The statements of the function.
    own: Vec<String>,
    /// True if the framework has written its record too.
    has_record: bool,
}

impl Writes {
    /// Notes the reply to the statement with this label. `is_record` is true if it is on the table of the framework.
    fn note(&mut self, process: &Process, reply: &Reply, label: String, is_record: bool) {
        self.has_record |= is_record;
        if reply.wrote() && !is_record {
            self.own.push(label);
        }
        if reply.state == State::Idle {
            let Self { own, has_record } = std::mem::take(self);
            if !has_record && !reply.rolled_back() {
                process.gate.writes_alone(own);
            }
        }
    }
}

/// Performs a request. A lock that a process holds which stands still would never be free: the request is then cancelled.
fn exchange(schema: &Schema, server: &mut Blocking, pid: i32, request: &[u8]) -> io::Result<Reply> {
    server.write_all(request)?;
    Ok(read_reply(server, || schema.cancel_if_blocked(pid)))
}

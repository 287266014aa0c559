//! Sends a command to the server of its key, and again while it was certainly not applied and may be later.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use redis::{Arg, Cmd, Value};
use tokio::time::sleep;

use crate::address::Address;
use crate::connection::{Live, Server};
use crate::failure::{Failure, Next};
use crate::nodes::Nodes;
use crate::reply::Reply;
use crate::request::{Request, Shape};

/// The most pauses of one request. After each it is sent again.
pub(crate) const MOST_PAUSES: u32 = 4;

/// How often a request follows its key to another server.
const MOST_REDIRECTS: u32 = 5;

/// The pause before the second send of a request that a server could not perform yet. It doubles with each further one.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// A text of the script, and its digest, by which the servers that have it know it.
pub(crate) struct Script {
    text: String,
    digest: String,
    /// True if this process has run it. The first write sends the whole text, so that it need not be asked for it.
    is_sent: AtomicBool,
}

impl Script {
    /// Returns the command that runs the script: by its digest, or by its whole text, with which the server keeps it.
    pub(crate) fn command(&self, key: &str, request: &Request, whole: bool) -> Cmd {
        let [name, script] = match whole {
            true => ["EVAL", &self.text],
            false => ["EVALSHA", &self.digest],
        };
        let arguments = request.arguments.args_iter();
        let mut command = Cmd::with_capacity(arguments.len() + 4, 1_024);
        command.arg(name).arg(script).arg(1).arg(key);
        for argument in arguments {
            if let Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }
}

/// Sends commands to the servers.
pub(crate) struct Sender {
    pub(crate) nodes: Nodes,
    /// About ten: operands and values are arguments.
    scripts: Mutex<Vec<(Shape, Arc<Script>)>>,
}

impl Sender {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            scripts: Mutex::default(),
        }
    }

    /// Runs the script: for a write, or to read or try something. It is sent until that is done, or until sending it again could apply a write
    /// twice, or has no prospect.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if a write may have been applied.
    pub(crate) async fn run(
        &self,
        key: &str,
        request: &Request,
        writes: bool,
        log: &SendLog,
    ) -> Result<Reply, StoreError> {
        let script = self.script(request);
        let mut whole = !script.is_sent.swap(true, Ordering::Relaxed);
        let (mut asking, mut pause) = (false, FIRST_PAUSE);
        let mut server = self.nodes.of_key(key);
        let (mut pauses, mut redirects) = (0, 0);
        loop {
            let command = script.command(key, request, whole);
            let sent = send_once(&server, &command, asking, writes, log).await;
            let failure = match sent.and_then(|reply| read_reply(reply, &server.address)) {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let maybe_applied = writes && failure.maybe_applied;
            let goes_on = match failure.next {
                Next::Fail => false,
                Next::SendScript => !whole,
                Next::Follow(_) | Next::Ask(_) => redirects < MOST_REDIRECTS,
                Next::Pause => pauses < MOST_PAUSES,
                Next::Elsewhere => pauses < MOST_PAUSES && self.nodes.is_cluster(),
            };
            if maybe_applied || !goes_on {
                log.ended(maybe_applied, None);
                return Err(failure.error);
            }
            log.ended(false, Some(failure.error));
            match failure.next {
                Next::SendScript => whole = true,
                Next::Follow(address) => {
                    (asking, redirects) = (false, redirects + 1);
                    self.nodes.learn(&server, true).await;
                    server = self.nodes.server(address);
                }
                Next::Ask(address) => {
                    (asking, redirects) = (true, redirects + 1);
                    server = self.nodes.server(address);
                }
                Next::Pause | Next::Elsewhere | Next::Fail => {
                    server.disconnect();
                    sleep(pause).await;
                    (asking, pauses, pause) = (false, pauses + 1, pause * 2);
                    if self.nodes.is_cluster() {
                        self.nodes.learn(&server, false).await;
                        server = self.nodes.of_key(key);
                    }
                }
            }
        }
    }

    /// Returns the script of a request.
    pub(crate) fn script(&self, request: &Request) -> Arc<Script> {
        // A panic cannot leave them half written, so a poisoned lock is still good.
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, script)) = scripts.iter().find(|(it, _)| *it == request.shape) {
            return Arc::clone(script);
        }
        let text = request.shape.script();
        let digest = redis::Script::new(&text).get_hash().to_owned();
        let is_sent = AtomicBool::new(false);
        let script = Arc::new(Script {
            text,
            digest,
            is_sent,
        });
        scripts.push((request.shape.clone(), Arc::clone(&script)));
        script
    }
}

/// Sends a command once, and notes it.
async fn send_once(
    server: &Server,
    command: &Cmd,
    asking: bool,
    writes: bool,
    log: &SendLog,
) -> Result<Value, Failure> {
    let limit = log.limit();
    let Live {
        mut connection,
        ended,
        ..
    } = server.connect(limit).await?;
    match writes {
        true => log.sending(),
        false => log.reading(),
    }
    let check = |reply| Failure::check(reply, &server.address);
    if !asking {
        let sent = connection.send_packed_command(command);
        return check(server.reply(ended, sent, limit).await?);
    }
    // Together, because `ASKING` holds for the next command of the connection.
    let mut both = redis::pipe();
    both.cmd("ASKING").add_command(command.clone());
    let sent = connection.send_packed_commands(&both, 0, 2);
    let mut replies = server
        .reply(ended, sent, limit)
        .await?
        .into_iter()
        .map(check);
    let (asked, reply) = (replies.next(), replies.next());
    match (asked, reply) {
        // Without `ASKING` the server sends the request back.
        (
            Some(Err(refused)),
            Some(Err(Failure {
                next: Next::Follow(_) | Next::Ask(_),
                ..
            })),
        ) => Err(refused),
        (_, reply) => reply.unwrap_or_else(|| check(Value::Nil)),
    }
}

/// Reads the reply of the script that performs a write.
fn read_reply(value: Value, server: &Address) -> Result<Reply, Failure> {
    match Reply::of(value) {
        Some(Reply::Failed { text, has_written }) => {
            Err(Failure::in_script(&text, has_written, server))
        }
        Some(reply) => Ok(reply),
        None => {
            let text = format!(
                "the reply of {server} cannot be read: check that it is Valkey or Redis, and what stands before it"
            );
            Err(Failure::lost(StoreErrorKind::Rejected, text))
        }
    }
}

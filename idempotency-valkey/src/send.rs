//! Sends a command to the server of its key, and again while it was certainly not applied and may be later.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Script, Value};
use tokio::time::{sleep, timeout};

use crate::address::Address;
use crate::connection::Server;
use crate::failure::{Failure, Next};
use crate::key::slot;
use crate::nodes::Nodes;
use crate::reply::Reply;
use crate::request::{Arguments, SCRIPT};

/// The most pauses of one request. After each it is sent again.
pub(crate) const MOST_PAUSES: u32 = 4;

/// How often a request follows its key to another server.
const MOST_REDIRECTS: u32 = 5;

/// The pause before the second send of a request that a server could not perform yet. It doubles with each further one.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// How long a reply may take whose caller sets no limit: at the start, and of a listing.
const LONGEST: Duration = Duration::from_secs(5);

/// Where a command goes.
#[derive(Clone, Copy)]
enum To<'a> {
    /// To the server that has this slot.
    Slot(u16),
    /// To this server.
    Server(&'a Arc<Server>),
}

/// Sends commands to the servers.
pub(crate) struct Sender {
    pub(crate) nodes: Nodes,
    script: Script,
}

impl Sender {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            script: Script::new(SCRIPT),
        }
    }

    /// Runs the script: for a write, or to read or try something.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if a write may have been applied.
    pub(crate) async fn run(
        &self,
        key: &str,
        arguments: &Arguments<'_>,
        writes: bool,
        log: &SendLog,
    ) -> Result<Reply, StoreError> {
        let command = |whole| self.script(key, arguments, whole);
        self.send(To::Slot(slot(key)), command, writes, read_reply, log)
            .await
    }

    /// Sends a command that changes nothing to a server, and returns the reply.
    ///
    /// # Errors
    ///
    /// If it failed.
    pub(crate) async fn read(
        &self,
        server: &Arc<Server>,
        command: &Cmd,
        log: &SendLog,
    ) -> Result<Value, StoreError> {
        let (to, command) = (To::Server(server), |_| command.clone());
        self.send(to, command, false, |value, _| Ok(value), log)
            .await
    }

    /// Sends commands that change nothing together, and returns the reply to each: `None` if it must be sent alone, because its key has moved, or
    /// because the server does not have its script.
    ///
    /// # Errors
    ///
    /// If another command failed.
    pub(crate) async fn read_all(
        &self,
        server: &Server,
        commands: &Pipeline,
    ) -> Result<Vec<Option<Value>>, Failure> {
        let failed = |error| Failure::of(error, &server.address);
        let sent = server.connect().await?.send_all(commands);
        let replies = in_time(server, sent).await?.map_err(failed)?;
        let replies = replies.into_iter().map(|reply| {
            reply.extract_error().map(Some).or_else(|error| {
                let failure = failed(error);
                match failure.next {
                    Next::Follow(_) | Next::Ask(_) | Next::SendScript => Ok(None),
                    _ => Err(failure),
                }
            })
        });
        replies.collect()
    }

    /// Returns the command that runs the script: by its digest, or by its whole text, with which the server keeps it.
    pub(crate) fn script(&self, key: &str, arguments: &Arguments<'_>, whole: bool) -> Cmd {
        let mut command = match whole {
            true => redis::cmd("EVAL"),
            false => redis::cmd("EVALSHA"),
        };
        command.arg(if whole {
            SCRIPT
        } else {
            self.script.get_hash()
        });
        command.arg(1).arg(key);
        for argument in arguments {
            command.arg(&**argument);
        }
        command
    }

    fn server(&self, to: To<'_>) -> Arc<Server> {
        match to {
            To::Slot(slot) => self.nodes.of_slot(slot),
            To::Server(server) => Arc::clone(server),
        }
    }

    /// Sends a command until it is done, or until sending it again could apply it twice, or has no prospect.
    async fn send<T>(
        &self,
        to: To<'_>,
        command: impl Fn(bool) -> Cmd,
        writes: bool,
        read: fn(Value, &Address) -> Result<T, Failure>,
        log: &SendLog,
    ) -> Result<T, StoreError> {
        let (mut whole, mut asking, mut pause) = (false, false, FIRST_PAUSE);
        let mut server = self.server(to);
        let (mut pauses, mut redirects) = (0, 0);
        loop {
            let sent = send_once(&server, &command(whole), asking, writes, log).await;
            let failure = match sent.and_then(|value| read(value, &server.address)) {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let maybe_applied = writes && failure.maybe_applied;
            let goes_on = match failure.next {
                Next::Fail => false,
                Next::SendScript => !whole,
                Next::Follow(_) | Next::Ask(_) => redirects < MOST_REDIRECTS,
                Next::Pause | Next::Reconnect => pauses < MOST_PAUSES,
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
                    self.nodes.learn(&server).await;
                    server = self.nodes.server(address);
                }
                Next::Ask(address) => {
                    (asking, redirects) = (true, redirects + 1);
                    server = self.nodes.server(address);
                }
                Next::Pause | Next::Reconnect | Next::Elsewhere | Next::Fail => {
                    if failure.next == Next::Reconnect {
                        server.disconnect();
                    }
                    sleep(pause).await;
                    (asking, pauses, pause) = (false, pauses + 1, pause * 2);
                    if self.nodes.is_cluster() {
                        self.nodes.learn_without(&server).await;
                        server = self.server(to);
                    }
                }
            }
        }
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
    let link = server.connect().await?;
    match writes {
        true => log.sending(),
        false => log.reading(),
    }
    let sent = async {
        if !asking {
            return link.send(command).await;
        }
        // Together, because `ASKING` holds for the next command of the connection.
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut replies = link.send_all(&both).await?.into_iter();
        let asked = replies.next().unwrap_or_default().extract_error();
        match replies.next().unwrap_or_default().extract_error() {
            // Without `ASKING` the server sends the request back.
            Err(back) if back.redirect_node().is_some() => Err(asked.err().unwrap_or(back)),
            reply => reply,
        }
    };
    let replied = match log.limit() {
        // The engine ends the request.
        Some(_) => sent.await,
        None => in_time(server, sent).await?,
    };
    replied.map_err(|error| Failure::of(error, &server.address))
}

/// Waits for the replies of a server to a request without a limit of its own.
async fn in_time<T>(server: &Server, sent: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(LONGEST, sent).await.map_err(|_| {
        let text = format!(
            "no reply of {} within {LONGEST:?}: check that it runs, and the network",
            server.address
        );
        Failure::lost(StoreError::new(StoreErrorKind::Unreachable, text))
    })
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
            Err(Failure::lost(StoreError::new(
                StoreErrorKind::Rejected,
                text,
            )))
        }
    }
}

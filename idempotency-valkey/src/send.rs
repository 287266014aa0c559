//! Sends a command to the server of its key, and again while it was certainly not applied and may be later.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::store::{SendLog, StoreError, StoreErrorKind};
use redis::{Arg, Cmd, Pipeline, Value};
use tokio::time::{sleep, timeout};

use crate::address::Address;
use crate::connection::Server;
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

/// How long a reply may take whose caller sets no limit: at the start, and of a listing.
const LONGEST: Duration = Duration::from_secs(5);

/// Where a command goes.
#[derive(Clone, Copy)]
enum To<'a> {
    /// To the server that has this key.
    Key(&'a str),
    /// To this server.
    Server(&'a Arc<Server>),
}

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

    /// Runs the script: for a write, or to read or try something.
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
        let is_first = !script.is_sent.swap(true, Ordering::Relaxed);
        let command = |whole| script.command(key, request, whole || writes && is_first);
        self.send(To::Key(key), command, writes, read_reply, log)
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
        let live = server.connect(None).await?;
        let replies = in_time(server, server.send(live, commands)).await?;
        let replies = replies.into_iter().map(|reply| {
            let reply = Failure::check(reply, &server.address);
            reply.map(Some).or_else(|failure| match failure.next {
                Next::Follow(_) | Next::Ask(_) | Next::SendScript => Ok(None),
                _ => Err(failure),
            })
        });
        replies.collect()
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

    fn server(&self, to: To<'_>) -> Arc<Server> {
        match to {
            To::Key(key) => self.nodes.of_key(key),
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
            let sent = send_once(&server, command(whole), asking, writes, log).await;
            let failure = match sent.and_then(|value| read(value, &server.address)) {
                Ok(done) => return Ok(done),
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
    command: Cmd,
    asking: bool,
    writes: bool,
    log: &SendLog,
) -> Result<Value, Failure> {
    let live = server.connect(log.limit()).await?;
    match writes {
        true => log.sending(),
        false => log.reading(),
    }
    let mut commands = redis::pipe();
    if asking {
        // Together, because `ASKING` holds for the next command of the connection.
        commands.cmd("ASKING");
    }
    let sent = server.send(live, commands.add_command(command));
    let mut replies = match log.limit() {
        // The engine ends the request.
        Some(_) => sent.await?,
        None => in_time(server, sent).await?,
    };
    let check = |reply: Option<_>| Failure::check(reply.unwrap_or_default(), &server.address);
    let reply = check(replies.pop());
    let is_sent_back = |failure: &Failure| matches!(failure.next, Next::Follow(_) | Next::Ask(_));
    match check(replies.pop()) {
        // Without `ASKING` the server sends the request back.
        Err(refused) if reply.as_ref().is_err_and(is_sent_back) => Err(refused),
        _ => reply,
    }
}

/// Waits for the replies of a server to a request without a limit of its own.
async fn in_time<T>(
    server: &Server,
    sent: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(LONGEST, sent).await.unwrap_or_else(|_| {
        let text = format!(
            "no reply of {} within {LONGEST:?}: check that it runs, and the network",
            server.address
        );
        Err(Failure::lost(StoreErrorKind::Unreachable, text))
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
            Err(Failure::lost(StoreErrorKind::Rejected, text))
        }
    }
}

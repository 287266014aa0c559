//! Sends a command to the server of its key, and again while it was certainly not applied and may be later.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotency_core::store::{SendLog, StoreError};
use redis::{Cmd, Value};
use tokio::time::sleep;

use crate::connection::{Live, Server};
use crate::failure::{Failure, Next};
use crate::nodes::Nodes;
use crate::request::{Form, Reply, Request, digest};

/// The most pauses of one request. After each it is sent again.
pub(crate) const MOST_PAUSES: u32 = 4;

/// How often a request follows its key to another server.
const MOST_REDIRECTS: u32 = 5;

/// The pause before the second send of a request that a server could not perform yet. It doubles with each further one.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// Sends requests to the servers.
pub(crate) struct Sender {
    pub(crate) nodes: Nodes,
    /// The digest of the script.
    digest: String,
    /// True if the server does not know [`Form::Set`] of a request that replaces a value, and of one that creates a key.
    lacks: [AtomicBool; 2],
}

impl Sender {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            digest: digest(),
            lacks: Default::default(),
        }
    }

    /// Sends a request until it is done, or until sending it again could apply a write twice, or has no prospect. One that does not count as a
    /// write `writes` nothing that matters.
    ///
    /// # Errors
    ///
    /// If it failed. `log` says if a write may have been applied.
    pub(crate) async fn run(
        &self,
        request: Request<'_>,
        writes: bool,
        log: &SendLog,
    ) -> Result<Reply, StoreError> {
        let lacks = &self.lacks[usize::from(request.creates())];
        let mut form = match request.sets() && !lacks.load(Ordering::Relaxed) {
            true => Form::Set,
            false => Form::Digest,
        };
        let (mut asking, mut pause) = (false, FIRST_PAUSE);
        let mut server = self.nodes.of_key(request.key);
        let (mut pauses, mut redirects) = (0, 0);
        loop {
            let command = request.command(form, &self.digest);
            let sent = send_once(&server, command, asking, writes, log).await;
            let replied = sent.and_then(|value| request.reply(form, value, &server.address));
            let failure = match replied {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {
                    log.ended(false, None);
                    form = Form::Digest;
                    continue;
                }
                Err(failure) => failure,
            };
            let maybe_applied = writes && failure.maybe_applied;
            let goes_on = match failure.next {
                Next::Fail => false,
                Next::SendScript => form == Form::Digest,
                Next::AskScript { .. } => form == Form::Set,
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
                Next::AskScript { always } => {
                    lacks.fetch_or(always, Ordering::Relaxed);
                    form = Form::Digest;
                }
                Next::SendScript => form = Form::Whole,
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
                        server = self.nodes.of_key(request.key);
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
        let sent = pin!(connection.send_packed_command(&command));
        return check(server.reply(ended, sent, limit).await?);
    }
    // Together, because `ASKING` holds for the next command of the connection.
    let mut both = redis::pipe();
    both.cmd("ASKING").add_command(command);
    let sent = pin!(connection.send_packed_commands(&both, 0, 2));
    let mut replies = server
        .reply(ended, sent, limit)
        .await?
        .into_iter()
        .map(check);
    let asked = replies.next();
    let reply = replies.next().unwrap_or_else(|| check(Value::Nil));
    match asked {
        // Without `ASKING` the server sends the request back.
        Some(Err(refused)) if reply.as_ref().is_err_and(Failure::is_redirect) => Err(refused),
        _ => reply,
    }
}

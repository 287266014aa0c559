//! A block: some calls of one contestant, one after the other or several in flight, checked for having done their work.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::task::JoinSet;

use crate::contestants::{Contestant, Kind};
use crate::event::{Event, Events};
use crate::process::Process;
use crate::server::{Requests, Server};

/// What the calls of a block are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Calls {
    /// Of events that were not sent before.
    Fresh,
    /// Of events that were sent before.
    Duplicate,
}

/// What a block took. `wall` has the time of each call, in the order in which the calls ended.
pub struct Block {
    pub wall: Vec<Duration>,
    /// From the first event to the last response.
    pub elapsed: Duration,
    pub cpu: Duration,
    /// The ids of the payments, by event.
    pub payments: Vec<String>,
}

/// One contestant, ready for calls.
pub struct Ready<'a> {
    pub contestant: &'a Contestant,
    pub process: Process,
    pub events: Events,
    pub server: &'a Server,
    pub in_flight: usize,
}

/// Sends these events and checks every response and the number of requests.
pub async fn run(ready: &Ready<'_>, calls: Calls, events: &[Event]) -> anyhow::Result<Block> {
    let Ready {
        contestant,
        process,
        server,
        in_flight,
        ..
    } = ready;
    process.settle().await?;
    server.take_requests();
    let mut responses = vec![String::new(); events.len()];
    let mut wall = Vec::with_capacity(events.len());
    let mut pending = JoinSet::new();
    let mut left = events.iter().enumerate();
    let cpu = process.cpu()?;
    let began = Instant::now();
    loop {
        while pending.len() < *in_flight
            && let Some((index, event)) = left.next()
        {
            let (sent, reply) = (Instant::now(), process.send(&event.text));
            pending.spawn(async move { (index, reply.await, sent.elapsed()) });
        }
        let Some(ended) = pending.join_next().await else {
            break;
        };
        let (index, reply, elapsed) = ended?;
        responses[index] = process.response(reply)?;
        wall.push(elapsed);
    }
    let elapsed = began.elapsed();
    process.settle().await?;
    let cpu = process.cpu()?.saturating_sub(cpu);

    let expected = requests(contestant, calls, events.len());
    let found = server.take_requests();
    if found != expected {
        bail!(
            "`{}` did other work than the others: {calls:?} calls sent {found:?}, not {expected:?}",
            contestant.name
        );
    }
    let payments = events.iter().zip(&responses).map(|(event, response)| {
        let payment = event.payment_id(response);
        payment.with_context(|| format!("`{}`", contestant.name))
    });
    Ok(Block {
        wall,
        elapsed,
        cpu,
        payments: payments.collect::<Result<_, _>>()?,
    })
}

/// Returns the requests that so many calls send: one claim, and one completion after a run.
fn requests(contestant: &Contestant, calls: Calls, count: usize) -> Requests {
    let count = count as u64;
    let requests: &[&str] = match (contestant.kind, calls) {
        (Kind::Bare, _) => &[],
        (_, Calls::Fresh) => &["PutItem", "UpdateItem"],
        (_, Calls::Duplicate) if contestant.cached => &[],
        (_, Calls::Duplicate) => &["PutItem"],
    };
    requests
        .iter()
        .map(|operation| ((*operation).to_owned(), count))
        .collect()
}

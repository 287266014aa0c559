//! The one driver of the protocol: performs an effect, feeds the result back, until it is over.
//!
//! No decision is made here; those are in [`protocol`](crate::protocol).

mod codec;
mod conclude;
mod environment;
mod flights;
mod handler;
mod limit;

pub use codec::Codec;
pub use environment::Environment;
pub(crate) use handler::{StoreWhen, run_unprotected};

use std::future::Future;
use std::time::Duration;

use crate::cache::Bounds;
use crate::error::Error;
use crate::event::Report;
use crate::outcome::{Bypass, Outcome};
use crate::protocol::condition::Condition;
use crate::protocol::policy::Call;
use crate::protocol::{Attempt, Effect, Flight, Input, Trouble, Written};
use crate::record::Record;
use crate::store::{Read, Request, SendLog, StoreError, StoreErrorKind, Write};
use crate::time::BoxFuture;
use flights::Seat;
use handler::{Finished, Panic};

/// One call, ready to be driven.
pub(crate) struct Driver<'a, R> {
    pub(crate) environment: &'a Environment,
    /// The operation's name, for errors, events and the cache.
    pub(crate) operation: &'a str,
    /// Whether the operation shares its prefix on purpose, so that another name in a record is no surprise.
    pub(crate) shares_prefix: bool,
    pub(crate) cache: Option<Bounds>,
    pub(crate) store_when: StoreWhen<'a>,
    pub(crate) call: Call,
    pub(crate) codec: Codec<R>,
}

/// How a call ends that gives its caller no response.
pub(crate) enum Ending<E> {
    /// With an error of this framework.
    Refused(Error),
    /// With the handler's own error. Where the handler ran unprotected: why.
    Failed(E, Option<Bypass>),
    /// With the handler's panic. Where the handler ran unprotected: why.
    Panicked(Panic, Option<Bypass>),
}

impl<R> Driver<'_, R> {
    /// Drives the call to its end. The handler is built and polled only under a claim.
    pub(crate) async fn drive<E, F, Fut>(
        self,
        report: &mut Report<'_>,
        handler: F,
    ) -> Result<Outcome<R>, Ending<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        let mut handler = Some(handler);
        let mut finished: Option<Finished<R, E>> = None;
        let mut trouble: Option<StoreError> = None;
        let mut seat = self.environment.flights().seat(&self.call);
        let (mut attempt, mut effect) = Attempt::begin(self.call.clone());
        loop {
            let input = match effect {
                Effect::Run => {
                    let handler = self.only_run(&mut handler).map_err(Ending::Refused)?;
                    trouble = None;
                    let (ran, result) =
                        handler::run(handler, self.codec, &self.store_when, report).await;
                    finished = Some(result);
                    Input::Ran(ran)
                }
                Effect::Finish(verdict) => {
                    // In this order: whoever no longer meets this call finds its answer in the cache.
                    self.remember(&verdict);
                    seat.land(verdict.confirmed_record());
                    return self.conclude(verdict, finished, trouble, report);
                }
                Effect::Look => match self.cached() {
                    Some(cached) => Input::Looked(Some(cached)),
                    None => self.meet(&mut seat),
                },
                Effect::Meet => self.meet(&mut seat),
                Effect::Follow(at_most) => {
                    seat.follow(|| self.environment.clock().sleep(at_most))
                        .await
                }
                other => {
                    // A wait that goes on has dealt with what it met before: its end is told by the last read.
                    if finished.is_none() && matches!(other, Effect::Pause(_)) {
                        trouble = None;
                    }
                    let limit = attempt.time_limit(self.environment.clock().now());
                    self.perform(other, limit, &mut trouble, report).await
                }
            };
            let now = self.environment.clock().now();
            (attempt, effect) = attempt.step(now, input);
            if let Some(flight) = attempt.flight() {
                seat.tell(flight, now);
            }
        }
    }

    /// Takes the handler for its run. The protocol asks for one run: were it ever to ask twice, nothing must happen twice.
    fn only_run<F>(&self, handler: &mut Option<F>) -> Result<F, Error> {
        handler.take().ok_or_else(|| self.contradiction(true))
    }

    fn cached(&self) -> Option<Record> {
        self.cache
            .and_then(|_| self.environment.cache().find(self.operation, &self.call.id))
    }

    fn meet(&self, seat: &mut Seat<'_>) -> Input {
        let mine = Flight::of(&self.call, self.environment.clock().now());
        match seat.look(mine) {
            Some(ahead) => Input::InFlight(ahead),
            None => Input::Looked(None),
        }
    }

    /// Performs an effect on store or clock.
    async fn perform(
        &self,
        effect: Effect,
        limit: Duration,
        trouble: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        match effect {
            Effect::Put(record, condition) => {
                let put = Request::Put(&record);
                self.write(put, &condition, limit, trouble, report).await
            }
            Effect::Update(change, condition) => {
                let update = Request::Update(&change);
                self.write(update, &condition, limit, trouble, report).await
            }
            Effect::Delete(condition) => {
                self.write(Request::Delete, &condition, limit, trouble, report)
                    .await
            }
            Effect::Read => self.read(limit, trouble, report).await,
            Effect::Pause(at_most) => {
                let pause = self.environment.jitter(at_most);
                self.environment.clock().sleep(pause).await;
                Input::Paused
            }
            // `drive` keeps these for itself.
            Effect::Look | Effect::Meet | Effect::Follow(_) | Effect::Run | Effect::Finish(_) => {
                Input::Paused
            }
        }
    }

    async fn write(
        &self,
        request: Request<'_>,
        condition: &Condition,
        limit: Duration,
        trouble: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        let store = self.environment.store();
        let log = SendLog::within(limit);
        let write = store.send(&self.call.id, request, condition, &log);
        let (lost, error) = match self.in_time(write, limit, report).await {
            Some(Write::Applied) => return Input::Written(Written::Applied),
            Some(Write::Refused { existing, lost }) => {
                return Input::Written(Written::Refused { existing, lost });
            }
            Some(Write::Failed { lost, error }) => (lost, error),
            // Given up on. Where its sends are not known it may have been applied, and may yet arrive.
            None => log.given_up(&store.name()),
        };
        let kind = match error.kind() {
            StoreErrorKind::TooLarge => Trouble::TooLarge,
            kind if kind.is_transient() => Trouble::Transient,
            _ => Trouble::Permanent,
        };
        // The first trouble is the cause; what follows is how it was dealt with.
        trouble.get_or_insert(error);
        Input::Written(Written::Failed {
            lost,
            trouble: kind,
        })
    }

    async fn read(
        &self,
        limit: Duration,
        trouble: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        let store = self.environment.store();
        let log = SendLog::within(limit);
        let read = store.fetch(&self.call.id, &log);
        let error = match self.in_time(read, limit, report).await {
            Some(Read::Found(record)) => return Input::Read(Some(record)),
            Some(Read::Nothing) => return Input::Read(None),
            Some(Read::Failed(error)) => error,
            None => log.given_up(&store.name()).1,
        };
        trouble.get_or_insert(error);
        Input::Unread
    }

    /// Waits for a request, but not longer than `limit`.
    async fn in_time<T>(
        &self,
        request: BoxFuture<'_, T>,
        limit: Duration,
        report: &mut Report<'_>,
    ) -> Option<T> {
        report.asks_the_store();
        let reply = limit::within(request, || self.environment.clock().sleep(limit)).await;
        report.heard_of_the_store();
        reply
    }
}

#[cfg(test)]
mod tests;

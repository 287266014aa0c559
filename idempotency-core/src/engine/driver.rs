//! The driver: performs the effects that the protocol asks for, and feeds their results back.
//!
//! No decision is made here; those are in [`protocol`](crate::protocol).

use std::future::Future;
use std::time::Duration;

use super::handler::{self, Finished, Panic, StoreWhen};
use super::single_flight::FlightGuard;
use super::timeout::timeout;
use super::{Backend, Codec};
use crate::cache::CacheLimits;
use crate::error::Error;
use crate::event::Report;
use crate::future::BoxFuture;
use crate::outcome::{Bypass, Outcome};
use crate::protocol::condition::Condition;
use crate::protocol::{Attempt, Call, Effect, InFlight, Input, WriteErrorKind, WriteResult};
use crate::record::Record;
use crate::store::{ReadOutcome, SendLog, StoreError, StoreErrorKind, Write, WriteOutcome};

/// One call, ready to be driven.
pub(crate) struct Driver<'a, R> {
    pub(crate) backend: &'a Backend,
    /// The operation's name, for errors, events and the cache.
    pub(crate) operation: &'a str,
    /// Whether the operation shares its prefix on purpose, so that another name in a record is no surprise.
    pub(crate) shares_prefix: bool,
    pub(crate) cache: Option<CacheLimits>,
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
    /// Drives the call to its end. The handler is polled only under a claim.
    pub(crate) async fn drive<E>(
        self,
        report: &mut Report<'_>,
        handler: impl Future<Output = Result<R, E>>,
    ) -> Result<Outcome<R>, Ending<E>> {
        let mut handler = Some(handler);
        let mut finished: Option<Finished<R, E>> = None;
        let mut trouble: Option<StoreError> = None;
        let mut guard = self.backend.single_flight().guard(&self.call);
        let (mut attempt, mut effect) = Attempt::begin(self.call.clone());
        loop {
            let input = match effect {
                Effect::Run => {
                    let handler = self.only_run(&mut handler).map_err(Ending::Refused)?;
                    trouble = None;
                    let (ran, result) =
                        handler::run(handler, self.codec, &self.store_when, report).await;
                    finished = Some(result);
                    Input::HandlerDone(ran)
                }
                Effect::Finish(verdict) => {
                    // In this order: whoever no longer meets this call finds its answer in the cache.
                    self.remember(&verdict);
                    guard.finish(verdict.confirmed_record());
                    return self.conclude(verdict, finished, trouble, report);
                }
                Effect::CheckLocal => match self.cached() {
                    Some(cached) => Input::Local(Some(cached)),
                    None => self.meet(&mut guard),
                },
                Effect::CheckInFlight => self.meet(&mut guard),
                Effect::AwaitLeader(at_most) => {
                    guard.wait(|| self.backend.clock().sleep(at_most)).await
                }
                other => {
                    // A wait that goes on has dealt with what it met before: its end is told by the last read.
                    if finished.is_none() && matches!(other, Effect::Pause(_)) {
                        trouble = None;
                    }
                    let limit = attempt.time_limit(self.backend.clock().now());
                    self.perform(other, limit, &mut trouble, report).await
                }
            };
            let now = self.backend.clock().now();
            (attempt, effect) = attempt.step(now, input);
            if let Some(in_flight) = attempt.in_flight() {
                guard.publish(in_flight, now);
            }
        }
    }

    /// Takes the handler for its run. The protocol asks for one run: were it ever to ask twice, nothing must happen twice.
    fn only_run<F>(&self, handler: &mut Option<F>) -> Result<F, Error> {
        handler.take().ok_or_else(|| self.contradiction(true))
    }

    fn cached(&self) -> Option<Record> {
        self.cache
            .and_then(|_| self.backend.cache().find(self.operation, &self.call.id))
    }

    fn meet(&self, guard: &mut FlightGuard<'_>) -> Input {
        let mine = InFlight::of(&self.call, self.backend.clock().now());
        match guard.join(mine) {
            Some(leader) => Input::LeaderProgress(leader),
            None => Input::Local(None),
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
                let put = Write::Put(&record);
                self.write(put, &condition, limit, trouble, report).await
            }
            Effect::Update(change, condition) => {
                let update = Write::Update(&change);
                self.write(update, &condition, limit, trouble, report).await
            }
            Effect::Delete(condition) => {
                self.write(Write::Delete, &condition, limit, trouble, report)
                    .await
            }
            Effect::Read => self.read(limit, trouble, report).await,
            Effect::Pause(at_most) => {
                let pause = self.backend.jitter(at_most);
                self.backend.clock().sleep(pause).await;
                Input::Paused
            }
            // `drive` keeps these for itself.
            Effect::CheckLocal
            | Effect::CheckInFlight
            | Effect::AwaitLeader(_)
            | Effect::Run
            | Effect::Finish(_) => Input::Paused,
        }
    }

    async fn write(
        &self,
        request: Write<'_>,
        condition: &Condition,
        limit: Duration,
        trouble: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        let store = self.backend.store();
        let log = SendLog::within(limit);
        let write = store.send(&self.call.id, request, condition, &log);
        let (maybe_applied, error) = match self.in_time(write, limit, report).await {
            Some(WriteOutcome::Applied) => return Input::Written(WriteResult::Applied),
            Some(WriteOutcome::ConditionFailed {
                existing,
                maybe_applied,
            }) => {
                return Input::Written(WriteResult::ConditionFailed {
                    existing,
                    maybe_applied,
                });
            }
            Some(WriteOutcome::Failed {
                maybe_applied,
                error,
            }) => (maybe_applied, error),
            // Given up on. Where its sends are not known it may have been applied, and may yet arrive.
            None => log.given_up(&store.name()),
        };
        let kind = match error.kind() {
            StoreErrorKind::TooLarge => WriteErrorKind::TooLarge,
            kind if kind.is_transient() => WriteErrorKind::Transient,
            _ => WriteErrorKind::Permanent,
        };
        // The first trouble is the cause; what follows is how it was dealt with.
        trouble.get_or_insert(error);
        Input::Written(WriteResult::Failed {
            maybe_applied,
            kind,
        })
    }

    async fn read(
        &self,
        limit: Duration,
        trouble: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        let store = self.backend.store();
        let log = SendLog::within(limit);
        let read = store.fetch(&self.call.id, &log);
        let error = match self.in_time(read, limit, report).await {
            Some(ReadOutcome::Found(record)) => return Input::Read(Some(record)),
            Some(ReadOutcome::NotFound) => return Input::Read(None),
            Some(ReadOutcome::Failed(error)) => error,
            None => log.given_up(&store.name()).1,
        };
        trouble.get_or_insert(error);
        Input::ReadFailed
    }

    /// Waits for a request, but not longer than `limit`.
    async fn in_time<T>(
        &self,
        request: BoxFuture<'_, T>,
        limit: Duration,
        report: &mut Report<'_>,
    ) -> Option<T> {
        report.store_request_started();
        let reply = timeout(request, || self.backend.clock().sleep(limit)).await;
        report.store_request_ended();
        reply
    }
}

#[cfg(test)]
mod tests;

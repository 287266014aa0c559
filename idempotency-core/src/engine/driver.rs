//! The driver: performs the effects that the protocol asks for, and feeds their results back.
//!
//! It makes no decision. The decisions are in [`protocol`](crate::protocol).

use std::time::Duration;

use super::call::{Made, OfferedCall};
use super::handler::{self, Finished, StoreWhen};
use super::single_flight::FlightGuard;
use super::timeout::timeout;
use super::write_result::write_result;
use super::{Backend, Codec, Errors, circuit};
use crate::cache::CacheLimits;
use crate::error::{Error, ErrorKind};
use crate::event::{Report, StagedEnd};
use crate::future::BoxFuture;
use crate::outcome::{Ending, Outcome};
use crate::protocol::condition::Condition;
use crate::protocol::{
    Attempt, CallTerms, Effect, HandlerResult, InFlight, Input, Run, Write, WriteResult,
    transaction_token,
};
use crate::record::Record;
use crate::store::{
    Consistency, ReadOutcome, RecordWrite, SendLog, Staged, StoreError, TransactionRequest,
};

/// One call, ready to be driven.
pub(crate) struct Driver<'a, R> {
    pub(crate) backend: &'a Backend,
    /// The operation's name, for errors, events and the cache.
    pub(crate) operation: &'a str,
    /// True if the operation shares its prefix on purpose. A record that names another operation is then expected.
    pub(crate) shares_prefix: bool,
    pub(crate) cache: Option<CacheLimits>,
    pub(crate) store_when: StoreWhen<'a>,
    pub(crate) call: CallTerms,
    pub(crate) codec: Codec<R>,
}

/// A write that the protocol asks for, and the staged writes that are in one transaction with it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    write: &'a Write,
    condition: &'a Condition,
    staged: Option<&'a Staged>,
}

impl<R> Driver<'_, R> {
    /// Drives the call to its end. The handler is built and polled only under a claim.
    pub(crate) async fn drive<E, F: Future<Output = Result<R, E>>>(
        self,
        errors: Errors<E>,
        report: &mut Report<'_>,
        start: impl FnOnce(OfferedCall<'_>) -> F,
    ) -> Result<Outcome<R>, Ending<E>> {
        let mut start = Some(start);
        let mut made = Made::default();
        let mut finished: Option<Finished<R, E>> = None;
        let mut store_error: Option<StoreError> = None;
        let mut staged: Option<Staged> = None;
        let mut guard = self.backend.single_flight().guard(&self.call);
        let (mut attempt, mut effect) = Attempt::begin(self.call.clone());
        loop {
            let input = match effect {
                Effect::CheckLocal => match self.cached() {
                    Some(cached) => Input::Local(Some(cached)),
                    None => self.join(&mut guard),
                },
                Effect::CheckInFlight => self.join(&mut guard),
                Effect::AwaitLeader(at_most) => {
                    guard.wait(|| self.backend.clock().sleep(at_most)).await
                }
                Effect::CheckCircuit(at_most) => {
                    Input::Circuit(circuit::ask(self.backend, at_most, report))
                }
                Effect::Write(write, condition) => {
                    let limit = attempt.time_limit(self.backend.clock().now());
                    let asked = Asked {
                        write: &write,
                        condition: &condition,
                        staged: None,
                    };
                    let (written, log) = self.write(asked, limit, &mut store_error, report).await;
                    // Without a reply the claim does not count as applied, also if the store has noted a reply.
                    let applied = matches!(
                        written,
                        WriteResult::Applied | WriteResult::AppliedMaybeAgain
                    );
                    if applied && let Some(replaced) = log.take_replaced() {
                        attempt = attempt.replacing(replaced.as_ref());
                    }
                    Input::Written(written)
                }
                Effect::Transact(write, condition) => {
                    let limit = attempt.time_limit(self.backend.clock().now());
                    // The last transaction explains how the call ends.
                    store_error = None;
                    let asked = Asked {
                        write: &write,
                        condition: &condition,
                        staged: staged.as_ref(),
                    };
                    let written = self.write(asked, limit, &mut store_error, report);
                    // Boxed, so that the future of a call without a transaction stays small.
                    Input::Written(Box::pin(written).await.0)
                }
                Effect::Read(consistency) => {
                    let limit = attempt.time_limit(self.backend.clock().now());
                    self.read(consistency, limit, &mut store_error, report)
                        .await
                }
                Effect::Pause(at_most) => {
                    if finished.is_none() {
                        // Earlier errors did not end the wait. Only the last read explains why it ended.
                        store_error = None;
                    }
                    let pause = self.backend.jitter(at_most);
                    self.backend.clock().sleep(pause).await;
                    Input::Paused
                }
                Effect::Run => {
                    let start = self.only_run(&mut start).map_err(Ending::Refused)?;
                    store_error = None;
                    let run = attempt.run().unwrap_or(Run::Unknown);
                    if let Run::Rerun { .. } = run {
                        report.took_over();
                    }
                    let lease_end = attempt.in_flight().map(|running| running.until);
                    let handler = start(OfferedCall::under_claim(
                        self.backend,
                        &self.call,
                        run,
                        lease_end,
                        attempt.steps(),
                        &mut made,
                    ));
                    let (result, own) =
                        handler::run(handler, self.codec, errors, &self.store_when, report).await;
                    staged = made.end();
                    finished = Some(own);
                    if let Some(staged) = &staged {
                        // Until the call has ended: it can be dropped before that.
                        report.staged(StagedEnd::Unknown);
                        let drops = matches!(
                            (&result, &finished),
                            (
                                HandlerResult::NotStored | HandlerResult::Unreported(_),
                                Some(Finished::Returned(_))
                            )
                        );
                        if drops {
                            report.drops(staged);
                        }
                    }
                    let result = match made.steps() {
                        Some(steps) => steps.with_result(result, report),
                        None => result,
                    };
                    if staged.is_some() {
                        Input::HandlerStaged(result)
                    } else {
                        Input::HandlerDone(result)
                    }
                }
                Effect::RunUnprotected { maybe_claimed } => {
                    let start = self.only_run(&mut start).map_err(Ending::Refused)?;
                    let lease_end = attempt.in_flight().map(|running| running.until);
                    let handler = start(OfferedCall::unclaimed(
                        self.backend,
                        &self.call,
                        lease_end,
                        &mut made,
                    ));
                    report.runs_unprotected(store_error.take().as_ref());
                    let (result, own) = if maybe_claimed {
                        handler::run(handler, self.codec, errors, &self.store_when, report).await
                    } else {
                        handler::run_unclaimed(handler, report).await
                    };
                    // Nothing can be staged without a confirmed claim.
                    drop(made.end());
                    finished = Some(own);
                    Input::HandlerDone(result)
                }
                Effect::Finish(resolution) => {
                    // Fill the cache before leaving single flight, so that no duplicate can miss both.
                    self.remember(&resolution);
                    guard.finish(resolution.confirmed_record());
                    let staged_end = staged.is_some().then(|| self.staged_end(&resolution));
                    let ended = self.finish(resolution, finished, store_error, report);
                    let Some(staged_end) = staged_end else {
                        return ended;
                    };
                    report.staged(staged_end);
                    return match ended {
                        Ok(outcome)
                            if staged_end == StagedEnd::Dropped && !outcome.is_replayed() =>
                        {
                            Ok(outcome.with_dropped_writes())
                        }
                        ended => ended.map_err(unconfirmed),
                    };
                }
            };
            let now = self.backend.clock().now();
            if let Some(reply) = attempt.store_reply(&input) {
                circuit::take(self.backend, now, reply, report);
            }
            (attempt, effect) = attempt.step(now, input);
            if let Some(in_flight) = attempt.in_flight() {
                guard.publish(in_flight, now);
            }
        }
    }

    /// Takes the start of the handler for its run. The protocol asks for one run only; if it asked again, the call would fail
    /// instead of running the handler a second time.
    fn only_run<S>(&self, start: &mut Option<S>) -> Result<S, Error> {
        start.take().ok_or_else(|| self.contradiction(true))
    }

    fn cached(&self) -> Option<Record> {
        self.cache
            .and_then(|_| self.backend.cache().find(self.operation, &self.call.id))
    }

    fn join(&self, guard: &mut FlightGuard<'_>) -> Input {
        let mine = InFlight::of(&self.call, self.backend.clock().now());
        match guard.join(mine) {
            Some(leader) => Input::LeaderProgress(leader),
            None => Input::Local(None),
        }
    }

    /// Performs a write, together with the staged writes of the handler if there are any. Returns what the store noted too.
    async fn write(
        &self,
        asked: Asked<'_>,
        limit: Duration,
        store_error: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> (WriteResult, SendLog) {
        let Asked {
            write,
            condition,
            staged,
        } = asked;
        let store = self.backend.store();
        let log = SendLog::with_limit(limit);
        let id = &self.call.id;
        let token = staged.map(|_| transaction_token(&self.call.owner, write));
        let request = match (staged, &token) {
            (Some(staged), Some(token)) => {
                let record = RecordWrite {
                    id,
                    write,
                    condition,
                };
                let transaction = TransactionRequest {
                    record: Some(record),
                    staged,
                    token,
                };
                store.transact(transaction, &log)
            }
            _ => store.write(id, write, condition, &log),
        };
        let reply = self.in_time(request, limit, report).await;
        let (result, error) = write_result(reply, &log, store, staged.is_some());
        // The first error is the cause. Later ones come from dealing with it.
        if let Some(error) = error {
            store_error.get_or_insert(error);
        }
        if let WriteResult::ConditionFailed { .. } = result {
            report.unreadable(log.take_unreadable());
        }
        (result, log)
    }

    async fn read(
        &self,
        consistency: Consistency,
        limit: Duration,
        store_error: &mut Option<StoreError>,
        report: &mut Report<'_>,
    ) -> Input {
        let store = self.backend.store();
        let log = SendLog::with_limit(limit);
        let request = store.read(&self.call.id, consistency, &log);
        let error = match self.in_time(request, limit, report).await {
            Some(ReadOutcome::Found(record)) => {
                report.unreadable(log.take_unreadable());
                return Input::Read(Some(record));
            }
            Some(ReadOutcome::NotFound) => return Input::Read(None),
            Some(ReadOutcome::Failed(error)) => error,
            None => log.timed_out(&store.name()).1,
        };
        match consistency {
            Consistency::Strong => drop(store_error.get_or_insert(error)),
            // The claim decides all the same. If it fails too, its own error is the cause.
            Consistency::Eventual => {
                report.note(format!("the read before the claim failed: {error}"))
            }
        }
        Input::ReadFailed
    }

    /// Waits for a request for at most `limit`. Returns `None` if it takes longer.
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

/// Marks the error of a call whose staged writes were not applied, or may not have been.
pub(super) fn unconfirmed<E>(ending: Ending<E>) -> Ending<E> {
    match ending {
        Ending::Refused(error)
            if matches!(
                error.kind(),
                ErrorKind::TransactionRejected
                    | ErrorKind::CompletionUnknown
                    | ErrorKind::LostOwnership
                    | ErrorKind::Internal
            ) =>
        {
            Ending::Refused(error.with_unconfirmed_writes())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;

//! Renews the lease of a run while its handler runs.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call::OpenCall;
use super::handler::HandlerOutput;
use super::request::{Reasons, RequestEnd, send};
use super::single_flight::FlightGuard;
use crate::event::{Meter, Report};
use crate::protocol::{
    Attempt, InFlight, Input, Renewal, RenewalEnd, UndoEnd, WriteErrorKind, WriteResult,
};
use crate::store::{Consistency, StoreError, StoreErrorKind, StoreRequest};
use crate::time::{Clock, EpochMillis};

/// A run whose lease is renewed.
pub(super) struct Renewing<'a, 'b, 'c> {
    call: &'a OpenCall,
    attempt: &'a mut Attempt,
    guard: &'a mut FlightGuard<'b>,
    report: &'a mut Report<'c>,
    /// What the renewals since the last one that was confirmed have shown.
    reasons: Reasons,
    /// True while one has no reply.
    awaits: bool,
    end: Option<RenewalEnd>,
    /// True if the claim may have been gone while the handler ran.
    is_lost: bool,
}

/// When a request was sent, by both clocks.
#[derive(Clone, Copy)]
pub(super) struct SentAt {
    now: EpochMillis,
    monotonic: Option<Duration>,
}

impl SentAt {
    /// Reads both clocks, `now` last: if the process stands still between them, a lease counts as shorter, and not as longer.
    pub(super) fn read(clock: &dyn Clock, now: impl FnOnce() -> EpochMillis) -> Self {
        let monotonic = clock.monotonic();
        Self {
            now: now(),
            monotonic,
        }
    }
}

/// Counts a request of the renewals. The handler's time goes on.
struct Counter<'a, 'c> {
    report: &'a mut Report<'c>,
    clock: &'a dyn Clock,
    begun: EpochMillis,
}

impl Meter for Counter<'_, '_> {
    fn request_started(&mut self) {
        self.begun = self.clock.now();
        self.report.add_store_requests(1, Duration::ZERO);
    }

    fn request_ended(&mut self) {
        let time = self.begun.until(self.clock.now());
        self.report.add_store_requests(0, time);
    }
}

impl<'a, 'b, 'c> Renewing<'a, 'b, 'c> {
    pub(super) fn new(
        call: &'a OpenCall,
        attempt: &'a mut Attempt,
        guard: &'a mut FlightGuard<'b>,
        report: &'a mut Report<'c>,
    ) -> Self {
        Self {
            call,
            attempt,
            guard,
            report,
            reasons: Reasons::default(),
            awaits: false,
            end: None,
            is_lost: false,
        }
    }

    /// Runs the handler, as [`output_of`](super::handler::output_of) does, and renews the lease of its claim meanwhile. A renewal that is
    /// on its way when the handler ends is not awaited: its condition makes it harmless. The last claim was sent at `claimed`.
    pub(super) async fn output_of<R, E>(
        mut self,
        renewal: Renewal,
        claimed: SentAt,
        handler: impl Future<Output = Result<R, E>>,
    ) -> HandlerOutput<R, E> {
        self.is_held(&renewal, claimed);
        self.report.handler_started();
        let handler = self.call.caught(handler);
        let output = beside(handler, self.renew(renewal)).await;
        self.report.handler_ended(&output);
        output
    }

    /// Undoes a step, and renews the lease meanwhile.
    pub(super) async fn undo(mut self, renewal: Renewal, step: &str) -> UndoEnd {
        beside(self.call.undo(step), self.renew(renewal)).await
    }

    async fn renew(&mut self, mut renewal: Renewal) {
        let backend = self.call.backend();
        let clock = backend.clock();
        let id = self.attempt.call().id.clone();
        // The time of the run is the later one of two clocks, so no renewal ends earlier because the wall clock was set back.
        let call = self.call;
        let mut pause = renewal.pause(call.now());
        loop {
            let jitter = backend.jitter(pause.jitter);
            clock.sleep(pause.at_least + jitter).await;
            self.notice_the_end();
            let sent = SentAt::read(clock, || call.now());
            let (write, condition) = renewal.send(sent.now);
            let request = StoreRequest::write(&id, &write, &condition);
            let reply = self.send(&renewal, request).await;
            let result = match reply {
                Some(end) => self.reasons.written(backend, end),
                None => WriteResult::Failed {
                    maybe_applied: true,
                    kind: WriteErrorKind::Transient,
                },
            };
            self.notice_the_end();
            let next = match renewal.written(call.now(), result) {
                ControlFlow::Continue(Some(pause)) => ControlFlow::Continue(pause),
                ControlFlow::Continue(None) => {
                    let request = StoreRequest::Read(&id, Consistency::Strong);
                    let reply = self.send(&renewal, request).await;
                    let found = match reply.map(|end| self.reasons.read(backend, end)) {
                        Some(Input::Read(record)) => Some(record),
                        _ => None,
                    };
                    self.notice_the_end();
                    renewal.read(call.now(), found)
                }
                ControlFlow::Break(end) => ControlFlow::Break(end),
            };
            if self.is_held(&renewal, sent) {
                self.report.renewed();
                self.reasons = Reasons::default();
            }
            match next {
                ControlFlow::Continue(next) => pause = next,
                ControlFlow::Break(end) => {
                    self.end = Some(end);
                    if end == RenewalEnd::ClaimGone {
                        self.claim_is_gone();
                    }
                    return;
                }
            }
        }
    }

    /// Sends a request, and returns its end. `None` if the store panicked: one fault of it must not end the renewals.
    async fn send(&mut self, renewal: &Renewal, request: StoreRequest<'_>) -> Option<RequestEnd> {
        let backend = self.call.backend();
        let limit = renewal.time_limit(self.call.now());
        let mut counter = Counter {
            report: self.report,
            clock: backend.clock(),
            begun: EpochMillis::new(0),
        };
        self.awaits = true;
        let end = {
            let mut sent = pin!(send(backend, request, limit, &mut counter));
            poll_fn(|context| {
                match catch_unwind(AssertUnwindSafe(|| sent.as_mut().poll(context))) {
                    Ok(polled) => polled.map(Some),
                    Err(_panic) => Poll::Ready(None),
                }
            })
            .await
        };
        self.awaits = false;
        if end.is_none() {
            let panicked = StoreError::new(StoreErrorKind::Rejected, "the store panicked");
            self.reasons.error.get_or_insert(panicked);
        }
        end
    }

    /// Notes that the lease has expired, if it has, and why.
    fn notice_the_end(&mut self) {
        if self.is_lost || !self.call.has_expired() {
            return;
        }
        let why = match (self.end, &self.reasons.error) {
            (Some(_), _) => {
                "the handler ran longer than `renew_at_most`, after which its lease is not renewed: set a longer time".to_owned()
            }
            (None, Some(error)) => {
                format!("the lease expired while the handler ran, because its renewals failed: {error}")
            }
            (None, None) if self.awaits => {
                "the lease expired while the handler ran, because a renewal had no reply".to_owned()
            }
            (None, None) => {
                "the lease expired while the handler ran, because it blocked its thread, or the process stood still".to_owned()
            }
        };
        self.lose(why);
    }

    fn claim_is_gone(&mut self) {
        if !self.is_lost {
            self.lose("a renewal of the lease found that the claim was gone".to_owned());
        }
        self.call.lasts_until(Some(GONE));
        // A duplicate in this process must ask the store, and not wait for this run.
        if let Some(in_flight) = self.attempt.in_flight() {
            let gone = InFlight {
                until: GONE,
                ..in_flight
            };
            self.guard.publish(gone, self.call.now());
        }
    }

    fn lose(&mut self, why: String) {
        self.is_lost = true;
        self.report.lost_claim(why);
    }

    /// Hands on until when the lease lasts, if the last request confirmed it. Returns whether it did.
    fn is_held(&mut self, renewal: &Renewal, sent: SentAt) -> bool {
        let Some(lasts) = renewal.confirmed_for(sent.now) else {
            return false;
        };
        let end = renewal.lease_end();
        self.call
            .is_held_until(end, sent.monotonic.map(|at| at + lasts));
        self.attempt.renewed(end);
        if let Some(in_flight) = self.attempt.in_flight() {
            self.guard.publish(in_flight, sent.now);
        }
        true
    }
}

/// The end of a lease whose claim is gone: it has expired at any time.
const GONE: EpochMillis = EpochMillis::new(-1);

/// The handler has ended, or its call was dropped.
impl Drop for Renewing<'_, '_, '_> {
    fn drop(&mut self) {
        self.notice_the_end();
    }
}

/// Returns the output of `main`, and polls `other` until then. A panic of `other` ends it alone.
///
/// Only the first poll is that of `main`, which may be ready at once. Later `main` follows, because a busy one uses up what its runtime
/// allows a task in one poll, and no timer of `other` would ever be ready after it.
async fn beside<T>(main: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let (mut main, mut other) = (pin!(main), pin!(other));
    let (mut is_first, mut other_goes_on) = (true, true);
    poll_fn(|context| {
        let mut poll_other = |context: &mut Context<'_>| {
            if other_goes_on {
                let polled = catch_unwind(AssertUnwindSafe(|| other.as_mut().poll(context)));
                other_goes_on = matches!(polled, Ok(Poll::Pending));
            }
        };
        if !std::mem::take(&mut is_first) {
            poll_other(context);
            return main.as_mut().poll(context);
        }
        let output = main.as_mut().poll(context);
        if output.is_pending() {
            poll_other(context);
        }
        output
    })
    .await
}

#[cfg(test)]
mod tests;

//! Renews the lease of a run while its handler runs.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call::OpenCall;
use super::handler::{self, HandlerOutput};
use super::request::{Reasons, send};
use super::single_flight::FlightGuard;
use crate::event::{Meter, Report};
use crate::protocol::{Attempt, Input, Renewal, RenewalEnd, RenewalPause};
use crate::store::{Consistency, StoreError, StoreRequest};
use crate::time::{Clock, EpochMillis};

/// A run whose lease is renewed.
pub(super) struct Renewing<'a, 'b> {
    call: &'a OpenCall,
    attempt: &'a mut Attempt,
    guard: &'a mut FlightGuard<'b>,
    shown: Shown,
}

/// What the renewals of a run have shown.
#[derive(Default)]
struct Shown {
    reasons: Reasons,
    /// How many were confirmed.
    confirmed: u32,
    requests: u32,
    store_time: Duration,
    end: Option<RenewalEnd>,
    /// True while one has no reply.
    awaits: bool,
    /// True if the claim may have been gone while the handler ran.
    is_lost: bool,
    /// The first error of the renewals that were not confirmed in time.
    cause: Option<StoreError>,
}

/// Counts the requests of the renewals.
struct Counter<'a> {
    shown: &'a mut Shown,
    clock: &'a dyn Clock,
    begun: EpochMillis,
}

impl Meter for Counter<'_> {
    fn request_started(&mut self) {
        self.begun = self.clock.now();
    }

    fn request_ended(&mut self) {
        self.shown.requests += 1;
        self.shown.store_time += self.begun.until(self.clock.now());
    }
}

impl<'a, 'b> Renewing<'a, 'b> {
    pub(super) fn new(
        call: &'a OpenCall,
        attempt: &'a mut Attempt,
        guard: &'a mut FlightGuard<'b>,
    ) -> Self {
        Self {
            call,
            attempt,
            guard,
            shown: Shown::default(),
        }
    }

    /// Runs the handler, as [`handler::output_of`] does, and renews the lease of its claim meanwhile. A renewal that is on its way when
    /// the handler ends is not awaited: its condition makes it harmless.
    pub(super) async fn output_of<R, E>(
        mut self,
        renewal: Renewal,
        handler: impl Future<Output = Result<R, E>>,
        report: &mut Report<'_>,
    ) -> HandlerOutput<R, E> {
        let call = self.call;
        let run = beside(handler, self.renew(renewal));
        let output = handler::output_of(call, run, report).await;
        self.notice_the_end();
        self.shown.report(report);
        output
    }

    /// Notes that the lease has expired, if it has, and the error that led to it.
    fn notice_the_end(&mut self) {
        if !self.shown.is_lost && self.call.has_expired() {
            self.shown.is_lost = true;
            self.shown.cause = self.shown.reasons.error.take();
        }
    }

    async fn renew(&mut self, mut renewal: Renewal) {
        let backend = self.call.backend();
        let clock = backend.clock();
        let begun = clock.now();
        self.is_held(&renewal, begun, clock.monotonic());
        let mut pause = renewal.pause(begun);
        loop {
            let jitter = backend.jitter(pause.jitter);
            clock.sleep(pause.at_least + jitter).await;
            self.notice_the_end();
            let (sent_at, monotonic) = (clock.now(), clock.monotonic());
            let (write, condition) = renewal.send(sent_at);
            let request = StoreRequest::write(&self.attempt.call().id, &write, &condition);
            let limit = renewal.time_limit(self.call.now());
            self.shown.awaits = true;
            let mut counter = Counter {
                shown: &mut self.shown,
                clock,
                begun: sent_at,
            };
            let end = send(backend, request, limit, &mut counter).await;
            self.shown.awaits = false;
            let result = self.shown.reasons.written(backend, end);
            self.notice_the_end();
            let next = match renewal.written(clock.now(), result) {
                ControlFlow::Continue(Some(pause)) => ControlFlow::Continue(pause),
                ControlFlow::Continue(None) => self.read(&mut renewal).await,
                ControlFlow::Break(end) => ControlFlow::Break(end),
            };
            if self.is_held(&renewal, sent_at, monotonic) {
                self.shown.confirmed += 1;
                self.shown.reasons = Reasons::default();
            }
            match next {
                ControlFlow::Continue(next) => pause = next,
                ControlFlow::Break(end) => {
                    self.shown.end = Some(end);
                    if end == RenewalEnd::ClaimGone {
                        self.shown.is_lost = true;
                        self.call.lasts_until(Some(GONE));
                    }
                    return;
                }
            }
        }
    }

    /// Reads the record after a renewal that was refused and brought none back.
    async fn read(&mut self, renewal: &mut Renewal) -> ControlFlow<RenewalEnd, RenewalPause> {
        let backend = self.call.backend();
        let clock = backend.clock();
        let request = StoreRequest::Read(&self.attempt.call().id, Consistency::Strong);
        let limit = renewal.time_limit(self.call.now());
        let mut counter = Counter {
            begun: clock.now(),
            shown: &mut self.shown,
            clock,
        };
        let end = send(backend, request, limit, &mut counter).await;
        let found = match self.shown.reasons.read(backend, end) {
            Input::Read(record) => Some(record),
            _ => None,
        };
        renewal.read(clock.now(), found)
    }

    /// Hands on until when the lease lasts, if the last request confirmed it. That was sent at `sent_at`, which was `monotonic` by the other
    /// clock. Returns whether it did.
    fn is_held(
        &mut self,
        renewal: &Renewal,
        sent_at: EpochMillis,
        monotonic: Option<Duration>,
    ) -> bool {
        let Some(lasts) = renewal.confirmed_for(sent_at) else {
            return false;
        };
        let end = renewal.lease_end();
        self.call.is_held_until(end, monotonic.map(|at| at + lasts));
        self.attempt.renewed(end);
        if let Some(in_flight) = self.attempt.in_flight() {
            self.guard.publish(in_flight, sent_at);
        }
        true
    }
}

/// The end of a lease whose claim is gone: it has expired at any time.
const GONE: EpochMillis = EpochMillis::new(-1);

impl Shown {
    fn report(self, report: &mut Report<'_>) {
        report.add_store_requests(self.requests, self.store_time);
        report.renewed(self.confirmed, self.is_lost);
        if !self.is_lost {
            return;
        }
        let why = match (self.end, self.cause) {
            (Some(RenewalEnd::ClaimGone), _) => {
                "a renewal of the lease found that the claim was gone".to_owned()
            }
            (Some(RenewalEnd::AtMost), _) => {
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
        report.note(why);
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

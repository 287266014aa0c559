//! Sends requests to the store: the time limit, the clock, the count, and what the protocol needs of a reply.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use super::Backend;
use crate::event::Meter;
use crate::future::BoxFuture;
use crate::protocol::{Input, Resend, WriteErrorKind, WriteResult};
use crate::store::{SendLog, StoreError, StoreErrorKind, StoreReply, StoreRequest};
use crate::time::EpochMillis;

/// What the requests of a call have shown that the protocol does not need, for the error of the call.
#[derive(Default)]
pub(super) struct Reasons {
    /// The first error, because later ones come from dealing with it. Of several transactions, that of the last one.
    pub(super) error: Option<StoreError>,
    /// Why the response of the last record that came back cannot be read.
    pub(super) unreadable: Option<String>,
}

/// How a request ended.
pub(super) struct RequestEnd {
    reply: StoreReply,
    is_transaction: bool,
    /// True if the store noted that the condition failed.
    is_refused: bool,
}

/// Sends a request, and waits for its reply for at most `limit`.
pub(super) async fn send(
    backend: &Backend,
    request: StoreRequest<'_>,
    limit: Duration,
    meter: &mut impl Meter,
) -> RequestEnd {
    let (store, log) = (backend.store(), SendLog::with_limit(limit));
    let is_transaction = matches!(request, StoreRequest::Transact(_));
    meter.request_started();
    let reply = timeout(store.send(request, &log), || backend.clock().sleep(limit)).await;
    meter.request_ended();
    let mut reply = reply.unwrap_or_else(|| {
        // Unless the sends are known, the write may have been applied, or may still be applied later.
        let (maybe_applied, error) = log.timed_out(store);
        StoreReply::Failed {
            error,
            maybe_applied,
        }
    });
    if let StoreReply::Applied { maybe_again, .. } = &mut reply {
        // A store that takes no notes may have sent more than once.
        *maybe_again |= log.maybe_again();
    }
    RequestEnd {
        reply,
        is_transaction,
        is_refused: log.is_refused(),
    }
}

impl RequestEnd {
    /// Returns the reply of the store.
    pub(super) fn reply(self) -> StoreReply {
        self.reply
    }
}

impl Reasons {
    /// Returns what the protocol needs of a read, and keeps the rest.
    pub(super) fn read(&mut self, backend: &Backend, end: RequestEnd) -> Input {
        let error = match end.reply {
            StoreReply::Found { record, unreadable } => {
                self.unreadable = unreadable;
                return Input::Read(record);
            }
            StoreReply::Failed { error, .. } => error,
            _ => wrong_reply(backend),
        };
        self.error.get_or_insert(error);
        Input::ReadFailed
    }

    /// Returns what the protocol needs of a write, alone or in a transaction, and keeps the rest.
    pub(super) fn written(&mut self, backend: &Backend, end: RequestEnd) -> WriteResult {
        let RequestEnd {
            reply,
            is_transaction,
            is_refused,
        } = end;
        if is_transaction {
            self.error = None;
        }
        let (maybe_applied, error) = match reply {
            StoreReply::Applied {
                replaced,
                maybe_again,
            } => {
                return WriteResult::Applied {
                    replaced,
                    maybe_again,
                };
            }
            StoreReply::ConditionFailed {
                existing,
                unreadable,
                maybe_applied,
            } => {
                self.unreadable = unreadable;
                return WriteResult::ConditionFailed {
                    existing,
                    maybe_applied,
                };
            }
            StoreReply::Rejected {
                rejection,
                maybe_applied,
            } => {
                let error = StoreError::new(StoreErrorKind::Rejected, rejection.to_string());
                self.error.get_or_insert(error.with_source(rejection));
                return WriteResult::Rejected { maybe_applied };
            }
            StoreReply::Failed {
                error,
                maybe_applied,
            } => (maybe_applied, error),
            StoreReply::Found { .. } => (true, wrong_reply(backend)),
        };
        let kind = kind(&error, is_transaction, is_refused);
        self.error.get_or_insert(error);
        WriteResult::Failed {
            maybe_applied,
            kind,
        }
    }
}

/// Sends the same write again until its end is known. `now` is the time by which its lease ends.
pub(super) async fn resend<W: Resend>(
    backend: &Backend,
    now: impl Fn() -> EpochMillis,
    request: StoreRequest<'_>,
    mut machine: W,
    reasons: &mut Reasons,
    meter: &mut impl Meter,
) -> W::End {
    loop {
        let limit = machine.time_limit(now());
        let end = send(backend, request, limit, meter).await;
        let result = reasons.written(backend, end);
        match machine.step(now(), result) {
            ControlFlow::Break(end) => return end,
            ControlFlow::Continue(at_most) => {
                backend.clock().sleep(backend.jitter(at_most)).await;
            }
        }
    }
}

pub(super) fn wrong_reply(backend: &Backend) -> StoreError {
    let text = format!(
        "{} replied to another request than it was sent: correct its `send`",
        backend.store().name()
    );
    StoreError::new(StoreErrorKind::Rejected, text)
}

/// Returns what the protocol needs of the error of a write. `is_refused` is true if its condition did not hold.
fn kind(error: &StoreError, is_transaction: bool, is_refused: bool) -> WriteErrorKind {
    match error.kind() {
        // The condition on the record failed: the claim is gone. That is no rejection of the staged writes.
        _ if is_transaction && is_refused => WriteErrorKind::Refused,
        // Clients do not repeat a transaction that is throttled.
        StoreErrorKind::Throttled if is_transaction => WriteErrorKind::Conflict,
        StoreErrorKind::TooLarge => WriteErrorKind::TooLarge,
        StoreErrorKind::Conflict => WriteErrorKind::Conflict,
        kind if is_refused && may_pass(kind) => WriteErrorKind::Refused,
        StoreErrorKind::Credentials | StoreErrorKind::Certificate => WriteErrorKind::Credentials,
        kind if kind.is_transient() => WriteErrorKind::Transient,
        _ => WriteErrorKind::Permanent,
    }
}

/// Returns true if the same request may succeed later. Credentials and certificates are renewed, and a clock is set right, while a call
/// runs.
fn may_pass(kind: StoreErrorKind) -> bool {
    let renewed = [StoreErrorKind::Credentials, StoreErrorKind::Certificate];
    kind.is_transient() || renewed.contains(&kind)
}

/// Returns the output of `request`, or `None` if the timer ends first. The timer is made only if the request is not ready at
/// its first poll.
pub(super) async fn timeout<T>(
    mut request: BoxFuture<'_, T>,
    timer: impl FnOnce() -> BoxFuture<'static, ()>,
) -> Option<T> {
    let mut make = Some(timer);
    let mut timer: Option<BoxFuture<'static, ()>> = None;
    poll_fn(move |context| {
        if let Poll::Ready(output) = request.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        if let Some(make) = make.take() {
            timer = Some(make());
        }
        match &mut timer {
            Some(timer) => timer.as_mut().poll(context).map(|()| None),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_ready_request_makes_no_timer() {
        let bounded = timeout(Box::pin(ready(1)), || unreachable!("no timer is needed"));
        assert_eq!(poll_once(bounded), Poll::Ready(Some(1)));
    }

    #[test]
    fn a_request_that_hangs_ends_with_its_timer() {
        let bounded = timeout(Box::pin(pending::<i32>()), || Box::pin(ready(())));
        assert_eq!(poll_once(bounded), Poll::Ready(None));
    }

    #[test]
    fn a_refused_record_is_no_rejection_and_a_throttled_transaction_is_a_conflict() {
        let failure = |kind| StoreError::new(kind, "no");
        for of in [
            StoreErrorKind::AccessDenied,
            StoreErrorKind::TableMissing,
            StoreErrorKind::Rejected,
            StoreErrorKind::Unreachable,
        ] {
            let found = kind(&failure(of), true, true);
            assert_eq!(found, WriteErrorKind::Refused, "{of:?}");
        }
        let throttled = failure(StoreErrorKind::Throttled);
        for (is_transaction, expected) in [
            (true, WriteErrorKind::Conflict),
            (false, WriteErrorKind::Transient),
        ] {
            let found = kind(&throttled, is_transaction, false);
            assert_eq!(
                found, expected,
                "a throttled transaction is sent again while the lease runs"
            );
        }
        for of in [StoreErrorKind::Credentials, StoreErrorKind::Certificate] {
            for (is_transaction, is_refused, expected) in [
                (false, false, WriteErrorKind::Credentials),
                (true, false, WriteErrorKind::Credentials),
                (false, true, WriteErrorKind::Refused),
            ] {
                let found = kind(&failure(of), is_transaction, is_refused);
                assert_eq!(found, expected, "it can pass before the lease ends");
            }
        }
        let denied = failure(StoreErrorKind::AccessDenied);
        for (is_transaction, is_refused) in [(true, false), (false, true)] {
            let found = kind(&denied, is_transaction, is_refused);
            assert_eq!(found, WriteErrorKind::Permanent);
        }
    }
}

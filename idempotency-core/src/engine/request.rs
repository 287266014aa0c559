//! Sends one request to the store: the time limit, the clock, the count, and what the protocol needs of the reply.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::Backend;
use crate::event::Report;
use crate::future::BoxFuture;
use crate::protocol::{Input, WriteErrorKind, WriteResult};
use crate::store::{Reply, SendLog, StoreError, StoreErrorKind, StoreRequest};

/// What the requests of a call have shown that the protocol does not need, for the error of the call.
#[derive(Default)]
pub(super) struct Reasons {
    /// The first error, because later ones come from dealing with it. Of several transactions, that of the last one.
    pub(super) error: Option<StoreError>,
    /// Why the response of the last record that came back cannot be read.
    pub(super) unreadable: Option<String>,
}

/// Counts requests and their time.
pub(super) trait Meter {
    fn started(&mut self);
    fn ended(&mut self);
}

impl Meter for Report<'_> {
    fn started(&mut self) {
        self.store_request_started();
    }

    fn ended(&mut self) {
        self.store_request_ended();
    }
}

/// Sends a request, and waits for its reply for at most `limit`. Returns what the protocol needs of the reply.
pub(super) async fn send(
    backend: &Backend,
    request: StoreRequest<'_>,
    limit: Duration,
    reasons: &mut Reasons,
    meter: &mut impl Meter,
) -> Input {
    let (store, log) = (backend.store(), SendLog::with_limit(limit));
    meter.started();
    let reply = timeout(store.send(request, &log), || backend.clock().sleep(limit)).await;
    meter.ended();
    let reply = reply.unwrap_or_else(|| {
        // Unless the sends are known, the write may have been applied, or may still be applied later.
        let (maybe_applied, error) = log.timed_out(&store.name());
        Reply::Failed {
            error,
            maybe_applied,
        }
    });
    let is_read = matches!(request, StoreRequest::Read(..));
    let is_transaction = matches!(request, StoreRequest::Transact(_));
    if is_transaction {
        reasons.error = None;
    }
    let (input, error) = match reply {
        Reply::Found { record, unreadable } if is_read => {
            reasons.unreadable = unreadable;
            return Input::Read(record);
        }
        Reply::Failed { error, .. } if is_read => (Input::ReadFailed, error),
        Reply::Failed {
            error,
            maybe_applied,
        } => {
            let kind = kind(&error, is_transaction, log.is_refused());
            let failed = WriteResult::Failed {
                maybe_applied,
                kind,
            };
            (Input::Written(failed), error)
        }
        Reply::Applied {
            replaced,
            maybe_again,
        } if !is_read => {
            return Input::Written(WriteResult::Applied {
                replaced,
                maybe_again,
            });
        }
        Reply::ConditionFailed {
            existing,
            unreadable,
            maybe_applied,
        } if !is_read => {
            reasons.unreadable = unreadable;
            return Input::Written(WriteResult::ConditionFailed {
                existing,
                maybe_applied,
            });
        }
        Reply::Rejected {
            rejection,
            maybe_applied,
        } if !is_read => {
            let error = StoreError::new(StoreErrorKind::Rejected, rejection.to_string());
            let rejected = WriteResult::Rejected { maybe_applied };
            (Input::Written(rejected), error.with_source(rejection))
        }
        // Nothing is known of what was asked for.
        _ => {
            let text = format!(
                "{} replied to another request than it was sent",
                store.name()
            );
            let error = StoreError::new(StoreErrorKind::Rejected, text);
            let unknown = WriteResult::Failed {
                maybe_applied: true,
                kind: WriteErrorKind::Permanent,
            };
            let input = if is_read {
                Input::ReadFailed
            } else {
                Input::Written(unknown)
            };
            (input, error)
        }
    };
    reasons.error.get_or_insert(error);
    input
}

/// Returns what the protocol needs of the error of a write. `is_refused` is true if its condition did not hold.
fn kind(error: &StoreError, is_transaction: bool, is_refused: bool) -> WriteErrorKind {
    match error.kind() {
        // The record is another call's, which may apply its own writes: this is no rejection of these.
        _ if is_transaction && is_refused => WriteErrorKind::Refused,
        // Clients do not repeat a transaction that is throttled.
        StoreErrorKind::Throttled if is_transaction => WriteErrorKind::Conflict,
        StoreErrorKind::TooLarge => WriteErrorKind::TooLarge,
        StoreErrorKind::Conflict => WriteErrorKind::Conflict,
        kind if kind.is_transient() && is_refused => WriteErrorKind::Refused,
        kind if kind.is_transient() => WriteErrorKind::Transient,
        _ => WriteErrorKind::Permanent,
    }
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
        let denied = failure(StoreErrorKind::AccessDenied);
        for (is_transaction, is_refused) in [(true, false), (false, true)] {
            let found = kind(&denied, is_transaction, is_refused);
            assert_eq!(found, WriteErrorKind::Permanent);
        }
    }
}

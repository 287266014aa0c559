//! The driver: performs the effects that the protocol asks for, and feeds their results back.
//!
//! It makes no decision. The decisions are in [`protocol`](crate::protocol).

use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, OpenCall};
use super::handler::{self, StoreWhen};
use super::renewing::{Renewing, SentAt};
use super::request::{Reasons, send};
use super::run::Ran;
use super::{Backend, Codec, Errors};
use crate::cache::CacheLimits;
use crate::error::Error;
use crate::event::{CircuitChange, Report};
use crate::outcome::{NoResponse, Outcome};
use crate::protocol::{
    Admission, Attempt, CallTerms, Circuit, Commits, Effect, InFlight, Input, Lease, StoreHealth,
    UndoEnd, transaction_token,
};
use crate::record::Record;
use crate::store::{Consistency, RecordWrite, StoreRequest, TransactionRequest};
use crate::time::EpochMillis;

/// The note of a run that took longer than the lease of its claim.
const OUTLIVED: &str = "the handler ran longer than its `lease`, and duplicates did not know that it still ran: set a longer `lease`, or for confirmed claims `renew`";

/// One call, ready to be driven.
pub(crate) struct Driver<'a, R> {
    pub(crate) backend: &'a Backend,
    /// The name of the operation in errors, events and the cache.
    pub(crate) key_prefix: &'a str,
    /// True if the operation shares its prefix on purpose. A record that names another operation is then expected.
    pub(crate) shares_prefix: bool,
    pub(crate) cache: Option<CacheLimits>,
    pub(crate) store_when: StoreWhen<'a>,
    pub(crate) call: Arc<CallTerms>,
    pub(crate) codec: Codec<R>,
    /// When the call began.
    pub(crate) began: EpochMillis,
}

impl<R> Driver<'_, R> {
    /// Drives the call to its end. The handler is called and polled only when the protocol asks for a run.
    pub(crate) async fn drive<E, F: Future<Output = Result<R, E>>>(
        self,
        errors: Errors<E>,
        report: &mut Report<'_>,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<Outcome<R>, NoResponse<E>> {
        let mut handler = Some(handler);
        let mut ran: Option<Ran<R, E>> = None;
        // When the last claim was sent whose lease is renewed.
        let mut claimed = None;
        // The call of a run whose lease is renewed, or whose steps are undone. Its time decides until when the lease lasts.
        let mut open = None;
        let mut reasons = Reasons::default();
        let mut guard = self.backend.single_flight().guard(&self.call);
        let (mut attempt, mut effect) = Attempt::begin(Arc::clone(&self.call));
        // Read again after each effect that takes time.
        let mut now = self.began;
        loop {
            let takes_time = !matches!(
                effect,
                Effect::CheckLocal | Effect::CheckInFlight | Effect::CheckCircuit(_)
            );
            let input = match effect {
                Effect::CheckLocal => match self.cached() {
                    Some(cached) => Input::Local(Some(cached)),
                    None => guard.join(InFlight::of(&self.call, now)),
                },
                Effect::CheckInFlight => guard.join(InFlight::of(&self.call, now)),
                Effect::AwaitLeader(at_most) => {
                    guard
                        .wait(&mut || self.backend.clock().sleep(at_most))
                        .await
                }
                Effect::CheckCircuit(at_most) => self.ask_breaker(now, at_most, report),
                Effect::Write(ref write, ref condition) => {
                    if ran.is_none() && matches!(self.call.lease, Lease::Renewed { .. }) {
                        claimed = Some(SentAt::read(self.backend.clock(), || self.now()));
                    }
                    let request = StoreRequest::write(&self.call.id, write, condition);
                    let limit = attempt.time_limit(now);
                    let end = send(self.backend, request, limit, report).await;
                    Input::Written(reasons.written(self.backend, end))
                }
                Effect::Transact(ref write, ref condition) => {
                    let record = RecordWrite {
                        id: &self.call.id,
                        write,
                        condition,
                    };
                    let token = transaction_token(&self.call.owner, write);
                    let staged = ran.as_ref().and_then(|ran| ran.staged.as_ref());
                    let request = staged.map_or(StoreRequest::Write(record), |staged| {
                        StoreRequest::Transact(TransactionRequest {
                            record: Some(record),
                            staged,
                            token: &token,
                        })
                    });
                    let limit = attempt.time_limit(now);
                    let end = send(self.backend, request, limit, report).await;
                    Input::Written(reasons.written(self.backend, end))
                }
                Effect::Read(consistency) => {
                    let request = StoreRequest::Read(&self.call.id, consistency);
                    let limit = attempt.time_limit(now);
                    let end = send(self.backend, request, limit, report).await;
                    let input = reasons.read(self.backend, end);
                    // The claim follows, if there is time. If it fails too, its own error is the cause.
                    if consistency == Consistency::Eventual
                        && let Some(error) = reasons.error.take()
                    {
                        report.note(format!("the read before the claim failed: {error}"));
                    }
                    input
                }
                Effect::Pause(at_most) => {
                    if ran.is_none() {
                        // Earlier errors did not end the wait. Only the last read explains why it ended.
                        reasons.error = None;
                    }
                    let pause = self.backend.jitter(at_most);
                    self.backend.clock().sleep(pause).await;
                    Input::Paused
                }
                Effect::Run | Effect::RunUnprotected { .. } => {
                    let handler = self.only_run(&mut handler).map_err(NoResponse::Refused)?;
                    let (call, handler) = self.start(&attempt, handler, &mut reasons, report);
                    // Boxed, so that the future of every other call stays small.
                    let renewal = attempt.renewal().zip(claimed).map(Box::new);
                    let is_renewed = renewal.is_some();
                    let mut output = match renewal {
                        None => handler::output_of(&call, handler, report).await,
                        Some(renewal) => {
                            let renewing = Renewing::new(&call, &mut attempt, &mut guard, report);
                            let (renewal, claimed) = *renewal;
                            Box::pin(renewing.output_of(renewal, claimed, handler)).await
                        }
                    };
                    if call.undoes_unrecorded(matches!(output, Ok(Ok(_))))
                        // Boxed, so that the future of every other call stays small.
                        && let Err(error) = Box::pin(call.undo_all(self.key_prefix, Some(report))).await
                    {
                        output = Ok(Err(errors.convert(error)));
                    }
                    let unclaimed = Effect::RunUnprotected {
                        maybe_claimed: false,
                    };
                    let is_stored = effect != unclaimed;
                    let (end, left) = self.end_run(&call, output, is_stored, errors, report);
                    ran = Some(left);
                    if is_renewed || end.undo.is_some() {
                        open = Some(call);
                    }
                    Input::HandlerEnded(end)
                }
                Effect::Undo(ref step) => {
                    let Some(call) = &open else {
                        return Err(NoResponse::Refused(self.contradiction(true)));
                    };
                    // Boxed, as above.
                    let end = match attempt.renewal() {
                        None => Box::pin(call.undo(step)).await,
                        Some(renewal) => {
                            let renewing = Renewing::new(call, &mut attempt, &mut guard, report);
                            Box::pin(renewing.undo(renewal, step)).await
                        }
                    };
                    if end == UndoEnd::Undone {
                        report.undid();
                    }
                    Input::Undone(end)
                }
                Effect::Finish(end) => {
                    // Fill the cache before leaving single flight, so that no duplicate can miss both.
                    self.remember(&end);
                    guard.finish(end.confirmed_record());
                    return self.finish(end, ran, errors, reasons, report);
                }
            };
            if takes_time {
                now = self.time(open.as_ref());
            }
            if let Some(health) = attempt.store_health(&input) {
                self.tell_breaker(now, health, report);
            }
            if attempt.outlives_lease(now, &input) {
                report.note(OUTLIVED);
            }
            (attempt, effect) = attempt.step(now, input);
            // An open transaction that does not commit is rolled back before the next request: it may hold the only connection, and locks.
            if let Some(ran) = &mut ran
                && !matches!(effect, Effect::Transact(..))
            {
                ran.staged.take_if(|it| it.commits() == Commits::Once);
            }
            if let Some(in_flight) = attempt.in_flight() {
                guard.publish(in_flight, now);
            }
        }
    }

    pub(super) fn now(&self) -> EpochMillis {
        self.backend.clock().now()
    }

    /// Returns the time of the call. After a run whose lease is renewed it is that of the run (`open`): the wall clock may have been set back.
    fn time(&self, open: Option<&OpenCall>) -> EpochMillis {
        open.map_or_else(|| self.now(), OpenCall::now)
    }

    /// Returns the record of the key in the local cache.
    fn cached(&self) -> Option<Record> {
        self.cache?;
        self.backend.cache().find(self.key_prefix, &self.call.id)
    }

    /// Asks the circuit breaker whether the call may ask the store.
    fn ask_breaker(&self, now: EpochMillis, at_most: Duration, report: &mut Report<'_>) -> Input {
        let admission = self.backend.breaker().admit(now, at_most);
        if let Admission::Open { until } = admission {
            report.circuit_open(until);
        }
        Input::Circuit(admission)
    }

    /// Tells the circuit breaker what a request has shown of the store.
    fn tell_breaker(&self, now: EpochMillis, health: StoreHealth, report: &mut Report<'_>) {
        let mut breaker = self.backend.breaker();
        if breaker.take(now, health) {
            report.circuit(match breaker.circuit() {
                Circuit::Closed => CircuitChange::Closed,
                Circuit::Open | Circuit::HalfOpen => CircuitChange::Opened,
            });
        }
    }

    /// Takes the handler for its run. The protocol asks for one run only; if it asked again, the call would fail instead of running the
    /// handler a second time.
    fn only_run<H>(&self, handler: &mut Option<H>) -> Result<H, Error> {
        handler.take().ok_or_else(|| self.contradiction(true))
    }
}

/// The branches that the protocol never takes, and a response type that panics.
#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::error::ErrorKind;
    use crate::example::shared::{self, kind_and_run};
    use crate::example::{self, Fixed};
    use crate::future::BoxFuture;
    use crate::operation::CompiledOperation;
    use crate::protocol::{CallEnd, ClaimEnd, Refusal, RefusalDetail};
    use crate::random::{Random, RandomError};
    use crate::record::{RecordId, Status};
    use crate::store::{MemoryStore, StoreError, StoreErrorKind};
    use crate::time::{Clock, EpochMillis};

    fn driver<R>(backend: &Backend, codec: Codec<R>) -> Driver<'_, R> {
        Driver {
            backend,
            key_prefix: "charge",
            shares_prefix: false,
            cache: None,
            store_when: StoreWhen {
                expression: None,
                memory_limit: 0,
            },
            call: Arc::new(example::call()),
            codec,
            began: EpochMillis::new(0),
        }
    }

    /// Returns the error of a call without a run that ends in this way.
    fn refused(end: CallEnd, reasons: Reasons) -> Error {
        let (backend, mut report) = (example::backend(), Report::new("charge", None, &Fixed));
        let driver = driver(&backend, Codec::<u32>::json());
        let errors = Errors::new(|error| error);
        match driver.finish::<Error>(end, None, errors, reasons, &mut report) {
            Err(NoResponse::Refused(error)) => error,
            _ => panic!("there is no result without a run"),
        }
    }

    #[test]
    fn a_second_run_is_an_internal_error_after_the_handler() {
        let backend = example::backend();
        let driver = driver(&backend, Codec::<u32>::json());
        let mut handler = Some(|| ());
        assert!(driver.only_run(&mut handler).is_ok());
        let Err(error) = driver.only_run(&mut handler) else {
            panic!("the handler must not run twice");
        };
        assert_eq!(kind_and_run(&error), (ErrorKind::Internal, true));
        assert!(!error.kind().is_retryable());
    }

    #[test]
    fn a_result_without_a_run_is_an_internal_error_before_the_handler() {
        let end = CallEnd::own(Some(ClaimEnd::Released));
        let error = refused(end, Reasons::default());
        assert_eq!(kind_and_run(&error), (ErrorKind::Internal, false));
        assert!(!error.kind().is_retryable());
    }

    #[test]
    fn a_response_type_whose_deserialize_panics_completes_the_key_without_a_response() {
        let codec = Codec::<u32>::new(Codec::json().write, |_| panic!("in the response type"));
        let store = Arc::new(MemoryStore::new());
        let backend = example::backend_over(store.clone());
        let mut report = Report::new("charge", None, &Fixed);
        let call = driver(&backend, codec);
        let call = call.drive(Errors::new(|error| error), &mut report, |_| async {
            Ok::<_, Error>(42)
        });
        let Poll::Ready(Ok(outcome)) = pin!(call).poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("its own caller must get the response");
        };
        assert_eq!(*outcome.response(), 42);
        let record = store.record(&RecordId::new("a#1")).unwrap_or_default();
        assert_eq!(record.status.value(), Some(&Status::Completed));
        assert!(!record.data.exists());
    }

    /// A clock that the handler moves, in milliseconds.
    #[derive(Default)]
    struct Moved(AtomicI64);

    impl Clock for Moved {
        fn now(&self) -> EpochMillis {
            EpochMillis::new(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// A random source that takes five seconds.
    struct SlowRandom(Arc<Moved>);

    impl Random for SlowRandom {
        fn bytes(&self) -> Result<[u8; 16], RandomError> {
            self.0.0.fetch_add(5_000, Ordering::Relaxed);
            Ok([7; 16])
        }
    }

    #[test]
    fn a_call_begins_when_the_random_source_has_replied() {
        let (clock, store) = (Arc::new(Moved::default()), Arc::new(MemoryStore::new()));
        let backend = Backend::new(store, clock.clone(), Arc::new(SlowRandom(clock)));
        let settings = shared::settings(|it| it.lease = Some(Duration::from_secs(30)));
        let operation =
            CompiledOperation::new("shop::pay", &settings, &Default::default()).unwrap();
        let left = async |call: Call| Ok(call.time_left().unwrap().as_secs().to_string());
        let run = shared::run(&backend, &operation, "1", left);
        assert_eq!(example::ready(run).unwrap().into_response(), "30");
    }

    #[test]
    fn a_run_that_outlives_its_lease_is_noted_with_what_to_set() {
        for (takes, noted) in [(900_000, None), (900_001, Some(OUTLIVED))] {
            let (clock, store) = (Arc::new(Moved::default()), Arc::new(MemoryStore::new()));
            let backend = Backend::new(store, clock.clone(), Arc::new(Fixed));
            let mut report = Report::new("charge", None, &Fixed);
            let call = driver(&backend, Codec::<u32>::json());
            let call = call.drive(Errors::new(|error| error), &mut report, |_| async {
                clock.0.store(takes, Ordering::Relaxed);
                Ok::<_, Error>(42)
            });
            assert!(example::ready(call).is_ok());
            assert_eq!(report.notes(), noted);
        }
    }

    #[test]
    fn a_refused_window_is_noted_unless_a_later_one_is_accepted() {
        let refused = "the handler asked for a window that the operation does not allow: its response is kept for the window of the \
                       operation";
        for (windows, noted) in [
            (&[0][..], Some(refused)),
            (&[60, 0], Some(refused)),
            (&[0, 60], None),
            (&[60], None),
        ] {
            let backend = example::backend_over(Arc::new(MemoryStore::new()));
            let mut report = Report::new("charge", None, &Fixed);
            let call = driver(&backend, Codec::<u32>::json());
            let call = call.drive(Errors::new(|error| error), &mut report, async |call| {
                for window in windows {
                    // A handler can ignore the error.
                    drop(call.expires_after(Duration::from_secs(*window)));
                }
                Ok::<_, Error>(42)
            });
            assert!(example::ready(call).is_ok());
            assert_eq!(report.notes(), noted, "{windows:?}");
        }
    }

    #[test]
    fn the_error_of_a_refusal_has_its_detail_and_for_a_failed_store_its_cause() {
        use ErrorKind::{
            AlreadyInProgress, CompletionUnknown, Contended, CorruptRecord, PayloadMismatch,
            StoreFailed,
        };
        let end = RefusalDetail::LeaseEnd(EpochMillis::new(30_000));
        let defect = RefusalDetail::Defect("the response is missing");
        let throttled = StoreErrorKind::Throttled;
        let cause = || Some(StoreError::new(throttled, "too many requests"));
        let (later, missing) = ("retry later", "the response is missing");
        let (lease, busy) = (
            "retry later; its lease ends at 1970-01-01T00:00:30.000Z",
            "too many requests",
        );
        for (kind, detail, store_error, text) in [
            (AlreadyInProgress, Some(end.clone()), None, Some(lease)),
            (AlreadyInProgress, None, cause(), Some(later)),
            (CorruptRecord, Some(defect), cause(), Some(missing)),
            (StoreFailed, None, cause(), Some(busy)),
            (CompletionUnknown, None, cause(), Some(busy)),
            (StoreFailed, None, None, None),
            (Contended, None, None, Some("retry")),
            (PayloadMismatch, None, cause(), None),
        ] {
            let reasons = Reasons {
                error: store_error,
                ..Reasons::default()
            };
            let lease_end = (detail == Some(end.clone())).then_some(EpochMillis::new(30_000));
            let error = refused(CallEnd::refused(Refusal { kind, detail }), reasons);
            assert_eq!((error.kind(), error.detail()), (kind, text));
            assert_eq!(error.lease_end(), lease_end);
            assert_eq!(error.key(), Some(&RecordId::new("a#1")));
        }
    }
}

//! The driver: performs the effects that the protocol asks for, and feeds their results back.
//!
//! It makes no decision. The decisions are in [`protocol`](crate::protocol).

use std::sync::Arc;

use super::call::{Call, OpenCall};
use super::handler::{self, HandlerOutput, StoreWhen};
use super::request::{Reasons, send};
use super::{Backend, Codec, Errors};
use crate::cache::CacheLimits;
use crate::error::Error;
use crate::event::{CircuitChange, Report};
use crate::outcome::{NoResponse, Outcome};
use crate::protocol::{
    Admission, Attempt, CallTerms, Circuit, Effect, HandlerEnd, HandlerResult, InFlight, Input,
    Run, StagedEnd, transaction_token,
};
use crate::store::{Consistency, RecordWrite, Staged, StoreRequest, TransactionRequest};

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
        let mut output: Option<HandlerOutput<R, E>> = None;
        let mut reasons = Reasons::default();
        let mut staged: Option<Staged> = None;
        let mut refused = None;
        let mut guard = self.backend.single_flight().guard(&self.call);
        let (mut attempt, mut effect) = Attempt::begin(Arc::clone(&self.call));
        loop {
            let input = match effect {
                Effect::CheckLocal | Effect::CheckInFlight => {
                    let uses_cache = effect == Effect::CheckLocal && self.cache.is_some();
                    let find = || self.backend.cache().find(self.key_prefix, &self.call.id);
                    match uses_cache.then(find).flatten() {
                        Some(cached) => Input::Local(Some(cached)),
                        None => guard.join(InFlight::of(&self.call, self.backend.clock().now())),
                    }
                }
                Effect::AwaitLeader(at_most) => {
                    guard.wait(|| self.backend.clock().sleep(at_most)).await
                }
                Effect::CheckCircuit(at_most) => {
                    let now = self.backend.clock().now();
                    let admission = self.backend.breaker().admit(now, at_most);
                    if let Admission::Open { until } = admission {
                        report.circuit_open(until);
                    }
                    Input::Circuit(admission)
                }
                Effect::Write(ref write, ref condition)
                | Effect::Transact(ref write, ref condition) => {
                    let limit = attempt.time_limit(self.backend.clock().now());
                    let record = RecordWrite {
                        id: &self.call.id,
                        write,
                        condition,
                    };
                    let token;
                    let request = match (&effect, &staged) {
                        (Effect::Transact(..), Some(staged)) => {
                            token = transaction_token(&self.call.owner, write);
                            StoreRequest::Transact(TransactionRequest {
                                record: Some(record),
                                staged,
                                token: &token,
                            })
                        }
                        _ => StoreRequest::Write(record),
                    };
                    let end = send(self.backend, request, limit, report).await;
                    Input::Written(reasons.written(self.backend, end))
                }
                Effect::Read(consistency) => {
                    let limit = attempt.time_limit(self.backend.clock().now());
                    let request = StoreRequest::Read(&self.call.id, consistency);
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
                    if output.is_none() {
                        // Earlier errors did not end the wait. Only the last read explains why it ended.
                        reasons.error = None;
                    }
                    let pause = self.backend.jitter(at_most);
                    self.backend.clock().sleep(pause).await;
                    Input::Paused
                }
                Effect::Run | Effect::RunUnprotected { .. } => {
                    let handler = self.only_run(&mut handler).map_err(NoResponse::Refused)?;
                    // The errors before the run do not explain its end.
                    let error = reasons.error.take();
                    let run = attempt.run().unwrap_or(Run::Unknown);
                    let call = match run {
                        Run::Unprotected => Call::unclaimed(self.backend, &self.call),
                        run => Call::under_claim(self.backend, &self.call, run, attempt.steps()),
                    };
                    let call = OpenCall::new(call);
                    call.lasts_until(attempt.lease_end());
                    let handler = call.enter(|| handler(call.handle()));
                    match run {
                        Run::Rerun { .. } => report.took_over(),
                        Run::Unprotected => report.runs_unprotected(error.as_ref()),
                        Run::First | Run::Unknown => {}
                    }
                    let ended = handler::output_of(&call, handler, report).await;
                    let closed = call.end();
                    (staged, refused) = (closed.staged, closed.refused);
                    let is_stored = effect
                        != Effect::RunUnprotected {
                            maybe_claimed: false,
                        };
                    let result = if is_stored {
                        handler::result_of(&ended, self.codec, errors, &self.store_when, report)
                    } else {
                        HandlerResult::NotStored
                    };
                    report_staged(staged.as_ref(), &result, &ended, report);
                    let returned = matches!(result, HandlerResult::Returned(_));
                    let steps = call.steps();
                    output = Some(ended);
                    Input::HandlerEnded(HandlerEnd {
                        result,
                        steps: steps.and_then(|steps| steps.report(returned, report)),
                        staged: staged.is_some(),
                        refused: refused.is_some(),
                    })
                }
                Effect::Finish(end) => {
                    // Fill the cache before leaving single flight, so that no duplicate can miss both.
                    self.remember(&end);
                    guard.finish(end.confirmed_record());
                    reasons.refused_write = refused;
                    return self.finish(end, output, errors, reasons, report);
                }
            };
            let now = self.backend.clock().now();
            if let Some(health) = attempt.store_health(&input) {
                let mut breaker = self.backend.breaker();
                if breaker.take(now, health) {
                    report.circuit(match breaker.circuit() {
                        Circuit::Closed => CircuitChange::Closed,
                        Circuit::Open | Circuit::HalfOpen => CircuitChange::Opened,
                    });
                }
            }
            (attempt, effect) = attempt.step(now, input);
            if let Some(in_flight) = attempt.in_flight() {
                guard.publish(in_flight, now);
            }
        }
    }

    /// Takes the handler for its run. The protocol asks for one run only; if it asked again, the call would fail instead of running the
    /// handler a second time.
    fn only_run<H>(&self, handler: &mut Option<H>) -> Result<H, Error> {
        handler.take().ok_or_else(|| self.contradiction(true))
    }
}

/// Reports what is known of the staged writes when the handler has ended, because the call can be dropped before its own end.
fn report_staged<R, E>(
    staged: Option<&Staged>,
    result: &HandlerResult,
    output: &HandlerOutput<R, E>,
    report: &mut Report<'_>,
) {
    match (staged, result, output) {
        (None, ..) => {}
        (Some(staged), HandlerResult::NotStored | HandlerResult::Unreported(_), Ok(Ok(_))) => {
            report.drops(staged)
        }
        _ => report.staged(StagedEnd::Unknown),
    }
}

/// The branches that the protocol never takes, and a response type that panics.
#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::error::ErrorKind;
    use crate::example::shared::kind_and_run;
    use crate::example::{self, Fixed};
    use crate::protocol::{CallEnd, ClaimEnd, Refusal, RefusalDetail};
    use crate::record::{RecordId, Status};
    use crate::store::{MemoryStore, StoreError, StoreErrorKind};
    use crate::time::EpochMillis;

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

    #[test]
    fn the_error_of_a_refusal_has_its_detail_and_for_a_failed_store_its_cause() {
        use ErrorKind::{
            AlreadyInProgress, CompletionUnknown, CorruptRecord, PayloadMismatch, StoreFailed,
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
            (AlreadyInProgress, Some(end), None, Some(lease)),
            (AlreadyInProgress, None, cause(), Some(later)),
            (CorruptRecord, Some(defect), cause(), Some(missing)),
            (StoreFailed, None, cause(), Some(busy)),
            (CompletionUnknown, None, cause(), Some(busy)),
            (StoreFailed, None, None, None),
            (PayloadMismatch, None, cause(), None),
        ] {
            let reasons = Reasons {
                error: store_error,
                ..Reasons::default()
            };
            let error = refused(CallEnd::refused(Refusal { kind, detail }), reasons);
            assert_eq!((error.kind(), error.detail()), (kind, text));
            let lease_end = (detail == Some(end)).then_some(EpochMillis::new(30_000));
            assert_eq!(error.lease_end(), lease_end);
            assert_eq!(error.key(), Some(&RecordId::new("a#1")));
        }
    }
}

//! The steps of a call: each runs once for its key, and a later run uses its recorded result.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::undo::{Undo, UndoableResult};
use super::{Call, OpenCall, Token};
use crate::engine::proof;
use crate::engine::request::{Reasons, resend};
use crate::error::{Error, ErrorKind};
use crate::event::{Meter, Report};
use crate::protocol::{
    CallTerms, HandlerUndo, StepEnd, StepLedger, StepRefusal, StepRetry, StepStart, StepWrite,
};
use crate::record::Data;
use crate::store::{StoreError, StoreRequest};
use crate::time::EpochMillis;
use crate::typed;

pub use self::undo::UndoableStep;

mod undo;

/// The steps of a run.
pub(super) struct Steps(Mutex<State>);

struct State {
    ledger: StepLedger,
    /// How the steps of the run are undone, in the order in which their results came.
    undos: Vec<UndoableResult>,
    /// The number of requests to the store, and the time that they took.
    requests: u32,
    store_time: Duration,
}

/// The facts about the steps of a run that the end of its call needs.
pub(crate) struct StepsSummary {
    /// Their worst end. `None` if no step was run.
    end: Option<StepEnd>,
    undo: Option<HandlerUndo>,
    /// The names of recorded steps that the handler did not ask for.
    unused: Vec<String>,
    requests: u32,
    store_time: Duration,
}

impl StepsSummary {
    /// Reports the requests of the steps, and returns their worst end, and what it says of undoing. If the handler returned a response
    /// (`returned`), also reports the recorded steps that it did not ask for.
    pub(crate) fn report(
        self,
        returned: bool,
        report: &mut Report<'_>,
    ) -> (Option<StepEnd>, Option<HandlerUndo>) {
        report.add_store_requests(self.requests, self.store_time);
        if returned && !self.unused.is_empty() {
            let names = self.unused.join("`, `");
            report.note(format!(
                "earlier runs recorded steps that this one did not ask for: `{names}`"
            ));
        }
        (self.end, self.undo)
    }
}

/// Counts the requests of one step.
struct Counter<'a> {
    call: &'a Call,
    steps: &'a Steps,
    begun: EpochMillis,
}

impl Meter for Counter<'_> {
    fn request_started(&mut self) {
        self.begun = self.call.now();
    }

    fn request_ended(&mut self) {
        let mut state = self.steps.state();
        state.requests += 1;
        state.store_time += self.begun.until(self.call.now());
    }
}

impl Steps {
    /// Returns the steps of a run that begins with these recorded steps. Without a confirmed claim none is recorded.
    pub(super) fn new(ledger: StepLedger) -> Self {
        Self(Mutex::new(State {
            ledger,
            undos: Vec::new(),
            requests: 0,
            store_time: Duration::ZERO,
        }))
    }

    pub(super) fn summary(&self) -> StepsSummary {
        let state = self.state();
        StepsSummary {
            end: state.ledger.end(),
            undo: state.ledger.undo(),
            unused: state.ledger.unused().map(str::to_owned).collect(),
            requests: state.requests,
            store_time: state.store_time,
        }
    }

    /// Returns true if a step is open.
    pub(super) fn has_open(&self) -> bool {
        self.state().ledger.has_open()
    }

    /// Notes that a write of the run was refused when it was staged.
    pub(super) fn refuse(&self) {
        self.state().ledger.refuse();
    }

    /// Notes that the handler has begun a transaction, or that it was rolled back.
    pub(super) fn transacts(&self, in_transaction: bool) {
        self.state().ledger.transacts(in_transaction);
    }

    /// Notes that the handler has ended: no step starts any more.
    pub(super) fn close(&self) {
        self.state().ledger.close();
    }

    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step that runs. If its future is dropped, it ends without a record: its effect may have happened.
struct OpenStep<'a>(&'a Steps);

impl OpenStep<'_> {
    fn ends(self, note: impl FnOnce(&mut State)) {
        note(&mut self.0.state());
        std::mem::forget(self);
    }
}

impl Drop for OpenStep<'_> {
    fn drop(&mut self) {
        self.0.state().ledger.recorded(StepEnd::NotRecorded);
    }
}

/// A step of a call, before it runs. [`Call::named_step`] makes it.
///
/// # Examples
///
/// ```
/// # use idempotency_core::{error::Error, operation::{Call, StepRetry}};
/// async fn charge(call: &Call, amount: u64) -> Result<String, Error> {
///     let step = call.named_step("charge").retry(StepRetry::tries(3));
///     let token = step.token();
///     step.run(|| provider(amount, token.as_str())).await
/// }
/// # async fn provider(_: u64, token: &str) -> Result<String, Error> { Ok(token.to_owned()) }
/// # let call = Call::unprotected(&idempotency_core::example::backend()).unwrap();
/// # assert!(idempotency_core::example::ready(charge(&call, 7)).is_ok());
/// ```
#[derive(Clone, Debug)]
#[must_use = "a step does nothing until it is run"]
pub struct Step<'a> {
    call: &'a Call,
    name: &'a str,
    retry: StepRetry,
}

impl<'a> Step<'a> {
    /// Sets how often the step is tried in one run, if it returns an error. The default is once.
    ///
    /// A step that is tried again must contain no other step: the second try would use its name twice, which is refused.
    ///
    /// It is not tried again after the lease has expired, after a step found that the claim is gone, or after the handler has ended.
    pub fn retry(self, retry: StepRetry) -> Self {
        Self { retry, ..self }
    }

    /// Returns the token of this step: [`Call::token`] with its name. It is the same in each try and in every run of the key.
    pub fn token(&self) -> Token {
        self.call.token(self.name)
    }

    /// Runs the step, or returns the result that an earlier run recorded. [`Call::step`] says when and how.
    ///
    /// # Errors
    ///
    /// The errors of [`Call::step`]. If every try fails, the error of the step itself is that of the last try.
    pub async fn run<T, E, F>(self, work: impl FnMut() -> F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        self.run_undoable(None, work).await
    }

    /// Runs the step, and notes how it is undone.
    async fn run_undoable<T, E, F>(
        self,
        undo: Option<Undo>,
        mut work: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let (call, retry) = (self.call, self.retry);
        let tried = async {
            let mut tries = 1;
            loop {
                let error = match work().await {
                    Ok(result) => return Ok(result),
                    Err(error) => error,
                };
                let Some(pause) = call.pause(retry, tries) else {
                    return Err(error);
                };
                let backend = &call.0.backend;
                backend.clock().sleep(backend.jitter(pause)).await;
                // The handler may have ended in the pause, or another step may have found that the claim is gone.
                if !call.may_try_again() {
                    return Err(error);
                }
                tries += 1;
            }
        };
        call.recorded_or_run(self.name, undo, tried).await
    }
}

impl Call {
    /// Runs a step once for this key: its result is recorded, and a later run of the key gets the recorded result instead.
    ///
    /// The result is stored in the record of the key, as JSON, before this returns. A run after a kill, a timeout or a takeover
    /// goes on after the last recorded step; so does a retry after a failure, under `steps = "keep"`. The end of the window deletes
    /// the results.
    ///
    /// A limit remains: after a kill between the effect of a step and its record, that one step runs again. If the effect is at a
    /// provider that knows idempotency keys, give the provider [`token`](Self::token). If it is in the database
    /// of the records, use a transaction.
    ///
    /// - The operation needs `steps = "keep"` or `steps = "forget"`.
    /// - A name is used once in a run, and has at most 128 bytes. It must be the same in every run and every version of the code: a
    ///   recorded step whose name the code no longer uses is ignored, with a note in the outcome event.
    /// - Every run, the first one too, gets the result as it reads back from its JSON. All results of a key must fit one record
    ///   of the store.
    /// - In a run without protection, or without a confirmed claim, nothing is recorded: the step runs.
    ///
    /// # Errors
    ///
    /// The error of the step itself; then nothing is recorded, and a later run runs it again. Otherwise an error of this framework,
    /// after which the handler should return:
    ///
    /// - [`StepRefused`](ErrorKind::StepRefused): the name was used before, or the operation has no steps, or the handler has
    ///   ended. The step did not run.
    /// - [`StepNoTimeLeft`](ErrorKind::StepNoTimeLeft): the lease of the claim has expired. The step did not run.
    /// - [`StepNotRecorded`](ErrorKind::StepNotRecorded): the step ran, and its result is not recorded, or may not be.
    /// - [`StepTypeChanged`](ErrorKind::StepTypeChanged): the recorded result is not of type `T`. The step did not run.
    /// - [`LostOwnership`](ErrorKind::LostOwnership): the claim was taken over or evicted. The call ends in the response of the other
    ///   call, or in this error. What the handler returns is not used.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{error::Error, operation::Call};
    /// async fn place(call: Call) -> Result<String, Error> {
    ///     let reservation: u64 = call.step("reserve", || async { Ok::<_, Error>(7) }).await?;
    ///     let parcel = call.step("ship", || async move { Ok::<_, Error>(format!("parcel of {reservation}")) });
    ///     parcel.await
    /// }
    /// # let call = Call::unprotected(&idempotency_core::example::backend()).unwrap();
    /// # assert_eq!(idempotency_core::example::ready(place(call)).unwrap(), "parcel of 7");
    /// ```
    pub async fn step<T, E, F>(&self, name: &str, work: impl FnOnce() -> F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        self.recorded_or_run(name, None, async { work().await })
            .await
    }

    /// Returns a step with a retry policy of its own, or with its own token. [`Step::run`] runs it, as [`step`](Self::step) does.
    pub fn named_step<'a>(&'a self, name: &'a str) -> Step<'a> {
        Step {
            call: self,
            name,
            retry: StepRetry::default(),
        }
    }

    /// Returns the upper bound of the pause after so many tries of a step. `None` if it is not tried again.
    fn pause(&self, retry: StepRetry, tries: u32) -> Option<Duration> {
        let lease = self.claim().map(|terms| terms.lease);
        retry.pause(tries, self.time_left(), lease)
    }

    /// Returns true if the run may still begin an effect.
    fn may_try_again(&self) -> bool {
        let steps = self.0.steps.as_ref();
        steps.is_some_and(|steps| {
            let refusal = steps.state().ledger.refusal(self.now(), self.lease_end());
            refusal.is_none()
        })
    }

    /// Returns the recorded result of a step, or runs `work` and records its result.
    async fn recorded_or_run<T, E>(
        &self,
        name: &str,
        undo: Option<Undo>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let Some(steps) = &self.0.steps else {
            let remedy = "set `steps = \"keep\"`, or `steps = \"forget\"`";
            let detail = format!("the operation has no steps: {remedy}");
            let error = self.step_error(ErrorKind::StepRefused, name, &detail);
            return Err(error.into());
        };
        let start = {
            let ledger = &mut steps.state().ledger;
            let start = ledger.start(self.now(), self.lease_end(), name);
            if undo.is_some() && matches!(start, StepStart::Recorded(_)) {
                ledger.reads(name);
            }
            start
        };
        match start {
            StepStart::Run => {}
            StepStart::Recorded(recorded) => {
                let result = self.read_result(name, &recorded)?;
                if let Some(undo) = undo {
                    steps.state().can_undo(name, undo, recorded);
                }
                return Ok(result);
            }
            StepStart::Refused(refusal) => return Err(self.refused(name, refusal).into()),
        }
        let open = OpenStep(steps);
        let result = match work.await {
            Ok(result) => result,
            Err(error) => {
                open.ends(|state| state.ledger.failed());
                return Err(error);
            }
        };
        let not_recorded = |open: OpenStep<'_>, why| {
            open.ends(|state| state.ledger.recorded(StepEnd::NotRecorded));
            self.step_error(ErrorKind::StepNotRecorded, name, why)
        };
        if !steps.state().ledger.records() {
            let why = "a write was refused when it was staged: stage before the step, or after it with its result";
            return Err(not_recorded(open, why).into());
        }
        let (Some(terms), Some(lease_end)) = (self.claim(), self.lease_end()) else {
            let Some(undo) = undo else {
                open.ends(|state| state.ledger.failed());
                return Ok(result);
            };
            return match through_json(result) {
                Ok((result, text)) => {
                    open.ends(|state| {
                        state.ledger.failed();
                        state.can_undo(name, undo, Data::of_json(text));
                    });
                    Ok(result)
                }
                // It had its effect, and nothing can undo it.
                Err(defect) => Err(not_recorded(open, defect).into()),
            };
        };
        let (result, text) = match through_json(result) {
            Ok(both) => both,
            Err(defect) => return Err(not_recorded(open, defect).into()),
        };
        let data = Data::of_json(text);
        let fits = steps.state().ledger.reserve(&data);
        let (end, cause) = if fits {
            self.record(terms, lease_end, steps, name, &data).await
        } else {
            (StepEnd::TooLarge, None)
        };
        // At once: the handler can end while a step that it spawned ends.
        open.ends(|state| {
            state.ledger.recorded(end);
            if let Some(undo) = undo.filter(|_| end == StepEnd::Recorded) {
                state.can_undo(name, undo, data);
            }
        });
        self.check_end(name, end, cause)?;
        Ok(result)
    }

    /// Records the result of a step that has run.
    async fn record(
        &self,
        terms: &CallTerms,
        lease_end: EpochMillis,
        steps: &Steps,
        name: &str,
        result: &Data,
    ) -> (StepEnd, Option<StoreError>) {
        let machine = StepWrite::begin(terms, lease_end, name, result);
        let (write, condition) = (machine.write().clone(), machine.condition());
        let request = StoreRequest::write(&terms.id, &write, &condition);
        let mut counter = Counter {
            call: self,
            steps,
            begun: self.now(),
        };
        let mut reasons = Reasons::default();
        let backend = &self.0.backend;
        let now = || self.now();
        let end = resend(backend, now, request, machine, &mut reasons, &mut counter).await;
        (end, reasons.error)
    }

    fn check_end(&self, name: &str, end: StepEnd, cause: Option<StoreError>) -> Result<(), Error> {
        let (kind, detail) = match end {
            StepEnd::Recorded => return Ok(()),
            StepEnd::ClaimLost => (ErrorKind::LostOwnership, "its result was not recorded"),
            StepEnd::TooLarge => (
                ErrorKind::StepNotRecorded,
                "the record would be too large: return less from the step, or a reference",
            ),
            StepEnd::NotRecorded => (ErrorKind::StepNotRecorded, "the store did not confirm it"),
        };
        let error = match cause {
            Some(cause) if end != StepEnd::ClaimLost => {
                let detail = format!("{detail}: {cause}");
                self.step_error(kind, name, &detail).with_source(cause)
            }
            _ => self.step_error(kind, name, detail),
        };
        Err(error)
    }

    fn refused(&self, name: &str, refusal: StepRefusal) -> Error {
        let (kind, detail) = match refusal {
            StepRefusal::SameName => (
                ErrorKind::StepRefused,
                "the run used this name before: give each step a name of its own",
            ),
            StepRefusal::NameLength => {
                let detail = "a name has at least 1 byte and at most 128";
                // The name itself may be long.
                return self.error_of(ErrorKind::StepRefused).with_detail(detail);
            }
            StepRefusal::LeaseExpired => (ErrorKind::StepNoTimeLeft, "it did not run"),
            StepRefusal::ClaimLost => (ErrorKind::LostOwnership, "it did not run"),
            StepRefusal::WriteRefused => (
                ErrorKind::StepRefused,
                "a write of this call was refused when it was staged, so the call cannot complete: return the error of the write",
            ),
            StepRefusal::InTransaction => (
                ErrorKind::StepRefused,
                "a transaction of this call is open, and the result of the step would stay although it is rolled back: run the step \
                 before the transaction is begun",
            ),
            StepRefusal::HandlerEnded => (
                ErrorKind::StepRefused,
                "the handler has ended, so nothing can be recorded",
            ),
            StepRefusal::Undoing => (
                ErrorKind::StepRefused,
                "the steps of this key are being undone, so no further step runs: return this error",
            ),
        };
        self.step_error(kind, name, detail)
    }

    fn read_result<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        result: &Data,
    ) -> Result<T, Error> {
        typed::read_checked(result.as_str()).map_err(|error| {
            // Type and place only: serde's own message may quote the result.
            let detail = format!("`{}`{}", std::any::type_name::<T>(), error.place());
            self.step_error(ErrorKind::StepTypeChanged, name, &detail)
        })
    }

    fn step_error(&self, kind: ErrorKind, name: &str, detail: &str) -> Error {
        self.error_of(kind)
            .with_detail(format!("step `{name}`: {detail}"))
    }
}

/// Returns the result as it reads back from its JSON, and the JSON.
///
/// Every run then sees the same result. The error says what is wrong with the type.
fn through_json<T: Serialize + DeserializeOwned>(result: T) -> Result<(T, String), &'static str> {
    let text = serde_json::to_string(&result)
        .map_err(|_| "its result cannot be written as JSON: correct the type's `Serialize`")?;
    if proof::of::<T>(&text) {
        return Ok((result, text));
    }
    let read = typed::read_checked(&text).map_err(
        |_| "its result cannot be read back from its own JSON: correct the type's `Serialize` or `Deserialize`",
    )?;
    Ok((read, text))
}

#[cfg(test)]
mod tests;

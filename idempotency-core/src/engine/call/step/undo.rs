//! How steps are undone: what the handler gives for each step, and how the engine runs it after the handler has ended.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Call, OpenCall, State, Step, StepRetry};
use crate::engine::call::Token;
use crate::error::{Error, ErrorKind};
use crate::event::Report;
use crate::future::BoxFuture;
use crate::protocol::UndoEnd;
use crate::record::Data;
use crate::typed;

/// The undo of a step, for the JSON of its result. `None` if the result is not of its type. An error is the name of its type.
type UndoOf =
    dyn Fn(&str, Token) -> Option<BoxFuture<'static, Result<(), &'static str>>> + Send + Sync;

/// How a step is undone.
pub(super) struct Undo {
    of: Arc<UndoOf>,
    retry: StepRetry,
}

/// A result of this run that can be undone.
pub(super) struct UndoableResult {
    step: String,
    result: Data,
    undo: Undo,
}

/// A step of a call that can be undone. [`Step::undo`] makes it.
#[must_use = "a step does nothing until it is run"]
pub struct UndoableStep<'a, T> {
    step: Step<'a>,
    undo: Undo,
    of: PhantomData<fn(T)>,
}

impl<'a> Step<'a> {
    /// Sets how the step is undone, if the handler ends in [`Call::undo`]: `undo` gets the recorded result of the step, and the
    /// token of the undo.
    ///
    /// It runs after the handler has ended, or after a later run of it, so it owns what it uses. It can run again after a kill or an
    /// error, with the same token, and then must change nothing more. The policy of [`retry`](Self::retry) is its policy too. It must
    /// contain no step, and stages nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{error::Error, operation::Call};
    /// async fn place(call: Call) -> Result<&'static str, Error> {
    ///     let reserve = call.named_step("reserve").undo(|reservation: u64, token| async move {
    ///         println!("release {reservation}, once for {token}");
    ///         Ok::<_, Error>(())
    ///     });
    ///     let reservation = reserve.run(|| async { Ok::<_, Error>(7) }).await?;
    ///     assert_eq!(reservation, 7);
    ///     Ok(call.undo("refused"))
    /// }
    /// # let call = Call::unprotected(&idempotency_core::example::backend()).unwrap();
    /// # assert_eq!(idempotency_core::example::ready(place(call)).unwrap(), "refused");
    /// ```
    pub fn undo<T, E, F>(
        self,
        undo: impl Fn(T, Token) -> F + Send + Sync + 'static,
    ) -> UndoableStep<'a, T>
    where
        T: Serialize + DeserializeOwned,
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let of = move |result: &str, token: Token| {
            let undone = undo(typed::read_checked(result).ok()?, token);
            // An error's text may quote the payload.
            let name = std::any::type_name::<E>();
            let undone = async move { undone.await.map_err(|_| name) };
            Some(Box::pin(undone) as BoxFuture<'static, _>)
        };
        let undo = Undo {
            of: Arc::new(of),
            retry: self.retry,
        };
        UndoableStep {
            step: self,
            undo,
            of: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> UndoableStep<'_, T> {
    /// Returns the token of the step: [`Step::token`].
    pub fn token(&self) -> Token {
        self.step.token()
    }

    /// Runs the step, or returns the result that an earlier run recorded: [`Step::run`].
    ///
    /// # Errors
    ///
    /// Those of [`Step::run`]. If the steps of the key are being undone, a step that is not recorded does not run, and this is
    /// [`StepRefused`](ErrorKind::StepRefused): the handler must return it.
    pub async fn run<E, F>(self, work: impl FnMut() -> F) -> Result<T, E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        self.step.run_undoable(Some(self.undo), work).await
    }
}

impl Call {
    /// Decides that this key cannot go on, and returns `response`: return it from the handler at once. Then the steps of the key that have an
    /// [`undo`](Step::undo) are undone, the last one first, and `response` is stored and given to every caller of the key.
    ///
    /// Decide so only if the effect that failed certainly did not happen. After an error that may pass, or a timeout, return an error: the
    /// next run goes on.
    ///
    /// The decision is recorded before the first undo. After a kill the next run goes on undoing, and no step runs that is not recorded. An
    /// undo that fails is tried again by the next run; after three runs an operator decides.
    ///
    /// If the handler returns an error after this, nothing is undone, and the next run goes on. If it returns another response, that one is
    /// the final one. If it goes on and asks for a step, the step does not run, and a response is an error: nothing is undone.
    #[must_use = "return it from the handler: what the handler returns is the final response"]
    pub fn undo<R>(&self, response: R) -> R {
        if !self.has_ended() {
            self.0.undoes.store(true, Ordering::Relaxed);
            if let Some(steps) = &self.0.steps {
                steps.state().ledger.decide();
            }
        }
        response
    }

    /// Returns true if the handler decided that the steps of its key are undone: [`undo`](Self::undo). For layers, which store its response
    /// against their policy too.
    pub fn undoes(&self) -> bool {
        self.0.undoes.load(Ordering::Relaxed)
    }
}

impl State {
    /// Notes how a step is undone whose result the run has got. `result` is its JSON.
    pub(super) fn can_undo(&mut self, step: &str, undo: Undo, result: Data) {
        self.ledger.can_undo(step);
        let step = step.to_owned();
        self.undos.push(UndoableResult { step, result, undo });
    }
}

impl OpenCall {
    /// Returns true if the handler decided that its steps are undone.
    pub(in crate::engine) fn decided_undo(&self) -> bool {
        self.0.undoes()
    }

    /// Returns true if the steps of a run without a confirmed claim must be undone, because its handler decided so and returned a response
    /// (`returned`).
    pub(in crate::engine) fn undoes_unrecorded(&self, returned: bool) -> bool {
        returned && self.decided_undo() && self.0.claim().is_none()
    }

    /// Undoes a step of the run.
    pub(in crate::engine) async fn undo(&self, step: &str) -> UndoEnd {
        let call = &self.0;
        let found = call.0.steps.as_ref().and_then(|steps| {
            let state = steps.state();
            let found = state.undos.iter().find(|undoable| undoable.step == step);
            found.map(|it| (it.result.clone(), Arc::clone(&it.undo.of), it.undo.retry))
        });
        // The run has read the result as the same type before, so there is one.
        let unreadable = || UndoEnd::Failed("its result cannot be read".to_owned());
        let Some((result, undo, retry)) = found else {
            return unreadable();
        };
        let token = call.token_of(step, true);
        let mut tries = 1;
        loop {
            let undone = self.caught(async {
                match undo(result.as_str(), token.clone()) {
                    Some(undone) => Some(undone.await),
                    None => None,
                }
            });
            let error = match undone.await {
                Ok(Some(Ok(()))) => return UndoEnd::Undone,
                Ok(Some(Err(error))) => error,
                Ok(None) => return unreadable(),
                Err(_panic) => return UndoEnd::Panicked,
            };
            if let Some(pause) = call.pause(retry, tries) {
                let backend = &call.0.backend;
                backend.clock().sleep(backend.jitter(pause)).await;
                if !self.has_expired() {
                    tries += 1;
                    continue;
                }
            }
            return UndoEnd::Failed(error.to_owned());
        }
    }

    /// Undoes all steps of a run without a confirmed claim, and reports each. Nothing of it is recorded.
    ///
    /// # Errors
    ///
    /// If a step has no record and may have had its effect, or if an undo failed. Those before it are undone.
    pub(in crate::engine) async fn undo_all(
        &self,
        key_prefix: &str,
        mut report: Option<&mut Report<'_>>,
    ) -> Result<(), Error> {
        let error = |why: String| {
            let error = Error::new(ErrorKind::StepNotUndone, key_prefix).with_handler_ran(true);
            Err(error.with_detail(why).with_unfinished_steps())
        };
        let Some(steps) = &self.0.0.steps else {
            return Ok(());
        };
        steps.close();
        let (end, undo) = {
            let ledger = &steps.state().ledger;
            (ledger.end(), ledger.undo().unwrap_or_default())
        };
        if end.is_some() {
            return error("nothing is undone, because a step may have had its effect".to_owned());
        }
        if !undo.unreached.is_empty() {
            return error("nothing is undone, because the handler asked for a step after its decision: return its response at once".to_owned());
        }
        for step in undo.undoable {
            let why = match self.undo(&step).await {
                UndoEnd::Undone => {
                    if let Some(report) = &mut report {
                        report.undid();
                    }
                    continue;
                }
                UndoEnd::Failed(error) => format!("the undo of `{step}` failed: {error}"),
                UndoEnd::Panicked => format!("the undo of `{step}` panicked"),
            };
            return error(why);
        }
        Ok(())
    }
}

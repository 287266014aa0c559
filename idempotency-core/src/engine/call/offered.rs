//! How a run offers its call to the handler.

use super::Call;
use super::step::{Steps, StepsSummary};
use crate::engine::Backend;
use crate::random::RandomError;
use crate::store::Staged;
use crate::time::EpochMillis;

/// The call of a run that is about to start. It is made only if the handler takes it.
///
/// Entry points get it from [`run_with_offer`](crate::operation::CompiledOperation::run_with_offer), and pass the [`Call`] to
/// handlers that ask for it.
#[must_use = "drop it if the handler does not ask for its call"]
pub struct OfferedCall<'a> {
    make: &'a (dyn Fn(&mut MadeCall) -> Call + Sync),
    made: &'a mut MadeCall,
}

/// What a run has made of its offer. When it is dropped, the call has ended.
#[derive(Default)]
pub(crate) struct MadeCall {
    /// The call, if the handler took it.
    call: Option<Call>,
    /// The failure of the random source. The handler must then not run: its call has no tokens.
    failure: Option<RandomError>,
}

impl<'a> OfferedCall<'a> {
    /// Returns the offer of the call that `make` makes.
    pub(crate) fn new(
        make: &'a (dyn Fn(&mut MadeCall) -> Call + Sync),
        made: &'a mut MadeCall,
    ) -> Self {
        Self { make, made }
    }

    /// Makes the call.
    pub fn take(self) -> Call {
        let call = (self.make)(self.made);
        self.made.call = Some(call.clone());
        call
    }
}

/// Runs a handler without a claim and outside of an operation, and offers it the call of such a run.
///
/// It is for an entry point with requests that it does not protect, whose handler asks for its call all the same.
///
/// # Errors
///
/// If `start` takes the call, and the random source fails. The handler has not run.
///
/// # Examples
///
/// ```
/// use idempotency_core::operation::{Run, run_without_claim};
/// # let backend = idempotency_core::example::backend();
/// # idempotency_core::example::ready(async {
/// let run = run_without_claim(&backend, None, |offered| {
///     let call = offered.take();
///     async move { call.run() }
/// });
/// assert_eq!(run.await?, Run::Unprotected);
/// # Ok::<(), idempotency_core::random::RandomError>(())
/// # }).unwrap();
/// ```
pub async fn run_without_claim<F: Future>(
    backend: &Backend,
    deadline: Option<EpochMillis>,
    start: impl FnOnce(OfferedCall<'_>) -> F,
) -> Result<F::Output, RandomError> {
    let mut made = MadeCall::default();
    let handler = start(OfferedCall::new(
        &|made| {
            let call = made.unprotected(backend, deadline);
            call.0.staging.refuse();
            call
        },
        &mut made,
    ));
    made.started()?;
    Ok(handler.await)
}

impl MadeCall {
    /// Returns the call of a run without protection.
    pub(crate) fn unprotected(&mut self, backend: &Backend, deadline: Option<EpochMillis>) -> Call {
        Call::without_claim(backend, deadline).unwrap_or_else(|error| {
            self.failure = Some(error);
            // It is in a future that is never polled.
            Call::of_random(backend, [0; 16], deadline)
        })
    }

    /// Returns the failure of the random source, if the call could not be made. The handler must then not run.
    pub(crate) fn started(&mut self) -> Result<(), RandomError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Returns what the steps of the run were. `None` if the handler did not take its call, or can have no steps.
    pub(crate) fn steps(&self) -> Option<StepsSummary> {
        self.call.as_ref()?.recorded_steps().map(Steps::summary)
    }

    /// Ends the call: the handler has returned. Returns what it has staged.
    pub(crate) fn end(&self) -> Option<Staged> {
        self.call.as_ref().and_then(Call::end)
    }
}

impl Drop for MadeCall {
    fn drop(&mut self) {
        // The future of the run can be dropped before the handler returns.
        self.end();
    }
}

impl std::fmt::Debug for OfferedCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OfferedCall")
    }
}

//! The local Lambda: one function and its processes.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::child;
use super::function::FunctionSpec;
use super::function_process::{FunctionProcess, Inner};
use super::invocation::{Invocation, Target};
use super::outcome::{InvokeError, StartError};
use super::state::{Event, State};
use crate::background::Background;

/// A Lambda with one function. It runs as long as this value lives.
///
/// It runs on its own thread, so a paused tokio clock does not affect its deadlines. Dropping it kills all its processes.
///
/// # Examples
///
/// ```no_run
/// use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
/// use std::process::Command;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let function = FunctionSpec::new("payment", Command::new("target/debug/payment"));
/// let lambda = LocalLambda::start(function).await?;
/// let reply = lambda.invoke(r#"{"order_id": 1}"#).await?;
/// println!("{}", reply.payload);
/// # Ok(())
/// # }
/// ```
pub struct LocalLambda {
    function: FunctionSpec,
    processes: Mutex<Vec<FunctionProcess>>,
    background: Background,
}

impl LocalLambda {
    /// Starts the service, without a process.
    ///
    /// # Errors
    ///
    /// [`StartError`] if no thread is available.
    pub async fn start(function: FunctionSpec) -> Result<Self, StartError> {
        let background =
            Background::start("local-lambda").map_err(|error| start_error(&function, error))?;
        Ok(Self {
            function,
            processes: Mutex::default(),
            background,
        })
    }

    /// Starts one more process of the function.
    ///
    /// Returns when the process runs. [`FunctionProcess::ready`] waits until it asks for its first event.
    ///
    /// # Errors
    ///
    /// [`StartError`] if there is no such program, or it cannot be started.
    pub async fn start_process(&self) -> Result<FunctionProcess, StartError> {
        self.add(&mut self.lock())
    }

    /// Prepares an invocation in an idle process, or in a new one if every process is busy.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let one = lambda.invoke(r#"{"order_id": 1}"#).start();
    /// let two = lambda.invoke(r#"{"order_id": 2}"#).start();
    /// one.await?;
    /// two.await?;
    /// assert_eq!(lambda.processes().len(), 2, "each takes one event at a time");
    /// # Ok(())
    /// # }
    /// ```
    pub fn invoke(&self, event: impl Into<String>) -> Invocation<'_> {
        Invocation::new(Target::Lambda(self), event.into(), self.function.timeout)
    }

    /// Returns every process started so far, including those that have ended.
    #[must_use]
    pub fn processes(&self) -> Vec<FunctionProcess> {
        self.lock().clone()
    }

    pub(super) fn send(&self, mut event: Event) {
        let mut processes = self.lock();
        for process in processes.iter() {
            let state = &process.inner.state;
            match state.push_if_idle(event, self.function.concurrency) {
                None => return,
                Some(back) => event = back,
            }
        }
        match self.add(&mut processes) {
            Ok(process) => process.inner.state.push(event),
            Err(error) => {
                let _ = event.reply.send(Err(InvokeError::Start(error)));
            }
        }
    }

    fn add(&self, processes: &mut Vec<FunctionProcess>) -> Result<FunctionProcess, StartError> {
        let number = processes.len() + 1;
        let state = Arc::new(State::new());
        let process_id = child::start(self.background.handle(), &self.function, number, &state)
            .map_err(|error| start_error(&self.function, error))?;
        let process = FunctionProcess {
            inner: Arc::new(Inner {
                state,
                number,
                process_id,
                timeout: self.function.timeout,
            }),
        };
        processes.push(process.clone());
        Ok(process)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<FunctionProcess>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalLambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLambda")
            .field("function", &self.function.name)
            .field("processes", &self.lock().len())
            .finish_non_exhaustive()
    }
}

fn start_error(function: &FunctionSpec, source: io::Error) -> StartError {
    StartError {
        function: function.name.clone(),
        program: function.program.to_string_lossy().into_owned(),
        source: Arc::new(source),
    }
}

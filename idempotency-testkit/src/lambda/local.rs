//! The local Lambda: one function and its processes.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;

use super::api::serve_invoke_api;
use super::function::FunctionSpec;
use super::function::{FunctionProcess, Inner, start_process};
use super::invocation::InvokeError;
use super::invocation::{Invocation, Target};
use super::state::{Event, State};
use crate::lock::lock;
use crate::wire::Background;

/// A Lambda with one function. It runs as long as this value lives.
///
/// It runs on its own thread, so a paused tokio clock does not affect its deadlines. Dropping it kills all its processes.
pub struct LocalLambda {
    function: Arc<Function>,
    /// The endpoint of the Invoke API, after the first call of [`endpoint`](Self::endpoint).
    endpoint: Mutex<Option<String>>,
    background: Background,
}

/// The function and its processes. The server of the Invoke API shares them.
pub(super) struct Function {
    pub(super) spec: FunctionSpec,
    processes: Mutex<Vec<FunctionProcess>>,
    runtime: Handle,
}

impl LocalLambda {
    /// Starts the service, without a process.
    ///
    /// # Errors
    ///
    /// If no thread is available.
    pub async fn start(function: FunctionSpec) -> Result<Self, InvokeError> {
        let background = Background::start("local-lambda")
            .map_err(|error| InvokeError::not_started(&function, &error))?;
        Ok(Self {
            function: Arc::new(Function {
                spec: function,
                processes: Mutex::default(),
                runtime: background.handle().clone(),
            }),
            endpoint: Mutex::default(),
            background,
        })
    }

    /// Starts one more process of the function.
    ///
    /// Returns when the process runs. [`FunctionProcess::ready`] waits until it asks for its first event.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it cannot be started.
    pub async fn start_process(&self) -> Result<FunctionProcess, InvokeError> {
        self.function.add(&mut lock(&self.function.processes))
    }

    /// Prepares an invocation in an idle process, or in a new one if every process is busy.
    pub fn invoke(&self, event: impl fmt::Display) -> Invocation<'_> {
        self.function.invoke(event.to_string())
    }

    /// Returns every process started so far, including those that have ended.
    pub fn processes(&self) -> Vec<FunctionProcess> {
        lock(&self.function.processes).clone()
    }

    /// Returns the endpoint of the Invoke API, for programs that invoke the function through an AWS client:
    /// `AWS_ENDPOINT_URL_LAMBDA`. It is served on loopback from the first call on.
    ///
    /// It knows this one function, and invocations that wait for the response. It checks no signature.
    ///
    /// # Errors
    ///
    /// If no port of the loopback interface is free.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let endpoint = lambda.endpoint().await?;
    /// std::process::Command::new("idempotency")
    ///     .args(["replay", "shop.charge#42b7", "--invoke", "payment", "--yes"])
    ///     .env("AWS_ENDPOINT_URL_LAMBDA", endpoint)
    ///     .status()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn endpoint(&self) -> io::Result<String> {
        let mut endpoint = lock(&self.endpoint);
        if let Some(endpoint) = &*endpoint {
            return Ok(endpoint.clone());
        }
        let started = serve_invoke_api(self.background.handle(), &self.function)?;
        Ok(endpoint.insert(started).clone())
    }
}

impl Function {
    pub(super) fn invoke(&self, event: String) -> Invocation<'_> {
        Invocation::new(Target::Function(self), event, self.spec.timeout)
    }

    pub(super) fn send(&self, mut event: Event) {
        let mut processes = lock(&self.processes);
        for process in processes.iter() {
            let state = &process.inner.state;
            match state.push_if_idle(event, self.spec.concurrency) {
                None => return,
                Some(back) => event = back,
            }
        }
        match self.add(&mut processes) {
            Ok(process) => process.inner.state.push(event),
            Err(error) => {
                let _ = event.reply.send(Err(error));
            }
        }
    }

    fn add(&self, processes: &mut Vec<FunctionProcess>) -> Result<FunctionProcess, InvokeError> {
        let number = processes.len() + 1;
        let state = Arc::new(State::new());
        let process_id = start_process(&self.runtime, &self.spec, number, &state)
            .map_err(|error| InvokeError::not_started(&self.spec, &error))?;
        let process = FunctionProcess {
            inner: Arc::new(Inner {
                state,
                number,
                process_id,
                timeout: self.spec.timeout,
            }),
        };
        processes.push(process.clone());
        Ok(process)
    }
}

impl fmt::Debug for LocalLambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLambda")
            .field("function", &self.function.spec.name)
            .field("processes", &lock(&self.function.processes).len())
            .finish_non_exhaustive()
    }
}

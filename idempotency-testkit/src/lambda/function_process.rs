//! One process of the function: its start, its output, its end, and its handle.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::api::Api;
use super::function::FunctionSpec;
use super::invocation::{Invocation, Target};
use super::log::{LogLine, LogSource};
use super::outcome::InvokeError;
use super::state::{Phase, State};
use crate::wire;

/// One process of the function.
///
/// Clones are handles of the same process. It ends with [`kill`](Self::kill), at a deadline, when the function itself
/// exits, or when its [`LocalLambda`](super::LocalLambda) is dropped.
#[derive(Clone)]
pub struct FunctionProcess {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) state: Arc<State>,
    pub(super) number: usize,
    pub(super) process_id: Option<u32>,
    pub(super) timeout: std::time::Duration,
}

impl FunctionProcess {
    /// Prepares an invocation with this event. It is JSON text and is sent unchanged.
    ///
    /// Await the invocation, or [`start`](Invocation::start) it and await the outcome later. While the process is busy with
    /// another event, the invocation waits; a relative deadline starts when the process takes the event.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// let reply = process.invoke(r#"{"order_id": 1}"#).await?;
    /// let duplicate = process.invoke(r#"{"order_id": 1}"#).await?;
    /// assert_eq!(duplicate.payload, reply.payload);
    /// # Ok(())
    /// # }
    /// ```
    pub fn invoke(&self, event: impl Into<String>) -> Invocation<'_> {
        Invocation::new(Target::Process(self), event.into(), self.inner.timeout)
    }

    /// Waits until the process has asked for its first event.
    ///
    /// # Errors
    ///
    /// [`InvokeError::Init`] or [`InvokeError::Exited`] if the process ended before.
    pub async fn ready(&self) -> Result<(), InvokeError> {
        let mut phase = self.inner.state.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Starting).await;
        self.inner.state.end_error().map_or(Ok(()), Err)
    }

    /// Waits until the process writes a line that contains this text, to standard output or standard error.
    ///
    /// Each call continues after the line that the previous call returned, so a second call waits for a second line. Lines
    /// that were written between two calls count.
    ///
    /// # Errors
    ///
    /// [`InvokeError::Init`] or [`InvokeError::Exited`], with the log, if the process ends without such a line.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// let pending = process.invoke(r#"{"order_id": 1}"#).start();
    /// process.wait_for_line("charged").await?;
    /// // The handler has charged, and has not responded yet.
    /// process.kill().await;
    /// assert!(pending.await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait_for_line(&self, text: &str) -> Result<LogLine, InvokeError> {
        if let Some(line) = self.inner.state.log.wait_for(text).await {
            return Ok(line);
        }
        self.ended().await;
        Err(self.inner.state.end_error().unwrap_or(InvokeError::Exited {
            status: None,
            log: self.log(),
        }))
    }

    /// Kills the process, as `kill -9` does, and returns when it has ended.
    ///
    /// Pending invocations end with [`InvokeError::Exited`]. Has no effect on a process that has ended.
    pub async fn kill(&self) {
        self.inner.state.kill();
        self.ended().await;
    }

    /// Waits until the process has ended.
    pub async fn ended(&self) {
        let mut phase = self.inner.state.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
    }

    /// Returns true if the process has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        *self.inner.state.phase.borrow() != Phase::Ended
    }

    /// Returns everything that the process has written so far.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.inner.state.log.drain();
        self.inner.state.log.since(0)
    }

    /// Returns the process id of the operating system.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.inner.process_id
    }
}

impl fmt::Debug for FunctionProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionProcess")
            .field("number", &self.inner.number)
            .field("process_id", &self.inner.process_id)
            .field("phase", &*self.inner.state.phase.borrow())
            .finish_non_exhaustive()
    }
}

/// Starts the process, and a task on `runtime` that serves and watches it. Returns its process id.
pub(super) fn start_process(
    runtime: &Handle,
    function: &FunctionSpec,
    number: usize,
    state: &Arc<State>,
) -> io::Result<Option<u32>> {
    let _context = runtime.enter();
    let (listener, address) = wire::bind()?;
    let mut command = Command::from(function.command(&address.to_string(), number));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let id = child.id();

    if let Some(stdout) = child.stdout.take() {
        #[cfg(unix)]
        state
            .log
            .tap(LogSource::Stdout, std::os::fd::AsFd::as_fd(&stdout))?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stdout, stdout).await });
    }
    if let Some(stderr) = child.stderr.take() {
        #[cfg(unix)]
        state
            .log
            .tap(LogSource::Stderr, std::os::fd::AsFd::as_fd(&stderr))?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stderr, stderr).await });
    }

    let api = Arc::new(Api {
        state: Arc::clone(state),
        function_arn: function.arn(),
    });
    let served = wire::serve(listener, move |request| Arc::clone(&api).handle(request));
    let watched = watch(child, Arc::clone(state));
    runtime.spawn(async move {
        tokio::select! {
            () = watched => {}
            () = served => {}
        }
    });
    Ok(id)
}

async fn watch(mut child: Child, state: Arc<State>) {
    // Its `drop` reports the end, also if the task is dropped with its runtime.
    let mut end = End {
        state,
        status: None,
    };
    end.status = loop {
        tokio::select! {
            status = child.wait() => break status.ok(),
            () = end.state.kill.notified() => {
                // Fails only if the process has ended, which `wait` then reports.
                let _ = child.start_kill();
            }
        }
    };
}

struct End {
    state: Arc<State>,
    status: Option<ExitStatus>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.state.ended(self.status);
    }
}

use super::invocation::{Invocation, Target};
use super::log::LogLine;
use super::outcome::InvokeError;
use super::state::{Phase, State};
use std::fmt;
use std::sync::Arc;

/// One process of the function.
///
/// Clones are handles of the same process. It ends with [`kill`](Self::kill), when a deadline passes, when the function
/// ends it, or when its [`LocalLambda`](super::LocalLambda) is dropped.
///
/// ```no_run
/// # use idempotency_testkit::lambda::*;
/// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
/// let process = lambda.start_process().await?;
/// let handle = process.clone();
/// process.kill().await;
/// assert!(!handle.is_alive(), "both are the same process");
/// # Ok(())
/// # }
/// ```
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
    /// Prepares an invocation with this event, which is JSON text and sent as it is.
    ///
    /// Await it, or [`start`](Invocation::start) it and await the outcome later. While the process is busy with another
    /// one it waits, and its relative deadline with it.
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
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// process.ready().await?;
    /// assert!(process.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvokeError::Init`] or [`InvokeError::Exited`] if it ended before.
    pub async fn ready(&self) -> Result<(), InvokeError> {
        let mut phase = self.inner.state.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = phase.wait_for(|phase| *phase != Phase::Starting).await;
        self.inner.state.end_error().map_or(Ok(()), Err)
    }

    /// Waits until the process writes a line that contains this text, to standard output or standard error.
    ///
    /// Each call goes on behind the line that the call before gave out, so a second call waits for a second line. Lines
    /// written earlier count: nothing is missed between two calls.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// let pending = process.invoke(r#"{"order_id": 1}"#).start();
    /// process.wait_for_line("charged").await?;
    /// // The handler has had its effect, and has not answered yet.
    /// process.kill().await;
    /// assert!(pending.await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvokeError::Init`] or [`InvokeError::Exited`], with the log, if the process ends without such a line.
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

    /// Kills the process now, as `kill -9` does, and returns when it is gone.
    ///
    /// Pending invocations resolve to [`InvokeError::Exited`]. Without effect on a process that has ended.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// let pending = process.invoke("1").start();
    /// process.kill().await;
    /// assert!(matches!(pending.await, Err(InvokeError::Exited { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn kill(&self) {
        self.inner.state.kill();
        self.ended().await;
    }

    /// Waits until the process is gone.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// // A function that refuses its configuration ends by itself.
    /// let process = lambda.start_process().await?;
    /// process.ended().await;
    /// assert!(!process.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ended(&self) {
        let mut phase = self.inner.state.phase.subscribe();
        let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
    }

    /// Whether the process has not ended.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// assert!(process.is_alive());
    /// process.kill().await;
    /// assert!(!process.is_alive());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_alive(&self) -> bool {
        *self.inner.state.phase.borrow() != Phase::Ended
    }

    /// Everything that the process wrote so far.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// process.invoke(r#"{"order_id": 1}"#).await?;
    /// assert!(process.log().iter().any(|line| line.text.contains("charged")));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.inner.state.log.drain();
        self.inner.state.log.since(0)
    }

    /// The id which the operating system gave to the process.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let process = lambda.start_process().await?;
    /// println!("attach a debugger to {:?}", process.process_id());
    /// # Ok(())
    /// # }
    /// ```
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

use super::log::LogLine;
use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

/// What the function answered.
///
/// `Debug` leaves the answer and the log out.
///
/// ```no_run
/// # use idempotency_testkit::lambda::*;
/// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
/// let reply = lambda.invoke(r#"{"order_id": 1}"#).await?;
/// let duplicate = lambda.invoke(r#"{"order_id": 1}"#).await?;
/// assert_eq!(duplicate.payload, reply.payload);
/// assert_ne!(duplicate.request_id, reply.request_id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Reply {
    /// The answer as the process sent it, which is JSON text unless the function streams.
    pub payload: String,
    /// The invocation's request id.
    pub request_id: String,
    /// What the process wrote between taking the event and answering.
    pub log: Vec<LogLine>,
}

impl Reply {
    /// The answer as JSON.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let reply = lambda.invoke(r#"{"order_id": 1, "amount": 4200}"#).await?;
    /// assert_eq!(reply.json()?["charged"], 4200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the answer is not JSON.
    pub fn json(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("request_id", &self.request_id)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// Why a process could not be started.
///
/// ```
/// use idempotency_testkit::lambda::{Function, LocalLambda};
/// # use std::process::Command;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let function = Function::new("payment", Command::new("no/such/program"));
/// let error = LocalLambda::start(function).await?.start_process().await.unwrap_err();
/// assert!(error.to_string().contains("check that `no/such/program` is built"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the process of function `{function}` could not be started: check that `{program}` is built and its path is right"
)]
pub struct StartError {
    pub(super) function: String,
    pub(super) program: String,
    #[source]
    pub(super) source: Arc<io::Error>,
}

/// Why an invocation has no answer.
///
/// ```no_run
/// # use idempotency_testkit::lambda::*;
/// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
/// match lambda.invoke(r#"{"amount": -1}"#).await {
///     Err(InvokeError::Function { error_type, .. }) => assert_eq!(error_type, "InvalidAmount"),
///     other => panic!("the function should have refused it: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The function answered with an error.
    #[error("the function answered with an error of type `{error_type}`: {error_message}")]
    #[non_exhaustive]
    Function {
        /// The `errorType` it sent.
        error_type: String,
        /// The `errorMessage` it sent.
        error_message: String,
        /// The invocation's request id.
        request_id: String,
        /// What the process wrote during the invocation.
        log: Vec<LogLine>,
    },

    /// The process reported an error, or ended, before it asked for its first event.
    #[error(
        "the function did not start: `{error_type}`: {error_message}; see the log of this error"
    )]
    #[non_exhaustive]
    Init {
        /// The `errorType` it sent; `Runtime.ExitError` if it ended without a word.
        error_type: String,
        /// The `errorMessage` it sent, or how the process ended.
        error_message: String,
        /// What the process wrote.
        log: Vec<LogLine>,
    },

    /// The process ended, or was killed, before it answered.
    #[error("the function's process ended before it answered ({}); see the log of this error", ended(.status))]
    #[non_exhaustive]
    Exited {
        /// How it ended; `None` if its [`LocalLambda`](super::LocalLambda) was dropped.
        status: Option<ExitStatus>,
        /// What the process wrote.
        log: Vec<LogLine>,
    },

    /// The deadline passed, and the process was killed for it.
    #[error(
        "the deadline passed and the function's process was killed; give it more time with `deadline_in`, or see the log of this error"
    )]
    #[non_exhaustive]
    TimedOut {
        /// What the process wrote during the invocation.
        log: Vec<LogLine>,
    },

    /// No process could be started for the invocation.
    #[error(transparent)]
    Start(#[from] StartError),

    /// The invocation could not be sent as it was built.
    #[error("the invocation cannot be sent: {reason}")]
    #[non_exhaustive]
    Invalid {
        /// What is wrong.
        reason: &'static str,
    },
}

impl InvokeError {
    /// What the process wrote; empty where no process was involved.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Err(error) = lambda.invoke(r#"{"order_id": 1}"#).await {
    ///     for line in error.log() {
    ///         eprintln!("{}", line.text);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn log(&self) -> &[LogLine] {
        match self {
            Self::Function { log, .. }
            | Self::Init { log, .. }
            | Self::Exited { log, .. }
            | Self::TimedOut { log } => log,
            Self::Start(_) | Self::Invalid { .. } => &[],
        }
    }

    /// The `errorType` which Lambda would give to its caller.
    ///
    /// ```
    /// use idempotency_testkit::lambda::{Function, LocalLambda};
    /// # use std::process::Command;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let function = Function::new("payment", Command::new("no/such/program"));
    /// let error = LocalLambda::start(function).await?.invoke("1").await.unwrap_err();
    /// assert_eq!(error.error_type(), "Runtime.InvalidEntrypoint");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn error_type(&self) -> &str {
        match self {
            Self::Function { error_type, .. } | Self::Init { error_type, .. } => error_type,
            Self::Exited { .. } => "Runtime.ExitError",
            Self::TimedOut { .. } => "Sandbox.Timedout",
            Self::Start(_) => "Runtime.InvalidEntrypoint",
            Self::Invalid { .. } => "InvalidRequestContentException",
        }
    }
}

pub(super) fn ended(status: &Option<ExitStatus>) -> String {
    match status {
        Some(status) => status.to_string(),
        None => "its local Lambda was dropped".to_owned(),
    }
}

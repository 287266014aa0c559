//! How an invocation ends: the reply of the function, or an error.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use super::log::LogLine;

/// The response of the function.
///
/// `Debug` omits the payload and the log.
///
/// # Examples
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
    /// The response as the process sent it: JSON text, unless the function streams.
    pub payload: String,
    /// The request id of the invocation.
    pub request_id: String,
    /// The lines that the process wrote between taking the event and responding.
    pub log: Vec<LogLine>,
}

impl Reply {
    /// Parses the response as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the response is not JSON.
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
/// # Examples
///
/// ```
/// use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
/// # use std::process::Command;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let function = FunctionSpec::new("payment", Command::new("no/such/program"));
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

/// Why an invocation has no response.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_testkit::lambda::*;
/// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
/// match lambda.invoke(r#"{"amount": -1}"#).await {
///     Err(InvokeError::Function { error_type, .. }) => assert_eq!(error_type, "InvalidAmount"),
///     other => panic!("expected an error of the function: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The function returned an error.
    #[error("the function returned an error of type `{error_type}`: {error_message}")]
    #[non_exhaustive]
    Function {
        /// The `errorType` that it sent.
        error_type: String,
        /// The `errorMessage` that it sent.
        error_message: String,
        /// The request id of the invocation.
        request_id: String,
        /// The lines that the process wrote during the invocation.
        log: Vec<LogLine>,
    },

    /// The process reported an error, or ended, before it asked for its first event.
    #[error(
        "the function did not start: `{error_type}`: {error_message}; see the log of this error"
    )]
    #[non_exhaustive]
    Init {
        /// The `errorType` that it sent; `Runtime.ExitError` if it ended without sending one.
        error_type: String,
        /// The `errorMessage` that it sent, or how the process ended.
        error_message: String,
        /// The lines that the process wrote.
        log: Vec<LogLine>,
    },

    /// The process ended, or was killed, before it responded.
    #[error("the function's process ended before it responded ({}); see the log of this error", ended(.status))]
    #[non_exhaustive]
    Exited {
        /// How the process ended; `None` if its [`LocalLambda`](super::LocalLambda) was dropped.
        status: Option<ExitStatus>,
        /// The lines that the process wrote.
        log: Vec<LogLine>,
    },

    /// The deadline has expired, and the process was killed.
    #[error(
        "the deadline has expired and the function's process was killed: set a later deadline with `deadline_in`, or see the log of this error"
    )]
    #[non_exhaustive]
    TimedOut {
        /// The lines that the process wrote during the invocation.
        log: Vec<LogLine>,
    },

    /// No process could be started for the invocation.
    #[error(transparent)]
    Start(#[from] StartError),

    /// A setting of the invocation is invalid, so it was not sent.
    #[error("the invocation cannot be sent: {reason}")]
    #[non_exhaustive]
    Invalid {
        /// What is wrong.
        reason: &'static str,
    },
}

impl InvokeError {
    /// Returns the lines that the process wrote; empty if there was no process.
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

    /// Returns the `errorType` that Lambda would give to its caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
    /// # use std::process::Command;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let function = FunctionSpec::new("payment", Command::new("no/such/program"));
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

/// Describes the end of a process.
pub(super) fn ended(status: &Option<ExitStatus>) -> String {
    match status {
        Some(status) => status.to_string(),
        None => "its local Lambda was dropped".to_owned(),
    }
}

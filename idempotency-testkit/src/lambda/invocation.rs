//! An invocation: its settings, and the future of its outcome, which is the reply of the function or an error.

use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::oneshot;

use super::function::FunctionProcess;
use super::local::Function;
use super::log::LogLine;
use super::state::{Deadline, Event, Outcome};

static NUMBER: AtomicU64 = AtomicU64::new(1);

const REQUEST_ID: &str = "lambda-runtime-aws-request-id";
const TENANT: &str = "lambda-runtime-aws-tenant-id";
const TRACE: &str = "lambda-runtime-trace-id";

/// An invocation that was not sent yet: await it, or [`start`](Self::start) it.
///
/// # Examples
///
/// ```no_run
/// # use idempotency_testkit::lambda::*;
/// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// let reply = lambda
///     .invoke(r#"{"order_id": 1}"#)
///     .tenant("blue")
///     .deadline_in(Duration::from_secs(5))
///     .await?;
/// println!("{}", reply.payload);
/// # Ok(())
/// # }
/// ```
#[must_use = "an invocation is sent when it is awaited or started"]
pub struct Invocation<'a> {
    target: Target<'a>,
    payload: String,
    request_id: String,
    headers: Vec<(&'static str, String)>,
    deadline: Deadline,
    enforce: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Process(&'a FunctionProcess),
    Function(&'a Function),
}

impl<'a> Invocation<'a> {
    pub(super) fn new(target: Target<'a>, payload: String, timeout: Duration) -> Self {
        // Unique among all local Lambdas, since several can share one table.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id());
        Self {
            target,
            payload,
            request_id,
            headers: Vec::new(),
            deadline: Deadline::In(timeout),
            enforce: true,
        }
    }

    /// Sets the deadline to this long after the process has taken the event.
    pub fn deadline_in(mut self, time: Duration) -> Self {
        self.deadline = Deadline::In(time);
        self
    }

    /// Sets the deadline, in milliseconds since the epoch; 0 means none.
    pub fn deadline(mut self, epoch_ms: u64) -> Self {
        self.deadline = Deadline::At(epoch_ms);
        self
    }

    /// Sets whether the process is killed at the deadline, as Lambda does; `true` by default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// // The handler outlives its lease and completes late.
    /// let late = lambda.invoke(r#"{"order_id": 1}"#).deadline_in(Duration::ZERO).enforce_deadline(false);
    /// let reply = late.await?;
    /// # let _ = reply;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enforce_deadline(mut self, enforce: bool) -> Self {
        self.enforce = enforce;
        self
    }

    /// Sets the tenant id.
    pub fn tenant(self, tenant: impl Into<String>) -> Self {
        self.header(TENANT, tenant.into())
    }

    /// Sets the X-Ray trace id.
    pub fn trace_id(self, trace_id: impl Into<String>) -> Self {
        self.header(TRACE, trace_id.into())
    }

    /// Sets the request id; unique by default. Lambda keeps the request id when it retries an asynchronous invocation.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Sends the invocation and returns at once.
    pub fn start(self) -> Pending {
        let (reply, outcome) = oneshot::channel();
        let pending = Pending {
            request_id: self.request_id.clone(),
            outcome,
        };
        let headers = match headers(&self.request_id, &self.headers) {
            Ok(headers) => headers,
            Err(error) => {
                let _ = reply.send(Err(error));
                return pending;
            }
        };
        let event = Event {
            request_id: self.request_id,
            payload: self.payload,
            headers,
            deadline: self.deadline,
            enforce: self.enforce,
            reply,
        };
        match self.target {
            Target::Process(process) => process.inner.state.push(event),
            Target::Function(function) => function.send(event),
        }
        pending
    }

    fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl IntoFuture for Invocation<'_> {
    type Output = Result<Reply, InvokeError>;
    type IntoFuture = Pending;

    fn into_future(self) -> Pending {
        self.start()
    }
}

/// The future of an invocation that was sent.
///
/// Dropping it does not end the invocation: the function continues, as it does when a caller disconnects.
#[must_use = "await it to learn the outcome"]
#[derive(Debug)]
pub struct Pending {
    request_id: String,
    outcome: oneshot::Receiver<Outcome>,
}

impl Pending {
    /// Returns the request id of the invocation.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }
}

impl Future for Pending {
    type Output = Result<Reply, InvokeError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = || InvokeError::Exited {
            status: None,
            log: Vec::new(),
        };
        Poll::Ready(ready!(Pin::new(&mut self.outcome).poll(cx)).unwrap_or_else(|_| Err(gone())))
    }
}

fn headers(request_id: &str, extra: &[(&'static str, String)]) -> Result<HeaderMap, InvokeError> {
    let mut headers = HeaderMap::new();
    for (name, value) in extra
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .chain([(REQUEST_ID, request_id)])
    {
        let value = HeaderValue::from_str(value).map_err(|_| InvokeError::Invalid {
            reason: "a request id, tenant or trace id contains a character that is not allowed in a header: \
                     escape it",
        })?;
        headers.insert(HeaderName::from_static(name), value);
    }
    if request_id.is_empty() || request_id.contains(['/', '?', '#', ' ', '%']) {
        return Err(InvokeError::Invalid {
            reason: "the request id is empty or contains a character that is not allowed in a path: use letters, digits and `-`",
        });
    }
    Ok(headers)
}

/// The response of the function.
///
/// `Debug` omits the payload and the log.
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

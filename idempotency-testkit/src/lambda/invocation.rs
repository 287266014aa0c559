//! An invocation: its settings, and the future of its outcome, which is the reply of the function or an error.

use std::fmt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use idempotency_core::future::BoxFuture;
use tokio::sync::oneshot;

use super::function::{FunctionProcess, FunctionSpec};
use super::local::Function;
use super::log::LogLine;
use super::state::{Deadline, Event, Outcome};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

const REQUEST_ID: &str = "lambda-runtime-aws-request-id";
const TENANT: &str = "lambda-runtime-aws-tenant-id";

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
    tenant: Option<String>,
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
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id());
        Self {
            target,
            payload,
            request_id,
            tenant: None,
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
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets the request id; unique by default. Lambda keeps the request id when it retries an asynchronous invocation.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Sends the invocation and returns at once. The future is ready with its outcome. To drop it does not end the invocation: the function
    /// continues, as it does when a caller disconnects.
    pub fn start(self) -> BoxFuture<'static, Result<Reply, InvokeError>> {
        let (reply, outcome) = oneshot::channel::<Outcome>();
        let outcome = async {
            outcome
                .await
                .unwrap_or_else(|_| Err(InvokeError::exited(None)))
        };
        let pending = Box::pin(outcome);
        let headers = match headers(&self.request_id, self.tenant.as_deref()) {
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
}

impl IntoFuture for Invocation<'_> {
    type Output = Result<Reply, InvokeError>;
    type IntoFuture = BoxFuture<'static, Result<Reply, InvokeError>>;

    fn into_future(self) -> Self::IntoFuture {
        self.start()
    }
}

fn headers(request_id: &str, tenant: Option<&str>) -> Result<HeaderMap, InvokeError> {
    let mut headers = HeaderMap::new();
    for (name, value) in [(REQUEST_ID, Some(request_id)), (TENANT, tenant)] {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_str(value).map_err(|_| {
            InvokeError::invalid(
                "a request id or tenant contains a character that is not allowed in a header: escape it",
            )
        })?;
        headers.insert(name, value);
    }
    if request_id.is_empty() || request_id.contains(['/', '?', '#', ' ', '%']) {
        return Err(InvokeError::invalid(
            "the request id is empty or contains a character that is not allowed in a path: use letters, digits and `-`",
        ));
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
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// Why an invocation has no response, or a process did not start.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::lambda::{FunctionSpec, LocalLambda};
/// # use std::process::Command;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let function = FunctionSpec::new("payment", Command::new("no/such/program"));
/// let error = LocalLambda::start(function).await?.invoke("{}").await.unwrap_err();
/// assert_eq!(error.error_type, "Runtime.InvalidEntrypoint");
/// assert!(error.to_string().contains("check that `no/such/program` is built"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what} `{error_type}`: {error_message}")]
#[non_exhaustive]
pub struct InvokeError {
    /// What happened, before the type in the text of the error.
    what: &'static str,
    /// The `errorType` that Lambda would give to its caller: the one that the function sent, `Runtime.ExitError` if its process
    /// ended or was killed, `Sandbox.Timedout` if it was killed at the deadline.
    pub error_type: String,
    /// The `errorMessage` that the function sent, or how its process ended.
    pub error_message: String,
    /// The lines that the process wrote during the invocation; empty if there was no process.
    pub log: Vec<LogLine>,
}

impl InvokeError {
    fn new(what: &'static str, error_type: &str, error_message: String) -> Self {
        Self {
            what,
            error_type: error_type.to_owned(),
            error_message,
            log: Vec::new(),
        }
    }

    /// Returns the error that the function sent.
    pub(super) fn of_function(error_type: &str, message: String) -> Self {
        let what = "the function returned an error of type";
        Self::new(what, error_type, message)
    }

    /// Returns the error of a process that reported an error, or ended, before it asked for its first event.
    pub(super) fn of_init(error_type: &str, message: String) -> Self {
        let what = "the function did not start, see the log of this error:";
        Self::new(what, error_type, message)
    }

    /// Returns the error of a process that ended with this status; `None` if its local Lambda was dropped.
    pub(super) fn exited(status: Option<ExitStatus>) -> Self {
        let what = "the function's process ended before it responded, see the log of this error:";
        Self::new(what, EXIT, end_text(status))
    }

    pub(super) fn timed_out() -> Self {
        let what = "the deadline has expired and the function's process was killed:";
        let advice = "set a later deadline with `deadline_in`, or see the log of this error";
        Self::new(what, "Sandbox.Timedout", advice.to_owned())
    }

    pub(super) fn not_started(function: &FunctionSpec, error: &std::io::Error) -> Self {
        let program = function.program.to_string_lossy();
        let message = format!("check that `{program}` is built and its path is right: {error}");
        let what = "the process of the function could not be started:";
        Self::new(what, "Runtime.InvalidEntrypoint", message)
    }

    pub(super) fn invalid(reason: &str) -> Self {
        let what = "the invocation cannot be sent:";
        Self::new(what, "InvalidRequestContentException", reason.to_owned())
    }

    pub(super) fn with_log(mut self, log: Vec<LogLine>) -> Self {
        self.log = log;
        self
    }
}

/// The type of the error of a process that has ended.
pub(super) const EXIT: &str = "Runtime.ExitError";

/// Describes the end of a process.
pub(super) fn end_text(status: Option<ExitStatus>) -> String {
    match status {
        Some(status) => status.to_string(),
        None => "its local Lambda was dropped".to_owned(),
    }
}

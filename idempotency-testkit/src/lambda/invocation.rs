//! An invocation: its settings, and the future of its outcome.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::oneshot;

use super::function_process::FunctionProcess;
use super::local::Function;
use super::outcome::{InvokeError, Reply};
use super::state::{Deadline, Event, Outcome};

static NUMBER: AtomicU64 = AtomicU64::new(1);

const REQUEST_ID: &str = "lambda-runtime-aws-request-id";
const TENANT: &str = "lambda-runtime-aws-tenant-id";
const TRACE: &str = "lambda-runtime-trace-id";
const CLIENT_CONTEXT: &str = "lambda-runtime-client-context";

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

    /// Sets the client context, a JSON text.
    pub fn client_context(self, json: impl Into<String>) -> Self {
        self.header(CLIENT_CONTEXT, json.into())
    }

    /// Sets the request id; unique by default. Lambda keeps the request id when it retries an asynchronous invocation.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Sends the invocation and returns at once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::{FunctionProcess, InvokeError};
    /// # async fn example(process: FunctionProcess) -> Result<(), InvokeError> {
    /// let first = process.invoke("1").start();
    /// process.wait_for_line("begun").await?;
    /// // ... read the table, invoke another process, or kill this one ...
    /// let reply = first.await?;
    /// # let _ = reply;
    /// # Ok(())
    /// # }
    /// ```
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

impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("request_id", &self.request_id)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
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
            reason: "a request id, tenant, trace id or client context contains a character that is not allowed in a header: \
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

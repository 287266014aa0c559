//! A refused request, as `application/problem+json`.

mod reason;

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use idempotency_core::error::Error;
use idempotency_core::event;
use idempotency_core::time::EpochMillis;

pub use reason::Reason;

/// A request that gets an error of this framework instead of a response.
///
/// Its texts are for the client: they name no operation, table or key. [`error`](Self::error) is for the operator.
///
/// # Examples
///
/// A function that replaces the response:
///
/// ```
/// use idempotency_http::{HttpOperation, Problem, Reason};
///
/// fn response(problem: &Problem) -> http::Response<bytes::Bytes> {
///     let mut response = problem.response();
///     if problem.reason() == Reason::InProgress {
///         *response.status_mut() = http::StatusCode::TOO_EARLY;
///     }
///     response
/// }
///
/// let operation = HttpOperation::builder("shop::payments")
///     .caller_header("x-user-id")
///     .error_response(response)
///     .build()?;
/// # Ok::<(), idempotency_http::ConfigurationError>(())
/// ```
pub struct Problem {
    reason: Reason,
    detail: String,
    retry_after: Option<u64>,
    error: Error,
}

impl Problem {
    /// Returns the problem of a request that ended in `error` before its call began.
    pub(crate) fn of_error(error: Error) -> Self {
        Self {
            reason: Reason::of_error(&error),
            detail: error.client_message().to_owned(),
            retry_after: error.kind().is_retryable().then_some(1),
            error: event::refused(error),
        }
    }

    /// Returns the problem of a call that ended in `error`. `now` is the time of the store's clock, and `lease_end` is when a claim
    /// that the call made now would expire.
    pub(crate) fn of_call(error: Error, now: EpochMillis, lease_end: EpochMillis) -> Self {
        // A call in progress has run for as long as its lease ends before one that begins now. It is likely to run for as long again, and
        // a client that waits so asks seldom, also if the call was killed.
        let wait = error.lease_end().map(|end| {
            let has_run = end.until(lease_end);
            has_run.min(now.until(end))
        });
        let wait = wait.or_else(|| Some(now.until(error.circuit_open_until()?)));
        let seconds = wait.map(|wait| {
            let seconds = wait.as_millis().div_ceil(1000);
            u64::try_from(seconds).unwrap_or(u64::MAX).max(1)
        });
        let mut problem = Self::of_error(error);
        problem.retry_after = seconds.or(problem.retry_after);
        problem
    }

    /// Returns the problem of a request that is refused before its call begins. `detail` is for the client.
    pub(crate) fn of_request(reason: Reason, detail: impl Into<String>, error: Error) -> Self {
        Self {
            reason,
            detail: detail.into(),
            retry_after: None,
            error: event::refused(error),
        }
    }

    /// Returns the problem of a call that has ended. Its outcome event was emitted.
    pub(crate) fn of_run(reason: Reason, error: Error) -> Self {
        Self {
            reason,
            detail: error.client_message().to_owned(),
            retry_after: None,
            error,
        }
    }

    /// Returns why the request is refused.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.reason.status()
    }

    /// Returns the text that tells the client what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns after how many seconds the client should send the request again, if a retry can succeed.
    ///
    /// For a request in progress this is as long as the request has run, at most to the end of its lease. While the circuit breaker is
    /// open, it is the end of that time.
    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// Returns the error, for the operator: it names the operation, the key (a hash) and the store.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Returns the response: `type`, `title`, `status` and `detail` as `application/problem+json`, and `Retry-After`.
    pub fn response(&self) -> http::Response<Bytes> {
        let body = serde_json::json!({
            "type": self.reason.type_uri(),
            "title": self.reason.title(),
            "status": self.status().as_u16(),
            "detail": self.detail,
        });
        let mut response = http::Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl fmt::Debug for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Problem")
            .field("reason", &self.reason)
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

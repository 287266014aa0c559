//! A refused request, as `application/problem+json`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::event;
use idempotency_core::time::EpochMillis;

/// The longest wait for a call whose lease is longer than one of this operation.
const UNKNOWN_WAIT: Duration = Duration::from_secs(10);

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
/// # Ok::<(), idempotency_http::Error>(())
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
        let wait = error
            .lease_end()
            .map(|end| wait_for(now, end, lease_end))
            .or_else(|| Some(now.until(error.circuit_open_until()?)));
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

    /// Returns the problem of a call that has ended. Its outcome event was emitted before.
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

    /// Returns the text for the client. It says what the client should do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns after how many seconds the client should send the request again, if a retry can succeed.
    ///
    /// For a request in progress this is as long as its lease has lasted, at most to the end of the lease. While the circuit is open, this
    /// is the time until the store is asked again.
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
            "status": self.reason.status().as_u16(),
            "detail": self.detail,
        });
        let mut response = http::Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.reason.status();
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

/// Returns how long a client should wait for a call in progress, whose lease ends at `end`. `own_end` is when a claim that is made now
/// would expire.
///
/// A claim that was written before this one would be has lasted for the time between the two ends, if its lease is as long. The client
/// waits for as long again: it asks seldom, also if the call was killed, and never after the end of the lease. A lease that is renewed has
/// lasted for a third of its length at most, unless the call was killed. If the lease is longer than one of this operation, the time
/// between the ends says nothing, so it counts only up to [`UNKNOWN_WAIT`].
fn wait_for(now: EpochMillis, end: EpochMillis, own_end: EpochMillis) -> Duration {
    let lasted = end.until(own_end);
    let longer = own_end.until(end).min(UNKNOWN_WAIT);
    lasted.max(longer).min(now.until(end))
}

/// Makes [`Reason`] from one row for each reason: its documentation, the status of the response, and the type and title of the problem.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident = $status:ident, $type:literal, $title:literal;)+) => {
        /// Why a request gets an error of this framework.
        ///
        /// # Examples
        ///
        /// ```
        /// use idempotency_http::Reason;
        ///
        /// assert_eq!(Reason::InProgress.type_uri(), "urn:idempotency:in-progress");
        /// assert_eq!(Reason::InProgress.status(), 409);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])+ $reason,)+
        }

        impl Reason {
            /// Returns the `type` of the problem. It stays the same in later versions.
            pub fn type_uri(self) -> &'static str {
                match self {
                    $(Self::$reason => concat!("urn:idempotency:", $type),)+
                }
            }

            /// Returns the status of the response.
            pub fn status(self) -> StatusCode {
                match self {
                    $(Self::$reason => StatusCode::$status,)+
                }
            }

            /// Returns the title: the same text for each problem of this type.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$reason => $title,)+
                }
            }
        }
    };
}

reasons! {
    /// The request has no idempotency key. It was not processed.
    KeyMissing = BAD_REQUEST, "key-missing", "Idempotency key is missing";
    /// The header of the key does not hold one valid key. The request was not processed.
    KeyMalformed = BAD_REQUEST, "key-malformed", "Idempotency key is malformed";
    /// The client of the request is not known, so its key could be the key of another client. The request was not processed.
    CallerUnknown = FORBIDDEN, "caller-unknown", "Caller is unknown";
    /// The body is above the limit. The request was not processed.
    BodyTooLarge = PAYLOAD_TOO_LARGE, "body-too-large", "Request body is too large";
    /// The body or the request cannot be read. The request was not processed.
    RequestUnreadable = BAD_REQUEST, "request-unreadable", "Request cannot be read";
    /// A request with this key is in progress.
    InProgress = CONFLICT, "in-progress", "Request is in progress";
    /// The key was used for another request. This one was not processed.
    KeyReused = UNPROCESSABLE_ENTITY, "key-reused", "Idempotency key was used for another request";
    /// The store cannot be asked, or there is no time left. The request was not processed.
    Unavailable = SERVICE_UNAVAILABLE, "unavailable", "Service is unavailable";
    /// The service has a wrong setting or environment, and the request was not processed. Or a write that its handler staged is not
    /// accepted, and nothing that it staged was applied.
    Misconfigured = INTERNAL_SERVER_ERROR, "misconfigured", "Service is misconfigured";
    /// A condition on the data that the request changes does not hold. None of the staged changes was made.
    Rejected = CONFLICT, "rejected", "Request was rejected";
    /// The request was processed, but whether its response is stored is not known. A retry finds out.
    NotConfirmed = INTERNAL_SERVER_ERROR, "not-confirmed", "Result is not confirmed";
    /// The request was processed, but its response is not available.
    ResponseUnavailable = INTERNAL_SERVER_ERROR, "response-unavailable", "Response is not available";
    /// The request may have been processed, and a retry does not find out.
    OutcomeUnknown = INTERNAL_SERVER_ERROR, "outcome-unknown", "Outcome is unknown";
}

impl Reason {
    /// Returns the reason of an error. A transaction that was rejected is [`Rejected`](Self::Rejected) only if conditions do not hold.
    /// Otherwise the service must be corrected.
    pub(crate) fn of_error(error: &Error) -> Self {
        match error.rejection() {
            Some(rejection) if rejection.is_by_conditions() => Self::Rejected,
            _ => Self::of(error.kind()),
        }
    }

    /// Returns the reason of an error of this kind.
    ///
    /// For [`TransactionRejected`](ErrorKind::TransactionRejected) this is [`Misconfigured`](Self::Misconfigured): that conditions do
    /// not hold is known from the error alone.
    pub(crate) fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::KeyMissing => Self::KeyMissing,
            ErrorKind::InvalidPayload | ErrorKind::ExpressionFailed => Self::RequestUnreadable,
            ErrorKind::AlreadyInProgress => Self::InProgress,
            ErrorKind::PayloadMismatch => Self::KeyReused,
            ErrorKind::Contended | ErrorKind::NoTimeLeft | ErrorKind::StoreFailed => {
                Self::Unavailable
            }
            ErrorKind::Configuration
            | ErrorKind::Environment
            | ErrorKind::UnknownInvocation
            | ErrorKind::TransactionRejected => Self::Misconfigured,
            ErrorKind::LostOwnership
            | ErrorKind::CompletionUnknown
            | ErrorKind::StepNoTimeLeft
            | ErrorKind::StepNotRecorded
            | ErrorKind::StepNotUndone => Self::NotConfirmed,
            ErrorKind::ResponseTypeChanged
            | ErrorKind::ResponseUnavailable
            | ErrorKind::ResponseNotSerializable => Self::ResponseUnavailable,
            // Also every kind that is added later: it must not look like a request that was not processed.
            _ => Self::OutcomeUnknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::error::ErrorKind;
    use idempotency_core::store::{RejectedWrite, Rejection};

    use super::*;

    const NOW: EpochMillis = EpochMillis::new(1_000_000);

    #[track_caller]
    fn of(kind: ErrorKind) -> Problem {
        Problem::of_error(Error::new(kind, "shop"))
    }

    #[test]
    fn every_kind_of_the_error_reference_has_its_status_type_and_retry_after() {
        use ErrorKind::*;
        let page = include_str!("../../docs/reference/errors.md").lines();
        let mut kinds: Vec<_> = page.filter_map(|line| line.strip_prefix("### ")).collect();
        kinds.retain(|name| name.starts_with("Idempotency"));
        for (kind, retry_after, expected) in [
            (AlreadyInProgress, Some(1), "409 in-progress"),
            (PayloadMismatch, None, "422 key-reused"),
            (KeyMissing, None, "400 key-missing"),
            (InvalidPayload, None, "400 request-unreadable"),
            (ExpressionFailed, None, "400 request-unreadable"),
            (Unresolved, None, "500 outcome-unknown"),
            (CorruptRecord, None, "500 outcome-unknown"),
            (ResponseTypeChanged, None, "500 response-unavailable"),
            (Contended, Some(1), "503 unavailable"),
            (NoTimeLeft, Some(1), "503 unavailable"),
            (ResponseUnavailable, None, "500 response-unavailable"),
            (ResponseNotSerializable, None, "500 response-unavailable"),
            (LostOwnership, Some(1), "500 not-confirmed"),
            (CompletionUnknown, Some(1), "500 not-confirmed"),
            (TransactionRejected, None, "500 misconfigured"),
            (StoreFailed, Some(1), "503 unavailable"),
            (StepRefused, None, "500 outcome-unknown"),
            (StepNoTimeLeft, Some(1), "500 not-confirmed"),
            (StepNotRecorded, Some(1), "500 not-confirmed"),
            (StepNotUndone, Some(1), "500 not-confirmed"),
            (StepTypeChanged, None, "500 outcome-unknown"),
            (Configuration, None, "500 misconfigured"),
            (Environment, None, "500 misconfigured"),
            (UnknownInvocation, None, "500 misconfigured"),
            (Internal, None, "500 outcome-unknown"),
        ] {
            let problem = of(kind);
            let (status, uri) = (problem.reason().status(), problem.reason().type_uri());
            let uri = uri.strip_prefix("urn:idempotency:").unwrap();
            assert_eq!(format!("{} {uri}", status.as_u16()), expected, "{kind:?}");
            assert_eq!(problem.retry_after(), retry_after, "{kind:?}");
            assert_eq!(problem.detail(), kind.client_message(), "{kind:?}");
            let response = problem.response();
            let header = response.headers().get(RETRY_AFTER);
            assert_eq!(response.status(), status);
            assert_eq!(header.is_some(), retry_after.is_some(), "{kind:?}");
            kinds.retain(|name| *name != kind.name());
        }
        assert!(kinds.is_empty(), "not in the table: {kinds:?}");
    }

    #[test]
    fn a_rejection_is_a_refusal_of_the_request_only_if_every_reason_is_a_condition() {
        let text = ErrorKind::TransactionRejected.client_message();
        assert!(!text.contains("condition") && text.contains("its changes to data were not made"));
        let condition = RejectedWrite::CONDITION;
        let refused = (Reason::Rejected, "a condition on the data");
        let misconfigured = (Reason::Misconfigured, text);
        for (codes, (reason, detail)) in [
            (&[condition][..], refused),
            (&[condition, condition], refused),
            (&["ValidationError"], misconfigured),
            (&[condition, "AccessDenied"], misconfigured),
            (&[], misconfigured),
        ] {
            let writes = codes.iter().map(|code| RejectedWrite::new(0, "put", *code));
            let rejection = Rejection::new(2, writes.collect());
            let error = Error::new(ErrorKind::TransactionRejected, "shop");
            let problem = Problem::of_error(error.with_source(rejection));
            assert_eq!(problem.reason(), reason, "{codes:?}");
            assert!(problem.detail().contains(detail), "{codes:?}");
        }
    }

    #[test]
    fn the_wait_for_a_call_in_progress_is_as_long_as_its_lease_has_lasted_and_ends_with_it() {
        for (end, own, seconds) in [
            (900_000, 900_000, 1),
            (899_000, 900_000, 1),
            (898_999, 900_000, 2),
            (800_000, 900_000, 100),
            (450_000, 900_000, 450),
            (100_500, 900_000, 101),
            (1, 900_000, 1),
            (0, 900_000, 1),
            (-5_000, 900_000, 1),
            // The other call claimed a moment later, in an invocation that began later.
            (30_000, 29_950, 1),
            // The lease of the other call is much longer.
            (900_000, 30_000, 10),
            (34_000, 30_000, 4),
            (4_000, 30, 4),
            (i64::MAX - NOW.get(), i64::MAX - NOW.get(), 1),
        ] {
            let [end, own] = [end, own].map(|after| EpochMillis::new(NOW.get() + after));
            let error = Error::new(ErrorKind::AlreadyInProgress, "shop").with_lease_end(end);
            let wait = Problem::of_call(error, NOW, own).retry_after();
            assert_eq!(wait, Some(seconds), "{end} {own}");
        }
    }

    #[test]
    fn the_wait_for_an_open_circuit_is_its_end_in_whole_seconds_and_at_least_one() {
        let waits = [(1, "1"), (1_000, "1"), (1_001, "2"), (30_000, "30")];
        for (after, seconds) in waits.into_iter().chain([(0, "1"), (-5_000, "1")]) {
            let end = EpochMillis::new(NOW.get() + after);
            let error = Error::new(ErrorKind::StoreFailed, "shop").with_circuit_open_until(end);
            let problem = Problem::of_call(error, NOW, NOW);
            assert_eq!(problem.response().headers()[RETRY_AFTER], seconds, "{end}");
        }
    }

    #[test]
    fn a_response_has_the_members_of_a_problem_and_nothing_of_the_operator() {
        let response = of(ErrorKind::Unresolved).response();
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let problem: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(
            problem,
            serde_json::json!({
                "type": "urn:idempotency:outcome-unknown",
                "title": "Outcome is unknown",
                "status": 500,
                "detail": ErrorKind::Unresolved.client_message(),
            })
        );
        let text = std::str::from_utf8(response.body()).unwrap();
        assert!(!text.contains("shop"));
    }

    #[test]
    fn each_reason_has_a_type_and_a_title_of_its_own() {
        use Reason::*;
        let of_calls = [InProgress, Unavailable, NotConfirmed, OutcomeUnknown];
        let of_requests = [KeyMissing, KeyMalformed, CallerUnknown, KeyReused, Rejected];
        let others = [
            BodyTooLarge,
            RequestUnreadable,
            Misconfigured,
            ResponseUnavailable,
        ];
        let all = [&of_calls[..], &of_requests, &others].concat();
        for text in [Reason::type_uri, Reason::title] {
            let texts: std::collections::BTreeSet<_> = all.iter().map(|one| text(*one)).collect();
            assert_eq!(texts.len(), 13, "{texts:?}");
        }
    }
}

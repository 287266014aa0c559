//! A refused request, as `application/problem+json`.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::event;
use idempotency_core::time::EpochMillis;

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

// The reasons why a request gets an error, each with its stable `type`, its status and its title.

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
    /// The request has no idempotency key. It was not processed.
    KeyMissing,
    /// The header of the key is not one key. The request was not processed.
    KeyMalformed,
    /// The client of the request is not known, so its key could be the key of another client. The request was not processed.
    CallerUnknown,
    /// The body is above the limit. The request was not processed.
    BodyTooLarge,
    /// The body or the request cannot be read. The request was not processed.
    RequestUnreadable,
    /// A request with this key is in progress.
    InProgress,
    /// The key was used for another request. This one was not processed.
    KeyReused,
    /// The store cannot be asked, or there is no time left. The request was not processed.
    Unavailable,
    /// The service has a wrong setting or environment, or its store does not accept a write. The request was not processed.
    Misconfigured,
    /// A condition on the data that the request changes does not hold. Nothing was changed.
    Rejected,
    /// The request was processed, but whether its response is stored is not known. A retry finds out.
    NotConfirmed,
    /// The request was processed, but its response is not available.
    ResponseUnavailable,
    /// The request may have been processed, and a retry does not find out.
    OutcomeUnknown,
}

impl Reason {
    /// Every reason.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::CallerUnknown,
        Self::BodyTooLarge,
        Self::RequestUnreadable,
        Self::InProgress,
        Self::KeyReused,
        Self::Unavailable,
        Self::Misconfigured,
        Self::Rejected,
        Self::NotConfirmed,
        Self::ResponseUnavailable,
        Self::OutcomeUnknown,
    ];

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
    pub fn of(kind: ErrorKind) -> Self {
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
            | ErrorKind::StepNotRecorded => Self::NotConfirmed,
            ErrorKind::ResponseTypeChanged
            | ErrorKind::ResponseUnavailable
            | ErrorKind::ResponseNotSerializable => Self::ResponseUnavailable,
            // Also every kind that is added later: it must not look like a request that was not processed.
            _ => Self::OutcomeUnknown,
        }
    }

    /// Returns the `type` of the problem. It stays the same in later versions.
    pub fn type_uri(self) -> &'static str {
        match self {
            Self::KeyMissing => "urn:idempotency:key-missing",
            Self::KeyMalformed => "urn:idempotency:key-malformed",
            Self::CallerUnknown => "urn:idempotency:caller-unknown",
            Self::BodyTooLarge => "urn:idempotency:body-too-large",
            Self::RequestUnreadable => "urn:idempotency:request-unreadable",
            Self::InProgress => "urn:idempotency:in-progress",
            Self::KeyReused => "urn:idempotency:key-reused",
            Self::Unavailable => "urn:idempotency:unavailable",
            Self::Misconfigured => "urn:idempotency:misconfigured",
            Self::Rejected => "urn:idempotency:rejected",
            Self::NotConfirmed => "urn:idempotency:not-confirmed",
            Self::ResponseUnavailable => "urn:idempotency:response-unavailable",
            Self::OutcomeUnknown => "urn:idempotency:outcome-unknown",
        }
    }

    /// Returns the status of the response.
    pub fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::RequestUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::CallerUnknown => StatusCode::FORBIDDEN,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::InProgress | Self::Rejected => StatusCode::CONFLICT,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Misconfigured
            | Self::NotConfirmed
            | Self::ResponseUnavailable
            | Self::OutcomeUnknown => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the title: the same text for each problem of this type.
    pub fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency key is missing",
            Self::KeyMalformed => "Idempotency key is malformed",
            Self::CallerUnknown => "Caller is unknown",
            Self::BodyTooLarge => "Request body is too large",
            Self::RequestUnreadable => "Request cannot be read",
            Self::InProgress => "Request is in progress",
            Self::KeyReused => "Idempotency key was used for another request",
            Self::Unavailable => "Service is unavailable",
            Self::Misconfigured => "Service is misconfigured",
            Self::Rejected => "Request was rejected",
            Self::NotConfirmed => "Result is not confirmed",
            Self::ResponseUnavailable => "Response is not available",
            Self::OutcomeUnknown => "Outcome is unknown",
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
    fn every_kind_of_error_has_its_type_status_and_retry_after() {
        for (kind, status, uri, retry_after) in [
            (ErrorKind::AlreadyInProgress, 409, "in-progress", Some(1)),
            (ErrorKind::PayloadMismatch, 422, "key-reused", None),
            (ErrorKind::KeyMissing, 400, "key-missing", None),
            (ErrorKind::InvalidPayload, 400, "request-unreadable", None),
            (ErrorKind::ExpressionFailed, 400, "request-unreadable", None),
            (ErrorKind::Unresolved, 500, "outcome-unknown", None),
            (ErrorKind::CorruptRecord, 500, "outcome-unknown", None),
            (
                ErrorKind::ResponseTypeChanged,
                500,
                "response-unavailable",
                None,
            ),
            (ErrorKind::Contended, 503, "unavailable", Some(1)),
            (ErrorKind::NoTimeLeft, 503, "unavailable", Some(1)),
            (
                ErrorKind::ResponseUnavailable,
                500,
                "response-unavailable",
                None,
            ),
            (
                ErrorKind::ResponseNotSerializable,
                500,
                "response-unavailable",
                None,
            ),
            (ErrorKind::LostOwnership, 500, "not-confirmed", Some(1)),
            (ErrorKind::CompletionUnknown, 500, "not-confirmed", Some(1)),
            (ErrorKind::TransactionRejected, 500, "misconfigured", None),
            (ErrorKind::StoreFailed, 503, "unavailable", Some(1)),
            (ErrorKind::StepRefused, 500, "outcome-unknown", None),
            (ErrorKind::StepNoTimeLeft, 500, "not-confirmed", Some(1)),
            (ErrorKind::StepNotRecorded, 500, "not-confirmed", Some(1)),
            (ErrorKind::StepTypeChanged, 500, "outcome-unknown", None),
            (ErrorKind::Configuration, 500, "misconfigured", None),
            (ErrorKind::Environment, 500, "misconfigured", None),
            (ErrorKind::UnknownInvocation, 500, "misconfigured", None),
            (ErrorKind::Internal, 500, "outcome-unknown", None),
        ] {
            let problem = of(kind);
            assert_eq!(problem.status().as_u16(), status, "{kind:?}");
            assert_eq!(
                problem.reason().type_uri(),
                format!("urn:idempotency:{uri}"),
                "{kind:?}"
            );
            assert_eq!(problem.retry_after(), retry_after, "{kind:?}");
            assert_eq!(problem.detail(), kind.client_message(), "{kind:?}");
            let response = problem.response();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(
                response.headers().contains_key(RETRY_AFTER),
                retry_after.is_some()
            );
        }
    }

    #[test]
    fn a_rejection_is_a_refusal_of_the_request_only_if_every_reason_is_a_condition() {
        let of = |codes: &[&str]| {
            let writes = codes.iter().map(|code| RejectedWrite::new(0, "put", *code));
            let rejection = Rejection::new(2, writes.collect());
            let error = Error::new(ErrorKind::TransactionRejected, "shop");
            Problem::of_error(error.with_source(rejection))
        };
        let condition = RejectedWrite::CONDITION;
        for codes in [&[condition][..], &[condition, condition]] {
            let problem = of(codes);
            assert_eq!(problem.reason(), Reason::Rejected);
            assert_eq!(problem.status(), StatusCode::CONFLICT);
            assert!(problem.detail().contains("a condition on the data"));
        }
        for codes in [&["ValidationError"][..], &[condition, "AccessDenied"], &[]] {
            let problem = of(codes);
            assert_eq!(problem.reason(), Reason::Misconfigured);
            assert_eq!(problem.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let text = ErrorKind::TransactionRejected.client_message();
            assert_eq!(problem.detail(), text);
            assert!(!text.contains("condition") && text.contains("nothing was changed"));
        }
    }

    #[test]
    fn every_kind_of_the_error_reference_is_in_the_table() {
        let page = include_str!("../../docs/reference/errors.md");
        let (_, table) = include_str!("problem.rs")
            .split_once("mod tests {")
            .unwrap();
        let mut kinds = 0;
        for name in page
            .lines()
            .filter_map(|line| line.strip_prefix("### Idempotency"))
        {
            assert!(table.contains(&format!("ErrorKind::{name},")), "{name}");
            kinds += 1;
        }
        assert_eq!(kinds, 24);
    }

    #[test]
    fn the_wait_for_a_call_in_progress_is_as_long_as_it_has_run_and_ends_with_its_lease() {
        let lease = |end: i64, own: i64| {
            let error = Error::new(ErrorKind::AlreadyInProgress, "shop");
            let error = error.with_lease_end(EpochMillis::new(NOW.get() + end));
            Problem::of_call(error, NOW, EpochMillis::new(NOW.get() + own)).retry_after()
        };
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
            // The lease of the other call is longer: how long it has run is not known.
            (900_000, 3_000, 1),
            (i64::MAX - NOW.get(), i64::MAX - NOW.get(), 1),
        ] {
            assert_eq!(lease(end, own), Some(seconds), "{end} {own}");
        }
    }

    #[test]
    fn the_wait_for_an_open_circuit_is_its_end_in_whole_seconds_and_at_least_one() {
        for (end, seconds) in [
            (NOW.get() + 1, 1),
            (NOW.get() + 1_000, 1),
            (NOW.get() + 1_001, 2),
            (NOW.get() + 30_000, 30),
            (NOW.get(), 1),
            (NOW.get() - 5_000, 1),
        ] {
            let end = EpochMillis::new(end);
            let error = Error::new(ErrorKind::StoreFailed, "shop").with_circuit_open_until(end);
            let problem = Problem::of_call(error, NOW, NOW);
            assert_eq!(problem.retry_after(), Some(seconds), "{end}");
            let header = problem.response().headers()[RETRY_AFTER].clone();
            assert_eq!(header, seconds.to_string().as_str());
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
        let types: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::type_uri).into();
        let titles: std::collections::BTreeSet<_> = Reason::ALL.map(Reason::title).into();
        assert_eq!(
            (types.len(), titles.len()),
            (Reason::ALL.len(), Reason::ALL.len())
        );
    }
}

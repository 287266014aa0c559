//! The reasons why a request gets an error, each with its stable `type`, its status and its title.

use http::StatusCode;
use idempotency_core::error::{Error, ErrorKind};

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

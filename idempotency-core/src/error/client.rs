//! Texts for the client of a service.

use super::{Cause, Error, ErrorKind};

impl ErrorKind {
    /// Returns a text for the client of the service: what the client may know, and what to do next.
    ///
    /// The text is a constant. It names no operation, table or key, and quotes no store. The text of [`Error`] does, and is
    /// for operators: log it, and do not send it to clients.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::error::ErrorKind;
    /// assert_eq!(
    ///     ErrorKind::AlreadyInProgress.client_message(),
    ///     "this request is being processed, or its end is not known yet: send it again later, unchanged and under the same key",
    /// );
    /// ```
    #[doc(hidden)]
    pub const fn client_message(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => {
                "this request is being processed, or its end is not known yet: send it again later, unchanged and under the same key"
            }
            Self::PayloadMismatch => {
                "this idempotency key was used for another request: send a new key, or the first request unchanged"
            }
            Self::KeyMissing => "the request has no idempotency key: send it again with one",
            Self::InvalidPayload | Self::ExpressionFailed => {
                "the request cannot be read, and was not processed: correct it before you send it again"
            }
            // This call did nothing. An earlier call with the same key may have done it.
            Self::Contended | Self::NoTimeLeft | Self::StoreFailed => {
                "the request could not be processed now: send it again later, unchanged and under the same key"
            }
            // The same, but a retry fails until the function is corrected.
            Self::Configuration | Self::Environment | Self::UnknownInvocation => {
                "the service cannot process the request: ask its operator to correct the service, and only then send the \
                 request again, unchanged and under the same key"
            }
            Self::ResponseTypeChanged
            | Self::ResponseUnavailable
            | Self::ResponseNotSerializable => {
                "the request was processed, but its response is not available: do not send it again under a new key"
            }
            Self::LostOwnership | Self::CompletionUnknown => {
                "the request was processed, but its result could not be confirmed: send it again, unchanged and under \
                 the same key"
            }
            // A transaction that conditions refused has the text `CONDITION`. Only the cause of an error shows that.
            Self::TransactionRejected => {
                "the service could not apply the request, and its changes to data were not made: ask its operator to correct the service, \
                 and only then send the request again, unchanged and under the same key"
            }
            Self::StepNoTimeLeft | Self::StepNotRecorded | Self::StepNotUndone => {
                "the request was processed in part: send it again later, unchanged and under the same key"
            }
            Self::Unresolved
            | Self::CorruptRecord
            | Self::StepRefused
            | Self::StepTypeChanged
            | Self::Internal => {
                "the request may have been processed, and its result is not known: ask the operator of the service, \
                 and do not send it again under a new key"
            }
        }
    }
}

/// The text for a transaction that was rejected because conditions do not hold.
const CONDITION: &str = "the request was refused, because a condition on the data that it changes does not hold: its changes to data were not made";

impl Error {
    /// Returns a text for the client of the service, without operation, table, key and store: see
    /// [`ErrorKind::client_message`]. A transaction that was rejected because conditions do not hold has a text of its own. A mistake in the
    /// configuration that the handler made has the text of an unknown result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{error::*, record::RecordId};
    /// let error = Error::new(ErrorKind::NoTimeLeft, "charge").with_key(RecordId::new("charge#42"), "table `payments`");
    /// assert!(error.to_string().contains("charge#42"));
    /// assert!(!error.client_message().contains("charge#42"));
    /// ```
    pub fn client_message(&self) -> &'static str {
        self.0.cause.client_message()
    }
}

impl Cause {
    /// Returns a text for the client of the service, for code that finds only this cause because a wrapper hides the
    /// [`Error`]: see [`Error::client_message`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// # use std::error::Error as _;
    /// let error = Error::new(ErrorKind::KeyMissing, "charge");
    /// let cause = error.source().and_then(|cause| cause.downcast_ref::<Cause>()).unwrap();
    /// assert_eq!(cause.client_message(), error.client_message());
    /// ```
    pub fn client_message(&self) -> &'static str {
        match self.rejection() {
            Some(rejection) if rejection.is_by_conditions() => CONDITION,
            // A mistake in the handler itself.
            _ if self.kind == ErrorKind::Configuration && self.handler_ran => {
                ErrorKind::Internal.client_message()
            }
            _ => self.kind().client_message(),
        }
    }
}

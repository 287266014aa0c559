//! What the client of a service may be told of an error.

use super::{Cause, Error, ErrorKind};

impl ErrorKind {
    /// Returns a text for the client of the service: what the client may know, and what to do next.
    ///
    /// It is a constant: it names no operation, no table, no key and nothing that a store said. [`Error`]'s own text names
    /// them and is for operators: log it, and do not send it out.
    ///
    /// ```
    /// # use idempotency_core::error::ErrorKind;
    /// assert_eq!(
    ///     ErrorKind::AlreadyInProgress.client_message(),
    ///     "this request is still being processed: send it again later, unchanged and under the same key",
    /// );
    /// ```
    pub const fn client_message(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => {
                "this request is still being processed: send it again later, unchanged and under the same key"
            }
            Self::PayloadMismatch => {
                "this idempotency key was used for another request: send a new key, or the first request unchanged"
            }
            Self::KeyMissing => "the request has no idempotency key: send it again with one",
            Self::InvalidPayload | Self::ExpressionFailed => {
                "the request cannot be read, and was not processed: correct it before you send it again"
            }
            // In this call nothing was done; an earlier one with the same key may have done it.
            Self::Contended | Self::NoTimeLeft | Self::StoreFailed => {
                "the request could not be processed now: send it again later, unchanged and under the same key"
            }
            // The same, but a retry changes nothing until the function is corrected.
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
            Self::Unresolved | Self::CorruptRecord | Self::Internal => {
                "the request may have been processed, and its result is not known: ask the operator of the service, \
                 and do not send it again under a new key"
            }
        }
    }
}

impl Error {
    /// Returns a text for the client of the service, without operation, table, key and store: see
    /// [`ErrorKind::client_message`].
    ///
    /// ```
    /// # use idempotency_core::{error::*, record::RecordId};
    /// let error = Error::new(ErrorKind::NoTimeLeft, "charge").with_key(RecordId::new("charge#42"), "table `payments`");
    /// assert!(error.to_string().contains("charge#42"));
    /// assert!(!error.client_message().contains("charge#42"));
    /// ```
    pub fn client_message(&self) -> &'static str {
        self.kind().client_message()
    }
}

impl Cause {
    /// Returns a text for the client of the service, where the [`Error`] itself is hidden by a wrapper: see
    /// [`ErrorKind::client_message`].
    ///
    /// ```
    /// # use idempotency_core::error::*;
    /// # use std::error::Error as _;
    /// let error = Error::new(ErrorKind::KeyMissing, "charge");
    /// let cause = error.source().and_then(|cause| cause.downcast_ref::<Cause>()).unwrap();
    /// assert_eq!(cause.client_message(), error.client_message());
    /// ```
    pub fn client_message(&self) -> &'static str {
        self.kind().client_message()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RecordId;
    use ErrorKind as Kind;

    /// Makes the list of all kinds. A kind that is not in it does not compile.
    macro_rules! all {
        ($($kind:ident),+ $(,)?) => {
            const ALL: &[ErrorKind] = &[$(Kind::$kind),+];
            const _: fn(ErrorKind) = |kind| match kind {
                $(Kind::$kind => {})+
            };
        };
    }

    all![
        AlreadyInProgress,
        PayloadMismatch,
        KeyMissing,
        InvalidPayload,
        ExpressionFailed,
        Unresolved,
        CorruptRecord,
        ResponseTypeChanged,
        Contended,
        NoTimeLeft,
        ResponseUnavailable,
        ResponseNotSerializable,
        LostOwnership,
        CompletionUnknown,
        StoreFailed,
        Configuration,
        Environment,
        UnknownInvocation,
        Internal,
    ];

    #[test]
    fn what_a_client_is_told_holds_nothing_of_operation_key_store_and_detail() {
        for &kind in ALL {
            let error = Error::new(kind, "secret.operation")
                .with_key(RecordId::new("secret#key"), "secret table")
                .with_detail("secret detail");
            let told = error.client_message();
            assert!(!told.contains("secret"), "{kind:?}: {told}");
            for word in [
                "table",
                "DynamoDB",
                "record",
                "handler",
                "IDEMPOTENCY_",
                "Lambda",
            ] {
                assert!(!told.contains(word), "{kind:?}: {told}");
            }
        }
    }

    #[test]
    fn what_a_client_is_told_says_what_to_do_and_agrees_with_the_kind() {
        for &kind in ALL {
            let told = kind.client_message();
            assert!(
                told.contains(": "),
                "{kind:?} says nothing of what to do: {told}"
            );
            assert!(
                !told.ends_with('.') && !told.starts_with(char::is_uppercase),
                "{told}"
            );
            if kind.is_retryable() {
                assert!(
                    told.contains("send it again") && told.contains("under the same key"),
                    "{kind:?}: {told}"
                );
            } else {
                // A retry that waits for time alone comes to the same.
                assert!(!told.contains("send it again later"), "{kind:?}: {told}");
            }
            // A new key would run again what may have run.
            let may_have_run = matches!(
                kind,
                Kind::Unresolved
                    | Kind::CorruptRecord
                    | Kind::ResponseTypeChanged
                    | Kind::ResponseUnavailable
                    | Kind::ResponseNotSerializable
                    | Kind::LostOwnership
                    | Kind::CompletionUnknown
                    | Kind::Internal
            );
            if may_have_run {
                assert!(
                    told.contains("the same key")
                        || told.contains("do not send it again under a new key"),
                    "{kind:?}: {told}"
                );
            }
        }
    }
}

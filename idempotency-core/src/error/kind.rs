//! The one list of the kinds of errors.

/// Makes [`ErrorKind`] from one row for each kind: its documentation, its name, and the text of its errors.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident = $text:literal;)+) => {
        /// The category of an error.
        ///
        /// # Examples
        ///
        /// ```
        /// use idempotency_core::error::ErrorKind;
        /// assert_eq!(ErrorKind::PayloadMismatch.name(), "IdempotencyPayloadMismatch");
        /// assert!(!ErrorKind::PayloadMismatch.is_retryable());
        /// assert!(ErrorKind::Contended.is_retryable());
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])+ $kind,)+
        }

        impl ErrorKind {
            #[cfg(test)]
            pub(super) const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Returns a stable name, for the error responses of a host and for alarms.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => concat!("Idempotency", stringify!($kind)),)+
                }
            }

            /// Returns the text of an error of this kind.
            pub(super) const fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)+
                }
            }
        }
    };
}

kinds! {
    /// Another call with this key is in progress: it runs, or it was killed or dropped and its lease has not ended.
    AlreadyInProgress = "a call with this key is in progress";
    /// The key was used with another payload.
    PayloadMismatch = "this key was used with another payload: send a new key, or the payload that was sent first";
    /// The payload has no key, and the operation requires one.
    KeyMissing = "the payload lacks its idempotency key, or a part of it or of what is compared";
    /// The operation cannot take a key from this payload.
    InvalidPayload = "no key can be taken from this payload";
    /// An expression failed on this payload.
    ExpressionFailed = "an expression failed on this payload";
    /// Under `hold`: an earlier run may have had its effect, and no operator has resolved it.
    Unresolved =
        "an earlier run of this key ended without a result and may have had its effect: \
         find out, then decide about the key with `idempotency resolve`";
    /// The record in the store cannot be understood.
    CorruptRecord =
        "the stored record cannot be understood: find out what wrote it (deleting it lets the handler run again)";
    /// The key is completed, but its stored response does not fit the response type.
    ResponseTypeChanged =
        "the call is complete, but its stored response does not fit the response type: restore the type, wait for the end of the \
         window, or correct a response that an operator gave with `idempotency resolve` (deleting the record lets the handler run \
         again)";
    /// Other calls won every claim attempt, or the record changed before its eviction.
    Contended = "other calls or an operator changed the record of this key first";
    /// The deadline expired before the handler could start.
    NoTimeLeft =
        "the time of the call ended before the handler could start: retry, or raise the timeout of the function or server";
    /// The key is completed, but its response could not be stored.
    ResponseUnavailable =
        "the call is complete, but its response could not be stored (too large, or not serialisable): \
         it does not run again in its window";
    /// The handler ran, but its response cannot be written as JSON.
    ResponseNotSerializable = "the response cannot be written as JSON: correct the response type's `Serialize`";
    /// The handler ran, but its claim was gone (taken over, resolved or evicted), and there was no response for it.
    LostOwnership =
        "the claim was gone before the call had ended (taken over by another call, or resolved or evicted by an operator): a retry gets \
         that call's response, or runs again";
    /// The handler ran, but storing its response was not confirmed.
    CompletionUnknown = "storing the response was not confirmed: a retry gets it if it is stored";
    /// The handler ran, but the writes that it staged were rejected, or one was refused when it was staged. Nothing of them was applied.
    TransactionRejected =
        "the transaction was rejected, and nothing of it was applied: the same call can run again, but it is rejected \
         again until its data or its writes change";
    /// The store failed before the handler ran.
    StoreFailed = "the store could not be asked";
    /// A step cannot run: its name was used before, or its call cannot have steps.
    StepRefused = "a step did not run, because it cannot be recorded: correct the handler";
    /// The lease of the claim expired before a step could start.
    StepNoTimeLeft = "the time of the claim ended before a step could start: retry, or raise the timeout of the function (on a server the `lease`)";
    /// A step ran, but recording its result was not confirmed.
    StepNotRecorded = "a step ran, and its result may not be recorded: a retry may run the step again";
    /// The handler decided that its steps are undone, and they are not, or not all.
    StepNotUndone = "the steps of this key are not undone, or not all: unless an operator must decide, a retry goes on undoing if the decision is recorded, \
         and otherwise runs the handler again";
    /// The recorded result of a step does not fit its type.
    StepTypeChanged =
        "the recorded result of a step does not fit its type: restore the type, or wait for the end of the window \
         (deleting the record lets every step run again)";
    /// A setting cannot be understood.
    Configuration = "the configuration is wrong";
    /// The clock or the random source cannot be trusted.
    Environment = "the environment of the process cannot be trusted";
    /// The call does not know its invocation, so it knows neither its deadline nor its tenant.
    UnknownInvocation = "the invocation of this call is not known, so neither its deadline nor its tenant";
    /// This framework contradicted itself. This is its own fault, which a retry does not resolve.
    Internal = "a fault in this framework: do not retry, look at the record of this key, and report the fault";
}

impl ErrorKind {
    /// Returns true if a call that ends in this error before its handler has done nothing. A call in progress or with an unknown outcome
    /// may have its effect through another call.
    pub(super) const fn is_of_unprocessed(self) -> bool {
        matches!(
            self,
            Self::PayloadMismatch
                | Self::KeyMissing
                | Self::InvalidPayload
                | Self::ExpressionFailed
                | Self::Contended
                | Self::NoTimeLeft
                | Self::StoreFailed
                | Self::Configuration
                | Self::Environment
                | Self::UnknownInvocation
        )
    }

    /// Returns true if retrying the same call later can succeed without a change to configuration, code or data.
    ///
    /// If [`Error::handler_ran`](super::Error::handler_ran), the retry gets the stored response or runs the handler again.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::AlreadyInProgress
                | Self::Contended
                | Self::NoTimeLeft
                | Self::LostOwnership
                | Self::CompletionUnknown
                | Self::StoreFailed
                | Self::StepNoTimeLeft
                | Self::StepNotRecorded
                | Self::StepNotUndone
        )
    }
}

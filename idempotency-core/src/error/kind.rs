//! The one list of the kinds of errors.

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
    /// Another call with this key is in progress.
    AlreadyInProgress,
    /// The key was used with another payload.
    PayloadMismatch,
    /// The payload has no key, and the operation requires one.
    KeyMissing,
    /// The operation cannot take a key from this payload.
    InvalidPayload,
    /// An expression failed on this payload.
    ExpressionFailed,
    /// Under `hold`: an earlier run may have had its effect, and no operator has resolved it.
    Unresolved,
    /// The record in the store cannot be understood.
    CorruptRecord,
    /// The key is completed, but its stored response does not fit the response type.
    ResponseTypeChanged,
    /// Other calls won every claim attempt.
    Contended,
    /// The deadline expired before the handler could start.
    NoTimeLeft,
    /// The key is completed, but its response could not be stored.
    ResponseUnavailable,
    /// The handler ran, but its response cannot be written as JSON.
    ResponseNotSerializable,
    /// The handler ran, but its claim had gone to another call, which has no response for it.
    LostOwnership,
    /// The handler ran, but storing its response was not confirmed.
    CompletionUnknown,
    /// The handler ran, but the writes that it staged were rejected. Nothing of them was applied.
    TransactionRejected,
    /// The store failed before the handler ran.
    StoreFailed,
    /// A step cannot run: its name was used before, or its call cannot have steps.
    StepRefused,
    /// The lease of the claim expired before a step could start.
    StepNoTimeLeft,
    /// A step ran, but recording its result was not confirmed.
    StepNotRecorded,
    /// The recorded result of a step does not fit its type.
    StepTypeChanged,
    /// A setting cannot be understood.
    Configuration,
    /// The clock or the random source cannot be trusted.
    Environment,
    /// The call does not know its invocation, so it knows neither its deadline nor its tenant.
    UnknownInvocation,
    /// This framework contradicted itself. This is its own fault, which a retry does not resolve.
    Internal,
}

impl ErrorKind {
    /// Returns a stable name, for `errorType` in Lambda's error responses and for alarms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => "IdempotencyAlreadyInProgress",
            Self::PayloadMismatch => "IdempotencyPayloadMismatch",
            Self::KeyMissing => "IdempotencyKeyMissing",
            Self::InvalidPayload => "IdempotencyInvalidPayload",
            Self::ExpressionFailed => "IdempotencyExpressionFailed",
            Self::Unresolved => "IdempotencyUnresolved",
            Self::CorruptRecord => "IdempotencyCorruptRecord",
            Self::ResponseTypeChanged => "IdempotencyResponseTypeChanged",
            Self::Contended => "IdempotencyContended",
            Self::NoTimeLeft => "IdempotencyNoTimeLeft",
            Self::ResponseUnavailable => "IdempotencyResponseUnavailable",
            Self::ResponseNotSerializable => "IdempotencyResponseNotSerializable",
            Self::LostOwnership => "IdempotencyLostOwnership",
            Self::CompletionUnknown => "IdempotencyCompletionUnknown",
            Self::TransactionRejected => "IdempotencyTransactionRejected",
            Self::StoreFailed => "IdempotencyStoreFailed",
            Self::StepRefused => "IdempotencyStepRefused",
            Self::StepNoTimeLeft => "IdempotencyStepNoTimeLeft",
            Self::StepNotRecorded => "IdempotencyStepNotRecorded",
            Self::StepTypeChanged => "IdempotencyStepTypeChanged",
            Self::Configuration => "IdempotencyConfiguration",
            Self::Environment => "IdempotencyEnvironment",
            Self::UnknownInvocation => "IdempotencyUnknownInvocation",
            Self::Internal => "IdempotencyInternal",
        }
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
        )
    }

    /// Returns the text of an error of this kind.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::AlreadyInProgress => "a call with this key is in progress",
            Self::PayloadMismatch => {
                "this key was used with another payload: send a new key, or the payload that was sent first"
            }
            Self::KeyMissing => "the payload has no idempotency key, and one is required",
            Self::InvalidPayload => "no key can be taken from this payload",
            Self::ExpressionFailed => "an expression failed on this payload",
            Self::Unresolved => {
                "an earlier run of this key ended without a result and may have had its effect: \
                 find out, then decide about the key with `idempotency resolve`"
            }
            Self::CorruptRecord => {
                "the stored record cannot be understood: find out what wrote it (deleting it lets the handler run again)"
            }
            Self::ResponseTypeChanged => {
                "the call is complete, but its stored response does not fit the response type: restore the type, or wait \
                 for the end of the window (deleting the record lets the handler run again)"
            }
            Self::Contended => "other calls with this key won every claim attempt: retry",
            Self::NoTimeLeft => {
                "the invocation's time ended before the handler could start: retry, or raise the function's timeout"
            }
            Self::ResponseUnavailable => {
                "the call is complete, but its response could not be stored (too large, or not serialisable): \
                 it will not run again"
            }
            Self::ResponseNotSerializable => {
                "the response cannot be written as JSON: correct the response type's `Serialize`"
            }
            Self::LostOwnership => {
                "the claim was gone before the call had ended (taken over by another call, or resolved or evicted by an operator): a retry gets \
                 that call's response, or runs again"
            }
            Self::CompletionUnknown => {
                "storing the response was not confirmed: a retry gets it if it is stored"
            }
            Self::TransactionRejected => {
                "the transaction was rejected, and nothing of it was applied: the same call can run again, but it is rejected \
                 again until its data or its writes change"
            }
            Self::StoreFailed => "the store could not be asked",
            Self::StepRefused => {
                "a step did not run, because it cannot be recorded: correct the handler"
            }
            Self::StepNoTimeLeft => {
                "the time of the claim ended before a step could start: retry, or raise the function's timeout"
            }
            Self::StepNotRecorded => {
                "a step ran, and its result may not be recorded: a retry may run the step again"
            }
            Self::StepTypeChanged => {
                "the recorded result of a step does not fit its type: restore the type, or wait for the end of the window \
                 (deleting the record lets every step run again)"
            }
            Self::Configuration => "the configuration is wrong",
            Self::Environment => "the function's environment cannot be trusted",
            Self::UnknownInvocation => {
                "the invocation of this call is not known, so neither its deadline nor its tenant"
            }
            Self::Internal => {
                "a fault in this framework: do not retry, look at the record of this key, and report the fault"
            }
        }
    }
}

//! The summary of a call that has ended. The outcome event, the fields of its span and all metrics are made from it.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::outcome::Bypass;
use crate::protocol::{ClaimEnd, Source, StagedEnd};
use crate::record::RecordId;

/// The end of a call, as [`observe`](super::observe) hands it to an observer: the facts of the outcome event as values.
///
/// It holds no payload, no response and no text of an error. A key is a digest.
///
/// # Examples
///
/// ```
/// use idempotency_core::event::{CallOutcome, CallSummary};
///
/// /// Returns the label of a call in another metrics system.
/// fn label(call: &CallSummary<'_>) -> &'static str {
///     match (call.outcome(), call.error_kind()) {
///         (_, Some(kind)) => kind.name(),
///         (CallOutcome::Replayed, None) => "duplicate prevented",
///         (outcome, None) => outcome.name(),
///     }
/// }
/// # let _ = label;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallSummary<'a> {
    pub(super) operation: &'a str,
    pub(super) key: Option<&'a RecordId>,
    pub(super) outcome: CallOutcome,
    /// Where the response was found, if it is a stored one.
    pub(super) source: Option<Source>,
    /// The error of this framework, if the caller got one.
    pub(super) error: Option<&'a Error>,
    /// How far the handler came; `None` if it was not started.
    pub(super) handler: Option<HandlerProgress>,
    /// How this call's own claim ended, if known.
    pub(super) claim: Option<ClaimEnd>,
    /// True if this call's claim replaced the claim of a run that ended without a result.
    pub(super) taken_over: bool,
    /// How often the lease was renewed.
    pub(super) renewals: u32,
    /// True if the claim may have been gone while the handler ran, although its lease is renewed.
    pub(super) claim_lost: bool,
    /// How many steps the call has undone.
    pub(super) undone: u32,
    /// Why the handler ran unprotected, if it did.
    pub(super) bypass: Option<Bypass>,
    /// What became of the writes that the handler staged, if it staged any.
    pub(super) staged: Option<StagedEnd>,
    /// What the call learnt of the circuit breaker, or did to it.
    pub(super) circuit: Option<CircuitChange>,
    /// A note for the developer, in addition to the error.
    pub(super) note: Option<&'a str>,
    /// The number of requests to the `Store`. The store may have sent one request several times.
    pub(super) store_requests: u32,
    pub(super) store_time: Duration,
    pub(super) handler_time: Duration,
}

/// Makes an enum from one row for each value: its documentation and its stable name.
macro_rules! named {
    ($(#[$of:meta])+ $type:ident: $($(#[$doc:meta])+ $value:ident = $name:literal,)+) => {
        $(#[$of])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$doc])+ $value,)+
        }

        impl $type {
            /// Returns the stable name, as in the outcome event.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }
    };
}

named! {
    /// What the caller of a call got: the field `outcome` of the outcome event.
    CallOutcome:
    /// The handler's response.
    Executed = "executed",
    /// A stored response.
    Replayed = "replayed",
    /// The handler's own error.
    Failed = "failed",
    /// The handler's panic.
    Panicked = "panicked",
    /// The result of the handler, which ran unprotected: the payload has no key, or protection is switched off.
    Bypassed = "bypassed",
    /// The result of the handler, which ran without a confirmed claim, because the store failed.
    Unprotected = "unprotected",
    /// An error of this framework. The handler did not run.
    Refused = "refused",
    /// An error of this framework. The handler ran.
    Unconfirmed = "unconfirmed",
    /// The error [`TransactionRejected`](ErrorKind::TransactionRejected). The handler ran, and nothing of what it staged was
    /// applied.
    Rejected = "rejected",
    /// Nothing: the call's future was dropped.
    Abandoned = "abandoned",
}

named! {
    /// How far the handler of a call came.
    HandlerProgress:
    /// It started, and the call was dropped while it ran.
    Started = "started",
    /// It returned a response.
    Returned = "returned",
    /// It returned an error.
    Failed = "failed",
    /// It panicked.
    Panicked = "panicked",
}

named! {
    /// What a call learnt of the circuit breaker of its store, or did to it.
    CircuitChange:
    /// A failure of this call opened the circuit.
    Opened = "opened",
    /// The circuit was open, so the call sent no request.
    Open = "open",
    /// A reply to this call closed the circuit.
    Closed = "closed",
}

impl<'a> CallSummary<'a> {
    /// Returns the summary of a call of which nothing is known yet. If nothing follows, the call was abandoned.
    pub(super) fn new(operation: &'a str, key: Option<&'a RecordId>) -> Self {
        Self {
            operation,
            key,
            outcome: CallOutcome::Abandoned,
            source: None,
            error: None,
            handler: None,
            claim: None,
            taken_over: false,
            renewals: 0,
            claim_lost: false,
            undone: 0,
            bypass: None,
            staged: None,
            circuit: None,
            note: None,
            store_requests: 0,
            store_time: Duration::ZERO,
            handler_time: Duration::ZERO,
        }
    }

    /// Returns the summary with the error that the caller got.
    pub(super) fn with_error(self, error: &'a Error) -> Self {
        Self {
            outcome: CallOutcome::of(error),
            error: Some(error),
            ..self
        }
    }

    /// Returns the summary of a call whose caller got the handler's own result.
    pub(super) fn with_own_result(self) -> Self {
        let outcome = match (self.bypass, self.handler) {
            (Some(Bypass::StoreFailed), _) => CallOutcome::Unprotected,
            (Some(_), _) => CallOutcome::Bypassed,
            (None, Some(HandlerProgress::Failed)) => CallOutcome::Failed,
            (None, Some(HandlerProgress::Panicked)) => CallOutcome::Panicked,
            (None, _) => CallOutcome::Executed,
        };
        Self { outcome, ..self }
    }

    /// Returns the operation's key prefix, or its path if the call ended before the prefix was known.
    pub fn operation(&self) -> &'a str {
        self.operation
    }

    #[cfg(test)]
    pub(crate) fn note(&self) -> Option<&'a str> {
        self.note
    }

    /// Returns the id of the record, if it was known. It is a digest.
    pub fn key(&self) -> Option<&'a RecordId> {
        self.key
    }

    /// Returns what the caller got.
    pub fn outcome(&self) -> CallOutcome {
        self.outcome
    }

    /// Returns the kind of the error, if the caller got an error of this framework.
    pub fn error_kind(&self) -> Option<ErrorKind> {
        self.error.map(Error::kind)
    }

    /// Returns where the response was found, if it is a stored one.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// Returns why the handler ran unprotected, if it did. After a failure of the store such a run can still end with a stored
    /// response.
    pub fn bypass(&self) -> Option<Bypass> {
        self.bypass
    }

    /// Returns how far the handler came, or `None` if it was not started.
    pub fn handler(&self) -> Option<HandlerProgress> {
        self.handler
    }

    /// Returns how the call's own claim ended, if it had one and its end is known.
    pub fn claim(&self) -> Option<ClaimEnd> {
        self.claim
    }

    /// Returns true if the call's claim replaced the claim of another call, whose lease had expired without a result: the other
    /// run was killed, or is late.
    ///
    /// It is false if the store does not report what a claim replaced, or if the reply to the claim was lost.
    pub fn taken_over(&self) -> bool {
        self.taken_over
    }

    /// Returns how often the lease of the call's claim was renewed. It is zero without `renew`.
    pub fn renewals(&self) -> u32 {
        self.renewals
    }

    /// Returns true if the claim of the call may have been gone while its handler ran, although the operation renews its lease: no renewal
    /// was confirmed in time, or one found that the claim was gone.
    pub fn claim_lost(&self) -> bool {
        self.claim_lost
    }

    /// Returns how many steps the call has undone.
    pub fn undone(&self) -> u32 {
        self.undone
    }

    /// Returns what the call learnt of the circuit breaker, or did to it. `None` if it is closed and stays so, and for an operation
    /// without `circuit_breaker`.
    pub fn circuit(&self) -> Option<CircuitChange> {
        self.circuit
    }

    /// Returns what became of the writes that the handler staged. `None` if it staged none, or was dropped while it ran.
    pub fn staged(&self) -> Option<StagedEnd> {
        self.staged
    }

    /// Returns the number of requests to the store. The store's client may have sent one several times.
    pub fn store_requests(&self) -> u32 {
        self.store_requests
    }

    /// Returns how long the call waited for the store, by the backend's clock.
    pub fn store_time(&self) -> Duration {
        self.store_time
    }

    /// Returns how long the handler took, by the backend's clock.
    pub fn handler_time(&self) -> Duration {
        self.handler_time
    }

    /// Returns true if the handler was started in this call.
    pub(super) fn handler_ran(&self) -> bool {
        self.handler.is_some()
    }

    /// Returns whether the response is stored, for a run under a claim whose end is known.
    pub(super) fn stored(&self) -> Option<bool> {
        self.claim.map(|claim| claim == ClaimEnd::Completed)
    }

    pub(super) fn source_name(&self) -> Option<&'static str> {
        self.source().map(|source| match source {
            Source::Store => "store",
            Source::Cache => "cache",
            Source::ConcurrentCall => "flight",
            Source::Completion => "completion",
        })
    }

    pub(super) fn bypass_name(&self) -> Option<&'static str> {
        self.bypass().map(|why| match why {
            Bypass::NoKey => "no_key",
            Bypass::Disabled => "disabled",
            Bypass::StoreFailed => "store_failed",
        })
    }
}

impl CallOutcome {
    /// Returns the outcome of a call whose caller got this error.
    fn of(error: &Error) -> Self {
        if error.kind() == ErrorKind::TransactionRejected {
            Self::Rejected
        } else if error.handler_ran() {
            Self::Unconfirmed
        } else {
            Self::Refused
        }
    }
}

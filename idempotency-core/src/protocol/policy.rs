//! The policies of an operation, which its user chooses.

use std::str::FromStr;
use std::time::Duration;

/// What a duplicate does while the first call is in progress.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::policy::OnInProgress;
/// assert_eq!("wait".parse(), Ok(OnInProgress::Wait));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnInProgress {
    /// It gets a retryable error at once.
    #[default]
    Reject,
    /// It waits for the response, as long as its own deadline allows.
    Wait,
}

/// What to do with a claim whose lease expired before it was completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnTimeout {
    /// Assume that the run died: the next call runs the handler again.
    #[default]
    Rerun,
    /// Assume that the effect may have happened: no call runs the handler again until an operator decides.
    ///
    /// A panic is treated the same way, because it does not report whether the effect happened. So is an error that a layer around the
    /// handler can have made. An `Err` of the handler itself does report it, and frees the key.
    Hold,
}

/// What to do with a claim whose handler failed, or panicked under `rerun`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// Delete it, so that a retry runs the handler.
    #[default]
    Release,
    /// Keep it, with the failure written to it and its lease ended. A retry runs the handler, and an operator can see the
    /// failure.
    Record,
}

/// What a call does if it could not claim its key, because the store failed before the handler ran.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::policy::OnStoreError;
/// assert_eq!("run-unprotected".parse(), Ok(OnStoreError::RunUnprotected));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// It ends in an error that can be retried. The handler does not run.
    #[default]
    Fail,
    /// The handler runs without a confirmed claim, if the store may recover by itself and the call has met no other call of its
    /// key. Duplicates can run too, and their responses can differ.
    ///
    /// It has no effect under [`OnTimeout::Hold`].
    RunUnprotected,
}

/// How a call looks for the record of its key, before it claims the key.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::policy::Lookup;
/// assert_eq!("read-first".parse(), Ok(Lookup::ReadFirst));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lookup {
    /// It claims at once. A claim that is refused brings the record back.
    #[default]
    ClaimFirst,
    /// It reads the record first, eventually consistently. A completed record is replayed without a claim. In every other case
    /// the claim decides.
    ReadFirst,
}

/// Whether an operation has steps, and what a failed run does with their results.
///
/// A run that was killed, and a claim that was taken over, keep the results under `Keep` and `Forget`. The end of the window deletes them.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::policy::Steps;
/// assert_eq!("keep".parse(), Ok(Steps::Keep));
/// assert_eq!(Steps::default(), Steps::Off);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Steps {
    /// The operation has no steps.
    #[default]
    Off,
    /// A failed run keeps the results. A retry goes on after the last step.
    Keep,
    /// A failed run deletes the results. A retry begins with the first step.
    Forget,
}

impl Steps {
    /// Returns true if the operation has steps.
    pub(crate) fn are_on(self) -> bool {
        self != Self::Off
    }
}

macro_rules! named {
    ($type:ty, $($text:literal => $value:path),+) => {
        impl FromStr for $type {
            type Err = UnknownPolicy;

            /// Parses a name in upper or lower case, as the attribute does.
            fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
                $(if $text.eq_ignore_ascii_case(text) {
                    return Ok($value);
                })+
                Err(UnknownPolicy { accepted: &[$($text),+] })
            }
        }
    };
}

named!(OnInProgress, "reject" => OnInProgress::Reject, "wait" => OnInProgress::Wait);
named!(Lookup, "claim-first" => Lookup::ClaimFirst, "read-first" => Lookup::ReadFirst);
named!(OnTimeout, "rerun" => OnTimeout::Rerun, "hold" => OnTimeout::Hold);
named!(OnStoreError, "fail" => OnStoreError::Fail, "run-unprotected" => OnStoreError::RunUnprotected);
named!(Steps, "off" => Steps::Off, "keep" => Steps::Keep, "forget" => Steps::Forget);
named!(OnError, "release" => OnError::Release, "record" => OnError::Record);

/// The error of a text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownPolicy {
    accepted: &'static [&'static str],
}

impl std::fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "write one of `{}`", self.accepted.join("`, `"))
    }
}

impl std::error::Error for UnknownPolicy {}

/// The policies of an operation, and its times.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::policy::{OnTimeout, Policy};
/// let mut policy = Policy::default();
/// policy.on_timeout = OnTimeout::Hold;
/// assert_eq!(policy.expires_after.as_secs(), 3_600);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Policy {
    /// How a call looks for the record of its key, before it claims the key.
    pub lookup: Lookup,
    /// What a duplicate does while the first call is in progress.
    pub on_in_progress: OnInProgress,
    /// What to do with a claim whose lease expired before it was completed.
    pub on_timeout: OnTimeout,
    /// What to do with a claim whose handler failed.
    pub on_error: OnError,
    /// What a call does if it could not claim its key, because the store failed.
    pub on_store_error: OnStoreError,
    /// True if a call asks the circuit breaker before it asks the store.
    pub circuit_breaker: bool,
    /// Whether the operation has steps, and what a failed run does with their results.
    pub steps: Steps,
    /// How long a response is replayed after its completion, in whole seconds.
    pub expires_after: Duration,
    /// How long the requests before the handler may take together. They never take more than half of the time left.
    pub store_timeout: Duration,
}

impl Policy {
    /// Returns true if a handler may choose this window for its response: at least a second, and at most that of the operation.
    pub(crate) fn allows_window(&self, window: Duration) -> bool {
        (1..=self.expires_after.as_secs()).contains(&window.as_secs())
    }

    /// Returns the window of a response whose handler asked for `asked`: that of the operation, unless a shorter one is allowed.
    pub(super) fn window(&self, asked: Option<Duration>) -> Duration {
        let allowed = asked.filter(|window| self.allows_window(*window));
        allowed.unwrap_or(self.expires_after)
    }

    /// Returns true if a call may run without a confirmed claim after a failure of the store.
    ///
    /// Never under `hold`: a run without a claim leaves no trace, and a second run could follow.
    pub(super) fn runs_unprotected(&self) -> bool {
        self.on_store_error == OnStoreError::RunUnprotected && self.on_timeout != OnTimeout::Hold
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lookup: Lookup::default(),
            on_in_progress: OnInProgress::default(),
            on_timeout: OnTimeout::default(),
            on_error: OnError::default(),
            on_store_error: OnStoreError::default(),
            circuit_breaker: false,
            steps: Steps::default(),
            expires_after: Duration::from_secs(60 * 60),
            store_timeout: Duration::from_secs(3),
        }
    }
}

//! The policies of an operation, which its user chooses.

use std::str::FromStr;
use std::time::Duration;

/// What a duplicate does while the first call still runs.
///
/// ```
/// use idempotency_core::protocol::policy::OnInProgress;
/// assert_eq!("wait".parse(), Ok(OnInProgress::Wait));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnInProgress {
    /// It is told so at once, with a retryable error.
    #[default]
    Reject,
    /// It waits for the answer, as long as its own deadline allows.
    Wait,
}

/// What a claim whose lease ended without a completion is taken for.
///
/// ```
/// use idempotency_core::protocol::policy::OnTimeout;
/// assert_eq!("hold".parse(), Ok(OnTimeout::Hold));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnTimeout {
    /// For a run that died: the next call runs again.
    #[default]
    Rerun,
    /// For a run that may have had its effect: nobody runs again until an operator decides. A panic counts as such an end too,
    /// since it does not report whether the effect happened; an `Err` is a reported end, and frees the key.
    Hold,
}

/// What becomes of a claim whose handler failed, or panicked under `rerun`.
///
/// ```
/// use idempotency_core::protocol::policy::OnError;
/// assert_eq!("record".parse(), Ok(OnError::Record));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnError {
    /// It is deleted, so that a retry runs.
    #[default]
    Release,
    /// It stays, with the failure written on it and its lease ended, so that a retry runs and an operator can see.
    Record,
}

macro_rules! named {
    ($type:ty, $($text:literal => $value:path),+) => {
        impl FromStr for $type {
            type Err = UnknownPolicy;

            /// Reads a name in upper or lower case, as the attribute does.
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
named!(OnTimeout, "rerun" => OnTimeout::Rerun, "hold" => OnTimeout::Hold);
named!(OnError, "release" => OnError::Release, "record" => OnError::Record);

/// A word that names no policy.
///
/// ```
/// use idempotency_core::protocol::policy::OnTimeout;
/// let error = "retry".parse::<OnTimeout>().unwrap_err();
/// assert_eq!(error.to_string(), "write one of `rerun`, `hold`");
/// ```
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

/// Everything the protocol wants to know of an operation.
///
/// ```
/// use idempotency_core::protocol::policy::Policy;
/// assert_eq!(Policy::default().expires_after.as_secs(), 3_600);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// What a duplicate does while the first call still runs.
    pub on_in_progress: OnInProgress,
    /// What a claim whose lease ended without a completion is taken for.
    pub on_timeout: OnTimeout,
    /// What becomes of a claim whose handler failed.
    pub on_error: OnError,
    /// How long an answer is replayed, from its completion on, in whole seconds.
    pub expires_after: Duration,
    /// How long a claim lasts where no deadline is known.
    pub lease: Duration,
    /// How long the requests before the handler may take together; never more than half of the time that is left.
    pub store_timeout: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_in_progress: OnInProgress::default(),
            on_timeout: OnTimeout::default(),
            on_error: OnError::default(),
            expires_after: Duration::from_secs(60 * 60),
            lease: Duration::from_secs(15 * 60),
            store_timeout: Duration::from_secs(3),
        }
    }
}

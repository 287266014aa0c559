//! Decides whether a failed send is repeated, and after which pause. The rules and numbers are the SDK's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::ConnectorError;
use aws_smithy_types::retry::{ErrorKind, RetrySpec};

use crate::error::TRANSACTION_IN_PROGRESS;

/// The error codes of a service that asks for fewer requests.
const THROTTLED: &[&str] = &[
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    TRANSACTION_IN_PROGRESS,
];

/// The error codes of a temporary fault.
const TRANSIENT: &[&str] = &["RequestTimeout", "RequestTimeoutException"];

/// The error code of a write that met a write from another region.
const CONFLICT: &str = "ReplicatedWriteConflictException";

/// The error codes that a wrong clock can cause.
pub(crate) const CLOCK: &[&str] = &[
    "AccessDeniedException",
    "AuthFailure",
    "InvalidSignatureException",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Returns true if this is the error code of a service that asks for fewer requests.
pub fn is_throttled(code: &str) -> bool {
    THROTTLED.contains(&code)
}

/// Returns the kind of an error response that is worth another send. `clock_is_wrong` is true if the clocks of the process and
/// of DynamoDB differ so much that this can be the cause.
pub(crate) fn of_response(
    status: u16,
    code: Option<&str>,
    clock_is_wrong: bool,
) -> Option<ErrorKind> {
    match code.unwrap_or_default() {
        code if is_throttled(code) => Some(ErrorKind::ThrottlingError),
        code if TRANSIENT.contains(&code) => Some(ErrorKind::TransientError),
        CONFLICT => Some(ErrorKind::ClientError),
        code if clock_is_wrong && CLOCK.contains(&code) => Some(ErrorKind::ServerError),
        _ if matches!(status, 500 | 502..=504) => Some(ErrorKind::TransientError),
        _ => None,
    }
}

/// Returns the kind of a failed connection that is worth another send.
pub(crate) fn of_connector(error: &ConnectorError) -> Option<ErrorKind> {
    if error.is_timeout() || error.is_io() {
        Some(ErrorKind::TransientError)
    } else {
        error.as_other()
    }
}

/// Returns true if these settings are those of the SDK's retry behaviour 2.1, which a variable of the SDK switches on.
pub(crate) fn is_v2_1(retries: &RetryConfig) -> bool {
    let spec = retries.retry_spec();
    spec.is_some_and(|spec| spec.is_at_least(aws_smithy_types::retry::RetrySpecVersion::V2_1))
}

/// The number of tokens of a full quota. A quota is full at first.
const CAPACITY: u32 = 500;

/// A retry quota: a token bucket that stops the repetitions if requests keep failing. Clones are the same quota.
#[derive(Clone, Debug)]
pub struct RetryQuota(Arc<Mutex<u32>>);

impl Default for RetryQuota {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(CAPACITY)))
    }
}

impl RetryQuota {
    /// Takes tokens. Returns false if there are too few.
    fn take(&self, cost: u32) -> bool {
        let mut tokens = self.tokens();
        let left = tokens.checked_sub(cost);
        *tokens = left.unwrap_or(*tokens);
        left.is_some()
    }

    fn give(&self, tokens: u32) {
        let mut all = self.tokens();
        *all = CAPACITY.min(*all + tokens);
    }

    fn tokens(&self) -> MutexGuard<'_, u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sends of one request so far.
pub(crate) struct Attempts<'a> {
    retries: &'a RetryConfig,
    quota: &'a RetryQuota,
    sends: u32,
    /// What the last repetition took from the quota.
    taken: Option<u32>,
}

impl<'a> Attempts<'a> {
    /// Begins with the first send.
    pub(crate) fn new(retries: &'a RetryConfig, quota: &'a RetryQuota) -> Self {
        Self {
            retries,
            quota,
            sends: 1,
            taken: None,
        }
    }

    /// Returns the pause before another send, or `None` if there must be no other. `retry_after` is the pause that DynamoDB asks for.
    pub(crate) fn next(
        &mut self,
        kind: Option<ErrorKind>,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let kind = kind?;
        if self.sends >= self.retries.max_attempts() {
            return None;
        }
        let pause = self.pause(kind, retry_after);
        let cost = self.cost(kind);
        if !self.quota.take(cost) {
            return None;
        }
        self.taken = Some(cost);
        self.sends += 1;
        Some(pause)
    }

    /// Notes that the last send succeeded: the quota gets back what this repetition took, or one token if it was the first send.
    pub(crate) fn succeeded(&self) {
        self.quota.give(self.taken.unwrap_or(1));
    }

    fn cost(&self, kind: ErrorKind) -> u32 {
        match (is_v2_1(self.retries), kind) {
            (_, ErrorKind::ThrottlingError) => 5,
            (true, _) => 14,
            (false, ErrorKind::TransientError) => 10,
            (false, _) => 5,
        }
    }

    /// Returns a random pause. Its limit doubles with each send.
    fn pause(&self, kind: ErrorKind, retry_after: Option<Duration>) -> Duration {
        let initial = match self.retries.retry_spec() {
            Some(spec) if kind != ErrorKind::ThrottlingError => {
                RetrySpec::non_throttling_initial_backoff(spec)
            }
            _ => self.retries.initial_backoff(),
        };
        let longest = self.retries.max_backoff();
        let doubled = 2_u32.saturating_pow(self.sends - 1);
        let limit = initial.checked_mul(doubled).unwrap_or(longest).min(longest);
        let pause = if self.retries.use_static_exponential_base() {
            limit
        } else {
            limit.mul_f64(random())
        };
        match retry_after {
            None => pause,
            Some(after) if is_v2_1(self.retries) => {
                after.clamp(pause, pause + Duration::from_secs(5))
            }
            Some(after) => after.min(longest),
        }
    }
}

/// Returns a random number from 0 to 1. Without a random source it is 1, which is the longest pause.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn standard() -> RetryConfig {
        RetryConfig::standard().with_initial_backoff(Duration::from_millis(100))
    }

    #[test]
    fn only_a_fault_that_can_pass_is_worth_another_send() {
        use ErrorKind::{ClientError, ServerError, ThrottlingError, TransientError};
        let throughput = "ProvisionedThroughputExceededException";
        let conflict = "ReplicatedWriteConflictException";
        for (status, code, kind) in [
            (400, "ThrottlingException", Some(ThrottlingError)),
            (400, throughput, Some(ThrottlingError)),
            (400, "RequestTimeout", Some(TransientError)),
            (400, conflict, Some(ClientError)),
            (500, "InternalServerError", Some(TransientError)),
            (500, "ThrottlingException", Some(ThrottlingError)),
            (502, "", Some(TransientError)),
            (503, "", Some(TransientError)),
            (504, "", Some(TransientError)),
            (499, "", None),
            (501, "", None),
            (505, "", None),
            (200, "", None),
            (400, "", None),
            (400, "ConditionalCheckFailedException", None),
            (400, "TransactionConflictException", None),
            (400, "SignatureDoesNotMatch", None),
        ] {
            let code = Some(code).filter(|code| !code.is_empty());
            assert_eq!(of_response(status, code, false), kind, "{status} {code:?}");
        }
        // The next send is signed with the corrected clock.
        let refused = Some("InvalidSignatureException");
        assert_eq!(of_response(400, refused, true), Some(ServerError));
        assert_eq!(of_response(400, Some("ValidationException"), true), None);
    }

    #[test]
    fn the_error_codes_are_those_of_the_sdk() {
        use aws_runtime::retries::classifiers::{THROTTLING_ERRORS, TRANSIENT_ERRORS};
        let all = [
            (THROTTLED, THROTTLING_ERRORS),
            (TRANSIENT, TRANSIENT_ERRORS),
        ];
        for (own, of_sdk) in all {
            let mut of_sdk = of_sdk.to_vec();
            of_sdk.sort_unstable();
            assert_eq!(own, of_sdk);
        }
    }

    #[test]
    fn a_broken_connection_is_worth_another_send_and_a_bad_request_is_not() {
        let cause = || Box::new(io::Error::from(io::ErrorKind::ConnectionReset));
        let transient = Some(ErrorKind::TransientError);
        for (error, kind) in [
            (ConnectorError::io(cause()), transient),
            (ConnectorError::timeout(cause()), transient),
            (ConnectorError::other(cause(), transient), transient),
            (ConnectorError::other(cause(), None), None),
            (ConnectorError::user(cause()), None),
        ] {
            assert_eq!(of_connector(&error), kind, "{error:?}");
        }
    }

    #[test]
    fn the_limit_of_a_pause_doubles_up_to_the_longest() {
        let retries = standard()
            .with_max_attempts(6)
            .with_max_backoff(Duration::from_millis(500))
            .with_use_static_exponential_base(true);
        let quota = RetryQuota::default();
        let mut attempts = Attempts::new(&retries, &quota);
        let mut pauses = Vec::new();
        while let Some(pause) = attempts.next(Some(ErrorKind::TransientError), None) {
            pauses.push(pause.as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
    }

    #[test]
    fn under_retry_behaviour_2_1_the_first_pause_is_longer_after_throttling() {
        let v2_1 = standard()
            .with_retry_spec(
                RetrySpec::v2_1().with_non_throttling_initial_backoff(Duration::from_millis(9)),
            )
            .with_use_static_exponential_base(true);
        let static_base = standard().with_use_static_exponential_base(true);
        for (retries, kind, millis) in [
            (&v2_1, ErrorKind::ThrottlingError, 100),
            (&v2_1, ErrorKind::TransientError, 9),
            (&static_base, ErrorKind::TransientError, 100),
        ] {
            let quota = RetryQuota::default();
            let pause = Attempts::new(retries, &quota).next(Some(kind), None);
            assert_eq!(pause, Some(Duration::from_millis(millis)), "{kind:?}");
        }
        // A pause that DynamoDB asks for is at least the own one, and at most five seconds longer.
        for (asked, millis) in [(1, 100), (700, 700), (9_000, 5_100)] {
            let quota = RetryQuota::default();
            let asked = Some(Duration::from_millis(asked));
            let pause = Attempts::new(&v2_1, &quota).next(Some(ErrorKind::ThrottlingError), asked);
            assert_eq!(pause, Some(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn an_error_that_does_not_pass_ends_the_sends() {
        let (retries, quota) = (standard(), RetryQuota::default());
        assert_eq!(Attempts::new(&retries, &quota).next(None, None), None);
        let disabled = RetryConfig::disabled();
        let transient = Some(ErrorKind::TransientError);
        assert_eq!(Attempts::new(&disabled, &quota).next(transient, None), None);
        assert_eq!(*quota.tokens(), CAPACITY);
    }

    #[test]
    fn dynamodb_can_ask_for_a_longer_pause() {
        let asked = Duration::from_millis(700);
        let pause = |retries: &RetryConfig| {
            let quota = RetryQuota::default();
            let mut attempts = Attempts::new(retries, &quota);
            attempts.next(Some(ErrorKind::ThrottlingError), Some(asked))
        };
        let short = standard().with_max_backoff(Duration::from_millis(300));
        assert_eq!(pause(&standard()), Some(asked));
        assert_eq!(pause(&short), Some(Duration::from_millis(300)));
        let short = short.with_retry_spec(RetrySpec::v2_1());
        assert_eq!(pause(&short), Some(asked));
    }

    #[test]
    fn repetitions_take_from_the_quota_and_a_success_gives_back() {
        let quota = RetryQuota::default();
        let v2_1 = standard().with_retry_spec(RetrySpec::v2_1());
        for (retries, kind, cost) in [
            (standard(), ErrorKind::ThrottlingError, 5),
            (standard(), ErrorKind::TransientError, 10),
            (standard(), ErrorKind::ServerError, 5),
            (v2_1, ErrorKind::TransientError, 14),
        ] {
            let mut attempts = Attempts::new(&retries, &quota);
            assert!(attempts.next(Some(kind), None).is_some());
            assert_eq!(*quota.tokens(), CAPACITY - cost);
            attempts.succeeded();
            assert_eq!(*quota.tokens(), CAPACITY);
        }
        // A success of the first send gives one token, up to the capacity.
        *quota.tokens() = CAPACITY - 2;
        for left in [1, 0, 0] {
            Attempts::new(&standard(), &quota).succeeded();
            assert_eq!(*quota.tokens(), CAPACITY - left);
        }
    }

    #[test]
    fn without_tokens_nothing_is_repeated() {
        let (retries, quota) = (standard(), RetryQuota::default());
        *quota.tokens() = 4;
        let mut attempts = Attempts::new(&retries, &quota);
        assert_eq!(attempts.next(Some(ErrorKind::ThrottlingError), None), None);
        assert_eq!(*quota.tokens(), 4);
    }

    #[test]
    fn pauses_are_random() {
        let numbers: Vec<_> = (0..100).map(|_| random()).collect();
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)));
        // Except in one of 10^17 runs.
        assert!(numbers.iter().any(|number| *number < 0.34));
        assert!(numbers.iter().any(|number| *number > 0.66));
    }
}

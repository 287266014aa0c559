//! Decides whether a failed send is repeated, and after which pause. The rules and numbers are the SDK's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::ConnectorError;
use aws_smithy_types::retry::{ErrorKind, RetrySpec};

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
    "TransactionInProgressException",
];

/// The error codes of a fault that passes.
const TRANSIENT: &[&str] = &["RequestTimeout", "RequestTimeoutException"];

/// The error code of a write that met a write from another region.
const CONFLICT: &str = "ReplicatedWriteConflictException";

/// The error codes that a wrong clock can cause.
const CLOCK: &[&str] = &[
    "AccessDeniedException",
    "AuthFailure",
    "InvalidSignatureException",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
];

/// Returns the kind of an error response that is worth another send. `clock_is_wrong` is true if the clocks of the process and
/// of DynamoDB differ so much that this can be the cause.
pub(super) fn of_response(
    status: u16,
    code: Option<&str>,
    clock_is_wrong: bool,
) -> Option<ErrorKind> {
    match code.unwrap_or_default() {
        code if THROTTLED.contains(&code) => Some(ErrorKind::ThrottlingError),
        code if TRANSIENT.contains(&code) => Some(ErrorKind::TransientError),
        CONFLICT => Some(ErrorKind::ClientError),
        code if clock_is_wrong && CLOCK.contains(&code) => Some(ErrorKind::ServerError),
        _ if matches!(status, 500 | 502..=504) => Some(ErrorKind::TransientError),
        _ => None,
    }
}

/// Returns the kind of a failed connection that is worth another send.
pub(super) fn of_connector(error: &ConnectorError) -> Option<ErrorKind> {
    if error.is_timeout() || error.is_io() {
        Some(ErrorKind::TransientError)
    } else {
        error.as_other()
    }
}

/// Returns true if these settings are those of the SDK's retry behaviour 2.1, which a variable of the SDK switches on.
pub(super) fn is_v2_1(retries: &RetryConfig) -> bool {
    let spec = retries.retry_spec();
    spec.is_some_and(|spec| spec.is_at_least(aws_smithy_types::retry::RetrySpecVersion::V2_1))
}

/// The number of tokens of a client whose requests succeed.
const CAPACITY: u32 = 500;

/// The retry quota of a client: a token bucket that stops the repetitions if requests keep failing.
#[derive(Debug)]
pub(super) struct Quota(Mutex<u32>);

impl Default for Quota {
    fn default() -> Self {
        Self(Mutex::new(CAPACITY))
    }
}

impl Quota {
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
pub(super) struct Attempts<'a> {
    retries: &'a RetryConfig,
    quota: &'a Quota,
    sends: u32,
    /// What the last repetition took from the quota.
    taken: Option<u32>,
}

impl<'a> Attempts<'a> {
    /// Begins with the first send.
    pub(super) fn new(retries: &'a RetryConfig, quota: &'a Quota) -> Self {
        Self {
            retries,
            quota,
            sends: 1,
            taken: None,
        }
    }

    /// Returns the pause before another send, or `None` if there is none. `retry_after` is the pause that DynamoDB asks for.
    pub(super) fn next(
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

    /// Notes that the last send succeeded: it gives back what its repetition took.
    pub(super) fn succeeded(&self) {
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
mod tests;

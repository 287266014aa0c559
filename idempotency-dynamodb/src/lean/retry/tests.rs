//! Checks which sends are repeated, and the pauses.

use std::io;

use super::*;

fn standard() -> RetryConfig {
    RetryConfig::standard().with_initial_backoff(Duration::from_millis(100))
}

#[test]
fn only_a_fault_that_can_pass_is_worth_another_send() {
    use ErrorKind::{ServerError, ThrottlingError, TransientError};
    for (status, code, kind) in [
        (400, Some("ThrottlingException"), Some(ThrottlingError)),
        (
            400,
            Some("ProvisionedThroughputExceededException"),
            Some(ThrottlingError),
        ),
        (400, Some("RequestTimeout"), Some(TransientError)),
        (
            400,
            Some("ReplicatedWriteConflictException"),
            Some(ErrorKind::ClientError),
        ),
        (500, Some("InternalServerError"), Some(TransientError)),
        (500, Some("ThrottlingException"), Some(ThrottlingError)),
        (502, None, Some(TransientError)),
        (503, None, Some(TransientError)),
        (504, None, Some(TransientError)),
        (501, None, None),
        (200, None, None),
        (400, None, None),
        (400, Some("ConditionalCheckFailedException"), None),
        (400, Some("TransactionConflictException"), None),
        (400, Some("SignatureDoesNotMatch"), None),
    ] {
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
    for (own, of_sdk) in [
        (THROTTLED, THROTTLING_ERRORS),
        (TRANSIENT, TRANSIENT_ERRORS),
    ] {
        let mut of_sdk = of_sdk.to_vec();
        of_sdk.sort_unstable();
        assert_eq!(own, of_sdk);
    }
}

#[test]
fn a_broken_connection_is_worth_another_send_and_a_bad_request_is_not() {
    let cause = || Box::new(io::Error::from(io::ErrorKind::ConnectionReset));
    let transient = Some(ErrorKind::TransientError);
    assert_eq!(of_connector(&ConnectorError::io(cause())), transient);
    assert_eq!(of_connector(&ConnectorError::timeout(cause())), transient);
    assert_eq!(
        of_connector(&ConnectorError::other(cause(), transient)),
        transient
    );
    assert_eq!(of_connector(&ConnectorError::other(cause(), None)), None);
    assert_eq!(of_connector(&ConnectorError::user(cause())), None);
}

#[test]
fn the_limit_of_a_pause_doubles_up_to_the_longest() {
    let retries = standard()
        .with_max_attempts(6)
        .with_max_backoff(Duration::from_millis(500))
        .with_use_static_exponential_base(true);
    let quota = Quota::default();
    let mut attempts = Attempts::new(&retries, &quota);
    let mut pauses = Vec::new();
    while let Some(pause) = attempts.next(Some(ErrorKind::TransientError), None) {
        pauses.push(pause.as_millis());
    }
    assert_eq!(pauses, [100, 200, 400, 500, 500]);
}

#[test]
fn an_error_that_does_not_pass_ends_the_sends() {
    let (retries, quota) = (standard(), Quota::default());
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
        let quota = Quota::default();
        let mut attempts = Attempts::new(retries, &quota);
        attempts.next(Some(ErrorKind::ThrottlingError), Some(asked))
    };
    let short = standard().with_max_backoff(Duration::from_millis(300));
    assert_eq!(pause(&standard()), Some(asked));
    assert_eq!(pause(&short), Some(Duration::from_millis(300)));
    assert_eq!(
        pause(&short.with_retry_spec(RetrySpec::v2_1())),
        Some(asked)
    );
}

#[test]
fn repetitions_take_from_the_quota_and_a_success_gives_back() {
    let quota = Quota::default();
    for (retries, kind, cost) in [
        (standard(), ErrorKind::ThrottlingError, 5),
        (standard(), ErrorKind::TransientError, 10),
        (standard(), ErrorKind::ServerError, 5),
        (
            standard().with_retry_spec(RetrySpec::v2_1()),
            ErrorKind::TransientError,
            14,
        ),
    ] {
        let mut attempts = Attempts::new(&retries, &quota);
        assert!(attempts.next(Some(kind), None).is_some());
        assert_eq!(*quota.tokens(), CAPACITY - cost);
        attempts.succeeded();
        assert_eq!(*quota.tokens(), CAPACITY);
    }
    // Without a repetition there is one more token, up to the capacity.
    *quota.tokens() = CAPACITY - 2;
    for left in [1, 0, 0] {
        Attempts::new(&standard(), &quota).succeeded();
        assert_eq!(*quota.tokens(), CAPACITY - left);
    }
}

#[test]
fn without_tokens_nothing_is_repeated() {
    let (retries, quota) = (standard(), Quota::default());
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

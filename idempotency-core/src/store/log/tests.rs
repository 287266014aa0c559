//! What the notes say after each way in which a request can time out.

use super::*;

fn throttled() -> Option<StoreError> {
    Some(StoreError::new(
        StoreErrorKind::Throttled,
        "the table asks for fewer requests",
    ))
}

#[test]
fn a_write_counts_as_maybe_applied_if_the_store_takes_no_notes() {
    let (maybe_applied, error) = SendLog::new().timed_out("the table");
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(
        error.to_string().contains("the table gave no response"),
        "{error}"
    );
}

#[test]
fn a_request_that_was_never_sent_was_not_applied() {
    let log = SendLog::new();
    log.preparing();
    let (maybe_applied, error) = log.timed_out("the table");
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Credentials);
    let text = error.to_string();
    for word in ["nothing was sent", "credentials", "rate limit"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_send_in_progress_may_be_applied_and_the_error_quotes_the_send_before_it() {
    let log = SendLog::new();
    log.preparing();
    log.sending();
    log.ended(false, throttled());
    log.sending();
    let (maybe_applied, error) = log.timed_out("the table");
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(error.to_string().contains("fewer requests"), "{error}");
}

#[test]
fn one_send_that_may_have_been_applied_counts_however_the_later_ones_end() {
    let log = SendLog::new();
    log.preparing();
    log.sending();
    log.ended(true, None);
    log.sending();
    log.ended(false, throttled());
    let (maybe_applied, error) = log.timed_out("the table");
    assert!(maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
    assert!(error.to_string().contains("after 2 sends"), "{error}");
}

#[test]
fn a_send_that_never_ended_may_have_been_applied_however_the_next_one_ends() {
    let log = SendLog::new();
    log.preparing();
    log.sending();
    log.sending();
    log.ended(false, None);
    assert!(log.maybe_applied());
}

#[test]
fn a_send_that_never_ended_may_have_been_applied_also_if_another_request_is_prepared() {
    let log = SendLog::new();
    log.preparing();
    log.sending();
    log.preparing();
    assert!(log.maybe_applied());
}

#[test]
fn a_read_before_a_write_is_never_applied() {
    let log = SendLog::new();
    log.preparing();
    log.reading();
    let (maybe_applied, error) = log.timed_out("the table");
    assert!(!maybe_applied);
    assert!(error.to_string().contains("gave no response"), "{error}");
    log.preparing();
    log.sending();
    assert!(log.maybe_applied());
    log.ended(false, throttled());
    assert_eq!((log.maybe_applied(), log.sends()), (false, 2));
}

#[test]
fn timed_out_returns_the_same_a_second_time() {
    for is_on_its_way in [false, true] {
        let log = SendLog::new();
        log.preparing();
        log.sending();
        log.ended(false, throttled());
        if is_on_its_way {
            log.sending();
        }
        let timed_out = || {
            let (maybe_applied, error) = log.timed_out("the table");
            (maybe_applied, error.kind(), error.to_string())
        };
        assert_eq!(timed_out(), timed_out());
    }
}

#[test]
fn a_clone_is_a_handle_to_the_same_notes() {
    let log = SendLog::new();
    log.clone().preparing();
    log.clone().sending();
    assert_eq!((log.maybe_applied(), log.sends()), (true, 1));
}

#[test]
fn the_limit_of_a_request_is_known_to_the_store() {
    let limit = Duration::from_secs(1);
    assert_eq!(SendLog::with_limit(limit).limit(), Some(limit));
    assert_eq!(SendLog::new().limit(), None);
    assert!(
        SendLog::with_limit(limit).maybe_applied(),
        "nothing is noted"
    );
}

#[test]
fn a_send_is_in_progress_until_it_ends() {
    let log = SendLog::new();
    assert!(!log.is_sending());
    log.preparing();
    assert!(!log.is_sending());
    for send in [SendLog::reading, SendLog::sending] {
        send(&log);
        assert!(log.is_sending());
        log.ended(false, None);
        assert!(!log.is_sending());
    }
}

#[test]
fn a_timed_out_request_whose_send_ended_without_an_error_is_unreachable() {
    let log = SendLog::new();
    log.preparing();
    log.sending();
    log.ended(false, None);
    let (maybe_applied, error) = log.timed_out("the table");
    assert!(!maybe_applied);
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
}

//! Checks the correction of the clock.

use std::time::UNIX_EPOCH;

use aws_smithy_types::body::SdkBody;

use super::*;

/// `Sun, 22 Nov 2026 07:06:58 GMT`.
const DATE: (&str, u64) = ("Sun, 22 Nov 2026 07:06:58 GMT", 1_795_331_218);

fn response(headers: &[(&'static str, &'static str)]) -> HttpResponse {
    let status = 200_u16.try_into().expect("it is a status");
    let mut response = HttpResponse::new(status, SdkBody::empty());
    for (name, value) in headers {
        response.headers_mut().insert(*name, *value);
    }
    response
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[test]
fn the_next_send_is_signed_with_the_clock_of_dynamodb() {
    for seconds in [DATE.1 - 3_600, DATE.1 + 3_600] {
        let skew = Skew::default();
        assert_eq!(skew.correct(at(seconds)), at(seconds));
        let is_wrong = skew.measure(&response(&[("date", DATE.0)]), at(seconds), at(seconds));
        assert!(is_wrong);
        assert_eq!(skew.correct(at(seconds)), at(DATE.1));
    }
}

#[test]
fn the_date_of_a_response_is_that_of_the_middle_of_the_send() {
    let skew = Skew::default();
    let is_wrong = skew.measure(
        &response(&[("date", DATE.0)]),
        at(DATE.1 - 1),
        at(DATE.1 + 3),
    );
    assert!(!is_wrong);
    assert_eq!(skew.correct(at(DATE.1)), at(DATE.1 - 1));
}

#[test]
fn a_small_difference_is_not_the_cause_of_a_refused_signature() {
    let skew = Skew::default();
    let sent = at(DATE.1 - 4 * 60);
    assert!(!skew.measure(&response(&[("date", DATE.0)]), sent, sent));
    let sent = at(DATE.1 - 4 * 60 - 1);
    assert!(skew.measure(&response(&[("date", DATE.0)]), sent, sent));
}

#[test]
fn a_response_without_a_date_to_rely_on_changes_nothing() {
    let far = at(1_000_000_000);
    let long = far + Duration::from_secs(16 * 60);
    for (headers, received) in [
        (&[][..], far),
        (&[("date", "yesterday")][..], far),
        (&[("date", DATE.0), ("age", "7")][..], far),
        (&[("date", DATE.0)][..], long),
    ] {
        let skew = Skew::default();
        assert!(!skew.measure(&response(headers), far, received));
        assert_eq!(skew.correct(far), far);
    }
}

#[test]
fn a_clock_that_was_set_is_measured_anew() {
    let skew = Skew::default();
    let wrong = at(DATE.1 - 3_600);
    skew.measure(&response(&[("date", DATE.0)]), wrong, wrong);
    skew.measure(&response(&[("date", DATE.0)]), at(DATE.1), at(DATE.1));
    assert_eq!(skew.correct(at(DATE.1)), at(DATE.1));
}

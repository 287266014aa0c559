//! Corrects the process's clock by that of DynamoDB, which refuses a signature whose time is wrong by more than 15 minutes.
//!
//! As in the SDK, each response with a date measures the difference anew, and the next send is signed with it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

/// If the clocks differ by more, a refused signature is put down to the clock. Well below DynamoDB's limit of 15 minutes, to miss none.
const SUSPECT: Duration = Duration::from_secs(4 * 60);

/// The longest send that measures the difference.
const LONGEST_SEND: Duration = Duration::from_secs(15 * 60);

/// The difference between the clocks, in milliseconds. It is positive if DynamoDB's clock is ahead.
#[derive(Debug, Default)]
pub(crate) struct Skew(AtomicI64);

impl Skew {
    /// Returns the time to sign with, at `now`.
    pub(crate) fn correct(&self, now: SystemTime) -> SystemTime {
        let skew = self.0.load(Ordering::Relaxed);
        let difference = Duration::from_millis(skew.unsigned_abs());
        let corrected = if skew < 0 {
            now.checked_sub(difference)
        } else {
            now.checked_add(difference)
        };
        corrected.unwrap_or(now)
    }

    /// Measures the difference by a response. Returns true if it is so large that a refusal can be due to the clock; false if the
    /// response has no date to rely on.
    pub(crate) fn measure(
        &self,
        response: &HttpResponse,
        sent: SystemTime,
        received: SystemTime,
    ) -> bool {
        let headers = response.headers();
        // A response from a cache has an old date.
        if headers.get("age").is_some() {
            return false;
        }
        let took = received.duration_since(sent).unwrap_or_default();
        let date = headers.get("date");
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        let date = date.and_then(|date| SystemTime::try_from(date).ok());
        let Some(date) = date.filter(|_| took <= LONGEST_SEND) else {
            return false;
        };
        // The exact time of the date is not known: halfway through the send is the best estimate.
        let local = sent + took / 2;
        let millis = |difference: Duration| i64::try_from(difference.as_millis());
        let skew = match date.duration_since(local) {
            Ok(ahead) => millis(ahead),
            Err(behind) => millis(behind.duration()).map(|behind| -behind),
        };
        let skew = skew.unwrap_or_default();
        self.0.store(skew, Ordering::Relaxed);
        Duration::from_millis(skew.unsigned_abs()) > SUSPECT
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use aws_smithy_types::body::SdkBody;

    use super::*;

    /// A `date` header, and the same time in Unix seconds.
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
        let dated = response(&[("date", DATE.0)]);
        assert!(!skew.measure(&dated, at(DATE.1 - 1), at(DATE.1 + 3)));
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
}

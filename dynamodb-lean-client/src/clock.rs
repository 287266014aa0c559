//! Corrects the process's clock by that of DynamoDB, which refuses a signature whose time is wrong by more than 15 minutes.
//!
//! Each response of DynamoDB with a date measures the difference anew, and the next send is signed with it. A page of a proxy sets no
//! clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

use crate::reply::is_of_dynamodb;

/// If the time of a signature differs from DynamoDB's by more, its refusal is put down to the clock. Well below DynamoDB's limit of 15
/// minutes, to miss none.
pub(crate) const SUSPECT: Duration = Duration::from_secs(4 * 60);

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

    /// Measures the difference by a response. Returns true if the time that its request was signed with is so wrong that a refusal can
    /// be due to it; false if the response has no date to rely on.
    ///
    /// The clock can have been set since it was measured, so it is the time of this signature that counts.
    pub(crate) fn measure(
        &self,
        response: &HttpResponse,
        signed: SystemTime,
        sent: SystemTime,
        received: SystemTime,
    ) -> bool {
        let took = received.duration_since(sent).unwrap_or_default();
        let date = date(response).filter(|_| is_of_dynamodb(response) && took <= LONGEST_SEND);
        let Some(date) = date else {
            return false;
        };
        // The exact time of the date is not known: halfway through the send is the best estimate.
        self.0
            .store(millis_ahead(date, sent + took / 2), Ordering::Relaxed);
        Duration::from_millis(millis_ahead(date, signed).unsigned_abs()) > SUSPECT
    }
}

/// Returns the date of a response. A response from a cache has an old one.
pub(crate) fn date(response: &HttpResponse) -> Option<SystemTime> {
    let headers = response.headers();
    let date = headers
        .get("date")
        .filter(|_| headers.get("age").is_none())?;
    let date = DateTime::from_str(date, DateTimeFormat::HttpDate).ok()?;
    SystemTime::try_from(date).ok()
}

/// Returns by how many milliseconds the date is ahead of a local time.
fn millis_ahead(date: SystemTime, local: SystemTime) -> i64 {
    let millis = |difference: Duration| i64::try_from(difference.as_millis()).unwrap_or_default();
    match date.duration_since(local) {
        Ok(ahead) => millis(ahead),
        Err(behind) => -millis(behind.duration()),
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
        response.headers_mut().insert("x-amzn-requestid", "1");
        for (name, value) in headers {
            response.headers_mut().insert(*name, *value);
        }
        response
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Measures by a response with the date to a send that was signed at this time, as the clock said.
    fn measured(skew: &Skew, at: SystemTime) -> bool {
        skew.measure(&response(&[("date", DATE.0)]), skew.correct(at), at, at)
    }

    #[test]
    fn the_next_send_is_signed_with_the_clock_of_dynamodb() {
        for seconds in [DATE.1 - 3_600, DATE.1 + 3_600] {
            let skew = Skew::default();
            assert_eq!(skew.correct(at(seconds)), at(seconds));
            assert!(measured(&skew, at(seconds)));
            assert_eq!(skew.correct(at(seconds)), at(DATE.1));
            // The time of the second signature is right, so a refusal has another cause.
            assert!(!measured(&skew, at(seconds)));
        }
    }

    #[test]
    fn the_date_of_a_response_is_that_of_the_middle_of_the_send() {
        let skew = Skew::default();
        let (sent, received) = (at(DATE.1 - 1), at(DATE.1 + 3));
        assert!(!skew.measure(&response(&[("date", DATE.0)]), sent, sent, received));
        assert_eq!(skew.correct(at(DATE.1)), at(DATE.1 - 1));
    }

    #[test]
    fn a_small_difference_is_not_the_cause_of_a_refused_signature() {
        for seconds in [DATE.1 - 4 * 60, DATE.1 + 4 * 60] {
            assert!(!measured(&Skew::default(), at(seconds)));
        }
        for seconds in [DATE.1 - 4 * 60 - 1, DATE.1 + 4 * 60 + 1] {
            assert!(measured(&Skew::default(), at(seconds)));
        }
    }

    #[test]
    fn a_response_without_a_date_to_rely_on_changes_nothing() {
        let far = at(1_000_000_000);
        let long = far + Duration::from_secs(15 * 60 + 1);
        for (headers, received) in [
            (&[][..], far),
            (&[("date", "yesterday")][..], far),
            (&[("date", DATE.0), ("age", "7")][..], far),
            (&[("date", DATE.0)][..], long),
        ] {
            let skew = Skew::default();
            assert!(!skew.measure(&response(headers), far, far, received));
            assert_eq!(skew.correct(far), far);
        }
        let skew = Skew::default();
        let mut page = response(&[("date", DATE.0)]);
        page.headers_mut().remove("x-amzn-requestid");
        assert!(!skew.measure(&page, far, far, far), "of a proxy");
        assert_eq!(skew.correct(far), far);
        let longest = far + Duration::from_secs(15 * 60);
        assert!(skew.measure(&response(&[("date", DATE.0)]), far, far, longest));
    }

    #[test]
    fn a_clock_that_was_set_right_makes_the_signature_wrong_until_it_is_measured_anew() {
        let skew = Skew::default();
        measured(&skew, at(DATE.1 - 1_200));
        // Now the clock is right, and the old correction is not.
        assert!(measured(&skew, at(DATE.1)));
        assert_eq!(skew.correct(at(DATE.1)), at(DATE.1));
    }
}

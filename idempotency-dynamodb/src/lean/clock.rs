//! Corrects the process's clock by that of DynamoDB, which refuses a signature whose time is wrong by more than 15 minutes.
//!
//! As in the SDK, each response with a date measures the difference anew, and the next send is signed with it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};

/// A difference that can be the cause of a refused signature.
const WRONG: Duration = Duration::from_secs(4 * 60);

/// The longest send that measures the difference.
const LONGEST_SEND: Duration = Duration::from_secs(15 * 60);

/// The difference between the clocks, in milliseconds. It is positive if DynamoDB's clock is ahead.
#[derive(Debug, Default)]
pub(super) struct Skew(AtomicI64);

impl Skew {
    /// Returns the time to sign with, at `now`.
    pub(super) fn correct(&self, now: SystemTime) -> SystemTime {
        let skew = self.0.load(Ordering::Relaxed);
        let difference = Duration::from_millis(skew.unsigned_abs());
        let corrected = if skew < 0 {
            now.checked_sub(difference)
        } else {
            now.checked_add(difference)
        };
        corrected.unwrap_or(now)
    }

    /// Measures the difference by a response. Returns true if it is so large that DynamoDB may refuse signatures; false if the
    /// response has no date to rely on.
    pub(super) fn measure(
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
        // DynamoDB wrote the date halfway through the send, as far as is known.
        let local = sent + took / 2;
        let millis = |difference: Duration| i64::try_from(difference.as_millis());
        let skew = match date.duration_since(local) {
            Ok(ahead) => millis(ahead),
            Err(behind) => millis(behind.duration()).map(|behind| -behind),
        };
        let skew = skew.unwrap_or_default();
        self.0.store(skew, Ordering::Relaxed);
        Duration::from_millis(skew.unsigned_abs()) > WRONG
    }
}

#[cfg(test)]
mod tests;

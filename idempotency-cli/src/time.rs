//! Times in a form for people: RFC 3339 in UTC, and the distance from now.

use std::time::Duration;

use idempotency_core::time::EpochMillis;

/// Formats a time, such as `2023-11-14T22:13:20.500Z`, without milliseconds if there are none. `None` before 1970 and after 9999.
pub(crate) fn rfc3339(milliseconds: i64) -> Option<String> {
    let text = EpochMillis::new(milliseconds).rfc3339()?;
    Some(text.replace(".000Z", "Z"))
}

/// Formats a time and its distance from `now`: `2023-11-14T22:13:20Z, 12s ago`.
pub(crate) fn with_distance(milliseconds: i64, now: EpochMillis) -> String {
    let at = rfc3339(milliseconds).unwrap_or_else(|| "outside the calendar".to_owned());
    format!("{at}, {}", distance(milliseconds, now))
}

/// Formats the distance of a time from `now`, in whole seconds: `in 59m 3s`, `12s ago`.
pub(crate) fn distance(milliseconds: i64, now: EpochMillis) -> String {
    let difference = milliseconds.saturating_sub(now.get());
    let length = Duration::from_secs(difference.unsigned_abs() / 1_000);
    let length = humantime::format_duration(length);
    if difference < 0 {
        format!("{length} ago")
    } else {
        format!("in {length}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first second of the year 10000, which RFC 3339 cannot represent.
    const END: i64 = 253_402_300_800;

    #[test]
    fn times_are_written_in_utc_within_the_range_of_the_format() {
        let text = |milliseconds| rfc3339(milliseconds).unwrap_or_default();
        assert_eq!(text(1_700_000_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(text(1_700_000_000_500), "2023-11-14T22:13:20.500Z");
        assert_eq!(text(END * 1_000 - 1), "9999-12-31T23:59:59.999Z");
        for outside in [-1, END * 1_000, i64::MAX, i64::MIN] {
            assert_eq!(rfc3339(outside), None);
        }
    }

    #[test]
    fn distances_say_past_or_future() {
        let now = EpochMillis::new(100_000);
        assert_eq!(distance(163_999, now), "in 1m 3s");
        assert_eq!(distance(88_000, now), "12s ago");
        assert!(distance(i64::MIN, now).ends_with("ago"));
    }
}

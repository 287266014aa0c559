//! Durations, as settings have them.

use std::time::Duration;

/// Parses a duration such as `1h 30m`.
///
/// Refuses the unit `M`, which `humantime` reads as a month: a lease of `15M` would be one of 15 months, and is meant to be one of 15
/// minutes.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut units = text.split(|letter: char| !letter.is_alphabetic());
    if units.any(|unit| unit == "M") {
        return None;
    }
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_its_name() {
        for text in ["15M", "1h 15 M", "15M 1s", "1M1s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        let month = parse_duration("1month");
        assert_eq!(month, Some(Duration::from_secs(2_630_016)));
        let time = Some(Duration::from_secs(2 * 3_600 + 90));
        assert_eq!(parse_duration("2h 1m30s"), time);
    }
}

//! Durations, as settings have them.

use std::time::Duration;

/// Parses a duration such as `1h 30m`.
///
/// Refuses the unit `M`, which `humantime` reads as a month: a lease of `15M` would be one of 15 months, and is meant to be one of 15
/// minutes.
///
/// # Errors
///
/// What to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    let mut units = text.split(|letter: char| !letter.is_alphabetic());
    let duration = humantime::parse_duration(text).ok();
    duration
        .filter(|_| units.all(|unit| unit != "M"))
        .ok_or("write a duration such as `30s`, `15m` or `1h`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_its_name() {
        for text in ["15M", "1h 15 M", "15M 1s", "1M1s"] {
            let remedy = "write a duration such as `30s`, `15m` or `1h`";
            assert_eq!(parse_duration(text), Err(remedy), "{text}");
        }
        let month = parse_duration("1month");
        assert_eq!(month, Ok(Duration::from_secs(2_630_016)));
        let time = Ok(Duration::from_secs(2 * 3_600 + 90));
        assert_eq!(parse_duration("2h 1m30s"), time);
    }
}

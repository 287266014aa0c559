//! Converts DynamoDB numbers, which are decimal texts of any size, to whole seconds and milliseconds.

/// The largest exponent that is computed. It is far outside the range of DynamoDB and of `i64`.
const LARGEST_EXPONENT: i32 = 1_000;

/// Returns the largest whole number that is not greater than the decimal number in `text`, limited to the range of `i64`.
/// `None` if the text is not a decimal number.
///
/// Rounding down keeps comparisons: a number is less than a whole number exactly if its floor is.
pub(crate) fn floor(text: &str) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT);
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let (mut magnitude, mut rest) = (0_i128, false);
    for index in 0..point.max(i32::try_from(all.len()).ok()?) {
        let digit = usize::try_from(index)
            .ok()
            .and_then(|index| all.as_bytes().get(index));
        let digit = i128::from(digit.map_or(0, |byte| byte - b'0'));
        if index < point {
            // Saturates far outside the range of `i64`, to which the result is limited.
            magnitude = magnitude.saturating_mul(10).saturating_add(digit);
        } else {
            rest |= digit != 0;
        }
    }
    let value = match (negative, rest) {
        (false, _) => magnitude,
        (true, false) => -magnitude,
        (true, true) => -magnitude - 1,
    };
    Some(i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX }))
}

#[cfg(test)]
mod tests {
    use super::floor;

    #[test]
    fn whole_numbers_are_unchanged() {
        for value in [0, 1, -1, 1_700_000_000_999, i64::MAX, i64::MIN] {
            assert_eq!(floor(&value.to_string()), Some(value));
        }
        assert_eq!(floor("007"), Some(7));
        assert_eq!(floor("+5"), Some(5));
    }

    #[test]
    fn decimals_round_down_without_a_float() {
        assert_eq!(floor("1700000000.999999"), Some(1_700_000_000));
        assert_eq!(floor("9007199254740993.9"), Some(9_007_199_254_740_993));
        assert_eq!(floor("-1.5"), Some(-2));
        assert_eq!(floor("-1.0"), Some(-1));
        assert_eq!(floor("-0.001"), Some(-1));
        assert_eq!(floor(".5"), Some(0));
    }

    #[test]
    fn exponents_move_the_decimal_point() {
        assert_eq!(floor("1.7E9"), Some(1_700_000_000));
        assert_eq!(floor("17e+8"), Some(1_700_000_000));
        assert_eq!(floor("1999e-3"), Some(1));
        assert_eq!(floor("1e-130"), Some(0));
        assert_eq!(floor("-1e-130"), Some(-1));
        assert_eq!(floor("0e125"), Some(0));
    }

    #[test]
    fn numbers_outside_the_range_are_limited_to_it() {
        assert_eq!(floor("9223372036854775808"), Some(i64::MAX));
        assert_eq!(floor("-9223372036854775809"), Some(i64::MIN));
        assert_eq!(floor("9.9E125"), Some(i64::MAX));
        assert_eq!(floor("-9.9E125"), Some(i64::MIN));
        assert_eq!(floor("1e2147483647"), Some(i64::MAX));
        assert_eq!(floor("1e-2147483648"), Some(0));
    }

    #[test]
    fn a_text_that_is_not_a_number_is_none() {
        for text in [
            "", "-", ".", "e5", "1e", "NaN", "inf", "1_000", "1.2.3", "--1", " 1", "１",
        ] {
            assert_eq!(floor(text), None, "{text}");
        }
    }
}

//! Integers of any length: every digit of the event is kept.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::magnitude::Magnitude;

/// An integer of any length.
///
/// It keeps every digit, so that two payloads with different numbers never share a key.
///
/// # Examples
///
/// ```
/// use idempotency_core::key::Integer;
///
/// assert_eq!(Integer::from(42).to_string(), "42");
/// assert_eq!(Integer::from_digits(true, "0").to_string(), "0");
/// assert_eq!(Integer::from_digits(false, "18446744073709551617").to_string(), "18446744073709551617");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Integer(Repr);

/// `Big` is used only beyond 64 bits, so that equal numbers have equal forms. It holds the digits, after a `-` if the
/// number is negative, so that the type takes 16 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Small(i64),
    Big(Box<str>),
}

/// The most digits that a finite float has before its point.
const DIGITS_OF_FLOATS: usize = 309;
/// The digits of a quotient after its point; the rest is cut off. The middle between two floats of this size has at most 118
/// digits after its point, and a quotient that is not the middle differs from it by more than 10^-60. So the digits that are
/// cut off never decide how the quotient is rounded.
const FRACTION: usize = 160;

impl Integer {
    /// Returns the integer with these ASCII digits; leading zeros are allowed.
    ///
    /// Parsing stops at the first character that is not a digit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::key::Integer;
    /// assert_eq!(Integer::from_digits(true, "0042"), Integer::from(-42));
    /// assert_eq!(Integer::from_digits(false, "42.7"), Integer::from(42));
    /// ```
    #[must_use]
    pub fn from_digits(negative: bool, digits: &str) -> Self {
        let end = digits
            .bytes()
            .position(|b| !b.is_ascii_digit())
            .unwrap_or(digits.len());
        let digits = digits[..end].trim_start_matches('0');
        if digits.len() <= 19
            && let Some(small) = small(negative, digits)
        {
            return Self(Repr::Small(small));
        }
        if !negative {
            return Self(Repr::Big(digits.into()));
        }
        let mut signed = String::with_capacity(digits.len() + 1);
        signed.push('-');
        signed.push_str(digits);
        Self(Repr::Big(signed.into()))
    }

    /// Returns the number if it fits into an `i64`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::key::Integer;
    /// assert_eq!(Integer::from(-42).as_i64(), Some(-42));
    /// assert_eq!(Integer::from_digits(false, "9223372036854775808").as_i64(), None);
    /// ```
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Small(small) => Some(small),
            Repr::Big(_) => None,
        }
    }

    /// Returns the nearest float, or `None` if the number is beyond the range of floats.
    #[must_use]
    pub(crate) fn to_f64(&self) -> Option<f64> {
        match &self.0 {
            #[allow(clippy::cast_precision_loss)]
            Repr::Small(small) => Some(*small as f64),
            Repr::Big(text) => text.parse().ok().filter(|float: &f64| float.is_finite()),
        }
    }

    /// Returns the integer that equals a float without a fraction; `None` for infinities and not-a-number.
    #[must_use]
    pub(crate) fn from_whole_f64(float: f64) -> Option<Self> {
        // `{:.0}` gives the same digits, but takes 100 microseconds for 1e308, which is five bytes in a payload.
        let digits = || Magnitude::of_whole(float.abs()).digits();
        float
            .is_finite()
            .then(|| Self::from_digits(float.is_sign_negative(), &digits()))
    }

    /// Returns the integer that equals a length.
    pub(crate) fn from_count(count: usize) -> Self {
        i64::try_from(count)
            .map_or_else(|_| Self::from_digits(false, &count.to_string()), Self::from)
    }

    /// Returns how many bytes the number takes besides those of its type: its digits, if it is beyond 64 bits.
    pub(crate) fn digits_beyond_64_bits(&self) -> usize {
        match &self.0 {
            Repr::Small(_) => 0,
            Repr::Big(text) => text.len(),
        }
    }

    /// Returns true if the number is below zero.
    pub(crate) fn is_negative(&self) -> bool {
        match &self.0 {
            Repr::Small(small) => small.is_negative(),
            Repr::Big(text) => text.starts_with('-'),
        }
    }

    /// Returns the number without its sign.
    pub(crate) fn abs(&self) -> Self {
        Self::from_digits(false, &self.magnitude())
    }

    /// Returns the digits without the sign.
    pub(crate) fn magnitude(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Small(small) => small.unsigned_abs().to_string().into(),
            Repr::Big(text) => text.strip_prefix('-').unwrap_or(text).into(),
        }
    }

    /// Returns `self / divisor` as the nearest float if both numbers are floats without a loss, otherwise `None`.
    pub(crate) fn divide_small(&self, divisor: u64) -> Option<f64> {
        const EXACT: u64 = 1 << 53;
        let small = self.as_i64()?;
        #[allow(clippy::cast_precision_loss)]
        (small.unsigned_abs() <= EXACT && (1..=EXACT).contains(&divisor))
            .then(|| small as f64 / divisor as f64)
    }

    /// Returns the steps that [`divide`](Self::divide) takes.
    pub(crate) fn steps_of_division(&self) -> usize {
        FRACTION + self.digits_beyond_64_bits()
    }

    /// Returns `self / divisor` as the nearest float, or `None` beyond the range of floats.
    pub(crate) fn divide(&self, divisor: u64) -> Option<f64> {
        let mut quotient = String::new();
        let mut rest: u128 = 0;
        for digit in self.magnitude().bytes() {
            rest = rest * 10 + u128::from(digit - b'0');
            push_digit(&mut quotient, rest / u128::from(divisor));
            rest %= u128::from(divisor);
        }
        quotient.push('.');
        for _ in 0..FRACTION {
            rest *= 10;
            push_digit(&mut quotient, rest / u128::from(divisor));
            rest %= u128::from(divisor);
        }
        let float: f64 = quotient
            .parse()
            .ok()
            .filter(|float: &f64| float.is_finite())?;
        Some(if self.is_negative() { -float } else { float })
    }

    /// Returns the steps that [`compare_f64`](Self::compare_f64) takes at most, after the first.
    pub(crate) fn steps_of_comparison(&self) -> usize {
        match &self.0 {
            Repr::Big(_) if self.magnitude().len() <= DIGITS_OF_FLOATS => self.magnitude().len(),
            _ => 0,
        }
    }

    /// Compares with a float exactly; `None` for not-a-number.
    pub(crate) fn compare_f64(&self, float: f64) -> Option<Ordering> {
        if float.is_nan() {
            return None;
        }
        #[allow(clippy::cast_precision_loss)]
        let decided = match &self.0 {
            // Rounding keeps the order, so only equal floats need an exact comparison.
            Repr::Small(small) => (*small as f64).partial_cmp(&float),
            Repr::Big(_) => Some(self.compare_sizes(float)),
        };
        if decided != Some(Ordering::Equal) {
            return decided;
        }
        // No fraction matters: a number beyond 64 bits differs from a float with a fraction by more than the fraction, and a
        // smaller one was equal to the float after rounding, so the float is whole.
        let whole = Self::from_whole_f64(float.trunc())?;
        Some(self.cmp(&whole))
    }

    /// Compares a number beyond 64 bits with a float by sign and count of digits. Returns `Equal` if these do not decide: then the
    /// float is finite, and has about as many digits.
    fn compare_sizes(&self, float: f64) -> Ordering {
        let above = if self.is_negative() {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        if self.is_negative() != float.is_sign_negative() {
            return above;
        }
        if float.is_infinite() {
            return above.reverse();
        }
        if self.magnitude().len() > DIGITS_OF_FLOATS {
            return above;
        }
        match self.compare_digit_counts(float) {
            Ordering::Greater => above,
            Ordering::Less => above.reverse(),
            Ordering::Equal => Ordering::Equal,
        }
    }

    /// Compares the count of digits with that of a finite float. Returns `Equal` if the counts are close.
    ///
    /// It saves time alone: an exact comparison writes up to 309 digits of the float, and the steps charged for it
    /// ([`steps_of_comparison`](Self::steps_of_comparison)) are only the digits of the integer.
    fn compare_digit_counts(&self, float: f64) -> Ordering {
        // A logarithm is not exact, but its error is far below this.
        const CLOSE: f64 = 0.5;
        #[allow(clippy::cast_precision_loss)]
        let digits = self.magnitude().len() as f64;
        let logarithm = float.abs().log10();
        if logarithm > digits + CLOSE {
            Ordering::Less
        } else if logarithm < digits - 1.0 - CLOSE {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

fn small(negative: bool, digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    let magnitude: i128 = digits.parse().ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn push_digit(digits: &mut String, digit: u128) {
    digits.push(char::from(b'0' + u8::try_from(digit).unwrap_or(0)));
}

fn compare_digits(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl From<i64> for Integer {
    fn from(small: i64) -> Self {
        Self(Repr::Small(small))
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Small(a), Repr::Small(b)) => a.cmp(b),
            // A `Big` number is beyond every `Small` one.
            (Repr::Small(_), Repr::Big(_)) if other.is_negative() => Ordering::Greater,
            (Repr::Small(_), Repr::Big(_)) => Ordering::Less,
            (Repr::Big(_), Repr::Small(_)) if self.is_negative() => Ordering::Less,
            (Repr::Big(_), Repr::Small(_)) => Ordering::Greater,
            (Repr::Big(_), Repr::Big(_)) => match (self.is_negative(), other.is_negative()) {
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => compare_digits(&self.magnitude(), &other.magnitude()),
                (true, true) => compare_digits(&other.magnitude(), &self.magnitude()),
            },
        }
    }
}

impl PartialOrd for Integer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small(small) => write!(f, "{small}"),
            Repr::Big(text) => f.write_str(text),
        }
    }
}

/// Shows only the kind, because numbers come from payloads.
impl fmt::Debug for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Integer")
    }
}

/// Tests of integers of any length.
#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Integer {
        match text.strip_prefix('-') {
            Some(digits) => Integer::from_digits(true, digits),
            None => Integer::from_digits(false, text),
        }
    }

    #[test]
    fn each_digit_is_kept() {
        for text in [
            "0",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
        ] {
            assert_eq!(int(text).to_string(), text);
        }
        assert_eq!(int("-9223372036854775808").as_i64(), Some(i64::MIN));
        assert_eq!(int("-0").to_string(), "0");
    }

    #[test]
    fn integers_of_all_lengths_have_one_order() {
        let ordered = [
            "-99999999999999999999",
            "-9999999999999999999",
            "-9223372036854775808",
            "-1",
            "0",
            "7",
            "9223372036854775807",
            "9223372036854775808",
            "10000000000000000000000",
        ];
        let ordered = ordered.map(int);
        for (at, a) in ordered.iter().enumerate() {
            for (other, b) in ordered.iter().enumerate() {
                assert_eq!(a.cmp(b), at.cmp(&other), "{a} and {b}");
            }
        }
    }

    #[test]
    fn division_rounds_to_the_nearest_float() {
        assert_eq!(Integer::from(6).divide(2), Some(3.0));
        assert_eq!(Integer::from(-1).divide(3), Some(-1.0 / 3.0));
        assert_eq!(int("9007199254740993").divide(1), Some(9007199254740992.0));
        assert_eq!(int("18014398509481987").divide(2), Some(9007199254740994.0));
    }

    #[test]
    fn a_division_of_floats_equals_the_long_division() {
        for number in [0, 1, -1, 7, -1_000_003, 1 << 53, -(1 << 53), (1 << 53) - 1] {
            for divisor in [1, 2, 3, 7, 1_000_003, 1 << 53] {
                let number = Integer::from(number);
                assert_eq!(number.divide_small(divisor), number.divide(divisor));
                assert!(number.divide_small(divisor).is_some());
            }
        }
        for (number, divisor) in [(1 << 53, (1 << 53) + 1), ((1 << 53) + 1, 1), (1, 0)] {
            assert_eq!(Integer::from(number).divide_small(divisor), None);
        }
    }

    #[test]
    fn integers_around_each_power_of_ten_compare_exactly_with_floats() {
        for zeros in 18..309 {
            let float: f64 = format!("1e{zeros}").parse().unwrap();
            let same = Integer::from_whole_f64(float).unwrap();
            let (below, above) = ("9".repeat(zeros), format!("2{}", "0".repeat(zeros)));
            for (integer, order) in [
                (same, Ordering::Equal),
                (int(&above), Ordering::Greater),
                (
                    int("9223372036854775808"),
                    9_223_372_036_854_775_808.0.partial_cmp(&float).unwrap(),
                ),
            ] {
                assert_eq!(integer.compare_f64(float), Some(order), "{zeros}");
                let negative = Integer::from_digits(true, &integer.to_string());
                assert_eq!(
                    negative.compare_f64(-float),
                    Some(order.reverse()),
                    "{zeros}"
                );
                assert_eq!(
                    integer.compare_f64(-float),
                    Some(Ordering::Greater),
                    "{zeros}"
                );
                assert_eq!(negative.compare_f64(float), Some(Ordering::Less), "{zeros}");
            }
            let next = float.next_up();
            assert_eq!(
                int(&below).compare_f64(next),
                Some(Ordering::Less),
                "{zeros}"
            );
            assert_eq!(
                int(&above).compare_f64(0.5),
                Some(Ordering::Greater),
                "{zeros}"
            );
            assert_eq!(
                int(&above).compare_f64(-0.0),
                Some(Ordering::Greater),
                "{zeros}"
            );
        }
    }

    #[test]
    fn integers_and_floats_compare_exactly() {
        assert_eq!(
            int("9007199254740993").compare_f64(9007199254740992.0),
            Some(Ordering::Greater)
        );
        assert_eq!(int("-1").compare_f64(-1.5), Some(Ordering::Greater));
        assert_eq!(int("1").compare_f64(f64::INFINITY), Some(Ordering::Less));
        assert_eq!(int("1").compare_f64(f64::NAN), None);
        let beyond = "9".repeat(310);
        assert_eq!(int(&beyond).compare_f64(f64::MAX), Some(Ordering::Greater));
        assert_eq!(
            int(&beyond).compare_f64(f64::INFINITY),
            Some(Ordering::Less)
        );
        let beyond = format!("-{beyond}");
        assert_eq!(int(&beyond).compare_f64(f64::MIN), Some(Ordering::Less));
        assert_eq!(
            int(&beyond).compare_f64(f64::NEG_INFINITY),
            Some(Ordering::Greater)
        );
        assert_eq!(
            int("100000000000000000000").compare_f64(1e20),
            Some(Ordering::Equal)
        );
        assert_eq!(
            int("100000000000000000001").compare_f64(1e20),
            Some(Ordering::Greater)
        );
    }

    #[test]
    fn only_numbers_beyond_64_bits_take_their_digits_as_memory() {
        for (text, digits) in [
            ("0", 0),
            ("9223372036854775807", 0),
            ("-9223372036854775808", 0),
            ("9223372036854775808", 19),
            ("-9223372036854775809", 20),
        ] {
            assert_eq!(int(text).digits_beyond_64_bits(), digits, "{text}");
        }
    }

    #[test]
    fn a_number_has_its_float_if_floats_reach_so_far() {
        assert_eq!(int("-3").to_f64(), Some(-3.0));
        assert_eq!(int("100000000000000000000").to_f64(), Some(1e20));
        assert_eq!(int(&format!("1{}", "0".repeat(308))).to_f64(), Some(1e308));
        assert_eq!(int(&"9".repeat(309)).to_f64(), None);
    }

    #[test]
    fn a_whole_float_has_its_integer_and_other_floats_have_none() {
        for (float, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (-3.0, "-3"),
            (-1e20, "-100000000000000000000"),
        ] {
            assert_eq!(Integer::from_whole_f64(float), Some(int(text)), "{float}");
        }
        for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(Integer::from_whole_f64(float), None);
        }
    }

    #[test]
    fn the_sign_and_the_magnitude_of_a_number() {
        for (text, negative, magnitude) in [
            ("0", false, "0"),
            ("7", false, "7"),
            ("-7", true, "7"),
            ("-9223372036854775808", true, "9223372036854775808"),
            ("9223372036854775808", false, "9223372036854775808"),
            ("-9223372036854775809", true, "9223372036854775809"),
        ] {
            let number = int(text);
            assert_eq!(number.is_negative(), negative, "{text}");
            assert_eq!(number.magnitude(), magnitude, "{text}");
            assert_eq!(number.abs(), int(magnitude), "{text}");
        }
        assert_eq!(Integer::from_count(3), int("3"));
    }

    #[test]
    fn the_end_of_the_digits_is_the_end_of_the_number() {
        assert_eq!(Integer::from_digits(true, "0042"), int("-42"));
        assert_eq!(Integer::from_digits(false, "42.7"), int("42"));
        assert_eq!(Integer::from_digits(false, ""), int("0"));
        assert_eq!(int("42").as_i64(), Some(42));
        assert_eq!(int("9223372036854775808").as_i64(), None);
    }

    #[test]
    fn a_division_takes_the_steps_of_its_digits() {
        assert_eq!(int("7").steps_of_division(), 160);
        assert_eq!(int("9223372036854775808").steps_of_division(), 160 + 19);
        assert_eq!(int(&"9".repeat(400)).divide(1), None);
        assert_eq!(
            int(&format!("-1{}", "0".repeat(310))).divide(100),
            Some(-1e308)
        );
    }

    #[test]
    fn a_comparison_takes_the_steps_of_digits_that_a_float_can_have() {
        assert_eq!(int("7").steps_of_comparison(), 0);
        assert_eq!(int("9223372036854775808").steps_of_comparison(), 19);
        assert_eq!(int(&"9".repeat(309)).steps_of_comparison(), 309);
        assert_eq!(int(&"9".repeat(310)).steps_of_comparison(), 0);
    }

    #[test]
    fn numbers_with_as_many_digits_as_the_largest_float_are_compared_digit_by_digit() {
        let (below, above) = ("1".repeat(309), "2".repeat(309));
        for (text, order) in [(&below, Ordering::Less), (&above, Ordering::Greater)] {
            assert_eq!(int(text).compare_f64(f64::MAX), Some(order));
            let negative = int(&format!("-{text}"));
            assert_eq!(negative.compare_f64(f64::MIN), Some(order.reverse()));
        }
        assert_eq!(
            int("9007199254740993").compare_f64(9007199254740994.0),
            Some(Ordering::Less)
        );
        assert_eq!(int("2").compare_f64(1.5), Some(Ordering::Greater));
        assert_eq!(int("1").compare_f64(1.5), Some(Ordering::Less));
        assert_eq!(int("0").compare_f64(-0.0), Some(Ordering::Equal));
        assert_eq!(int("7").partial_cmp(&int("8")), Some(Ordering::Less));
    }

    #[test]
    fn the_count_of_digits_decides_unless_it_is_close() {
        let twenty = int(&"5".repeat(20));
        for (float, order) in [
            (1e308, Ordering::Less),
            (1e21, Ordering::Less),
            (9e20, Ordering::Less),
            (2e20, Ordering::Equal),
            (5e19, Ordering::Equal),
            (9e18, Ordering::Equal),
            (2e18, Ordering::Greater),
            (1e17, Ordering::Greater),
            (0.0, Ordering::Greater),
        ] {
            assert_eq!(twenty.compare_digit_counts(float), order, "{float}");
            let negative = int(&format!("-{}", "5".repeat(20)));
            assert_eq!(negative.compare_digit_counts(-float), order, "{float}");
        }
    }
}

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

#[cfg(test)]
mod tests;

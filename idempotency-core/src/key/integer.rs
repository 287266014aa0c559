//! Integers of any length, and their sums: every digit of the event is kept.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// An integer of any length.
///
/// It keeps every digit, so that two payloads with different numbers never share a key.
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
    /// Returns the integer with these ASCII digits, after a `-` if it is negative. Leading zeros are allowed.
    pub(crate) fn from_digits(text: &str) -> Self {
        if let Ok(small) = text.parse() {
            return Self(Repr::Small(small));
        }
        let digits = text.trim_start_matches('-');
        let sign = &text[..text.len() - digits.len()];
        Self(Repr::Big(
            [sign, digits.trim_start_matches('0')].concat().into(),
        ))
    }

    /// Returns the number if it fits into an `i64`.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Small(small) => Some(small),
            Repr::Big(_) => None,
        }
    }

    /// Returns the nearest float, or `None` if the number is beyond the range of floats.
    pub(crate) fn to_f64(&self) -> Option<f64> {
        Some(self.rounded()).filter(|float| float.is_finite())
    }

    /// Returns the nearest float; beyond the range of floats, an infinity.
    fn rounded(&self) -> f64 {
        match &self.0 {
            Repr::Small(small) => *small as f64,
            Repr::Big(_) if self.magnitude().len() > DIGITS_OF_FLOATS => {
                f64::INFINITY.copysign(if self.is_negative() { -1.0 } else { 1.0 })
            }
            Repr::Big(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns the integer that equals a float without a fraction; `None` for infinities and not-a-number.
    pub(crate) fn from_whole_f64(float: f64) -> Option<Self> {
        const FRACTION_BITS: u64 = 52;
        const EXPONENT_BIAS: u64 = 1023 + FRACTION_BITS;
        if !float.is_finite() {
            return None;
        }
        let bits = float.abs().to_bits();
        let mantissa = i128::from(bits & ((1 << FRACTION_BITS) - 1)) + (1 << FRACTION_BITS);
        let sign = if float.is_sign_negative() { -1 } else { 1 };
        // `{:.0}` gives the same digits, but takes 100 microseconds for 1e308, which is five bytes in a payload.
        Some(match (bits >> FRACTION_BITS).checked_sub(EXPONENT_BIAS) {
            Some(doublings) => Sum(vec![sign * mantissa]).doubled(doublings).total(),
            // A float below 2^52 fits into 64 bits.
            None => Self::from(float as i64),
        })
    }

    /// Returns the integer that equals a length.
    pub(crate) fn from_count(count: usize) -> Self {
        Self::from(i64::try_from(count).unwrap_or(i64::MAX))
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
        Self::from_digits(&self.magnitude())
    }

    /// Returns the digits without the sign.
    pub(crate) fn magnitude(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Small(small) => small.unsigned_abs().to_string().into(),
            Repr::Big(text) => text.trim_start_matches('-').into(),
        }
    }

    /// Returns `self / divisor` as the nearest float, or `None` beyond the range of floats. Also returns the steps that it took.
    pub(crate) fn divide(&self, divisor: u64) -> (Option<f64>, usize) {
        const EXACT: u64 = 1 << 53;
        // Up to 2^53, an integer is a float without a loss.
        if let Some(small) = self.as_i64()
            && small.unsigned_abs() <= EXACT
            && divisor <= EXACT
        {
            return (Some(small as f64 / divisor as f64), 0);
        }
        let divisor = u128::from(divisor);
        let mut rest = 0;
        let behind_point = std::iter::repeat_n(b'0', FRACTION);
        let digits = self.magnitude();
        let quotient = digits.bytes().chain(behind_point).map(|digit| {
            rest = rest * 10 + u128::from(digit - b'0');
            let digit = u8::try_from(rest / divisor).unwrap_or(0);
            rest %= divisor;
            char::from(b'0' + digit)
        });
        let quotient = quotient.collect::<String>() + &format!("e-{FRACTION}");
        let sign = if self.is_negative() { -1.0 } else { 1.0 };
        let float = quotient.parse().ok().map(|float: f64| sign * float);
        let steps = FRACTION + self.digits_beyond_64_bits();
        (float.filter(|float| float.is_finite()), steps)
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
        // Rounding keeps the order, so only equal floats need an exact comparison. The float is then whole or an infinity.
        let rounded = self.rounded().partial_cmp(&float)?;
        Some(rounded.then_with(|| match Self::from_whole_f64(float) {
            Some(whole) => self.cmp(&whole),
            None if self.is_negative() => Ordering::Greater,
            None => Ordering::Less,
        }))
    }
}

impl From<i64> for Integer {
    fn from(small: i64) -> Self {
        Self(Repr::Small(small))
    }
}

impl Ord for Integer {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Small(a), Repr::Small(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        let (a, b) = (self.magnitude(), other.magnitude());
        let sizes = a.len().cmp(&b.len()).then_with(|| a.cmp(&b));
        match (self.is_negative(), other.is_negative()) {
            (false, false) => sizes,
            (true, true) => sizes.reverse(),
            (negative, _) if negative => Ordering::Less,
            _ => Ordering::Greater,
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

/// A sum of integers: limbs to the base 10^18, the least significant first. With this base, the digits are found without a
/// division of the whole number.
///
/// Each limb has a sign and room for a carry, so numbers are added limb by limb, and carries wait for the total. So an addition
/// takes as many steps as the number has limbs.
#[derive(Default)]
pub(crate) struct Sum(Vec<i128>);

const LIMB_DIGITS: usize = 18;
const LIMB_BASE: i128 = 1_000_000_000_000_000_000;

impl Sum {
    /// Adds a number. Returns the steps that it took.
    pub(crate) fn add(&mut self, number: &Integer) -> usize {
        let Repr::Big(_) = number.0 else {
            self.add_limb(0, number.as_i64().unwrap_or(0).into());
            return 1;
        };
        let digits = number.magnitude();
        let limbs = digits.as_bytes().rchunks(LIMB_DIGITS);
        let steps = limbs.len();
        for (at, limb) in limbs.enumerate() {
            let add = |number, digit: &u8| number * 10 + i128::from(digit - b'0');
            let limb = limb.iter().fold(0, add);
            self.add_limb(at, if number.is_negative() { -limb } else { limb });
        }
        steps
    }

    /// Adds to one limb. A limb of 128 bits has room for more numbers than a payload can have.
    fn add_limb(&mut self, at: usize, limb: i128) {
        self.0.resize(self.0.len().max(at + 1), 0);
        self.0[at] += limb;
    }

    /// Doubles the number this many times.
    fn doubled(mut self, mut times: u64) -> Self {
        // A limb below the base, doubled this often, and a carry fit into 128 bits.
        const AT_ONCE: u64 = 60;
        while times > 0 {
            let now = times.min(AT_ONCE);
            self.0.iter_mut().for_each(|limb| *limb <<= now);
            self.carry();
            times -= now;
        }
        self
    }

    /// Carries what is beyond the base. No limb is then negative, except the last one of a negative number.
    fn carry(&mut self) {
        let mut carry = 0;
        for limb in &mut self.0 {
            let sum = *limb + carry;
            (carry, *limb) = (sum.div_euclid(LIMB_BASE), sum.rem_euclid(LIMB_BASE));
        }
        self.0.push(carry);
    }

    /// Returns the sum.
    pub(crate) fn total(mut self) -> Integer {
        self.carry();
        let negative = self.0.last().is_some_and(|limb| limb.is_negative());
        if negative {
            self.0.iter_mut().for_each(|limb| *limb = -*limb);
            self.carry();
        }
        let mut text = if negative { "-" } else { "" }.to_owned();
        text.extend(self.0.iter().rev().map(|limb| format!("{limb:018}")));
        Integer::from_digits(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Integer {
        Integer::from_digits(text)
    }

    fn negated(number: &Integer) -> Integer {
        let sign = if number.is_negative() { "" } else { "-" };
        int(&format!("{sign}{}", number.magnitude()))
    }

    #[test]
    fn each_digit_sign_and_size_is_kept() {
        // The number, its digits without the sign, and how many bytes it takes besides those of its type.
        for (text, magnitude, beyond) in [
            ("0", "0", 0),
            ("7", "7", 0),
            ("-7", "7", 0),
            ("9223372036854775807", "9223372036854775807", 0),
            ("-9223372036854775808", "9223372036854775808", 0),
            ("9223372036854775808", "9223372036854775808", 19),
            ("-9223372036854775809", "9223372036854775809", 20),
        ] {
            let number = int(text);
            assert_eq!(number.to_string(), text);
            assert_eq!(number.is_negative(), text.starts_with('-'), "{text}");
            assert_eq!(number.magnitude(), magnitude, "{text}");
            assert_eq!(number.abs(), int(magnitude), "{text}");
            assert_eq!(number.digits_beyond_64_bits(), beyond, "{text}");
            assert_eq!(number.as_i64().is_some(), beyond == 0, "{text}");
        }
        for (digits, text) in [
            ("-0", "0"),
            ("-0042", "-42"),
            ("000009223372036854775808", "9223372036854775808"),
            ("-00009223372036854775809", "-9223372036854775809"),
        ] {
            assert_eq!(int(digits), int(text));
        }
        assert_eq!(int("-9223372036854775808").as_i64(), Some(i64::MIN));
        assert_eq!(Integer::from_count(3), int("3"));
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
                assert_eq!(a.partial_cmp(b), Some(at.cmp(&other)), "{a} and {b}");
            }
        }
    }

    #[test]
    fn division_rounds_to_the_nearest_float() {
        let beyond = "9".repeat(400);
        let far = format!("-1{}", "0".repeat(310));
        for (number, divisor, quotient, steps) in [
            ("6", 2, Some(3.0), 0),
            ("-1", 3, Some(-1.0 / 3.0), 0),
            ("9007199254740992", 1 << 53, Some(1.0), 0),
            ("9007199254740993", 1, Some(9_007_199_254_740_992.0), 160),
            ("18014398509481987", 2, Some(9_007_199_254_740_994.0), 160),
            (
                "-9223372036854775807",
                3,
                Some(-3_074_457_345_618_258_600.0),
                160,
            ),
            ("2", (1 << 53) + 1, Some(2.2204460492503128e-16), 160),
            ("9223372036854775808", 1, Some(2_f64.powi(63)), 179),
            (&beyond, 1, None, 560),
            (&far, 100, Some(-1e308), 472),
        ] {
            assert_eq!(int(number).divide(divisor), (quotient, steps), "{number}");
        }
    }

    /// Checks the order of an integer and a float, and that of both negated.
    fn check_order(number: &Integer, float: f64, order: Ordering) {
        let text = format!("{number} and {float}");
        assert_eq!(number.compare_f64(float), Some(order), "{text}");
        let (negative, order) = (negated(number), order.reverse());
        assert_eq!(negative.compare_f64(-float), Some(order), "{text}, negated");
    }

    #[test]
    fn integers_around_each_power_of_ten_compare_exactly_with_floats() {
        let least = int("9223372036854775808");
        for zeros in 18..309 {
            let float: f64 = format!("1e{zeros}").parse().unwrap();
            let same = Integer::from_whole_f64(float).unwrap();
            let (below, above) = ("9".repeat(zeros), format!("2{}", "0".repeat(zeros)));
            check_order(&same, float, Ordering::Equal);
            check_order(&same, -float, Ordering::Greater);
            check_order(&least, float, 2_f64.powi(63).total_cmp(&float));
            check_order(&int(&below), float.next_up(), Ordering::Less);
            for less in [float, 0.5, -0.0, -float] {
                check_order(&int(&above), less, Ordering::Greater);
            }
        }
    }

    #[test]
    fn integers_and_floats_compare_exactly() {
        let ones_and_twos = ["1", "2"].map(|digit| int(&digit.repeat(309)));
        let beyond = int(&"9".repeat(310));
        for (number, less, greater) in [
            (int("1"), 0.5, 1.5),
            (int("2"), 1.5, f64::INFINITY),
            (
                int("9007199254740993"),
                9_007_199_254_740_992.0,
                9_007_199_254_740_994.0,
            ),
            (int("100000000000000000001"), 1e20, 1e20_f64.next_up()),
            (ones_and_twos[0].clone(), 1e308, f64::MAX),
            (ones_and_twos[1].clone(), f64::MAX, f64::INFINITY),
            (beyond, f64::MAX, f64::INFINITY),
        ] {
            check_order(&number, less, Ordering::Greater);
            check_order(&number, greater, Ordering::Less);
        }
        check_order(&int("0"), -0.0, Ordering::Equal);
        check_order(&int("100000000000000000000"), 1e20, Ordering::Equal);
        assert_eq!(int("1").compare_f64(f64::NAN), None);
        // Only a number beyond 64 bits and within the range of floats takes steps: one for each digit.
        for (digits, steps) in [(1, 0), (20, 20), (309, 309), (310, 0)] {
            assert_eq!(int(&"9".repeat(digits)).steps_of_comparison(), steps);
        }
    }

    #[test]
    fn a_whole_float_has_its_integer_and_other_floats_have_none() {
        for float in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(Integer::from_whole_f64(float), None);
        }
        assert_eq!(Integer::from_whole_f64(-0.0), Some(int("0")));
        let whole = [
            0.0,
            3.0,
            999.0,
            1e18,
            1e20,
            1e22,
            2_f64.powi(53) + 2.0,
            f64::MAX,
        ];
        let powers = (0..1024).map(|exponent| 2.0_f64.powi(exponent));
        let others = (0..309).map(|exponent| format!("1.2345678901234567e{exponent}"));
        let others = others.map(|text| text.parse::<f64>().unwrap().trunc());
        for float in whole.into_iter().chain(powers).chain(others) {
            let integer = int(&format!("{float:.0}"));
            assert_eq!(Integer::from_whole_f64(float), Some(integer.clone()));
            assert_eq!(Integer::from_whole_f64(-float), Some(negated(&integer)));
        }
    }

    #[test]
    fn sums_carry_beyond_64_bits_and_beyond_a_limb() {
        let sums = "
            0 =
            9223372036854775808 = 9223372036854775807 1
            9223372036854775807 = 9223372036854775808 -1
            0 = -99999999999999999999 99999999999999999999
            9999999999999999999999 = 10000000000000000000000 -1
            1000000000000000000000000000000000000 = 999999999999999999999999999999999999 1
            999999999999999999999999999999999999 = -1 1000000000000000000000000000000000000 1 -1
            20999999999999999999 = 1000000000000000000 20000000000000000000 -1";
        for (total, numbers) in sums.lines().filter_map(|line| line.split_once('=')) {
            let (mut sum, mut negative) = (Sum::default(), Sum::default());
            for number in numbers.split_whitespace().map(int) {
                sum.add(&number);
                negative.add(&negated(&number));
            }
            let total = int(total.trim());
            assert_eq!(negative.total(), negated(&total), "of {numbers}");
            assert_eq!(sum.total(), total, "of {numbers}");
        }
    }

    #[test]
    fn the_steps_of_an_addition_are_the_limbs_of_the_number() {
        let longest = "9".repeat(4300);
        let mut sum = Sum::default();
        for (digits, steps) in [
            ("9223372036854775807", 1),
            (&"9".repeat(40), 3),
            (&longest, 239),
        ] {
            assert_eq!(sum.add(&int(digits)), steps);
            assert_eq!(sum.add(&negated(&int(digits))), steps);
        }
        sum.add(&int(&longest));
        for _ in 0..10_000 {
            assert_eq!(sum.add(&int("10000000000000000000")), 2);
            assert_eq!(sum.add(&int("-10000000000000000000")), 2);
        }
        assert_eq!(sum.total().to_string(), longest);
    }
}

//! Non-negative integers of any size.

use std::cmp::Ordering;

/// A non-negative integer of any size: limbs to the base 10^18, the least significant first. With this base, its digits are
/// found without a division of the whole number.
#[derive(Default)]
pub(super) struct Magnitude(Vec<u64>);

const DIGITS: usize = 18;
const BASE: u64 = 1_000_000_000_000_000_000;

impl Magnitude {
    /// Returns the integer that equals a float. The float must be finite, not negative and without a fraction.
    pub(super) fn of_whole(float: f64) -> Self {
        const FRACTION: u32 = 52;
        const BIAS: u32 = 1023;
        let bits = float.to_bits();
        let exponent = u32::try_from((bits >> FRACTION) & 0x7FF).unwrap_or(0);
        if exponent < BIAS {
            return Self::default();
        }
        let mantissa = (bits & ((1 << FRACTION) - 1)) + (1 << FRACTION);
        let above = exponent - BIAS;
        let Some(doublings) = above.checked_sub(FRACTION) else {
            return Self(vec![mantissa >> (FRACTION - above)]);
        };
        let mut whole = Self(vec![mantissa]);
        whole.double(doublings);
        whole
    }

    /// Doubles the number this many times.
    fn double(&mut self, mut times: u32) {
        // A limb below the base, doubled this often, and a carry fit into 128 bits.
        const AT_ONCE: u32 = 60;
        while times > 0 {
            let now = times.min(AT_ONCE);
            let mut carry = 0;
            for limb in &mut self.0 {
                let product = (u128::from(*limb) << now) + carry;
                (carry, *limb) = split(product);
            }
            while carry > 0 {
                let limb;
                (carry, limb) = split(carry);
                self.0.push(limb);
            }
            times -= now;
        }
    }

    /// Adds a number of ASCII digits. Returns how many limbs it touched.
    pub(super) fn add(&mut self, digits: &str) -> usize {
        let (mut at, mut carry) = (0, 0);
        let mut limbs = digits.as_bytes().rchunks(DIGITS);
        loop {
            let Some(limb) = limbs.next() else {
                if carry == 0 {
                    return at;
                }
                self.add_limb(at, &mut carry);
                at += 1;
                continue;
            };
            carry += limb
                .iter()
                .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            self.add_limb(at, &mut carry);
            at += 1;
        }
    }

    /// Adds the carry to one limb, and leaves the new carry in `carry`.
    fn add_limb(&mut self, at: usize, carry: &mut u64) {
        if self.0.len() == at {
            self.0.push(0);
        }
        // Each is at most about the base, and twice the base fits into 64 bits.
        let sum = self.0[at] + *carry;
        self.0[at] = sum % BASE;
        *carry = sum / BASE;
    }

    fn limb(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// Returns true if this number is greater than `other`.
    pub(super) fn exceeds(&self, other: &Self) -> bool {
        let places = self.0.len().max(other.0.len());
        let mut orders = (0..places)
            .rev()
            .map(|at| self.limb(at).cmp(&other.limb(at)));
        orders.find(|order| order.is_ne()) == Some(Ordering::Greater)
    }

    /// Subtracts `other`, which must not be greater.
    pub(super) fn subtract(&mut self, other: &Self) {
        let mut borrowed = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let taken = other.limb(at) + borrowed;
            borrowed = u64::from(*limb < taken);
            *limb = *limb + borrowed * BASE - taken;
        }
    }

    /// Returns the decimal digits, with leading zeros.
    pub(super) fn digits(&self) -> String {
        self.0
            .iter()
            .rev()
            .map(|limb| format!("{limb:018}"))
            .collect()
    }
}

/// Splits a number into the carry and the limb that stays.
fn split(number: u128) -> (u128, u64) {
    let limb = u64::try_from(number % u128::from(BASE)).unwrap_or(0);
    (number / u128::from(BASE), limb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_gives_its_exact_digits() {
        let mut floats = vec![
            0.0,
            1.0,
            2.0,
            999.0,
            9_007_199_254_740_993.0,
            1e18,
            1e20,
            1e22,
            f64::MAX,
        ];
        floats.extend((0..1024).map(|exponent| 2.0_f64.powi(exponent)));
        floats.extend((0..309).map(|exponent| {
            format!("1.2345678901234567e{exponent}")
                .parse::<f64>()
                .unwrap()
                .trunc()
        }));
        for float in floats {
            let digits = Magnitude::of_whole(float).digits();
            let digits = digits.trim_start_matches('0');
            let expected = format!("{float:.0}");
            assert_eq!(digits, expected.trim_start_matches('0'), "{float:e}");
        }
    }

    /// Returns the number with these digits.
    fn of(digits: &str) -> Magnitude {
        let mut number = Magnitude::default();
        number.add(digits);
        number
    }

    #[test]
    fn an_addition_touches_the_limbs_of_the_number_and_of_the_carry() {
        let mut number = Magnitude::default();
        assert_eq!(number.add("1"), 1);
        assert_eq!(number.add("1000000000000000000"), 2);
        assert_eq!(number.add(&"9".repeat(36)), 3, "the carry is a third limb");
        assert_eq!(number.add("5"), 1);
        assert_eq!(
            number.digits().trim_start_matches('0'),
            "1000000000000000001000000000000000005"
        );
    }

    #[test]
    fn numbers_are_compared_and_subtracted_limb_by_limb() {
        let (small, large) = ("999999999999999999", "1000000000000000000");
        for (greater, lesser, difference) in [
            (large, small, "1"),
            (large, "1", small),
            (
                "3000000000000000005",
                "1000000000000000006",
                "1999999999999999999",
            ),
            (
                "1000000000000000000000000000000000000",
                "1",
                "999999999999999999999999999999999999",
            ),
            ("5", "", "5"),
        ] {
            let (mut a, b) = (of(greater), of(lesser));
            assert!(
                a.exceeds(&b) && !b.exceeds(&a) && !b.exceeds(&b),
                "{greater}"
            );
            a.subtract(&b);
            assert_eq!(a.digits().trim_start_matches('0'), difference);
        }
        let mut same = of(large);
        assert!(!same.exceeds(&of(large)));
        same.subtract(&of(large));
        assert_eq!(same.digits().trim_start_matches('0'), "");
    }
}

//! Sums of integers of any length, in time that grows only with their number of digits.

use super::Integer;
use super::magnitude::Magnitude;

/// A sum of integers.
///
/// Positive and negative numbers beyond 64 bits are added up separately. So a carry runs through many limbs only after
/// many additions, and each number takes about as many steps as it has digits.
#[derive(Default)]
pub(crate) struct Sum {
    small: i128,
    above: Magnitude,
    below: Magnitude,
}

impl Sum {
    /// Adds a number. Returns the steps that it took.
    pub(crate) fn add(&mut self, number: &Integer) -> usize {
        let small = number.as_i64().map(i128::from);
        if let Some(sum) = small.and_then(|small| self.small.checked_add(small)) {
            self.small = sum;
            return 1;
        }
        let side = if number.is_negative() {
            &mut self.below
        } else {
            &mut self.above
        };
        side.add(&number.magnitude())
    }

    /// Returns the sum.
    pub(crate) fn total(mut self) -> Integer {
        let digits = self.small.unsigned_abs().to_string();
        let side = if self.small.is_negative() {
            &mut self.below
        } else {
            &mut self.above
        };
        side.add(&digits);
        let negative = self.below.exceeds(&self.above);
        let (mut greater, lesser) = if negative {
            (self.below, self.above)
        } else {
            (self.above, self.below)
        };
        greater.subtract(&lesser);
        Integer::from_digits(negative, &greater.digits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Integer {
        match text.strip_prefix('-') {
            Some(digits) => Integer::from_digits(true, digits),
            None => Integer::from_digits(false, text),
        }
    }

    fn sum(numbers: &[&str]) -> String {
        let mut sum = Sum::default();
        for number in numbers {
            sum.add(&int(number));
        }
        sum.total().to_string()
    }

    #[test]
    fn sums_carry_beyond_64_bits_and_beyond_a_limb() {
        assert_eq!(sum(&[]), "0");
        assert_eq!(sum(&["9223372036854775807", "1"]), "9223372036854775808");
        assert_eq!(sum(&["9223372036854775808", "-1"]), "9223372036854775807");
        assert_eq!(sum(&["-99999999999999999999", "99999999999999999999"]), "0");
        assert_eq!(
            sum(&["10000000000000000000000", "-1"]),
            "9999999999999999999999"
        );
        assert_eq!(
            sum(&["-10000000000000000000000", "1"]),
            "-9999999999999999999999"
        );
        assert_eq!(
            sum(&["999999999999999999999999999999999999", "1"]),
            format!("1{}", "0".repeat(36))
        );
        assert_eq!(
            sum(&["1000000000000000000", "20000000000000000000", "-1"]),
            "20999999999999999999"
        );
    }

    #[test]
    fn the_steps_of_an_addition_do_not_grow_with_the_sum() {
        let mut sum = Sum::default();
        let longest = "9".repeat(4300);
        sum.add(&int(&longest));
        let steps: usize = (0..10_000)
            .map(|at| {
                sum.add(&int(if at % 2 == 0 {
                    "10000000000000000000"
                } else {
                    "-10000000000000000000"
                }))
            })
            .sum();
        assert!(steps < 10_000 * 3 + 4300, "{steps}");
        assert_eq!(sum.total().to_string(), longest);
    }

    #[test]
    fn an_addition_returns_the_limbs_that_it_touches() {
        let mut sum = Sum::default();
        assert_eq!(sum.add(&int("9223372036854775807")), 1);
        assert_eq!(sum.add(&int(&"9".repeat(40))), 3);
        assert_eq!(sum.add(&int(&format!("-{}", "9".repeat(40)))), 3);
        assert_eq!(sum.total().to_string(), "9223372036854775807");
    }
}

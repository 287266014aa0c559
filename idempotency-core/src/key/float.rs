//! Numbers with a fraction or an exponent. They keep their digits, and are written as Python writes floats.

use std::fmt;

use super::canonical::{Room, Sink, write_digits};

/// A number with a fraction or an exponent.
///
/// It keeps up to 4300 digits, so that two payloads with different numbers do not share a key. Comparisons and sums in
/// expressions compute with the nearest float.
#[derive(Clone, PartialEq)]
pub struct Float(Repr);

/// `Digits` is used only if the shortest text of the nearest float is another number, so that equal numbers have equal forms.
#[derive(Clone, PartialEq)]
enum Repr {
    Shortest(f64),
    /// The canonical text.
    Digits(Box<str>),
}

impl Float {
    /// Parses a number, with or without a fraction; `None` if Rust does not parse the text as a float.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let float = text.parse().ok()?;
        let digits = own_digits(text, float).filter(|digits| *digits != shortest_text(float));
        Some(digits.map_or(Self::from(float), |digits| {
            Self(Repr::Digits(digits.into_boxed_str()))
        }))
    }

    /// Returns the nearest float; beyond the range of floats, an infinity or a zero.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::Shortest(float) => *float,
            Repr::Digits(text) => text.parse().unwrap_or(f64::NAN),
        }
    }

    /// Returns how many bytes the number takes besides those of its type: its digits, if a float does not have them all.
    pub(crate) fn digits_beyond_64_bits(&self) -> usize {
        match &self.0 {
            Repr::Shortest(_) => 0,
            Repr::Digits(text) => text.len(),
        }
    }

    /// Returns the number without its sign.
    pub(crate) fn abs(&self) -> Self {
        match &self.0 {
            Repr::Shortest(float) => float.abs().into(),
            Repr::Digits(text) => Self(Repr::Digits(text.trim_start_matches('-').into())),
        }
    }

    /// Writes the canonical text: in its own digits, or as the nearest float, as in Python.
    pub(super) fn write(&self, out: &mut impl Sink, as_in_python: bool) {
        match &self.0 {
            Repr::Digits(text) if !as_in_python => out.ascii(text.as_bytes()),
            _ => write_float(out, self.to_f64()),
        }
    }
}

impl From<f64> for Float {
    fn from(float: f64) -> Self {
        Self(Repr::Shortest(float))
    }
}

/// Shows only the kind, because numbers come from payloads.
impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Float")
    }
}

/// The most digits that are kept, as many as of an integer. A longer number becomes the nearest float, which takes no memory on the heap.
const MAX_DIGITS: usize = 4300;

/// Returns the canonical text of a number in its own digits. `float` is the nearest one.
///
/// Returns `None` if the shortest text of the float is used: it has the digits of the number, or no digits are kept.
fn own_digits(text: &str, float: f64) -> Option<String> {
    // No two numbers of at most 15 digits have the same float, unless it is not normal: subnormal (with fewer bits), zero or infinite.
    const UNIQUE: usize = 15;
    if text.len() <= UNIQUE && float.is_normal() {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches(['+', '-']);
    let digits = || whole.bytes().chain(fraction.bytes());
    let zeros = digits().take_while(|&digit| digit == b'0').count();
    let significant = whole.len() + fraction.len() - zeros;
    let is_word = !float.is_finite() && !digits().any(|digit| digit.is_ascii_digit());
    let is_zero = significant == 0;
    let is_too_long = significant > MAX_DIGITS;
    if is_word || is_zero || is_too_long || significant <= UNIQUE && float.is_normal() {
        return None;
    }
    // The exponent of the first digit. A number whose exponent has more than 64 bits is an infinity or a zero, as in Python.
    let before_first = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()? - 1;
    let exponent = exponent.parse::<i64>().ok()?.checked_add(before_first)?;
    let digits: Vec<u8> = digits().skip(zeros).collect();
    // All bytes of a number are ASCII.
    let digits = std::str::from_utf8(&digits).ok()?.trim_end_matches('0');
    Some(text_of_digits(text.starts_with('-'), digits, exponent))
}

/// The most places behind the point that [`short_decimal`] looks for. Amounts of money have up to three.
const PLACES: usize = 6;

/// Writes the shortest text of a float.
fn write_float(out: &mut impl Sink, float: f64) {
    match short_decimal(float.abs()) {
        Some((number, places)) => {
            if float.is_sign_negative() {
                out.ascii(b"-");
            }
            write_decimal(out, number, places);
        }
        None => out.ascii(shortest_text(float).as_bytes()),
    }
}

/// Returns a number and its places behind the point, if together they are the shortest text of the float; `None` if they are not found.
///
/// A decimal number of at most 15 digits is the only one that parses to its float, and the shortest text has no more digits.
/// So it is enough to find a number of at most 15 digits that parses to the float. The number and the power of ten are whole
/// and below 2^53, so their quotient is rounded once, as a parser rounds.
fn short_decimal(float: f64) -> Option<(u64, usize)> {
    const DIGITS_15: u64 = 1_000_000_000_000_000;
    // Below 1e-4 the text has an exponent, and from 1e15 on it has more than 15 digits.
    if float != 0.0 && !(1e-4..1e15).contains(&float) {
        return None;
    }
    let mut power = 1.0;
    for places in 0..=PLACES {
        let number = (float * power + 0.5) as u64;
        if number >= DIGITS_15 {
            return None;
        }
        // Any difference counts: the quotient must be this float.
        if number as f64 / power == float {
            return Some((number, places));
        }
        power *= 10.0;
    }
    None
}

/// Writes a number with a point before its last `places` digits, and at least one digit on both sides of it.
fn write_decimal(out: &mut impl Sink, number: u64, places: usize) {
    let (number, places) = match places {
        0 => (number * 10, 1),
        _ => (number, places),
    };
    let mut room = Room::default();
    let start = write_digits(&mut room, number, places + 1);
    let point = room.len() - places - 1;
    room.copy_within(start..=point, start - 1);
    room[point] = b'.';
    out.ascii(&room[start - 1..]);
}

/// Returns the shortest text that parses to the same float.
fn shortest_text(float: f64) -> String {
    match float {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if float.is_nan() => "NaN".to_owned(),
        _ => {
            let (digits, exponent) = shortest_digits(float.abs());
            text_of_digits(float.is_sign_negative(), &digits, exponent)
        }
    }
}

/// Returns the text of the number with these digits. `exponent` is the decimal exponent of the first digit. Below 1e-4 and from 1e16 on,
/// the text has an exponent, as in Python.
fn text_of_digits(negative: bool, digits: &str, exponent: i64) -> String {
    let (before, least, point, behind) = match exponent {
        -4..0 => ("0".repeat(-exponent as usize), 0, 1, String::new()),
        0..16 => (
            String::new(),
            exponent as usize + 2,
            exponent as usize + 1,
            String::new(),
        ),
        _ => (String::new(), 0, 1, format!("e{exponent:+03}")),
    };
    let mut text = format!("{before}{digits:0<least$}");
    if text.len() > point {
        text.insert(point, '.');
    }
    format!("{}{text}{behind}", if negative { "-" } else { "" })
}

/// Returns the digits of a float, and the decimal exponent of the first digit.
///
/// If two shortest texts are equally near, Rust takes the greater one, and Python the one with an even last digit. So the
/// number of digits is taken from Rust's shortest text, and the digits from rounding to that many, which rounds to even.
/// Just below a power of two, floats are denser; the rounded digits may then belong to a neighbouring float. In that case
/// the shortest text is the only one of its length.
fn shortest_digits(float: f64) -> (String, i64) {
    let shortest = format!("{float:e}");
    let behind_point = shortest.find('e').unwrap_or(0).saturating_sub(2);
    let rounded = format!("{float:.behind_point$e}");
    let chosen = if rounded.parse() == Ok(float) {
        rounded
    } else {
        shortest
    };
    let (mantissa, exponent) = chosen.split_once('e').unwrap_or((&chosen, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(float: f64) -> String {
        let mut out = Vec::new();
        write_float(&mut out, float);
        String::from_utf8(out).unwrap()
    }

    /// `canonical/numbers.txt` has other floats.
    #[test]
    fn a_power_of_two_is_written_with_digits_that_parse_to_itself() {
        for bits in 0..2047_u64 {
            let float = f64::from_bits(bits << 52);
            assert_eq!(written(float).parse(), Ok(float));
        }
    }

    #[test]
    fn a_short_decimal_is_written_as_its_shortest_text() {
        let around_powers = (0..=15).map(|power| 10_u64.pow(power));
        let around_powers = around_powers.flat_map(|power| [power - 1, power, power + 1]);
        let others = [2, 5, 7, 42, 4_200, 123_456, 123_456_789_012];
        for number in around_powers.chain(others) {
            for places in 0..=PLACES + 2 {
                let float = number as f64 / 10_f64.powi(i32::try_from(places).unwrap());
                // The neighbours of the decimal have up to 17 digits.
                for float in [float, float.next_up(), float.next_down(), -float] {
                    let text = shortest_text(float);
                    assert_eq!(written(float), text, "{number} with {places} places");
                }
            }
        }
    }

    #[test]
    fn random_floats_are_written_as_their_shortest_text() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // A float of few digits.
            let cut = ((state >> 44) as f64 / 100.0) * if state & 1 == 0 { 1.0 } else { 0.001 };
            for float in [f64::from_bits(state), cut] {
                assert_eq!(
                    written(float),
                    shortest_text(float),
                    "{:x}",
                    float.to_bits()
                );
            }
        }
    }
}

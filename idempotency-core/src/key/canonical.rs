//! Writes the canonical text of a value: members sorted, characters escaped, floats in their shortest form.

use std::fmt::{self, Write};

use super::{Json, Text};

/// The layout of a text: canonical, or that of `to_string` in an expression.
pub(crate) struct Layout {
    pub(crate) between: &'static str,
    pub(crate) after_name: &'static str,
    pub(crate) sorted: bool,
}

const CANONICAL: Layout = Layout {
    between: ", ",
    after_name: ": ",
    sorted: true,
};
/// No spaces, and members in the order of the event.
pub(crate) const COMPACT: Layout = Layout {
    between: ",",
    after_name: ":",
    sorted: false,
};

impl Json {
    /// Returns the canonical text, from which keys are computed: ASCII, members sorted by code point, `", "` and `": "` as
    /// separators.
    ///
    /// # Examples
    ///
    /// ```
    /// use idempotency_core::key::Json;
    ///
    /// let json = Json::parse(r#"{"b": 1e-5, "a": "é"}"#)?;
    /// assert_eq!(json.to_canonical(), r#"{"a": "\u00e9", "b": 1e-05}"#);
    /// # Ok::<(), idempotency_core::key::JsonError>(())
    /// ```
    #[must_use]
    pub fn to_canonical(&self) -> String {
        self.to_text(&CANONICAL)
    }

    /// Writes the canonical text to `out` in pieces, so that the whole text is never in memory.
    ///
    /// # Errors
    ///
    /// Returns only errors of `out`.
    pub fn write_canonical(&self, out: &mut impl Write) -> fmt::Result {
        write(out, self, &CANONICAL)
    }

    /// Returns the text in this layout.
    pub(crate) fn to_text(&self, layout: &Layout) -> String {
        let mut out = String::with_capacity(self.text_length(layout));
        // Writing to a string cannot fail.
        let _written = write(&mut out, self, layout);
        out
    }

    /// Returns the length of the text in bytes, without building the text.
    pub(crate) fn text_length(&self, layout: &Layout) -> usize {
        let mut length = Length(0);
        let _written = write(&mut length, self, layout);
        length.0
    }
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn write(out: &mut impl Write, json: &Json, layout: &Layout) -> fmt::Result {
    match json {
        Json::Null => out.write_str("null"),
        Json::Bool(true) => out.write_str("true"),
        Json::Bool(false) => out.write_str("false"),
        Json::Int(integer) => write!(out, "{integer}"),
        Json::Float(float) => out.write_str(&float_text(*float)),
        Json::Str(text) => write_string(out, text),
        Json::Array(elements) => {
            out.write_str("[")?;
            for (at, element) in elements.iter().enumerate() {
                if at > 0 {
                    out.write_str(layout.between)?;
                }
                write(out, element, layout)?;
            }
            out.write_str("]")
        }
        Json::Object(members) => {
            out.write_str("{")?;
            let mut between = "";
            let mut member = |name: &Text, member: &Json| {
                out.write_str(between)?;
                between = layout.between;
                write_string(out, name)?;
                out.write_str(layout.after_name)?;
                write(out, member, layout)
            };
            if layout.sorted {
                members.each_by_name(member)?;
            } else {
                members
                    .iter()
                    .try_for_each(|(name, value)| member(name, value))?;
            }
            out.write_str("}")
        }
    }
}

fn write_string(out: &mut impl Write, text: &Text) -> fmt::Result {
    out.write_str("\"")?;
    let mut codes = text.code_points();
    loop {
        out.write_str(codes.plain_run())?;
        let Some(code) = codes.next() else {
            return out.write_str("\"");
        };
        match code {
            0x22 => out.write_str("\\\""),
            0x5C => out.write_str("\\\\"),
            0x0A => out.write_str("\\n"),
            0x0D => out.write_str("\\r"),
            0x09 => out.write_str("\\t"),
            0x0C => out.write_str("\\f"),
            0x08 => out.write_str("\\b"),
            0..=0xFFFF => write_escape(out, code),
            _ => {
                write_escape(out, 0xD800 + ((code - 0x1_0000) >> 10))?;
                write_escape(out, 0xDC00 + (code & 0x3FF))
            }
        }?;
    }
}

fn write_escape(out: &mut impl Write, unit: u32) -> fmt::Result {
    out.write_str("\\u")?;
    for shift in [12, 8, 4, 0] {
        out.write_char(char::from_digit((unit >> shift) & 15, 16).unwrap_or('0'))?;
    }
    Ok(())
}

/// Returns the shortest text that parses to the same float. It has an exponent below 1e-4 and from 1e16 on, as in Python.
fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float.is_sign_positive() {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let (digits, exponent) = shortest(float.abs());
    let (first, others) = digits.split_at(1);
    if !(-4..16).contains(&exponent) {
        let point = if others.is_empty() { "" } else { "." };
        let direction = if exponent.is_negative() { '-' } else { '+' };
        return format!(
            "{sign}{first}{point}{others}e{direction}{:02}",
            exponent.unsigned_abs()
        );
    }
    // At most three zeros after the point, or fifteen before it.
    let zeros = |count: usize| "0".repeat(count);
    let Ok(before_point) = usize::try_from(exponent + 1) else {
        return format!(
            "{sign}0.{}{digits}",
            zeros(usize::try_from(-exponent - 1).unwrap_or(0))
        );
    };
    if before_point == 0 {
        return format!("{sign}0.{digits}");
    }
    match digits.split_at_checked(before_point) {
        Some((whole, "")) => format!("{sign}{whole}.0"),
        Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
        None => format!("{sign}{digits}{}.0", zeros(before_point - digits.len())),
    }
}

/// Returns the digits of a float, and the decimal exponent of the first digit.
///
/// If two shortest texts are equally near, Rust takes the greater one, and Python the one with an even last digit. So the
/// number of digits is taken from Rust's shortest text, and the digits from rounding to that many, which rounds to even.
/// Just below a power of two, floats are denser; the rounded digits may then belong to a neighbouring float. In that case
/// the shortest text is the only one of its length.
fn shortest(float: f64) -> (String, i32) {
    let count = |text: &str| {
        text.bytes()
            .take_while(|&byte| byte != b'e')
            .filter(u8::is_ascii_digit)
            .count()
    };
    let shortest = format!("{float:e}");
    let rounded = format!("{float:.*e}", count(&shortest) - 1);
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

    // Literals exactly halfway between two texts are intended.
    #[allow(clippy::excessive_precision)]
    #[test]
    fn floats_are_written_as_in_python() {
        for (float, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.012, "-0.012"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (147_121_842_227_151.125, "147121842227151.12"),
            (1_627_975_231_114_949.25, "1627975231114949.2"),
            (1_627_975_231_114_949.75, "1627975231114949.8"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn a_power_of_two_is_written_with_digits_that_parse_to_itself() {
        for (exponent, text) in [
            (-1017, "7.120236347223045e-307"),
            (-662, "5.225680706521042e-200"),
            (-44, "5.684341886080802e-14"),
            (-24, "5.960464477539063e-08"),
        ] {
            assert_eq!(float_text(2.0_f64.powi(exponent)), text);
        }
        for bits in 0..2047_u64 {
            let float = f64::from_bits(bits << 52);
            assert_eq!(float_text(float).parse(), Ok(float));
        }
    }

    #[test]
    fn characters_outside_printable_ascii_are_escaped() {
        let json = Json::Str("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f} ~\u{7f}é/😀\"\\".into());
        let text = r#""\u0000\b\t\n\u000b\f\r\u001f ~\u007f\u00e9/\ud83d\ude00\"\\""#;
        assert_eq!(json.to_canonical(), text);
    }

    #[test]
    fn members_are_sorted_by_code_point_at_each_level() {
        let json = Json::parse(r#"{"b":{"z":1,"y":2},"\ud83d\ude00":1,"\uffff":2,"B":3}"#).unwrap();
        assert_eq!(
            json.to_canonical(),
            r#"{"B": 3, "b": {"y": 2, "z": 1}, "\uffff": 2, "\ud83d\ude00": 1}"#
        );
        assert_eq!(
            json.to_text(&COMPACT),
            r#"{"b":{"z":1,"y":2},"\ud83d\ude00":1,"\uffff":2,"B":3}"#
        );
    }

    #[test]
    fn each_layout_has_its_separators_and_its_length() {
        let json = Json::parse(r#"{"b": [1, [], [2]], "a": {}, "c": [true, false, null, "é"]}"#);
        let json = json.unwrap();
        let canonical = r#"{"a": {}, "b": [1, [], [2]], "c": [true, false, null, "\u00e9"]}"#;
        let compact = r#"{"b":[1,[],[2]],"a":{},"c":[true,false,null,"\u00e9"]}"#;
        for (layout, text) in [(&CANONICAL, canonical), (&COMPACT, compact)] {
            assert_eq!(json.to_text(layout), text);
            assert_eq!(json.text_length(layout), text.len());
        }
        let mut written = String::new();
        json.write_canonical(&mut written).unwrap();
        assert_eq!(written, canonical);
    }

    #[test]
    fn a_character_beyond_16_bits_is_written_as_its_surrogates() {
        for (character, text) in [
            ("\u{10000}", r#""\ud800\udc00""#),
            ("\u{103ff}", r#""\ud800\udfff""#),
            ("\u{10400}", r#""\ud801\udc00""#),
            ("\u{10ffff}", r#""\udbff\udfff""#),
        ] {
            assert_eq!(Json::Str(character.into()).to_canonical(), text);
        }
    }
}

//! Makes values of a JSON text: of the whole text, or of what an expression looks at. The rest is checked with the same errors at the same
//! places.
//!
//! `serde_json` is not enough here:
//!
//! - It turns an integer beyond 64 bits into a float, so two payloads could share a key. Its feature
//!   `arbitrary_precision` keeps the digits, but changes `serde_json` in the user's whole program. It must never be enabled.
//! - It refuses lone surrogates, which JSON allows.
//! - It drops the order of members.

use idempotency_expression::Scanner;

use super::budget::{Budget, BudgetError, List};
use super::needs::{Elements, Needs, WINDOW};
use super::{Float, Integer, Json, JsonError, JsonErrorKind, Object, Text};

type Result<T, E = JsonErrorKind> = std::result::Result<T, E>;

impl Json {
    /// Parses a JSON text.
    ///
    /// Numbers keep all their digits, and escapes may be lone surrogates. If several members have one name, the object has
    /// the last value at the place of the first. `NaN`, `Infinity` and `-Infinity` are parsed as floats.
    ///
    /// There is no limit of memory: `[0,0,0]` takes about twelve times its length. The event of a call is parsed within a
    /// limit, by [`CompiledOperation::identify`](crate::operation::CompiledOperation::identify).
    ///
    /// # Errors
    ///
    /// Returns [`JsonError`] if the text is not JSON. The error has the place, never a part of the text. Parsing also refuses a
    /// byte-order mark, text after the value, more than 128 levels of arrays and objects, and integers of more than 4300
    /// digits.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::parse_within(text.as_bytes(), &mut Budget::unbounded())
    }

    /// Parses the JSON inside a string, which may hold lone surrogates.
    pub fn parse_text(text: &Text) -> Result<Self, JsonError> {
        Self::parse_within(text.as_bytes(), &mut Budget::unbounded())
    }

    /// Parses the bytes of a [`Text`] or a `str`, and charges the memory of the values.
    pub(crate) fn parse_within(bytes: &[u8], budget: &mut Budget) -> Result<Self, JsonError> {
        Needs::All.read(bytes, budget)
    }
}

impl Needs {
    /// Reads what is looked at from the bytes of a [`Text`] or a `str`.
    ///
    /// # Errors
    ///
    /// Returns the errors of a reader that keeps everything, but only the memory of what is kept counts.
    pub(crate) fn read(&self, bytes: &[u8], budget: &mut Budget) -> Result<Json, JsonError> {
        self.read_within(bytes, 0, budget)
    }

    /// Does what [`read`](Self::read) does, for a text that stands inside this many arrays and objects.
    pub(super) fn read_within(
        &self,
        bytes: &[u8],
        depth: usize,
        budget: &mut Budget,
    ) -> Result<Json, JsonError> {
        Scanner::new(bytes, depth).document(|text| select(text, self, budget))
    }
}

/// Reads what is looked at in the next value. Of the rest the type is kept, and null, true and false.
fn select(text: &mut Scanner<'_>, needs: &Needs, budget: &mut Budget) -> Result<Json> {
    let first = text.peek();
    match (needs, first) {
        (Needs::All, Some(b'"')) => return string(text, budget).map(Json::Str),
        (Needs::All, Some(b'{')) => return object(text, needs, budget),
        (Needs::All, Some(b'[')) => return array(text, needs.elements(), budget),
        (Needs::All, Some(b'-' | b'0'..=b'9' | b'N' | b'I')) => return number(text, budget),
        (Needs::Parts(parts), Some(b'{')) if parts.has_members() => {
            return object(text, needs, budget);
        }
        (Needs::Parts(parts), Some(b'[')) if parts.elements != Elements::None => {
            return array(text, &parts.elements, budget);
        }
        _ => text.skip()?,
    }
    Ok(match first {
        Some(b'"') => Json::Str(Text::default()),
        Some(b'{') => Json::Object(Object::default()),
        Some(b'[') => Json::Array(Vec::new()),
        Some(b'n') => Json::Null,
        Some(b't') => Json::Bool(true),
        Some(b'f') => Json::Bool(false),
        _ => Json::Int(0.into()),
    })
}

/// Reads an object: the members that are looked at.
fn object(text: &mut Scanner<'_>, needs: &Needs, budget: &mut Budget) -> Result<Json> {
    let mut members = List::new();
    text.nested(b'}', |text| {
        // The name is read before its value, so that errors come in the order of the text.
        let Some((name, needs)) = name(text, needs, budget)? else {
            text.skip_colon()?;
            return text.skip();
        };
        text.skip_colon()?;
        let value = select(text, needs, budget)?;
        Ok(members.push((name, value), budget)?)
    })?;
    let members = members.finish(budget)?;
    Ok(Json::Object(Object::charged(members, budget)?))
}

/// Reads the name of a member, and returns it with what is looked at in the member. Skips the name of another member.
fn name<'n>(
    text: &mut Scanner<'_>,
    needs: &'n Needs,
    budget: &mut Budget,
) -> Result<Option<(Text, &'n Needs)>> {
    let quote = text.at;
    let length = text.skip_name()?;
    let within = &text.bytes[quote + 1..text.at - 1];
    let found = match needs {
        Needs::Parts(parts) if length == within.len() => parts.member(within),
        Needs::Parts(parts) if length > parts.longest_name() => None,
        Needs::Parts(parts) => {
            let mut name = Vec::new();
            text.characters(quote, &mut name);
            parts.member(&name)
        }
        _ => Some(needs),
    };
    let Some(needs) = found else {
        return Ok(None);
    };
    Ok(Some((characters(text, quote, length, budget)?, needs)))
}

/// Reads an array. Keeps its elements up to the last that is looked at. If places count from the end: from the first that is looked at.
fn array(text: &mut Scanner<'_>, wanted: &Elements, budget: &mut Budget) -> Result<Json> {
    let mut elements = List::new();
    let mut length = 0;
    if let Elements::Last(_) = wanted {
        let mut starts = [0; WINDOW];
        text.nested(b']', |text| {
            starts[length % WINDOW] = text.at;
            length += 1;
            text.skip()
        })?;
        let behind = text.at;
        for index in length.saturating_sub(WINDOW)..length {
            if let Some(needs) = wanted.at(index, length) {
                text.at = starts[index % WINDOW];
                let element = select(text, needs, budget)?;
                elements.push(element, budget)?;
            }
        }
        text.at = behind;
    } else {
        text.nested(b']', |text| {
            let Some(needs) = wanted.at(length, 0) else {
                return text.skip();
            };
            length += 1;
            let element = select(text, needs, budget)?;
            Ok(elements.push(element, budget)?)
        })?;
    }
    Ok(Json::Array(elements.finish(budget)?))
}

fn number(text: &mut Scanner<'_>, budget: &mut Budget) -> Result<Json> {
    let start = text.at;
    let is_integer = text.skip_number()?;
    // All bytes of a number are ASCII.
    let number = std::str::from_utf8(&text.bytes[start..text.at]).unwrap_or_default();
    if is_integer {
        let integer = Integer::from_digits(number);
        budget.allocate(integer.digits_beyond_64_bits())?;
        return Ok(Json::Int(integer));
    }
    let float = Float::parse(number).ok_or(JsonErrorKind::ExpectedValue)?;
    budget.allocate(float.digits_beyond_64_bits())?;
    Ok(Json::Float(float))
}

/// Reads a string. The first pass finds its length, so that the second fills a block of the right size.
fn string(text: &mut Scanner<'_>, budget: &mut Budget) -> Result<Text> {
    let quote = text.at;
    let length = text.skip_string()?;
    characters(text, quote, length, budget)
}

/// Returns the characters of the string that was just skipped. They take `length` bytes.
fn characters(
    text: &Scanner<'_>,
    quote: usize,
    length: usize,
    budget: &mut Budget,
) -> Result<Text> {
    let within = &text.bytes[quote + 1..text.at - 1];
    let mut characters = budget.list(length)?;
    if length == within.len() {
        // Without escapes: each escape is longer than what it stands for.
        characters.extend_from_slice(within);
    } else {
        text.characters(quote, &mut characters);
    }
    Ok(Text::from_trusted(characters))
}

impl From<BudgetError> for JsonErrorKind {
    fn from(_: BudgetError) -> Self {
        Self::TooLarge
    }
}

#[cfg(test)]
mod tests {
    use super::JsonErrorKind::{NumberTooLong, TooDeep, TooLarge};
    use super::*;

    fn canonical(text: &str) -> String {
        Json::parse(text).unwrap().to_canonical()
    }

    fn kind(text: &str) -> JsonErrorKind {
        Json::parse(text).unwrap_err().kind()
    }

    #[test]
    fn what_is_read_is_written() {
        let rows: Vec<[String; 2]> =
            serde_json::from_str(include_str!("parse/written.json")).unwrap();
        for [text, written] in rows {
            assert_eq!(canonical(&text), written, "{text}");
        }
        for digits in ["9".repeat(4300), format!("-{}", "9".repeat(4300))] {
            assert_eq!(canonical(&digits), digits);
            assert_eq!(kind(&format!("{digits}9")), NumberTooLong);
        }
        let text = Json::parse_text(&Text::from("[1]")).unwrap();
        assert_eq!(text.to_canonical(), "[1]");
    }

    #[test]
    fn members_with_one_name_become_one_with_the_last_value_at_the_first_place() {
        let Json::Object(members) = Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap() else {
            panic!()
        };
        let names: Vec<_> = members.keys().filter_map(Text::as_str).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(members.get(b"a").unwrap().to_canonical(), "3");
    }

    #[test]
    fn every_escape_is_its_character_and_surrogates_form_pairs_or_stay_single() {
        for (text, characters) in [
            (
                r#""\"\\\/\b\f\n\r\t\u0041\u00e9\uFFFF\u20aC""#,
                Some("\"\\/\u{8}\u{c}\n\r\tAé\u{ffff}€"),
            ),
            (r#""\ud83d\ude00""#, Some("😀")),
            (r#""\ud800\udc00""#, Some("\u{10000}")),
            (r#""\ud800\udfff""#, Some("\u{103ff}")),
            (r#""\ud801\udc00""#, Some("\u{10400}")),
            (r#""\udbff\udfff""#, Some("\u{10ffff}")),
            (r#""\ud800x""#, None),
            (r#""\ud800\n""#, None),
            (r#""\ud800\ue000""#, None),
            (r#""\udbff\udbff""#, None),
            (r#""\udfff\udc00""#, None),
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), characters, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_json_is_refused_where_it_stops_being_json() {
        let rows = include_str!("parse/refused.json");
        let mut rows: Vec<(String, String, usize, usize)> = serde_json::from_str(rows).unwrap();
        let long = format!("[1, {}]", "9".repeat(4301));
        rows.push((long, NumberTooLong.to_string(), 1, 5));
        for (text, reason, line, column) in rows {
            let error = Json::parse(&text).unwrap_err();
            assert_eq!(error.kind().to_string(), reason, "{text}");
            assert_eq!((error.line(), error.column()), (line, column), "{text}");
            let message = format!("invalid JSON: {reason} at line {line}, column {column}");
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_never_a_stack_overflow() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |depth| format!("{}[]{}", open.repeat(depth), close.repeat(depth));
            assert!(Json::parse(&nested(127)).is_ok());
            assert_eq!(kind(&nested(128)), TooDeep);
            assert_eq!(kind(&open.repeat(1_000_000)), TooDeep);
        }
        // Values side by side do not add to the depth.
        let wide = canonical(&format!("[{}[]]", "[], {},".repeat(300)));
        assert_eq!(wide.matches('[').count(), 302);
    }

    #[test]
    fn reading_charges_what_the_values_take() {
        for text in [
            "null",
            "1.5",
            "9223372036854775808",
            r#""text""#,
            &format!(r#""{}""#, r"\n".repeat(29)),
            &format!(r#""{}""#, r"\u00e9".repeat(12)),
            &format!(r#""{}""#, r"\ud800x".repeat(7)),
            &format!(r#""{}""#, r"\ud83d\ude00".repeat(7)),
            "[]",
            "[1, 2, 3]",
            r#"["a", ["b", 9223372036854775808], {}]"#,
            r#"{"a": "text", "b": {"c": [1]}}"#,
        ] {
            let mut budget = Budget::new(10_000);
            let json = Json::parse_within(text.as_bytes(), &mut budget).unwrap();
            assert_eq!(budget.charged(), json.heap(), "{text}");
            let mut less = Budget::new(json.heap().saturating_sub(1));
            let refused = Json::parse_within(text.as_bytes(), &mut less);
            assert_eq!(refused.is_err(), json.heap() > 0, "{text}");
        }
        let error = Json::parse_within(b"\"text\"", &mut Budget::new(10)).unwrap_err();
        assert_eq!(error.kind(), TooLarge);
        let message = "values that take more memory than one event may use at line 1, column 7";
        assert_eq!(error.to_string(), message);
    }
}

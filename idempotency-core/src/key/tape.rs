//! The digest of a text's canonical form, without a tree of its values.
//!
//! Where a whole text is the key, nothing is evaluated: the values are only sorted and written. So the text is read into one list
//! of places, and each string and number is written from where it stands. A tree would take an allocation for each of them.

use idempotency_expression::Scanner;

use super::canonical::{CANONICAL, Layout, Sink, write_characters};
use super::hash::{HashAlgorithm, HashInput};
use super::{Budget, Float, Json, JsonErrorKind, scan};

/// A tree takes at most this many bytes of memory for each byte of its text. The most is an array of one-digit numbers that is
/// just moved to a larger block: 36.
const TREE_BYTES: usize = 40;

/// One value or name of a text.
#[derive(Clone, Copy)]
struct Place {
    kind: Kind,
    /// Where its text begins.
    start: u32,
    /// Where its text ends. For an array or an object: the index of the place behind its last place.
    end: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The text is the canonical form: a word, an integer, a short decimal number, or a string of printable ASCII with its quotes.
    Verbatim,
    Float,
    /// The characters of a string without escapes.
    Plain,
    /// The characters of a string with escapes.
    Escaped,
    Array,
    /// Its places are a name and a value for each member.
    Object,
}

impl HashAlgorithm {
    /// Returns the digest of the canonical text of a JSON text, in lower-case hex; `None` if the text is not JSON, or its values
    /// take more than `memory_limit` bytes.
    ///
    /// The result is that of [`hex_of`](Self::hex_of) on the value, but for most texts no value is made.
    pub fn hex_of_json(&self, text: &str, memory_limit: usize) -> Option<String> {
        digest(text.as_bytes(), *self, CANONICAL, memory_limit).or_else(|| {
            let mut budget = Budget::new(memory_limit);
            let json = Json::parse_within(text.as_bytes(), &mut budget).ok()?;
            Some(self.hex_of(&json))
        })
    }

    /// As [`hex_of_json`](Self::hex_of_json). Also `None` if an object has two members of one name: programs differ in which one
    /// counts.
    pub fn hex_of_distinct_json(&self, text: &str, memory_limit: usize) -> Option<String> {
        let bytes = text.as_bytes();
        if let Some((digest, has_twice)) = digest_of_members(bytes, *self, CANONICAL, memory_limit)
        {
            return (!has_twice).then_some(digest);
        }
        let mut budget = Budget::new(memory_limit);
        let json = Json::parse_within(bytes, &mut budget).ok()?;
        (members_of(bytes) == Ok(members(&json))).then(|| self.hex_of(&json))
    }
}

/// Returns the digest of the canonical form of a JSON text, in lower-case hexadecimal digits.
///
/// It returns `None` where the tree must decide: the text is not JSON, or a tree of it could take more than `memory_limit`
/// bytes, or it has no value that can be a key, or a name has escapes.
pub(crate) fn digest(
    text: &[u8],
    hash: HashAlgorithm,
    layout: &Layout,
    memory_limit: usize,
) -> Option<String> {
    let (digest, _) = digest_of_members(text, hash, layout, memory_limit)?;
    Some(digest)
}

/// Returns what [`digest`] returns, and true if an object has two members of one name.
fn digest_of_members(
    text: &[u8],
    hash: HashAlgorithm,
    layout: &Layout,
    memory_limit: usize,
) -> Option<(String, bool)> {
    if text.len() > memory_limit / TREE_BYTES {
        return None;
    }
    let text_length = u32::try_from(text.len()).ok()?;
    // About one place for each eight bytes of text.
    let mut places = Vec::with_capacity(text_length as usize / 8 + 1);
    let scanner = Scanner::new(text, 0);
    scanner.document(|text| push(&mut places, text)).ok()?;
    let mut tape = Tape {
        text,
        places: &places,
        python_numbers: layout.python_numbers,
        is_key: false,
        has_twice: false,
        order: Vec::new(),
        characters: Vec::new(),
    };
    let digest = hash.hex_of_written(&mut tape);
    tape.is_key.then_some((digest, tape.has_twice))
}

/// Returns the number of members in all objects of a JSON text, each as often as it is written.
fn members_of(text: &[u8]) -> Result<usize, JsonErrorKind> {
    fn count(text: &mut Scanner<'_>, members: &mut usize) -> Result<(), JsonErrorKind> {
        match text.peek() {
            Some(b'[') => text.nested(b']', |text| count(text, members)),
            Some(b'{') => text.nested(b'}', |text| {
                text.skip_name()?;
                text.skip_colon()?;
                *members += 1;
                count(text, members)
            }),
            _ => text.skip(),
        }
    }
    let mut members = 0;
    let read = Scanner::new(text, 0).document(|text| count(text, &mut members));
    read.map(|()| members).map_err(|error| error.kind())
}

/// Returns the number of members in all objects of a value.
fn members(json: &Json) -> usize {
    match json {
        Json::Array(values) => values.iter().map(members).sum(),
        Json::Object(object) => object.len() + object.values().map(members).sum::<usize>(),
        _ => 0,
    }
}

/// Appends the places of the next value.
fn push(places: &mut Vec<Place>, text: &mut Scanner<'_>) -> Result<(), JsonErrorKind> {
    let start = text.at;
    let kind = match text.peek() {
        Some(b'"') => return push_string(places, text).map(drop),
        Some(b'{') => return push_list(Kind::Object, places, text),
        Some(b'[') => return push_list(Kind::Array, places, text),
        Some(b'-' | b'0'..=b'9') => {
            if text.skip_number()? || is_canonical_decimal(&text.bytes[start..text.at]) {
                Kind::Verbatim
            } else {
                Kind::Float
            }
        }
        _ => {
            text.skip()?;
            Kind::Verbatim
        }
    };
    places.push(Place::new(kind, start, text.at));
    Ok(())
}

fn push_string(places: &mut Vec<Place>, text: &mut Scanner<'_>) -> Result<Kind, JsonErrorKind> {
    let quote = text.at;
    let end = quote + 1 + scan::printable(&text.bytes[quote + 1..]);
    if text.bytes.get(end) == Some(&b'"') {
        text.at = end + 1;
        places.push(Place::new(Kind::Verbatim, quote, text.at));
        return Ok(Kind::Verbatim);
    }
    let length = text.skip_string()?;
    let kind = if length == text.at - quote - 2 {
        Kind::Plain
    } else {
        Kind::Escaped
    };
    places.push(Place::new(kind, quote + 1, text.at - 1));
    Ok(kind)
}

fn push_list(
    kind: Kind,
    places: &mut Vec<Place>,
    text: &mut Scanner<'_>,
) -> Result<(), JsonErrorKind> {
    let list = places.len();
    places.push(Place::new(kind, 0, 0));
    if kind == Kind::Array {
        text.nested(b']', |text| push(places, text))?;
    } else {
        text.nested(b'}', |text| {
            // An escaped name can be valid, but only the tree compares it. Any error leaves the text to the tree.
            if text.peek() != Some(b'"') || push_string(places, text)? == Kind::Escaped {
                return Err(JsonErrorKind::ExpectedName);
            }
            text.skip_colon()?;
            push(places, text)
        })?;
    }
    places[list] = Place::new(kind, 0, places.len());
    Ok(())
}

/// Returns true if a number with a fraction surely is its own canonical text: it is at least 1, has at most 14 digits, and does not end in
/// a zero that the shortest text lacks. Two numbers with so few digits never have the same float.
fn is_canonical_decimal(text: &[u8]) -> bool {
    let has_exponent = || text.iter().any(|byte| matches!(byte, b'e' | b'E'));
    let ends_as_shortest = || !text.ends_with(b"0") || text.ends_with(b".0");
    text.len() <= 15 && matches!(text[0], b'1'..=b'9') && ends_as_shortest() && !has_exponent()
}

impl Place {
    /// Creates a place. Both numbers fit into 32 bits: the text is at most 4 GB, and has at most as many places as bytes.
    fn new(kind: Kind, start: usize, end: usize) -> Self {
        let (start, end) = (start as u32, end as u32);
        Self { kind, start, end }
    }
}

/// A text and its places.
struct Tape<'t> {
    text: &'t [u8],
    places: &'t [Place],
    python_numbers: bool,
    /// True if the value can be a key, as [`is_absent_key`](super::is_absent_key) decides. It is known when the value is written.
    is_key: bool,
    /// True if an object has two members of one name. It is known when the value is written.
    has_twice: bool,
    /// The places of the names of the objects that are being written. Those of one object are sorted.
    order: Vec<u32>,
    /// The characters of a string with escapes.
    characters: Vec<u8>,
}

/// Writes the canonical text.
impl HashInput for &mut Tape<'_> {
    fn write(self, out: &mut impl Sink) {
        let is_list = matches!(self.places[0].kind, Kind::Array | Kind::Object);
        self.is_key = !is_list && !matches!(self.of(0), b"null" | b"\"\"");
        self.write_value(0, out);
    }
}

impl<'t> Tape<'t> {
    fn of(&self, place: usize) -> &'t [u8] {
        let Place { start, end, .. } = self.places[place];
        &self.text[start as usize..end as usize]
    }

    /// Returns the characters of a name, without its quotes.
    fn name(&self, place: usize) -> &'t [u8] {
        let name = self.of(place);
        match self.places[place].kind {
            Kind::Verbatim => &name[1..name.len() - 1],
            _ => name,
        }
    }

    /// Returns the place behind a value.
    fn behind(&self, place: usize) -> usize {
        let Place { kind, end, .. } = self.places[place];
        match kind {
            Kind::Array | Kind::Object => end as usize,
            _ => place + 1,
        }
    }

    fn is_null(&self, place: usize) -> bool {
        self.places[place].kind == Kind::Verbatim && self.of(place) == b"null"
    }

    fn write_value(&mut self, place: usize, out: &mut impl Sink) {
        match self.places[place].kind {
            Kind::Verbatim => match self.of(place) {
                b"-0" => out.ascii(b"0"),
                text => out.ascii(text),
            },
            Kind::Float => {
                // All bytes of a number are ASCII.
                let text = std::str::from_utf8(self.of(place)).unwrap_or_default();
                let float = Float::parse(text).unwrap_or(f64::NAN.into());
                float.write(out, self.python_numbers);
            }
            Kind::Plain => write_characters(out, self.of(place)),
            Kind::Escaped => {
                self.characters.clear();
                let quote = self.places[place].start as usize - 1;
                Scanner::new(self.text, 0).characters(quote, &mut self.characters);
                write_characters(out, &self.characters);
            }
            Kind::Array => self.write_elements(place, out),
            Kind::Object => self.write_members(place, out),
        }
    }

    /// Writes an element or the value of a member. The value is a key if one part of it is not null.
    fn write_part(&mut self, list: usize, place: usize, out: &mut impl Sink) {
        if list == 0 && !self.is_key {
            self.is_key = !self.is_null(place);
        }
        self.write_value(place, out);
    }

    fn write_elements(&mut self, list: usize, out: &mut impl Sink) {
        let end = self.behind(list);
        let mut place = list + 1;
        out.ascii(b"[");
        while place < end {
            if place > list + 1 {
                out.ascii(b", ");
            }
            self.write_part(list, place, out);
            place = self.behind(place);
        }
        out.ascii(b"]");
    }

    fn write_members(&mut self, list: usize, out: &mut impl Sink) {
        let first = self.order.len();
        self.sort_members(list);
        let last = self.order.len();
        let mut between: &[u8] = b"";
        out.ascii(b"{");
        for at in first..last {
            let name = self.order[at] as usize;
            // Of members with one name, the last counts.
            if at + 1 < last && self.name(name) == self.name(self.order[at + 1] as usize) {
                self.has_twice = true;
                continue;
            }
            out.ascii(between);
            between = b", ";
            self.write_value(name, out);
            out.ascii(b": ");
            self.write_part(list, name + 1, out);
        }
        out.ascii(b"}");
        self.order.truncate(first);
    }

    /// Appends the names of an object in their order; of equal names, the first comes first.
    fn sort_members(&mut self, list: usize) {
        let (first, end) = (self.order.len(), self.behind(list));
        let mut name = list + 1;
        while name < end {
            self.order.push(name as u32);
            name = self.behind(name + 1);
        }
        let mut order = std::mem::take(&mut self.order);
        order[first..].sort_unstable_by(|&a, &b| {
            let (one, other) = (self.name(a as usize), self.name(b as usize));
            one.cmp(other).then(a.cmp(&b))
        });
        self.order = order;
    }
}

/// The digest of the tape is that of the tree.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::canonical::PYTHON_CANONICAL;
    use crate::key::is_absent_key;

    const LIMIT: usize = 64 * 1024 * 1024;

    /// Checks that the digest is that of the tree, and returns true if the tape made it.
    fn is_taken(text: &str) -> bool {
        let tree = Json::parse(text).unwrap();
        for (hash, layout) in [
            (HashAlgorithm::Md5, CANONICAL),
            (HashAlgorithm::Sha512, PYTHON_CANONICAL),
        ] {
            if let Some(digest) = digest(text.as_bytes(), hash, layout, LIMIT) {
                assert_eq!(digest, hash.hex(&tree.to_text(layout)), "{text}");
                assert!(!is_absent_key(&tree), "{text}");
            } else {
                return false;
            }
        }
        true
    }

    #[test]
    fn each_form_of_value_is_written_as_in_the_tree() {
        let words = "0 -0 42 -1 18446744073709551616 0.5 -0.0 1.5 1.50 10.0 1.00 -2.5 1.5e0 99999999999999.9 1.0000000000000001 1e3 1E-7 1e400 12345678901234567.89 true false NaN Infinity \
            -Infinity \"a\" \"\u{7f}\" [1] [[[]],{}]";
        for text in words.split_whitespace() {
            assert!(is_taken(text), "{text}");
        }
        for text in [
            r#""é😀 ~""#,
            r#""\u00e9\ud83d\ude00\ud800 \n\/\"\\""#,
            "[1, 2.50, \"x\", null, {\"a\": [true]}]",
            r#" { "b" : 1 , "a" : { "z" : [ ] , "y" : { } } } "#,
            r#"{"a": "\u0041"}"#,
        ] {
            assert!(is_taken(text), "{text}");
        }
    }

    #[test]
    fn of_members_with_one_name_the_last_counts() {
        for text in [
            r#"{"z": 0, "a": 1, "a": 2}"#,
            r#"{"z": 0, "b": 1, "a": 2, "b": 3, "a": [4], "c": 5}"#,
            r#"{"z": 0, "a": {"x": 1}, "a": {"y": {"z": 1, "z": 2}}}"#,
        ] {
            assert!(is_taken(text), "{text}");
        }
        for members in [15, 16, 17, 100] {
            let names = (0..members).map(|number| format!("\"{}\": {number}", number * 7 % 40));
            let text = format!("{{\"z\": 0, {}}}", names.collect::<Vec<_>>().join(","));
            assert!(is_taken(&text), "{text}");
            let sorted =
                (0..members).map(|number| format!("\"{number:03}\": [{{\"b\": 1, \"a\": 2}}]"));
            let text = format!("{{{}}}", sorted.collect::<Vec<_>>().join(","));
            assert!(is_taken(&text), "{text}");
        }
    }

    #[test]
    fn the_tree_decides_where_there_may_be_no_key() {
        let texts = r#"null; ""; []; {}; [null]; {"a": null}; [null, null]; {"a": 1, "a": null};
            {"a": null, "b": null}; {"\u0061": 1}"#;
        for text in texts.split(';').map(str::trim) {
            assert!(!is_taken(text), "{text}");
        }
        let texts = r#"[null, 1]; {"b": 1, "a": null}; {"b": null, "b": 1, "a": null}; {"a": 1, "a": 2};
            {"a": null, "a": [null]}; [[null]]; {"a": {}}"#;
        for text in texts.split(';').map(str::trim) {
            assert!(is_taken(text), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_json_or_could_need_too_much_memory_is_left_to_the_tree() {
        let taken = |text: &str, limit| {
            digest(text.as_bytes(), HashAlgorithm::Md5, CANONICAL, limit).is_some()
        };
        let deep = "[".repeat(200);
        for text in [
            "",
            "[1,]",
            "{\"a\" 1}",
            "[1] 2",
            "\u{feff}1",
            "\"\\x\"",
            "[01]",
            "nul",
            &deep,
        ] {
            assert!(!taken(text, LIMIT), "{text}");
        }
        let text = format!("[{}]", vec!["0"; 100].join(","));
        assert!(taken(&text, TREE_BYTES * text.len()));
        assert!(!taken(&text, TREE_BYTES * text.len() - 1));
    }

    #[test]
    fn a_tree_takes_less_memory_than_the_limit_of_the_tape() {
        let pieces = r#"0 [] [0] {} "" "a" {"":0} [[[0]]] 1e1 12345678901234567890"#;
        for (piece, count) in pieces
            .split(' ')
            .flat_map(|piece| [(piece, 9), (piece, 17), (piece, 1025)])
        {
            let text = format!("[{}]", vec![piece; count].join(","));
            let mut budget = Budget::new(TREE_BYTES * text.len());
            let tree = Json::parse_within(text.as_bytes(), &mut budget);
            assert!(tree.is_ok(), "{piece} {count} times");
        }
    }
}

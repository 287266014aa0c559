//! Hostile events: parsing one takes far more memory than its text. Each is as large as Lambda allows.

use std::fmt::Write as _;
use std::io::Write as _;

/// Lambda's limit on a synchronous event, in bytes.
pub const EVENT: usize = 6 * 1024 * 1024;

/// One event, and the expression that selects its key.
pub struct Hostile {
    /// A description of the event.
    pub name: &'static str,
    /// The JSON text of the event.
    pub event: String,
    /// The `key` expression; `None` for the whole event.
    pub key: Option<&'static str>,
}

/// Returns a list of equal parts that is at most `length` bytes long.
pub fn repeated(open: &str, part: &str, close: &str, length: usize) -> String {
    let parts = length.saturating_sub(open.len() + close.len()) / (part.len() + 1);
    let mut text = String::with_capacity(length);
    text.push_str(open);
    for at in 0..parts {
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(part);
    }
    text.push_str(close);
    text
}

/// Returns an object of at most `length` bytes whose members all have different names.
fn many_members(length: usize) -> String {
    let mut text = String::from("{\"x\":0");
    for name in 0.. {
        if text.len() + 16 > length {
            break;
        }
        let _written = write!(text, ",\"{name:x}\":0");
    }
    text + "}"
}

/// Returns an event with the text in its member `body`.
pub fn in_body(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{{\"id\":1,\"body\":\"{text}\"}}")
}

/// Compresses a text with gzip and encodes it in base64.
pub fn packed(text: &str) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    // A write into a `Vec` cannot fail.
    let _written = encoder.write_all(text.as_bytes());
    aws_smithy_types::base64::encode(encoder.finish().unwrap_or_default())
}

/// Returns the worst known events.
pub fn events() -> Vec<Hostile> {
    let zeros = |length| repeated("[", "0", "]", length);
    let part = |name, event| Hostile {
        name,
        event,
        key: None,
    };
    let keyed = |name, event, key| Hostile {
        name,
        event,
        key: Some(key),
    };
    let nested = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let deep = format!("{}0{}", "{\"a\":".repeat(127), "}".repeat(127));
    vec![
        part("a wide array", zeros(EVENT)),
        part("many empty arrays", repeated("[", "[]", "]", EVENT)),
        part("many empty objects", repeated("[", "{}", "]", EVENT)),
        part("many small arrays", repeated("[", "[0]", "]", EVENT)),
        part("many small objects", repeated("[", "{\"a\":0}", "]", EVENT)),
        part(
            "many objects of nine members",
            repeated(
                "[",
                &format!(
                    "{{\"a\":0{}}}",
                    (0..8).map(|n| format!(",\"{n}\":0")).collect::<String>()
                ),
                "]",
                EVENT,
            ),
        ),
        part("many short strings", repeated("[", "\"a\"", "]", EVENT)),
        part("many members", many_members(EVENT)),
        part(
            "one member, again and again",
            repeated("{", "\"a\":0", "}", EVENT),
        ),
        part(
            "duplicates of large members",
            repeated("{", &format!("\"a\":{}", zeros(100_000)), "}", EVENT),
        ),
        part("arrays 128 deep", repeated("[", &nested, "]", EVENT)),
        part("objects 128 deep", repeated("[", &deep, "]", EVENT)),
        part(
            "escapes",
            format!("\"{}\"", "\\u0001".repeat(EVENT / 6 - 1)),
        ),
        part("many escapes", repeated("[", "\"\\u0001\"", "]", EVENT)),
        part(
            "two-byte characters",
            format!("\"{}\"", "é".repeat(EVENT / 2 - 1)),
        ),
        part(
            "integers just beyond 64 bits",
            repeated("[", "10000000000000000000", "]", EVENT),
        ),
        part(
            "the longest integers",
            repeated("[", &"9".repeat(4300), "]", EVENT),
        ),
        part("floats", repeated("[", "1e-7", "]", EVENT)),
        keyed(
            "a small part of a wide array",
            format!("{{\"id\":1,\"x\":{}}}", zeros(EVENT - 20)),
            "id",
        ),
        keyed(
            "JSON in a string: a wide array",
            in_body(&zeros(EVENT - 32)),
            "powertools_json(body)[0]",
        ),
        keyed(
            "JSON in a string: many members",
            in_body(&many_members(EVENT / 4 * 3)),
            "powertools_json(body).x",
        ),
        keyed(
            "JSON in base64: a wide array",
            in_body(&aws_smithy_types::base64::encode(zeros(EVENT / 4 * 3 - 64))),
            "powertools_json(powertools_base64(body))[0]",
        ),
        keyed(
            "a gzip bomb of 45 MiB",
            in_body(&packed(&"0".repeat(45 << 20))),
            "powertools_base64_gzip(body)",
        ),
        keyed(
            "a gzip bomb that just fits",
            in_body(&packed(&"0".repeat(30 << 20))),
            "powertools_base64_gzip(body)",
        ),
        keyed(
            "a gzip bomb of JSON",
            in_body(&packed(&zeros(20 << 20))),
            "powertools_json(powertools_base64_gzip(body))[0]",
        ),
        keyed(
            "a gzip bomb inside another",
            in_body(&packed(&packed(&zeros(20 << 20)))),
            "powertools_json(powertools_base64_gzip(powertools_base64_gzip(body)))[0]",
        ),
        keyed("an array that is copied", zeros(EVENT / 8), "sort(@)"),
        keyed(
            "an array that is copied twice",
            zeros(EVENT / 16),
            "[reverse(@), sort(@)]",
        ),
        keyed(
            "an array of arrays that is made",
            zeros(EVENT / 8),
            "[*].[@]",
        ),
        keyed(
            "an array of objects that is made",
            zeros(EVENT / 8),
            "[*].{a: @}",
        ),
        keyed(
            "strings that are made of values",
            zeros(EVENT / 8),
            "map(&to_string(@), @)",
        ),
        keyed("names of types", zeros(EVENT / 8), "map(&type(@), @)"),
        keyed(
            "floats that are rounded",
            repeated("[", "1e308", "]", EVENT / 8),
            "map(&ceil(@), @)",
        ),
        keyed(
            "an object that is made of pairs",
            repeated("[", "[\"a\",0]", "]", EVENT / 8),
            "merge(`{}`, @)",
        ),
        keyed(
            "an object that is made of characters",
            repeated("[", "\"ab\"", "]", EVENT / 8),
            "merge(`{}`, @)",
        ),
        keyed(
            "a text that grows",
            format!("[\"{}\"]", "\u{7f}".repeat(EVENT - 8)),
            "to_string(@)",
        ),
        keyed(
            "a text that is turned round",
            format!("\"{}\"", "é".repeat(EVENT / 2 - 2)),
            "[reverse(@), reverse(@)]",
        ),
        keyed(
            "parts that are joined",
            repeated("[", "\"a\"", "]", EVENT / 8),
            "join('xxxxxxxxxxxxxxxx', @)",
        ),
        keyed(
            "a number in a long string",
            format!("\"{}\"", "1".repeat(EVENT - 2)),
            "to_number(@)",
        ),
        keyed("what doubles at each step", "[1]".to_owned(), DOUBLING),
    ]
}

const DOUBLING: &str = "[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]\
                        |[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]";

//! Hostile events: parsing one takes far more memory than its text. None is larger than Lambda allows.

use std::fmt::Write as _;
use std::io::Write as _;

use super::rows;

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

/// Returns the events that are arrays of equal parts.
fn arrays() -> impl Iterator<Item = Hostile> {
    rows(include_str!("hostile.txt")).map(|(row, [name, part, share, key])| {
        let length = EVENT / share.parse::<usize>().unwrap_or_else(|_| panic!("{row}"));
        Hostile {
            name,
            event: repeated("[", part, "]", length),
            key: (!key.is_empty()).then_some(key),
        }
    })
}

/// Returns the worst known events.
pub fn events() -> Vec<Hostile> {
    let zeros = |length| repeated("[", "0", "]", length);
    let text = |part: &str, times: usize| format!("\"{}\"", part.repeat(times));
    let nested = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let deep = format!("{}0{}", "{\"a\":".repeat(127), "}".repeat(127));
    let digits = "9".repeat(4300);
    let large_member = format!("\"a\":{}", zeros(100_000));
    let bomb = packed(&zeros(20 << 20));
    let whole = [
        ("many members", many_members(EVENT)),
        ("equal members", repeated("{", "\"a\":0", "}", EVENT)),
        ("large duplicates", repeated("{", &large_member, "}", EVENT)),
        ("arrays 128 deep", repeated("[", &nested, "]", EVENT)),
        ("objects 128 deep", repeated("[", &deep, "]", EVENT)),
        ("escapes", text("\\u0001", EVENT / 6 - 1)),
        ("two-byte characters", text("é", EVENT / 2 - 1)),
        ("long integers", repeated("[", &digits, "]", EVENT)),
    ];
    let json = "powertools_json(body)[0]";
    let members = "powertools_json(body).x";
    let of_base64 = "powertools_json(powertools_base64(body))[0]";
    let gzip = "powertools_base64_gzip(body)";
    let of_gzip = "powertools_json(powertools_base64_gzip(body))[0]";
    let twice = "powertools_json(powertools_base64_gzip(powertools_base64_gzip(body)))[0]";
    let members_text = many_members(EVENT / 4 * 3);
    let base64 = aws_smithy_types::base64::encode(zeros(EVENT / 4 * 3 - 64));
    let bodies = [
        ("JSON in a string: a wide array", json, zeros(EVENT - 32)),
        ("JSON in a string: many members", members, members_text),
        ("JSON in base64: a wide array", of_base64, base64),
        ("a gzip bomb of 45 MiB", gzip, packed(&"0".repeat(45 << 20))),
        ("a gzip bomb that fits", gzip, packed(&"0".repeat(30 << 20))),
        ("a gzip bomb of JSON", of_gzip, bomb.clone()),
        ("a gzip bomb inside another", twice, packed(&bomb)),
    ];
    let bodies = bodies.map(|(name, key, body)| (name, key, in_body(&body)));
    let wide_part = format!("{{\"id\":1,\"x\":{}}}", zeros(EVENT - 20));
    let growing = format!("[{}]", text("\u{7f}", EVENT - 8));
    let (reversed, turned) = ("[reverse(@), reverse(@)]", text("é", EVENT / 2 - 2));
    let number = text("1", EVENT - 2);
    let keyed = [
        ("a small part of a wide array", "id", wide_part),
        ("a text that grows", "to_string(@)", growing),
        ("a text that is turned round", reversed, turned),
        ("a number in a long string", "to_number(@)", number),
        ("what doubles at each step", DOUBLING, "[1]".to_owned()),
    ];
    let hostile = |name, event, key| Hostile { name, event, key };
    let whole = whole.map(|(name, event)| hostile(name, event, None));
    let keyed = bodies.into_iter().chain(keyed);
    let keyed = keyed.map(|(name, key, event)| hostile(name, event, Some(key)));
    arrays().chain(whole).chain(keyed).collect()
}

const DOUBLING: &str = "[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]\
                        |[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]|[@,@]";

//! What a key prefix may have, and which characters are shown as escapes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest prefix in bytes. With tenant and digest, an id must fit into a sort key of DynamoDB: 1024 bytes.
pub const LONGEST_PREFIX: usize = 512;

/// Returns true for a character that a terminal does not show as itself: one of control, a separator of lines, or one that Unicode ignores
/// by default, such as a mark of direction or of no width.
///
/// The ranges above U+009F are those of the Unicode properties `Default_Ignorable_Code_Point`, `Line_Separator` and
/// `Paragraph_Separator`, and the annotations U+FFF9 to U+FFFB.
pub fn is_hidden(each: char) -> bool {
    each.is_control()
        || matches!(each,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text in one line, with the escapes of JSON for the characters that are [hidden](is_hidden).
///
/// A JSON text stays the same value, because inside a string these escapes mean the same.
///
/// # Examples
///
/// ```
/// # use idempotency_expression::visible;
/// assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u001b[2Jb\\n");
/// assert_eq!(visible("a b é"), "a b é");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for each in text.chars() {
        match each {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            each if is_hidden(each) => {
                for unit in each.encode_utf16(&mut [0; 2]) {
                    // A `String` takes every write.
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            each => shown.push(each),
        }
    }
    shown.into()
}

/// Returns what to write instead of a prefix that cannot be used; `None` if it can be used.
///
/// A prefix stands in the command line of an operator, in the pattern of a policy, and before the `#` of a record's id. So it has no
/// white space, no [hidden](is_hidden) character and no `#`.
///
/// # Examples
///
/// ```
/// # use idempotency_expression::refuse_prefix;
/// assert_eq!(refuse_prefix("shop.charge"), None);
/// let remedy = refuse_prefix("shop charge\n").unwrap();
/// assert!(remedy.starts_with("it has U+0020: write `shop.charge`"), "{remedy}");
/// ```
pub fn refuse_prefix(prefix: &str) -> Option<String> {
    // Two variables that are not Unicode can become one with the replacement character.
    let is_refused = |each: char| {
        matches!(each, '#' | char::REPLACEMENT_CHARACTER) || each.is_whitespace() || is_hidden(each)
    };
    let Some(first) = prefix.chars().find(|each| is_refused(*each)) else {
        return match prefix.len() {
            0 => Some("write a name for this operation".to_owned()),
            length if length > LONGEST_PREFIX => Some(format!(
                "it has {length} bytes: write at most {LONGEST_PREFIX}"
            )),
            _ => None,
        };
    };
    let parts = prefix.split(is_refused).filter(|part| !part.is_empty());
    let instead = parts.collect::<Vec<_>>().join(".");
    let instead = match instead.len() {
        0 => "a name".to_owned(),
        _ => format!("`{instead}`"),
    };
    let found = match first {
        '#' => "`#`".to_owned(),
        first => format!("U+{:04X}", u32::from(first)),
    };
    Some(format!(
        "it has {found}: write {instead}; a prefix has no white space, no hidden character and no `#`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_visible_word_without_the_mark_of_a_digest() {
        let longest = "p".repeat(LONGEST_PREFIX);
        for prefix in [
            "shop",
            "shop.charge-v2_3:eu/a@b+c=d",
            "app.module.<locals>.handler",
            "größe",
            "支払い",
            "a*?$[]{}'\"\\`%&|;()!~^,",
            &longest,
        ] {
            assert_eq!(refuse_prefix(prefix), None, "{prefix}");
        }
        for (prefix, found, instead) in [
            ("shop charge", "U+0020", "`shop.charge`"),
            (" shop", "U+0020", "`shop`"),
            ("shop\n", "U+000A", "`shop`"),
            ("a\t\r\nb", "U+0009", "`a.b`"),
            ("a\u{1b}[2Jb", "U+001B", "`a.[2Jb`"),
            ("a\u{7f}b", "U+007F", "`a.b`"),
            ("a\u{9b}b", "U+009B", "`a.b`"),
            ("a\u{a0}b", "U+00A0", "`a.b`"),
            ("a\u{3000}b", "U+3000", "`a.b`"),
            ("a\u{200b}b", "U+200B", "`a.b`"),
            ("a\u{202e}b", "U+202E", "`a.b`"),
            ("a\u{2066}b", "U+2066", "`a.b`"),
            ("a\u{2028}b", "U+2028", "`a.b`"),
            ("a\u{ad}b", "U+00AD", "`a.b`"),
            ("a\u{feff}b", "U+FEFF", "`a.b`"),
            ("a\u{e0041}b", "U+E0041", "`a.b`"),
            ("shop#charge", "`#`", "`shop.charge`"),
            ("shop#tenant=a", "`#`", "`shop.tenant=a`"),
            // What is not Unicode in a variable becomes this.
            ("caf\u{fffd}", "U+FFFD", "`caf`"),
            ("#", "`#`", "a name"),
        ] {
            let remedy = refuse_prefix(prefix).unwrap();
            let start = format!("it has {found}: write {instead}; ");
            assert!(remedy.starts_with(&start), "{prefix:?}: {remedy}");
            assert!(!remedy.contains(is_hidden), "{remedy:?}");
        }
        let long = refuse_prefix(&"é".repeat(257)).unwrap();
        assert_eq!(long, "it has 514 bytes: write at most 512");
    }

    #[test]
    fn hidden_characters_are_shown_as_the_escapes_of_json() {
        assert_eq!(
            visible("\"a\u{0}\u{9b}\u{202e}\u{200b}\u{2028}é b\\\""),
            r#""a\u0000\u009b\u202e\u200b\u2028é b\""#
        );
        assert_eq!(visible("a\r\n\tb\u{e0041}"), "a\\r\\n\\tb\\udb40\\udc41");
    }
}

//! Texts of other programs on the operator's terminal: hidden characters are shown as the escapes of JSON.
//!
//! A record, an error of AWS or a key can have characters that move the cursor, forge a line or reverse the order of letters.
//! JSON output is ASCII and needs none of this.

use std::fmt;

pub(crate) use idempotency_expression::{is_hidden, visible};

/// Returns lines of this program in which texts of others stand: only their line breaks stay.
pub(crate) fn lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

/// Returns JSON text in one line. It is the same value: white space stands between its tokens alone.
pub(crate) fn json_line(text: &str) -> String {
    visible(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// Returns a text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", visible(text).replace('\'', r"'\''"))
}

/// Prints a warning to standard error.
pub(crate) fn warn(text: impl fmt::Display) {
    eprintln!("warning: {}", visible(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_value_in_one_line() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{202e}\u{200b}\u{2028}\u{e0041}\u{7f}\r\n", "b": [1, "é"] });
        let text = format!("{value:#}");
        let shown = json_line(&text);
        assert!(!shown.contains(is_hidden), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn only_a_line_break_of_ours_stays_and_a_word_stays_one_word() {
        assert_eq!(lines("a\u{1b}\r\nb\u{2028}\n"), "a\\u001b\\r\nb\\u2028\n");
        assert_eq!(word("it's\n"), r"'it'\''s\n'");
    }
}

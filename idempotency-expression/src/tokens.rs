//! Splits an expression into tokens, and limits how deep its brackets and its tree are, because parsers and evaluators recurse.
//! Literals stay as they were written.

use crate::error::SyntaxError;
use crate::json::Scanner;
use crate::text::Text;

/// An index that is larger than any array of an event. All larger ones select the same.
const FAR: i64 = 999_999_999;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Kind {
    Identifier(String),
    Quoted(Text),
    Literal(Literal),
    /// A number, limited to a range outside of which all numbers select the same.
    Number(i64),
    Symbol(&'static str),
}

/// A literal in an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Literal {
    /// A raw string: `'text'`.
    Raw(String),
    /// The text between backticks, if it is JSON. It stays a text, so that numbers keep all their digits.
    Json(String),
    /// The text between backticks, if it is not JSON: `` `foo` `` is the string `"foo"`.
    Word(Text),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// In bytes from the start of the expression.
    pub(crate) offset: usize,
}

/// The symbols. Longer ones come first, because a shorter one can be their beginning.
const SYMBOLS: [&str; 26] = [
    "[]", "[?", "||", "&&", "==", "!=", "<=", ">=", "[", "]", "(", ")", "{", "}", ".", "*", ",",
    ":", "@", "|", "&", "<", ">", "!", "=", "-",
];

/// Splits a text into tokens.
pub(crate) fn tokenize(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let offset = at;
        let kind = match first {
            ' ' | '\t' | '\n' | '\r' => {
                at += 1;
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                at += length_of_run(&text[at..], |c| c.is_ascii_alphanumeric() || c == b'_');
                Kind::Identifier(text[offset..at].to_owned())
            }
            '0'..='9' => {
                at += length_of_run(&text[at..], |c| c.is_ascii_digit());
                Kind::Number(number(&text[offset..at]))
            }
            '-' if text[at + 1..].starts_with(|c: char| c.is_ascii_digit())
                && !text[..at].ends_with(|c: char| c.is_ascii_alphabetic() || c == '_') =>
            {
                at += 1 + length_of_run(&text[at + 1..], |c| c.is_ascii_digit());
                Kind::Number(-number(&text[offset + 1..at]))
            }
            '"' | '\'' | '`' => {
                let end = closing(text, offset, first)?;
                at = end + 1;
                delimited(&text[offset..at], offset, first)?
            }
            other => {
                let mut symbols = SYMBOLS.into_iter();
                let message = match symbols.find(|symbol| text[at..].starts_with(symbol)) {
                    Some("=") => "a single `=` compares nothing; write `==`".to_owned(),
                    Some("-") => lone_hyphen(text, offset),
                    Some(symbol) => {
                        at += symbol.len();
                        tokens.push(Token {
                            kind: Kind::Symbol(symbol),
                            offset,
                        });
                        continue;
                    }
                    None => format!(
                        "unexpected character {other:?}; put names with other characters than letters, digits and \
                         underscores in double quotes"
                    ),
                };
                return Err(SyntaxError::new(offset, message));
            }
        };
        tokens.push(Token { kind, offset });
    }
    Ok(tokens)
}

/// Returns the error of a `-` that does not begin a number. Most likely it is part of a name.
fn lone_hyphen(text: &str, offset: usize) -> String {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let start = text[..offset].trim_end_matches(in_name).len();
    let name = &text[start..];
    let name = &name[..name.find(|c: char| !in_name(c)).unwrap_or(name.len())];
    if name.len() < 2 || start == offset {
        return "`-` must be followed by a number; a name with `-` is put in double quotes"
            .to_owned();
    }
    let before = text[..start].trim_end();
    let quoted = format!(
        "a name with `-` is put in double quotes: write `\"{name}\"` (`\\\"{name}\\\"` within a Rust string)"
    );
    let header = before
        .strip_suffix('.')
        .map(str::trim_end)
        .is_some_and(|before| before.to_ascii_lowercase().ends_with("headers"));
    if header {
        format!("{quoted}; for a header, in any case of its name, write `header(@, '{name}')`")
    } else {
        quoted
    }
}

/// Returns how many bytes at the beginning of the text satisfy `member`.
fn length_of_run(text: &str, member: fn(u8) -> bool) -> usize {
    text.bytes()
        .position(|byte| !member(byte))
        .unwrap_or(text.len())
}

/// Returns the number, limited to [`FAR`].
fn number(digits: &str) -> i64 {
    digits.parse().unwrap_or(FAR).min(FAR)
}

/// Returns the place of the closing delimiter. A character after a backslash does not close.
fn closing(text: &str, open: usize, delimiter: char) -> Result<usize, SyntaxError> {
    let mut characters = text[open + 1..].char_indices();
    while let Some((at, character)) = characters.next() {
        if character == delimiter {
            return Ok(open + 1 + at);
        }
        if character == '\\' {
            characters.next();
        }
    }
    Err(SyntaxError::new(
        open,
        format!("this {delimiter} is not closed"),
    ))
}

/// Returns the token of a text with its delimiters.
fn delimited(source: &str, offset: usize, delimiter: char) -> Result<Kind, SyntaxError> {
    let inside = &source[1..source.len() - 1];
    let (kind, message) = match delimiter {
        '\'' => (
            Some(Kind::Literal(Literal::Raw(inside.replace("\\'", "'")))),
            "",
        ),
        '`' => (
            between_backticks(inside.replace("\\`", "`")).map(Kind::Literal),
            "the text between the backticks is neither JSON nor a plain word",
        ),
        _ => (
            json_string(source).map(Kind::Quoted),
            "a name in double quotes must be a JSON string",
        ),
    };
    kind.ok_or_else(|| SyntaxError::new(offset, message))
}

/// Returns the literal of a text between backticks: JSON, or else a word. Returns `None` if it is neither.
fn between_backticks(text: String) -> Option<Literal> {
    // Python's `str.strip` removes these characters.
    let is_space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    match Scanner::new(text.as_bytes(), 0).document(Scanner::skip) {
        Ok(()) => Some(Literal::Json(text)),
        Err(_) => {
            json_string(&format!("\"{}\"", text.trim_start_matches(is_space))).map(Literal::Word)
        }
    }
}

/// Returns the characters of a JSON string with its quotes. Returns `None` if it is not one.
fn json_string(source: &str) -> Option<Text> {
    let scanner = Scanner::new(source.as_bytes(), 0);
    scanner.document(Scanner::skip_string).ok()?;
    let mut characters = Vec::new();
    scanner.characters(0, &mut characters);
    Some(Text::from_trusted(characters))
}

/// The longest expression, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;
/// The most brackets, braces and parentheses inside one another.
const MAX_NESTING: usize = 32;
/// The most steps in a row, which limits the depth of the tree. Steps inside brackets follow those before the brackets.
const MAX_STEPS: usize = 72;

/// Checks that the tree will not be too deep for a small stack.
pub(crate) fn check_limits(tokens: &[Token]) -> Result<(), SyntaxError> {
    // The steps since the last comma, for each open bracket. The first entry is outside of all brackets.
    let mut open = vec![0_usize];
    for token in tokens {
        let Kind::Symbol(symbol) = token.kind else {
            continue;
        };
        let Some(steps) = open.last_mut() else {
            continue;
        };
        match symbol {
            "," => *steps = 0,
            "]" | ")" | "}" => {
                // The parser refuses a bracket that was not opened.
                if open.len() > 1 {
                    open.pop();
                }
            }
            "@" | ":" => {}
            _ => {
                // The parser recurses twice for a symbol that starts a projection.
                let projects = matches!(symbol, "[" | "[?" | "[]" | "*");
                *steps += if projects { 2 } else { 1 };
                if matches!(symbol, "[" | "[?" | "(" | "{") {
                    open.push(0);
                }
            }
        }
        if open.len() > MAX_NESTING + 1 {
            return Err(SyntaxError::new(
                token.offset,
                format!("more than {MAX_NESTING} brackets inside one another"),
            ));
        }
        if open.iter().sum::<usize>() > MAX_STEPS {
            return Err(SyntaxError::new(
                token.offset,
                format!("more than {MAX_STEPS} steps one after the other"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokenize(text)
            .unwrap()
            .into_iter()
            .map(|token| token.kind)
            .collect()
    }

    #[test]
    fn literals_keep_their_text_and_quoted_names_are_decoded() {
        let found = kinds(
            r#"`123456789012345678901` 'it\'s' `"\`"` ` foo` "a\u00e9\ud83d\ude00" "\ud83d""#,
        );
        let expected = [
            Kind::Literal(Literal::Json("123456789012345678901".into())),
            Kind::Literal(Literal::Raw("it's".into())),
            Kind::Literal(Literal::Json("\"`\"".into())),
            Kind::Literal(Literal::Word("foo".into())),
            Kind::Quoted("aé😀".into()),
            Kind::Quoted(Text::from_trusted([0xED, 0xA0, 0xBD])),
        ];
        assert_eq!(found, expected);
        // Very large numbers are limited.
        let numbers = [Kind::Number(0), Kind::Number(-12), Kind::Number(FAR)];
        assert_eq!(kinds("-0 -12 99999999999999999999"), numbers);
    }

    /// `parse/checked.txt` has the other literals that are refused.
    #[test]
    fn a_literal_with_a_line_break_is_neither_json_nor_a_word() {
        assert!(between_backticks("a\nb".to_owned()).is_none());
    }
}

//! Writes errors like the compiler does, but only with this project's words: those of the macro, and those of
//! `#[diagnostic::on_unimplemented]`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::compiler::{Diagnostic, Span};
use crate::folder;

/// The message of an error in the words of rustc.
const OF_RUSTC: &str = "in the words of rustc";

/// Returns the errors of a program in the order of their places, with this project's words only. `source` has the lines as they are
/// shown.
pub(crate) fn report(
    program: &Path,
    source: &str,
    errors: &[&Diagnostic],
    texts: &Texts,
) -> String {
    let mut errors = errors.to_vec();
    errors.sort_by_key(|error| {
        let place = error.places().next();
        place.map(|span| (span.line_start, span.column_start))
    });
    let errors = errors
        .iter()
        .map(|error| one(program, source, error, texts));
    errors.collect::<Vec<_>>().join("\n")
}

/// Returns one error, with its places and notes.
fn one(program: &Path, source: &str, error: &Diagnostic, texts: &Texts) -> String {
    let mut report = format!("error: {}\n", message(error, texts));
    for span in error.places() {
        if Path::new(&span.file_name) == program {
            place(source, span, texts, &mut report);
        } else {
            let _ = writeln!(report, "in another file: {}", span.file_name);
        }
    }
    for note in &error.children {
        if let Some(note) = texts.find(&note.message) {
            let _ = writeln!(report, "note: {note}");
        }
    }
    report
}

/// Returns the message, with `{Self}` in place of a type. An error without a code is from the macro.
fn message(error: &Diagnostic, texts: &Texts) -> String {
    match (texts.find(&error.message), &error.code) {
        (Some(text), _) => text.to_owned(),
        (None, None) => error.message.replace('\n', "\n       "),
        (None, Some(code)) => format!("({}, {OF_RUSTC})", code.code),
    }
}

/// Writes the line of an error, and underlines the words that the error is about.
fn place(source: &str, span: &Span, texts: &Texts, report: &mut String) {
    let number = format!("{}:{}", span.line_start, span.column_start);
    let margin = " ".repeat(number.len());
    let line = source.lines().nth(span.line_start - 1).unwrap_or_default();
    let end = if span.line_start == span.line_end {
        span.column_end
    } else {
        line.chars().count() + 1
    };
    let indent = " ".repeat(span.column_start - 1);
    let carets = "^".repeat(end.saturating_sub(span.column_start));
    let label = span.label.as_deref().and_then(|label| texts.find(label));
    let label = label.map(|label| format!(" {label}")).unwrap_or_default();
    let _ = writeln!(report, "{number} | {line}");
    let _ = writeln!(report, "{margin} | {indent}{carets}{label}");
}

/// The texts as they are in the sources, with `{Self}` where rustc writes a type.
pub(crate) struct Texts(Vec<String>);

impl Texts {
    /// Reads the texts from the runtime's sources.
    pub(crate) fn of_the_runtime() -> Self {
        let mut texts = Vec::new();
        collect(&folder("../../idempotency-lambda/src"), &mut texts);
        assert!(!texts.is_empty(), "the sources have no texts for rustc");
        Self(texts)
    }

    /// Returns the text that rustc filled in, or `None` if the words are not from this project.
    pub(crate) fn find(&self, filled_in: &str) -> Option<&str> {
        let mut texts = self.0.iter().map(String::as_str);
        texts.find(|text| is_filled_in(text, filled_in))
    }
}

/// Adds the texts of all files in a folder.
fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, texts);
        } else {
            let source = fs::read_to_string(&path).unwrap();
            for attribute in source.split("#[diagnostic::on_unimplemented(").skip(1) {
                let (attribute, _) = attribute.split_once(")]\n").unwrap();
                texts.extend(attribute.lines().filter_map(text_of));
            }
        }
    }
}

/// Returns the text of a line such as `note = "..",`.
fn text_of(line: &str) -> Option<String> {
    let (_, literal) = line.split_once(" = ")?;
    serde_json::from_str(literal.trim_end_matches(',')).ok()
}

/// Returns true if `filled_in` is `text` with something in place of each `{Self}`.
fn is_filled_in(text: &str, filled_in: &str) -> bool {
    let mut parts = text.split("{Self}");
    let Some(mut rest) = parts.next().and_then(|first| filled_in.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn a_text_is_found_with_any_type_filled_in() {
    let texts = Texts(vec!["`{Self}` holds nothing".into(), "write `T`".into()]);
    assert_eq!(
        texts.find("`(A, B)` holds nothing"),
        Some("`{Self}` holds nothing")
    );
    assert_eq!(texts.find("write `T`"), Some("write `T`"));
    for other in ["write `T` here", "`A` holds", "holds nothing", ""] {
        assert_eq!(texts.find(other), None, "{other}");
    }
}

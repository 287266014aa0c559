//! Writes errors like the compiler does, but without its own words.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::diagnostic::{Diagnostic, Span};
use crate::texts::Texts;

/// The message of an error in the words of rustc.
const OF_RUSTC: &str = "in the words of rustc";

/// Returns the errors of a program in the order of their places, with this project's words only.
pub(crate) fn report(program: &Path, errors: &[&Diagnostic], texts: &Texts) -> String {
    let source = fs::read_to_string(program).unwrap();
    let mut errors = errors.to_vec();
    errors.sort_by_key(|error| {
        let place = error.places().next();
        place.map(|span| (span.line_start, span.column_start))
    });
    let errors = errors
        .iter()
        .map(|error| one(program, &source, error, texts));
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

//! Messages of rustc in JSON, as far as the tests read them.

use serde::Deserialize;

/// An error or a warning.
#[derive(Deserialize)]
pub(crate) struct Diagnostic {
    pub(crate) message: String,
    pub(crate) code: Option<Code>,
    pub(crate) level: String,
    pub(crate) spans: Vec<Span>,
    pub(crate) children: Vec<Note>,
    /// The text that rustc shows to a user.
    pub(crate) rendered: String,
}

/// The code of an error (`E0277`), or the name of a lint.
#[derive(Deserialize, PartialEq)]
pub(crate) struct Code {
    pub(crate) code: String,
}

/// A note below an error.
#[derive(Deserialize)]
pub(crate) struct Note {
    pub(crate) message: String,
}

/// A place in a file; lines and columns begin at 1.
#[derive(Deserialize)]
pub(crate) struct Span {
    pub(crate) file_name: String,
    pub(crate) line_start: usize,
    pub(crate) line_end: usize,
    pub(crate) column_start: usize,
    pub(crate) column_end: usize,
    /// True for the place that the diagnostic is about.
    pub(crate) is_primary: bool,
    pub(crate) label: Option<String>,
}

impl Diagnostic {
    /// Returns the places that the diagnostic is about.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| span.is_primary)
    }

    /// Returns true if both are the same lint at the same places.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let places = |one: &Self| -> Vec<_> {
            let places = one.places();
            places
                .map(|span| (span.line_start, span.column_start))
                .collect()
        };
        self.code == other.code && places(self) == places(other)
    }
}

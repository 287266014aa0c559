//! Compiles a file with the rustc and the libraries of this test program, and reads its messages.

use std::path::Path;
use std::process::Command;

use idempotency_compiler_arguments::compiler_arguments;
use serde::Deserialize;

/// The path of rustc, and the arguments with which it compiled this test program.
const COMPILER: &[&str] = &compiler_arguments!();

/// The arguments with the places of libraries. The value of each is the next argument.
const LIBRARIES: [&str; 3] = ["--extern", "-L", "--target"];

/// The result of a compilation.
pub(crate) struct Compiled {
    pub(crate) success: bool,
    diagnostics: Vec<Diagnostic>,
}

/// Compiles a program up to the checks of its types and lifetimes. It makes no machine code.
pub(crate) fn compile(program: &Path) -> Compiled {
    let mut command = Command::new(COMPILER[0]);
    for pair in COMPILER.windows(2) {
        if LIBRARIES.contains(&pair[0]) {
            command.args(pair);
        }
    }
    command
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata"])
        .arg("--error-format=json")
        .args(["--out-dir", env!("CARGO_TARGET_TMPDIR")])
        .arg(program)
        // The macro reads the name of its runtime from this folder's manifest.
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let diagnostics = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{text}")));
    Compiled {
        success: output.status.success(),
        diagnostics: diagnostics.collect(),
    }
}

impl Compiled {
    /// Returns the errors. An error without a place is only a summary if there are others, and is then left out.
    pub(crate) fn errors(&self) -> Vec<&Diagnostic> {
        let errors = || self.diagnostics.iter().filter(|one| one.level == "error");
        let placed: Vec<_> = errors().filter(|one| !one.spans.is_empty()).collect();
        if placed.is_empty() {
            errors().collect()
        } else {
            placed
        }
    }

    /// Returns the warnings that have a place.
    pub(crate) fn warnings(self) -> Vec<Diagnostic> {
        let all = self.diagnostics.into_iter();
        all.filter(|one| one.level == "warning" && !one.spans.is_empty())
            .collect()
    }

    /// Returns all messages in the words of rustc.
    pub(crate) fn rendered(&self) -> String {
        let all = self.diagnostics.iter().map(|one| one.rendered.as_str());
        all.collect()
    }
}

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

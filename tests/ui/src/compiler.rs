//! Runs the rustc that compiled this test program, on one file, with the same libraries.

use std::path::Path;
use std::process::Command;

use idempotency_compiler_arguments::compiler_arguments;

use crate::diagnostic::Diagnostic;

/// The program, and its arguments for this test program.
const COMPILER: &[&str] = &compiler_arguments!();

/// The arguments that say where libraries are. Each has its value in the next argument.
const LIBRARIES: [&str; 3] = ["--extern", "-L", "--target"];

/// What rustc said of a file.
pub(crate) struct Compiled {
    pub(crate) success: bool,
    diagnostics: Vec<Diagnostic>,
}

/// Compiles a program as far as its types and lifetimes are checked, with the libraries of this test program.
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
        // The macro looks here for the name of its runtime.
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
    /// Returns the errors. Those without a place only count the others: they are left out where there are others.
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

    /// Returns everything that rustc said, in its own words.
    pub(crate) fn rendered(&self) -> String {
        let all = self.diagnostics.iter().map(|one| one.rendered.as_str());
        all.collect()
    }
}

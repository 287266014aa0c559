//! Compiles a file with the rustc and the libraries of this test program.

use std::path::Path;
use std::process::Command;

use idempotency_compiler_arguments::compiler_arguments;

use crate::diagnostic::Diagnostic;

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

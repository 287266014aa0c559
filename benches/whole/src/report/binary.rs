//! The size of a program.

use std::process::Command;

use serde::Serialize;

use crate::contestants::Contestant;

/// The size of a program, as it was built and without its symbols.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Binary {
    pub bytes: u64,
    /// `None` if there is no `strip`.
    pub stripped_bytes: Option<u64>,
}

impl Binary {
    /// Returns `None` if the command does not name a file.
    pub fn of(contestant: &Contestant) -> Option<Self> {
        let program = contestant.program()?;
        let bytes = std::fs::metadata(&program).ok()?.len();
        let copy = std::env::temp_dir().join(format!("benches-stripped-{}", std::process::id()));
        let strip = Command::new("strip")
            .arg("-o")
            .arg(&copy)
            .arg(&program)
            .status();
        let stripped = strip.is_ok_and(|status| status.success());
        let stripped_bytes = std::fs::metadata(&copy).ok().filter(|_| stripped);
        let stripped_bytes = stripped_bytes.map(|copy| copy.len());
        let _ = std::fs::remove_file(&copy);
        Some(Self {
            bytes,
            stripped_bytes,
        })
    }
}

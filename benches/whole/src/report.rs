//! The results: one JSON file.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Serialize;

use crate::contestants::Contestant;
use crate::machine::Machine;
use crate::samples::Line;

/// Everything that a run found out. `benches/README.md` describes the JSON.
#[derive(Serialize)]
pub struct Results {
    /// Changes when the form of the file does.
    pub schema: u32,
    pub date: String,
    /// True if the run was a short one, which proves nothing.
    pub quick: bool,
    pub seed: u64,
    pub machine: Machine,
    pub versions: BTreeMap<String, String>,
    pub contestants: Vec<Entry>,
    pub measures: Vec<Line>,
}

/// A contestant in the results.
#[derive(Serialize)]
pub struct Entry {
    #[serde(flatten)]
    pub contestant: Contestant,
    /// `None` if the contestant is not a program of Rust, or has no file.
    pub binary: Option<Binary>,
}

impl Entry {
    pub fn of(contestant: &Contestant) -> Self {
        let is_rust = contestant.language == "Rust";
        Self {
            contestant: contestant.clone(),
            binary: is_rust.then(|| Binary::of(contestant)).flatten(),
        }
    }
}

/// Returns the name of a part or a database, as in the results.
pub fn name(value: impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

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

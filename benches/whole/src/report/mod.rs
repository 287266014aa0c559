//! The results: one JSON file, and tables.

mod binary;
mod table;
mod targets;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::contestants::{Contestant, EventKind, Kind};
use crate::machine::Machine;
use crate::samples::Line;

pub use binary::Binary;
pub use table::print;
pub use targets::{Target, targets};

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
    pub targets: Vec<Target>,
}

/// A contestant in the results.
#[derive(Serialize)]
pub struct Entry {
    pub name: String,
    pub label: String,
    pub language: String,
    pub kind: Kind,
    pub event: EventKind,
    pub group: String,
    pub cached: bool,
    pub versions: BTreeMap<String, String>,
    /// Of programs of Rust.
    pub binary: Option<Binary>,
}

impl Entry {
    pub fn of(contestant: &Contestant) -> Self {
        Self {
            name: contestant.name.clone(),
            label: contestant.label.clone(),
            language: contestant.language.clone(),
            kind: contestant.kind,
            event: contestant.event,
            group: contestant.group.clone(),
            cached: contestant.cached,
            versions: contestant.versions.clone(),
            binary: (contestant.language == "Rust")
                .then(|| Binary::of(contestant))
                .flatten(),
        }
    }
}

//! The metrics that the functions wrote for CloudWatch: JSON lines in the embedded metric format.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use idempotency_testkit::lambda::LogLine;
use serde_json::Value;

/// The metrics of all functions.
pub(crate) struct Metrics {
    /// The sums of the counts that say how calls ended.
    sums: BTreeMap<&'static str, u64>,
    /// The lines, as the functions wrote them.
    lines: Vec<String>,
}

/// Each call counts in one of the first four. The others say why a call was refused.
const SHOWN: [&str; 6] = [
    "Executed",
    "Failed",
    "Replayed",
    "Refused",
    "InProgress",
    "PayloadMismatch",
];

impl Metrics {
    /// Adds up the metrics in a log.
    pub(crate) fn of(log: impl Iterator<Item = LogLine>) -> Self {
        let mut sums: BTreeMap<_, _> = SHOWN.iter().map(|name| (*name, 0)).collect();
        let mut lines = Vec::new();
        for LogLine { text, .. } in log {
            let values: Value = serde_json::from_str(&text).unwrap_or_default();
            if values["_aws"].is_null() {
                continue;
            }
            for (name, sum) in &mut sums {
                *sum += values[*name].as_u64().unwrap_or(0);
            }
            lines.push(text);
        }
        Self { sums, lines }
    }

    /// Writes the lines to a file, which `tests/scripts/dashboard.py` can draw.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file, text).with_context(|| format!("{} was not written", file.display()))
    }

    /// Returns the number of runs of a handler.
    pub(crate) fn runs(&self) -> usize {
        let runs = self.sums["Executed"] + self.sums["Failed"];
        usize::try_from(runs).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [executed, failed, replayed, refused, in_progress, mismatch] =
            SHOWN.map(|name| format!("{name} {}", self.sums[name]));
        write!(
            f,
            "{executed}, {failed}, {replayed}, {refused} ({in_progress}, {mismatch})"
        )
    }
}

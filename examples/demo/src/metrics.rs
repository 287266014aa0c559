//! The metrics that the functions wrote for CloudWatch: JSON lines in the embedded metric format.

use std::collections::BTreeMap;
use std::fmt;

use idempotency_testkit::lambda::LogLine;
use serde_json::Value;

/// The sums of the counts that say how calls ended.
pub(crate) struct Metrics(BTreeMap<&'static str, u64>);

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
        let lines = log.filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        let lines: Vec<Value> = lines.filter(|line| !line["_aws"].is_null()).collect();
        let sum = |name: &&'static str| {
            let counts = lines.iter().filter_map(|line| line[*name].as_u64());
            (*name, counts.sum())
        };
        Self(SHOWN.iter().map(sum).collect())
    }

    /// Returns the number of runs of a handler.
    pub(crate) fn runs(&self) -> usize {
        let runs = self.0["Executed"] + self.0["Failed"];
        usize::try_from(runs).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [executed, failed, replayed, refused, in_progress, mismatch] =
            SHOWN.map(|name| format!("{name} {}", self.0[name]));
        write!(
            f,
            "{executed}, {failed}, {replayed}, {refused} ({in_progress}, {mismatch})"
        )
    }
}

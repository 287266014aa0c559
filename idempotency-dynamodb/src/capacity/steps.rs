//! What a run with steps costs.

use idempotency_core::store::Consistency;

use super::{Capacity, RecordSize};

/// The bytes of an empty map of steps: the attribute's name, and three bytes.
const MAP: usize = 5 + 3;

/// The results of the steps of one key, in the order in which they are recorded.
///
/// # Examples
///
/// ```
/// use idempotency_dynamodb::capacity::{Path, RecordSize, StepResults};
/// use idempotency_core::protocol::policy::Lookup;
/// let size = RecordSize::of_response(500);
/// let mut steps = StepResults::default();
/// steps.add("reserve", 300);
/// steps.add("charge", 300);
/// assert_eq!(Path::FirstRun.capacity(Lookup::ClaimFirst, size).write, 2.0);
/// assert_eq!(steps.first_run(size).write, 4.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepResults(Vec<usize>);

impl StepResults {
    /// Adds a step with this name, whose result has this many bytes as it is stored: JSON text, or compressed.
    pub fn add(&mut self, name: &str, bytes: usize) {
        // One byte for a member of a map.
        self.0.push(name.len() + bytes + 1);
    }

    /// Returns what a run consumes that finds no record, runs all steps and completes.
    pub fn first_run(&self, size: RecordSize) -> Capacity {
        Capacity::of_write(size.claim + MAP) + self.run_after(size, 0)
    }

    /// Returns what a run consumes that takes over a record with the first `recorded` of the results, runs the other steps and
    /// completes.
    pub fn takeover(&self, size: RecordSize, recorded: usize) -> Capacity {
        let found = self.record(size, recorded);
        let (refused, update) = (Capacity::of_write(found), Capacity::of_write(found));
        let read = Capacity::of_read(found, Consistency::Strong);
        refused + update + read + self.run_after(size, recorded)
    }

    /// Returns what a run consumes after its claim.
    fn run_after(&self, size: RecordSize, recorded: usize) -> Capacity {
        let steps = (recorded..self.0.len()).map(|step| self.record(size, step + 1));
        let steps = steps.map(Capacity::of_write);
        // A write counts the larger of the record before and after it.
        let completed = self.record(size, self.0.len()).max(size.completed);
        steps.fold(Capacity::of_write(completed), |sum, step| sum + step)
    }

    /// Returns the size of a record in progress with so many results.
    fn record(&self, size: RecordSize, results: usize) -> usize {
        size.claim + MAP + self.0.iter().take(results).sum::<usize>()
    }
}

//! The report of a run: the result of each case.

use std::fmt;

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseResult {
    /// The rule holds.
    Passed,
    /// The rule does not hold. The text says what was observed.
    Failed(String),
    /// The case did not run. The text says what the factory does not offer.
    Skipped(String),
}

/// One case and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// The rule, as a sentence.
    pub name: &'static str,
    /// The result.
    pub result: CaseResult,
}

/// The result of every case. `Display` counts them, and lists each failed or skipped case with its reason.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use idempotency_core::store::MemoryStore;
/// # use idempotency_testkit::{ManualClock, conformance};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(MemoryStore::new());
/// let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
/// assert_eq!(report.passed() + report.skipped().count(), report.cases().len());
/// println!("{report}");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    store: String,
    cases: Vec<CaseReport>,
}

impl Report {
    pub(super) fn new(store: String, cases: Vec<CaseReport>) -> Self {
        Self { store, cases }
    }

    /// Returns true if no case failed.
    pub fn is_conformant(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Returns every case, in the order in which they ran.
    pub fn cases(&self) -> &[CaseReport] {
        &self.cases
    }

    /// Returns the number of cases that passed.
    pub fn passed(&self) -> usize {
        let passed = self
            .cases
            .iter()
            .filter(|case| case.result == CaseResult::Passed);
        passed.count()
    }

    /// Returns the names of the failed cases, each with its reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|case| match &case.result {
            CaseResult::Failed(reason) => Some((case.name, reason.as_str())),
            CaseResult::Passed | CaseResult::Skipped(_) => None,
        })
    }

    /// Returns the names of the cases that did not run, each with its reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|case| match &case.result {
            CaseResult::Skipped(reason) => Some((case.name, reason.as_str())),
            CaseResult::Passed | CaseResult::Failed(_) => None,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, cases } = self;
        let (failed, skipped) = (self.failures().count(), self.skipped().count());
        write!(
            f,
            "{store}: {} cases, {} passed, {failed} failed, {skipped} skipped",
            cases.len(),
            self.passed()
        )?;
        for (name, reason) in self.failures() {
            write!(f, "\n  failed   {name}\n           {reason}")?;
        }
        for (name, reason) in self.skipped() {
            write!(f, "\n  skipped  {name}\n           {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_lists_failed_and_skipped_cases() {
        let case = |name, result| CaseReport { name, result };
        let report = Report::new(
            "shelf".to_owned(),
            vec![
                case("it_stands", CaseResult::Passed),
                case("it_holds", CaseResult::Failed("it fell".to_owned())),
                case("it_floats", CaseResult::Skipped("no water".to_owned())),
            ],
        );
        assert!(!report.is_conformant());
        assert_eq!(
            report.to_string(),
            "shelf: 3 cases, 1 passed, 1 failed, 1 skipped\
             \n  failed   it_holds\n           it fell\
             \n  skipped  it_floats\n           no water"
        );
    }
}

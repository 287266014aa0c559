//! What the suite found.

use std::fmt;

/// What became of one case.
///
/// ```
/// use idempotency_testkit::conformance::CaseResult;
/// assert_ne!(CaseResult::Passed, CaseResult::Failed("a read brought back no record".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseResult {
    /// The rule holds.
    Passed,
    /// The rule does not hold, and where it was seen.
    Failed(String),
    /// The case did not run, and what the factory would have to offer.
    Skipped(String),
}

/// One case and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// The rule, as a sentence.
    pub name: &'static str,
    /// What became of it.
    pub result: CaseResult,
}

/// What became of every case. Its `Display` counts them, and lists each that failed or was skipped with its reason.
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

    /// Whether no case failed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use idempotency_core::store::MemoryStore;
    /// # use idempotency_testkit::{ManualClock, conformance};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let store = Arc::new(MemoryStore::new());
    /// # let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
    /// assert!(report.is_conformant());
    /// # }
    /// ```
    pub fn is_conformant(&self) -> bool {
        self.failures().next().is_none()
    }

    /// Every case, in the order in which they ran.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use idempotency_core::store::MemoryStore;
    /// # use idempotency_testkit::{ManualClock, conformance};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let store = Arc::new(MemoryStore::new());
    /// # let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
    /// assert_eq!(report.cases()[0].name, "a_put_into_nothing_is_applied_and_read_back");
    /// # }
    /// ```
    pub fn cases(&self) -> &[CaseReport] {
        &self.cases
    }

    /// How many cases passed.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use idempotency_core::store::MemoryStore;
    /// # use idempotency_testkit::{ManualClock, conformance};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let store = Arc::new(MemoryStore::new());
    /// # let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
    /// assert!(report.passed() > 50);
    /// # }
    /// ```
    pub fn passed(&self) -> usize {
        let passed = self
            .cases
            .iter()
            .filter(|case| case.result == CaseResult::Passed);
        passed.count()
    }

    /// The names of the cases that failed, each with its reason.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use idempotency_core::store::MemoryStore;
    /// # use idempotency_testkit::{ManualClock, conformance};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let store = Arc::new(MemoryStore::new());
    /// # let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
    /// assert_eq!(report.failures().next(), None);
    /// # }
    /// ```
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|case| match &case.result {
            CaseResult::Failed(reason) => Some((case.name, reason.as_str())),
            CaseResult::Passed | CaseResult::Skipped(_) => None,
        })
    }

    /// The names of the cases that did not run, each with its reason.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use idempotency_core::store::MemoryStore;
    /// # use idempotency_testkit::{ManualClock, conformance};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let store = Arc::new(MemoryStore::new());
    /// # let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
    /// assert!(report.skipped().any(|(_, reason)| reason == "the factory plants no foreign records"));
    /// # }
    /// ```
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
    fn a_report_lists_what_failed_and_what_did_not_run() {
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

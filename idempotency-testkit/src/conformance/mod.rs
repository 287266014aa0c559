//! The conformance suite of the [`Store`](idempotency_core::store::Store) contract: each rule is a named case.
//!
//! All cases run, and the [`Report`] names every failed case, so that the author of a store sees all failures at once.
//!
//! Some rules need more than the trait offers: records written by another program, the size limit of the store, a lost
//! reply. A [`StoreFactory`] can offer these. A case that needs something the factory does not offer is skipped, and the
//! report says so.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//!
//! use idempotency_core::store::MemoryStore;
//! use idempotency_testkit::{ManualClock, conformance};
//!
//! # #[tokio::main(worker_threads = 2)]
//! # async fn main() {
//! let store = Arc::new(MemoryStore::new());
//! conformance::assert_conformance(conformance::sharing(store), &ManualClock::at(1_700_000_000_500)).await;
//! # }
//! ```

mod cases;
mod factory;
mod trial;

pub use factory::{ForeignRecord, ForeignValue, StoreFactory, sharing, staged};

use trial::{Flaw, Trial};

use std::any::Any;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use idempotency_core::time::Clock;

/// Checks every rule of the `Store` contract, one case after the other, and reports the result of each.
///
/// Call it on a tokio runtime with at least two threads. On one thread the requests of a store that blocks never meet, so a race between
/// them is not found. Each case uses its own record ids, with times around the time of `clock`, and deletes its records at its end.
///
/// For a store that deletes expired records itself, set the clock days ahead, so that records that the suite considers
/// expired are not yet expired for the store.
///
/// There is no timeout: a store that never responds blocks the suite.
#[must_use = "the report says whether the store is conformant"]
pub async fn check(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    let mut cases = Vec::new();
    for (number, case) in cases::all().enumerate() {
        // Unique, so that another run on the same table uses other ids.
        let nonce = RandomState::new().build_hasher().finish();
        let prefix = format!("conformance.{nonce:016x}.{number}");
        let trial = Trial::new(Arc::clone(&factory), clock.now(), prefix).await;
        let result = match trial {
            Err(error) => CaseResult::Failed(format!("the factory returned no store: {error}")),
            Ok(trial) => perform(case, Arc::new(trial)).await,
        };
        cases.push((case.name, result));
    }
    let store = match factory.store().await {
        Ok(store) => store.name(),
        Err(_) => "a store that the factory did not return".to_owned(),
    };
    Report { store, cases }
}

/// Runs [`check`] and panics with the report if a case failed.
///
/// # Panics
///
/// Panics if a case failed.
pub async fn assert_conformance(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let report = check(factory, clock).await;
    assert!(report.failures().next().is_none(), "{report}");
    report
}

/// Runs one case in its own task, so that a panic of the store fails only that case.
async fn perform(case: &cases::Case, trial: Arc<Trial>) -> CaseResult {
    let result = match tokio::spawn((case.run)(Arc::clone(&trial))).await {
        Ok(Ok(())) => CaseResult::Passed,
        Ok(Err(Flaw::Broken(reason))) => CaseResult::Failed(reason),
        Ok(Err(Flaw::NotOffered(what))) => CaseResult::Skipped(what.to_owned()),
        Err(error) => CaseResult::Failed(match error.try_into_panic() {
            Ok(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
            Err(_) => "its task was cancelled: keep the runtime until the suite ends".to_owned(),
        }),
    };
    // Best effort: a store that fails here has also failed its case.
    let _ = tokio::spawn(async move { trial.clean_up().await }).await;
    result
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CaseResult {
    Passed,
    /// The rule does not hold. The text says what was observed.
    Failed(String),
    /// The case did not run. The text says what the factory does not offer.
    Skipped(String),
}

/// The result of every case. `Display` counts them, and lists each failed or skipped case with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    store: String,
    cases: Vec<(&'static str, CaseResult)>,
}

impl Report {
    /// Returns the names of the failed cases, each with its reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|(name, result)| match result {
            CaseResult::Failed(reason) => Some((*name, reason.as_str())),
            CaseResult::Passed | CaseResult::Skipped(_) => None,
        })
    }

    /// Returns the names of the cases that did not run, each with its reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.cases.iter().filter_map(|(name, result)| match result {
            CaseResult::Skipped(reason) => Some((*name, reason.as_str())),
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
            cases.len() - failed - skipped
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
        let report = Report {
            store: "shelf".to_owned(),
            cases: vec![
                ("it_stands", CaseResult::Passed),
                ("it_holds", CaseResult::Failed("it fell".to_owned())),
                ("it_floats", CaseResult::Skipped("no water".to_owned())),
            ],
        };
        assert_eq!(report.failures().count(), 1);
        assert_eq!(
            report.to_string(),
            "shelf: 3 cases, 1 passed, 1 failed, 1 skipped\
             \n  failed   it_holds\n           it fell\
             \n  skipped  it_floats\n           no water"
        );
    }
}

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
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let store = Arc::new(MemoryStore::new());
//! let report = conformance::check(move || Arc::clone(&store), &ManualClock::at(1_700_000_000_500)).await;
//! assert!(report.is_conformant(), "{report}");
//! # }
//! ```

mod cases;
mod factory;
mod foreign;
mod report;
mod trial;

pub use factory::StoreFactory;
pub use foreign::{ForeignRecord, ForeignValue};
pub use report::{CaseReport, CaseResult, Report};

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use idempotency_core::clock::Clock;

use trial::{Flaw, Trial};

/// Checks every rule of the `Store` contract, one case after the other, and reports the result of each.
///
/// Call it on a tokio runtime. On a multi-threaded runtime the concurrent cases also find races between threads. Each case
/// uses its own record ids, with times around the time of `clock`, and deletes its records at its end.
///
/// For a store that deletes expired records itself, set the clock days ahead, so that records that the suite considers
/// expired are not yet expired for the store.
///
/// There is no timeout: a store that never responds blocks the suite.
#[must_use = "the report says whether the store is conformant"]
pub async fn check(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    let mut reports = Vec::new();
    for (number, case) in cases::all().enumerate() {
        // Unique, so that another run on the same table uses other ids.
        let nonce = RandomState::new().build_hasher().finish();
        let prefix = format!("conformance.{nonce:016x}.{number}");
        let trial = Trial::new(Arc::clone(&factory), clock.now(), prefix).await;
        let result = match trial {
            Err(error) => CaseResult::Failed(format!("the factory returned no store: {error}")),
            Ok(trial) => perform(case, Arc::new(trial)).await,
        };
        reports.push(CaseReport {
            name: case.name,
            result,
        });
    }
    let store = match factory.store().await {
        Ok(store) => store.name(),
        Err(_) => "a store that the factory did not return".to_owned(),
    };
    Report::new(store, reports)
}

/// Runs [`check`] and panics with the report if a case failed.
///
/// # Panics
///
/// Panics if a case failed.
pub async fn assert_conformance(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let report = check(factory, clock).await;
    assert!(report.is_conformant(), "{report}");
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

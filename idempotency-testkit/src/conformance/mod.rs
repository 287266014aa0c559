//! The suite that every [`Store`](idempotency_core::store::Store) must pass: each rule of its contract as a named case.
//!
//! All cases run, and the [`Report`] names all that failed, so that the author of a store sees everything at once.
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
//!
//! Some rules need more than the store itself: records as another program writes them, the store's limit on size, a
//! lost reply. A [`StoreFactory`] can offer these; the cases that need one it does not offer are skipped, and the
//! report says so.

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

/// Checks every rule of the `Store` contract, one case after the other, and reports all that do not hold.
///
/// Runs on a tokio runtime; on one with several threads the cases of concurrency also find races between threads. The
/// cases' records have ids of their own, are dated around `clock`'s present, and are deleted at a case's end. For a
/// store that deletes expired records by itself, let the clock run days ahead of the real one: what is expired to the
/// suite is then not expired to the store.
///
/// A store that never answers is waited for without end.
///
/// ```
/// # use std::sync::Arc;
/// # use idempotency_core::store::MemoryStore;
/// # use idempotency_testkit::{ManualClock, conformance};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(MemoryStore::new());
/// let report = conformance::check(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
/// assert_eq!(report.failures().count(), 0);
/// # }
/// ```
#[must_use = "ask the report whether the store is conformant"]
pub async fn check(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let factory: Arc<dyn StoreFactory> = Arc::new(factory);
    let mut reports = Vec::new();
    for (number, case) in cases::all().enumerate() {
        // Another run over the same table, now or later, meets none of these ids.
        let nonce = RandomState::new().build_hasher().finish();
        let prefix = format!("conformance.{nonce:016x}.{number}");
        let trial = Trial::new(Arc::clone(&factory), clock.now(), prefix).await;
        let result = match trial {
            Err(error) => CaseResult::Failed(format!("the factory made no store: {error}")),
            Ok(trial) => perform(case, Arc::new(trial)).await,
        };
        reports.push(CaseReport {
            name: case.name,
            result,
        });
    }
    let store = match factory.store().await {
        Ok(store) => store.name(),
        Err(_) => "a store that could not be made".to_owned(),
    };
    Report::new(store, reports)
}

/// Checks as [`check`] does, and panics with the whole report if any case failed.
///
/// ```
/// # use std::sync::Arc;
/// # use idempotency_core::store::MemoryStore;
/// # use idempotency_testkit::{ManualClock, conformance};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(MemoryStore::new());
/// conformance::assert_conformance(move || store.clone(), &ManualClock::at(1_700_000_000_500)).await;
/// # }
/// ```
///
/// # Panics
/// If a case fails.
pub async fn assert_conformance(factory: impl StoreFactory + 'static, clock: &dyn Clock) -> Report {
    let report = check(factory, clock).await;
    assert!(report.is_conformant(), "{report}");
    report
}

/// Runs one case on a task of its own: a panic of the store's fails that case, and the others go on.
async fn perform(case: &cases::Case, trial: Arc<Trial>) -> CaseResult {
    let result = match tokio::spawn((case.run)(Arc::clone(&trial))).await {
        Ok(Ok(())) => CaseResult::Passed,
        Ok(Err(Flaw::Broken(reason))) => CaseResult::Failed(reason),
        Ok(Err(Flaw::Lacks(lack))) => CaseResult::Skipped(lack.to_owned()),
        Err(error) => CaseResult::Failed(match error.try_into_panic() {
            Ok(panic) => format!("it panicked: {}", panic_text(panic.as_ref())),
            Err(_) => "its task was cancelled: keep the runtime until the suite ends".to_owned(),
        }),
    };
    // Best effort: a store that fails here has failed its case too.
    let _ = tokio::spawn(async move { trial.clean_up().await }).await;
    result
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}

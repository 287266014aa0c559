//! Every operation of the program: the annotated functions, registered at link time, and those built in code.
//!
//! [`init`](crate::init) checks the annotated functions before the first event. If it is not called, the same errors come
//! at each call.

mod prefixes;
mod registered;

pub(crate) use prefixes::Claimant;
pub(super) use prefixes::claim;
pub use registered::RegisteredOperation;

use std::sync::atomic::{AtomicBool, Ordering};

use idempotency_core::error::Error;

/// Every annotated function of the program.
#[linkme::distributed_slice]
pub static OPERATIONS: [&'static RegisteredOperation];

/// Checks that no annotated function shares its key prefix by mistake.
///
/// It needs no variable but those of the prefix, so it comes before all other checks.
pub(crate) fn check_prefixes() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.check_prefix())
}

/// Checks the settings of every annotated function.
pub(crate) fn check_settings() -> Result<(), Error> {
    OPERATIONS
        .iter()
        .try_for_each(|operation| operation.operation().map(drop))
}

/// True if an operation that was built in code uses the global backend.
static BUILT_WITHOUT_A_STORE: AtomicBool = AtomicBool::new(false);
/// True if an operation that was built in code has a store of its own.
static BUILT_WITH_A_STORE: AtomicBool = AtomicBool::new(false);

/// True if an operation that uses the global backend keeps events in its records.
static STORES_EVENTS: AtomicBool = AtomicBool::new(false);

/// Notes that an operation that uses the global backend keeps events in its records.
pub(crate) fn note_events() {
    STORES_EVENTS.store(true, Ordering::Relaxed);
}

/// Returns true if a known operation that uses the global backend keeps events in its records.
pub(crate) fn stores_events() -> bool {
    STORES_EVENTS.load(Ordering::Relaxed)
}

/// Notes whether an operation that was built in code has a store of its own.
pub(crate) fn note_built(has_its_own_store: bool) {
    let built = if has_its_own_store {
        &BUILT_WITH_A_STORE
    } else {
        &BUILT_WITHOUT_A_STORE
    };
    built.store(true, Ordering::Relaxed);
}

/// Returns true if the process needs the global backend: a known operation has no store of its own, or no operation is
/// known.
pub(crate) fn needs_global_backend() -> bool {
    let none = OPERATIONS.is_empty() && !BUILT_WITH_A_STORE.load(Ordering::Relaxed);
    none || BUILT_WITHOUT_A_STORE.load(Ordering::Relaxed)
        || OPERATIONS
            .iter()
            .any(|operation| !operation.has_its_own_store())
}

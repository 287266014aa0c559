//! Whether a store may keep events (`store_event`), which can have personal data, if it cannot check how they are encrypted.

use super::{Store, StoreError, StoreErrorKind, Write};
use crate::config::{ConfigurationError, Variables, truth};

/// The variable that permits it. Each store that keeps events reads it.
pub const UNENCRYPTED_EVENTS: &str = "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED";

/// Returns true if the variable permits it.
///
/// # Errors
///
/// If the variable is not a truth value.
pub fn unencrypted_events(variables: &Variables) -> Result<bool, ConfigurationError> {
    Ok(truth(variables, UNENCRYPTED_EVENTS)?.unwrap_or(false))
}

/// Returns true if the write stores an event.
pub fn keeps_event(write: &Write) -> bool {
    match write {
        Write::Put(record) => record.event.exists(),
        Write::Update(change) => change.set.event.exists(),
        Write::Delete | Write::Step { .. } => false,
    }
}

/// Checks that a store may keep events whose encryption it cannot check.
///
/// # Errors
///
/// Unless it is `permitted`. The text names the variable.
pub fn permit_events(permitted: bool, store: &dyn Store) -> Result<(), StoreError> {
    if permitted {
        return Ok(());
    }
    let text = format!(
        "{} keeps what it stores without a key of yours, and `store_event` keeps events there: set {UNENCRYPTED_EVENTS}=true if they may be",
        store.name()
    );
    Err(StoreError::new(StoreErrorKind::NotEncrypted, text))
}

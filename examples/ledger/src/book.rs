//! A simulated book of accounts. It posts every entry that it gets, without duplicate detection, so that the function must
//! prevent duplicates.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Entry, PostError};

/// The account that is locked once in each process, as by another booking.
pub const LOCKED_ONCE: &str = "acc-locked-once";

/// Posts an entry to its account.
///
/// # Errors
///
/// If the account is locked. The entry is then not posted.
pub async fn post(entry: &Entry) -> Result<(), PostError> {
    static LOCKED: AtomicBool = AtomicBool::new(false);

    tracing::info!(
        entry_id = entry.entry_id,
        account = entry.account,
        "posting the entry"
    );
    if entry.account == LOCKED_ONCE && !LOCKED.swap(true, Ordering::Relaxed) {
        return Err(PostError::Locked);
    }
    Ok(())
}

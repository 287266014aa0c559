//! An open transaction of the store in memory, which a handler reads and writes in.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Ledger;
use crate::store::{RejectedWrite, Rejection, StoreError, StoreErrorKind, StoreReply};

/// An open transaction of a [`MemoryStore`](super::MemoryStore): it sees the ledger as it was when it began, and its own changes. It
/// commits if no account that it read or changed was changed since.
#[doc(hidden)]
#[derive(Debug)]
pub struct MemoryTransaction {
    snapshot: Ledger,
    changed: BTreeMap<String, i64>,
    read: BTreeSet<String>,
    is_aborted: bool,
}

impl MemoryTransaction {
    pub(super) fn begin(ledger: &Ledger) -> Self {
        Self {
            snapshot: ledger.clone(),
            changed: BTreeMap::new(),
            read: BTreeSet::new(),
            is_aborted: false,
        }
    }

    /// Returns the balance of an account.
    pub fn balance(&mut self, account: &str) -> i64 {
        self.read.insert(account.to_owned());
        let before = || self.snapshot.balance(account);
        self.changed.get(account).copied().unwrap_or_else(before)
    }

    /// Adds an amount, which may be negative, to the balance of an account.
    pub fn add(&mut self, account: &str, amount: i64) {
        let balance = self.balance(account).saturating_add(amount);
        self.changed.insert(account.to_owned(), balance);
    }

    /// Aborts the transaction, as a statement that fails does in SQL. It cannot commit any more.
    pub fn abort(&mut self) {
        self.is_aborted = true;
    }

    /// Applies the changes, or none of them.
    ///
    /// # Errors
    ///
    /// The reply of the store, if the transaction was aborted, or if it met another one.
    pub(super) fn commit(self, ledger: &mut Ledger) -> Result<(), Box<StoreReply>> {
        if self.is_aborted {
            let write = RejectedWrite::new(0, "transaction of the handler", "Aborted");
            return Err(Box::new(StoreReply::Rejected {
                rejection: Rejection::new(1, vec![write]),
                maybe_applied: false,
            }));
        }
        let differs = |account: &String| ledger.version(account) != self.snapshot.version(account);
        if let Some(account) = self.read.iter().find(|account| differs(account)) {
            let text =
                format!("another transaction changed the account `{account}` first: call again");
            let error = StoreError::new(StoreErrorKind::Conflict, text);
            return Err(Box::new(StoreReply::failed(error)));
        }
        for (account, balance) in self.changed {
            ledger.set(account, balance);
        }
        Ok(())
    }
}

//! The ledger of the store in memory: what its staged writes change.

use std::collections::HashMap;

use crate::store::staged::StagedWrites;
use crate::store::{RejectedWrite, Rejection};

/// Staged writes of a [`MemoryStore`](super::MemoryStore): all of them are applied, or none.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::*;
/// # idempotency_core::example::ready(async {
/// let store = MemoryStore::new();
/// store.set_balance("alice", 7);
/// let transfer = Staged::new(MemoryWrites::from([LedgerEntry::add("alice", -5).at_least(0), LedgerEntry::add("bob", 5)]));
/// let transaction = TransactionRequest { record: None, staged: &transfer, token: "t" };
/// let applied = store.send(StoreRequest::Transact(transaction), &SendLog::new()).await;
/// assert!(matches!(applied, StoreReply::Applied { .. }));
/// assert_eq!((store.balance("alice"), store.balance("bob")), (2, 5));
/// let another = TransactionRequest { token: "u", ..transaction };
/// let rejected = store.send(StoreRequest::Transact(another), &SendLog::new()).await;
/// assert!(matches!(rejected, StoreReply::Rejected { maybe_applied: false, .. }));
/// assert_eq!((store.balance("alice"), store.balance("bob")), (2, 5));
/// # });
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryWrites {
    entries: Vec<LedgerEntry>,
}

/// One staged write: a change of the balance of one account.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    account: String,
    amount: i64,
    at_least: Option<i64>,
}

impl LedgerEntry {
    /// Returns the addition of an amount, which may be negative, to the balance of an account.
    pub fn add(account: impl Into<String>, amount: i64) -> Self {
        Self {
            account: account.into(),
            amount,
            at_least: None,
        }
    }

    /// Returns the same entry with the condition that the new balance is at least this.
    #[must_use]
    pub fn at_least(mut self, balance: i64) -> Self {
        self.at_least = Some(balance);
        self
    }
}

impl MemoryWrites {
    /// Adds an entry.
    pub fn push(&mut self, entry: LedgerEntry) {
        self.entries.push(entry);
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }

    /// Applies all entries, or none.
    ///
    /// # Errors
    ///
    /// If the condition of an entry does not hold. The rejection has each such entry, with the balance before the transaction.
    pub(super) fn apply(&self, ledger: &mut HashMap<String, i64>) -> Result<(), Rejection> {
        let mut changed = HashMap::new();
        let mut rejected = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let before = ledger.get(&entry.account).copied().unwrap_or(0);
            let balance = changed.entry(&entry.account).or_insert(before);
            *balance = balance.saturating_add(entry.amount);
            if entry.at_least.is_some_and(|least| *balance < least) {
                let what = "change of the ledger";
                let write = RejectedWrite::new(index, what, RejectedWrite::CONDITION);
                rejected.push(write.with_item(before));
            }
        }
        if !rejected.is_empty() {
            return Err(Rejection::new(self.entries.len(), rejected));
        }
        let changed: Vec<_> = changed
            .into_iter()
            .map(|(account, balance)| (account.clone(), balance))
            .collect();
        ledger.extend(changed);
        Ok(())
    }
}

impl<const N: usize> From<[LedgerEntry; N]> for MemoryWrites {
    fn from(entries: [LedgerEntry; N]) -> Self {
        Self {
            entries: entries.into(),
        }
    }
}

impl StagedWrites for MemoryWrites {
    fn count(&self) -> usize {
        self.entries.len()
    }

    fn what(&self) -> &'static str {
        "writes of the ledger of the store in memory"
    }
}

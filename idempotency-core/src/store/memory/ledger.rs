//! The ledger of the store in memory: what its staged writes change.

use std::collections::HashMap;

use crate::store::staged::StagedWrites;
use crate::store::{RejectedWrite, Rejection};

/// The balances of the accounts, and how often each was changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(HashMap<String, (i64, u64)>);

impl Ledger {
    /// Returns the balance of an account. One that was never written has 0.
    pub(super) fn balance(&self, account: &str) -> i64 {
        self.0.get(account).map_or(0, |(balance, _)| *balance)
    }

    /// Returns how often an account was changed.
    pub(super) fn version(&self, account: &str) -> u64 {
        self.0.get(account).map_or(0, |(_, version)| *version)
    }

    pub(super) fn set(&mut self, account: String, balance: i64) {
        let version = self.version(&account) + 1;
        self.0.insert(account, (balance, version));
    }
}

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
    pub(super) fn apply(&self, ledger: &mut Ledger) -> Result<(), Rejection> {
        let mut changed = HashMap::new();
        let mut rejected = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let before = ledger.balance(&entry.account);
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
        for (account, balance) in changed {
            ledger.set(account.clone(), balance);
        }
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

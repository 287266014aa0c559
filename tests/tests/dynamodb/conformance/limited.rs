//! The memory store with limits: one that forgets tokens, and one whose records are small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotency_core::future::BoxFuture;
use idempotency_core::store::{
    LedgerEntry, MemoryStore, MemoryWrites, SendLog, Staged, Store, StoreLimits, StoreReply,
    StoreRequest, TransactionRequest,
};
use idempotency_lambda::BoxError;
use idempotency_testkit::conformance::{StoreFactory, assert_conformance, check, staged};

use super::clock;

struct LimitedStore {
    inner: MemoryStore,
    limits: StoreLimits,
    transactions: AtomicU32,
}

impl LimitedStore {
    fn new(limits: StoreLimits) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            limits,
            transactions: AtomicU32::new(0),
        })
    }

    /// Returns the token under which the memory store applies the transaction: another one for each send, if this store remembers none.
    fn token(&self, token: &str) -> String {
        let number = self.transactions.fetch_add(1, Ordering::Relaxed);
        match self.limits.token.is_zero() {
            true => format!("{token} {number}"),
            false => token.to_owned(),
        }
    }
}

impl Store for LimitedStore {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let StoreRequest::Transact(transaction) = request else {
            return self.inner.send(request, log);
        };
        assert!(has_form_of_contract(transaction.token));
        let token = self.token(transaction.token);
        Box::pin(async move {
            let transaction = TransactionRequest {
                token: &token,
                ..transaction
            };
            let request = StoreRequest::Transact(transaction);
            self.inner.send(request, log).await
        })
    }

    fn limits(&self) -> StoreLimits {
        self.limits
    }

    fn name(&self) -> String {
        "a limited store".to_owned()
    }
}

/// Returns true if the token has the form that `TransactionRequest::token` promises.
fn has_form_of_contract(token: &str) -> bool {
    let (digits, letter) = token.split_once('-').unwrap_or((token, "a"));
    let is_digit = |it: char| matches!(it, '0'..='9' | 'a'..='f');
    token.len() <= TransactionRequest::LONGEST_TOKEN
        && !digits.is_empty()
        && digits.chars().all(is_digit)
        && letter.len() == 1
        && letter.chars().all(|it| it.is_ascii_lowercase())
}

struct Factory(Arc<LimitedStore>);

impl StoreFactory for Factory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.0.clone();
        Box::pin(async move { Ok(store) })
    }

    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let entry = LedgerEntry::add(name, -1).at_least(-i64::from(limit));
        Some(staged(MemoryWrites::from([entry])))
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        let taken = -self.0.inner.balance(name);
        Box::pin(async move { Ok(u32::try_from(taken)?) })
    }
}

#[tokio::test]
async fn a_store_that_remembers_no_token_conforms_and_gets_tokens_of_the_promised_form() {
    let store = LimitedStore::new(StoreLimits {
        token: Duration::ZERO,
        ..StoreLimits::NONE
    });
    assert_conformance(Factory(Arc::clone(&store)), &clock()).await;
    assert!(store.transactions.load(Ordering::Relaxed) > 16);
}

#[tokio::test]
async fn the_suite_says_that_a_store_holds_too_small_records() {
    let store = LimitedStore::new(StoreLimits {
        record: Some(2_000),
        ..StoreLimits::NONE
    });
    let report = check(Factory(store), &clock()).await;
    let text = "the largest record has 2000 bytes (`Store::limits`), and the suite needs 308224";
    let failures: Vec<_> = report.failures().map(|(_, reason)| reason).collect();
    assert_eq!(failures, [text; 6], "{report}");
}

//! Entries for accounts, from a Kinesis stream whose partition key is the account. Each entry is posted once, also if its
//! producer sent it twice. After a failure Lambda delivers the records again, from the failed one on.

use idempotency_lambda::{BoxError, idempotent};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The data of a record.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The id that the producer gave to the entry: the same in each record of the entry.
    pub entry_id: String,
    /// The account.
    pub account: String,
    /// The amount, in the smallest unit of the currency. It is negative in a withdrawal.
    pub amount: i64,
}

/// Why an entry was not posted.
#[derive(Debug, Error)]
pub enum PostError {
    /// The entry cannot become valid. After some attempts Lambda gives the record up, and sends its shard and sequence number to the queue
    /// for failed records.
    #[error("the amount is 0")]
    NoAmount,
    /// Another posting holds the account: a retry can succeed.
    #[error("the account is locked")]
    Locked,
    /// The call could not be made idempotent.
    #[error(transparent)]
    Idempotency(#[from] idempotency_lambda::Error),
}

/// Starts the function.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch("IdempotencyExamples")?;
    idempotency_lambda::run(post).await
}

/// Posts the entry of one record. The attribute makes this the handler of the event: one record after the other, up to the first
/// that fails. Kinesis delivers again from there.
///
/// # Errors
///
/// If the amount is 0 or the account is locked. The entry is then not posted.
#[idempotent(
    kinesis,
    key_prefix = "ledger.post",
    key = "entry_id",
    key_required = "all",
    validate = "[account, amount]"
)]
pub async fn post(entry: Entry) -> Result<(), PostError> {
    let posted = match entry.amount {
        0 => Err(PostError::NoAmount),
        _ => book::post(&entry).await,
    };
    // The framework logs the type of an error, not its text, because a text can quote the data.
    posted.inspect_err(|error| tracing::warn!(entry_id = entry.entry_id, "{error}"))
}

/// A simulated book of accounts. It posts every entry that it gets, without duplicate detection, so that the function must
/// prevent duplicates.
pub mod book {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::{Entry, PostError};

    /// The account that is locked for the first posting in each process.
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
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotency_lambda::{Context, LambdaEvent, MemoryStore, backend_over, with_backend};
    use idempotency_testkit::events::{self, AwsBatch};
    use serde_json::{Value, json};

    use super::*;

    /// Sends the event to the function. Returns the sequence numbers that the response names.
    async fn failed(store: &Arc<MemoryStore>, event: Value) -> Vec<String> {
        let event = serde_json::from_value(event).unwrap();
        let call = post(LambdaEvent::new(event, Context::default()));
        let response = with_backend(backend_over(Arc::clone(store) as _), call).await;
        let failures = response.unwrap().batch_item_failures.into_iter();
        failures
            .filter_map(|failure| failure.item_identifier)
            .collect()
    }

    /// Returns a batch of entries, each with its id and amount.
    fn batch(entries: &[(&str, i64)]) -> AwsBatch {
        let entries = entries.iter();
        let entry = |(entry_id, amount)| json!({ "entry_id": entry_id, "account": "acc-1", "amount": amount });
        entries.fold(events::kinesis("ledger"), |batch, next| {
            batch.json(&entry(*next))
        })
    }

    #[tokio::test]
    async fn an_entry_that_was_sent_twice_has_one_record() {
        let store = Arc::new(MemoryStore::new());
        let event: Value = serde_json::from_str(include_str!("../../events/ledger.json")).unwrap();
        assert_eq!(event["Records"].as_array().unwrap().len(), 5);
        for _ in 0..2 {
            assert!(failed(&store, event.clone()).await.is_empty());
            assert_eq!(store.len(), 4);
        }
    }

    #[tokio::test]
    async fn the_entries_behind_one_that_fails_are_not_posted() {
        let store = Arc::new(MemoryStore::new());
        let batch = batch(&[("e-1", 100), ("e-2", 0), ("e-3", 300)]);
        let failed = failed(&store, batch.to_value()).await;
        assert_eq!(failed, batch.ids()[1..2]);
        assert_eq!(store.len(), 1);
    }

    #[tokio::test]
    async fn the_id_of_an_entry_with_another_amount_is_an_error() {
        let store = Arc::new(MemoryStore::new());
        let batch = batch(&[("e-1", 100), ("e-1", 900)]);
        let failed = failed(&store, batch.to_value()).await;
        assert_eq!(failed, batch.ids()[1..]);
    }

    #[tokio::test]
    async fn a_record_that_is_not_an_entry_is_named() {
        let store = Arc::new(MemoryStore::new());
        let batch = events::kinesis("ledger").json("not an entry");
        assert_eq!(failed(&store, batch.to_value()).await, batch.ids());
    }
}

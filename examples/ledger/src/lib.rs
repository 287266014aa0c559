//! Entries for accounts, from a Kinesis stream whose partition key is the account. Each entry is posted once, also if its
//! producer sent it twice. After a failure the stream goes on at the failed record.

pub mod book;

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
    /// The entry cannot become valid: after some attempts Lambda sends the record to the queue for failed records.
    #[error("the amount is 0")]
    NoAmount,
    /// Another booking holds the account: a retry will do.
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

#[cfg(test)]
mod tests;

//! Entries for accounts, from a Kinesis stream whose partition key is the account. Each entry is posted once, also if its
//! producer sent it twice. After a failure the stream goes on at the failed record.

pub mod book;

use aws_lambda_events::kinesis::KinesisEvent;
use aws_lambda_events::streams::KinesisEventResponse;
use idempotency_lambda::{BoxError, KeyRequired, LambdaEvent, Operation, batch};
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

/// Why an entry was not posted. The function logs it with the record's sequence number.
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
    let operation = &operation()?;
    idempotency_lambda::run(move |event| handler(operation, event)).await
}

/// Returns the operation of an entry.
///
/// # Errors
///
/// If a setting is invalid.
pub fn operation() -> Result<Operation, BoxError> {
    Ok(Operation::builder("ledger.post")
        .key_prefix("ledger.post")
        .key("entry_id")
        .key_required(KeyRequired::All)
        .validate("[account, amount]")
        .build()?)
}

/// Posts the entries of a batch: one record after the other, up to the first that fails. Kinesis delivers again from there.
///
/// # Errors
///
/// If the batch cannot be handled at all.
pub async fn handler(
    operation: &Operation,
    event: LambdaEvent<KinesisEvent>,
) -> Result<KinesisEventResponse, BoxError> {
    Ok(batch::kinesis(event, operation, post).await?)
}

async fn post(entry: Entry) -> Result<(), PostError> {
    if entry.amount == 0 {
        return Err(PostError::NoAmount);
    }
    book::post(&entry).await
}

#[cfg(test)]
mod tests;

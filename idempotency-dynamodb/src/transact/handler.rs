//! How a handler stages writes: `call.transaction()`.

use std::fmt;

use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};
use idempotency_core::operation::{Call, StageError};

use super::{LimitError, Writes};

/// Adds [`transaction`](Self::transaction) to [`Call`].
pub trait Transactional {
    /// Returns the transaction of this call: what is staged in it is applied together with the completion of the key, or not at all.
    ///
    /// Two transactions of one call are the same one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use aws_sdk_dynamodb::types::{AttributeValue, Update};
    /// use idempotency_core::operation::Call;
    /// use idempotency_dynamodb::transact::Transactional;
    ///
    /// # type BoxError = Box<dyn std::error::Error + Send + Sync>;
    /// /// Takes an amount from an account, if it is there.
    /// fn take(call: &Call, account: &str, amount: u32) -> Result<(), BoxError> {
    ///     let take = Update::builder()
    ///         .table_name("accounts")
    ///         .key("id", AttributeValue::S(account.into()))
    ///         .update_expression("SET balance = balance - :amount")
    ///         .condition_expression("balance >= :amount")
    ///         .expression_attribute_values(":amount", AttributeValue::N(amount.to_string()));
    ///     call.transaction().update(take.build()?)?;
    ///     Ok(())
    /// }
    /// ```
    fn transaction(&self) -> Transaction;
}

impl Transactional for Call {
    fn transaction(&self) -> Transaction {
        Transaction { call: self.clone() }
    }
}

/// The writes that a handler stages. Nothing is sent before the handler has returned its response.
///
/// - All of them are applied and the response is stored, or nothing is. A handler that returns an error, panics, or returns a response
///   that by policy is not stored, has staged them for nothing.
/// - A condition that does not hold ends the call in `TransactionRejected`, with the position of the write and, if the write asks for
///   it (`return_values_on_condition_check_failure`), the present item. The key is free again.
/// - A handler cannot read what it has staged.
/// - The items may be of any table of the account and the region. The function needs the permission for each write:
///   `dynamodb:PutItem`, `dynamodb:UpdateItem`, `dynamodb:DeleteItem`, `dynamodb:ConditionCheckItem`.
/// - At most 99 writes, 4 MB, one write for each item.
#[derive(Clone)]
pub struct Transaction {
    call: Call,
}

/// Why a write was not staged.
pub type NotStaged = StageError<LimitError>;

impl Transaction {
    /// Stages a put.
    ///
    /// # Errors
    ///
    /// If a limit of DynamoDB is exceeded, or if the handler of the call has ended. Nothing was staged or sent.
    pub fn put(self, put: Put) -> Result<Self, NotStaged> {
        self.write(TransactWriteItem::builder().put(put).build())
    }

    /// Stages an update.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn update(self, update: Update) -> Result<Self, NotStaged> {
        self.write(TransactWriteItem::builder().update(update).build())
    }

    /// Stages a deletion.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(self, delete: Delete) -> Result<Self, NotStaged> {
        self.write(TransactWriteItem::builder().delete(delete).build())
    }

    /// Stages the check of a condition, which changes nothing.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn check(self, check: ConditionCheck) -> Result<Self, NotStaged> {
        self.write(TransactWriteItem::builder().condition_check(check).build())
    }

    /// Stages a write in the form of the SDK, such as one that another library has built.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put), or if it is not exactly one write.
    pub fn write(self, item: TransactWriteItem) -> Result<Self, NotStaged> {
        self.call.stage(|writes: &mut Writes| writes.push(item))?;
        Ok(self)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

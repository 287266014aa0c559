//! What the cancellation of a transaction means.
//!
//! DynamoDB gives one reason for each item of the request, in their order. The record comes first, and decides first: if its
//! condition failed, the claim is lost, also if a staged write was refused. If another transaction has the record, nothing is
//! known of it, so nothing is concluded from the staged writes.

use aws_sdk_dynamodb::types::CancellationReason;
use idempotency_core::store::{RejectedWrite, Rejection};

use super::Writes;
use crate::failure::{is_about_size, without_values};
use crate::item::Item;

/// What the cancellation of a transaction means.
pub(crate) enum Cancellation {
    /// The condition on the record did not hold. Contains the present item, if DynamoDB returned one.
    Record(Option<Item>),
    /// The record would be too large.
    RecordTooLarge,
    /// Staged writes were rejected.
    Staged(Rejection),
    /// Another transaction with one of the items is in progress.
    Conflict,
    /// A table or index has too little capacity at the moment. Contains the code.
    Throttled(String),
    /// The reasons do not say why. Contains the codes.
    Unknown(String),
}

impl Cancellation {
    /// Explains the reasons of a transaction of a record, if it has one, and these writes.
    pub(crate) fn of(
        mut reasons: Vec<CancellationReason>,
        has_record: bool,
        writes: &Writes,
    ) -> Self {
        let codes = || -> Vec<&str> { reasons.iter().map(code).collect() };
        if reasons.len() != writes.items().len() + usize::from(has_record) {
            return Self::Unknown(codes().join(", "));
        }
        let all = codes().join(", ");
        if has_record {
            let record = reasons.remove(0);
            match code(&record) {
                RejectedWrite::CONDITION => return Self::Record(record.item),
                TOO_LARGE => return Self::RecordTooLarge,
                INVALID if record.message().is_some_and(is_about_size) => {
                    return Self::RecordTooLarge;
                }
                CONFLICT => return Self::Conflict,
                throttled if is_throttled(throttled) => {
                    return Self::Throttled(throttled.to_owned());
                }
                NONE => {}
                _ => return Self::Unknown(all),
            }
        }
        let is_final = |reason: &CancellationReason| {
            let code = code(reason);
            code != NONE && code != CONFLICT && !is_throttled(code)
        };
        if reasons.iter().any(is_final) {
            let rejected = reasons.into_iter().enumerate();
            let rejected = rejected.filter(|(_, reason)| is_final(reason));
            let rejected = rejected.map(|(index, reason)| rejected_write(index, reason, writes));
            return Self::Staged(Rejection::new(writes.items().len(), rejected.collect()));
        }
        if reasons.iter().any(|reason| code(reason) == CONFLICT) {
            return Self::Conflict;
        }
        match reasons.iter().map(code).find(|code| is_throttled(code)) {
            Some(throttled) => Self::Throttled(throttled.to_owned()),
            None => Self::Unknown(all),
        }
    }
}

/// Returns a rejected write. DynamoDB's message is quoted for a write that it does not accept, unless it can contain values.
fn rejected_write(index: usize, reason: CancellationReason, writes: &Writes) -> RejectedWrite {
    let code = code(&reason).to_owned();
    let mut write = RejectedWrite::new(index, writes.name(index), code);
    if !write.is_condition()
        && let Some(message) = reason.message.as_deref().and_then(without_values)
    {
        write = write.with_message(message);
    }
    match reason.item.filter(|item| !item.is_empty()) {
        Some(item) => write.with_item(item),
        None => write,
    }
}

const NONE: &str = "None";
const CONFLICT: &str = "TransactionConflict";
const INVALID: &str = "ValidationError";
const TOO_LARGE: &str = "ItemCollectionSizeLimitExceeded";

fn code(reason: &CancellationReason) -> &str {
    reason.code().unwrap_or(NONE)
}

fn is_throttled(code: &str) -> bool {
    code == "ProvisionedThroughputExceeded" || code == "ThrottlingError"
}

//! What an error of DynamoDB or of the SDK means: whether the send was applied, and what of it another error may quote.

use std::error::Error as StdError;
use std::io;

use aws_sdk_dynamodb::error::{ConnectorError, SdkError};

/// The most characters of a message of IAM that an error quotes.
const MAX_QUOTED: usize = 400;

/// What an error has in place of a message of DynamoDB that may quote a value.
const LEFT_OUT: &str = "its message is left out, because it may quote an item";

/// The error code of a transaction while another send with its token is in progress. That send may still be applied.
pub const TRANSACTION_IN_PROGRESS: &str = "TransactionInProgressException";

/// The error code of a write whose condition failed.
pub const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

/// Returns true if an error response proves that the write was not applied: DynamoDB itself rejected it, as its error code
/// shows. An earlier send of a transaction can be in progress. After a 5xx the write may have been applied. A response without a
/// code can come from a proxy, and so can 408: the proxy waited for too long.
pub(crate) fn not_applied(status: u16, code: Option<&str>) -> bool {
    let timeout = |code: &str| code.starts_with("RequestTimeout");
    (400..500).contains(&status)
        && status != 408
        && code.is_some_and(|code| !timeout(code) && code != TRANSACTION_IN_PROGRESS)
}

/// Returns what an error may show of a message of DynamoDB.
pub fn quoted(message: Option<&str>) -> String {
    match message {
        None => "no message".to_owned(),
        Some(message) => without_values(message).unwrap_or_else(|| LEFT_OUT.to_owned()),
    }
}

/// Returns the part of a message of DynamoDB that is known to quote no value, or `None`.
///
/// DynamoDB's messages about a write can quote what is written, in forms that no list covers. So a known phrase is returned, never
/// the message around it. Messages of IAM quote the role, the action and the table, and no item.
pub fn without_values(message: &str) -> Option<String> {
    if message.starts_with("User") && message.contains(" is not authorized to perform") {
        return Some(message.chars().take(MAX_QUOTED).collect());
    }
    let known = KNOWN.iter().find(|known| message.contains(**known));
    known.map(|known| (*known).to_owned())
}

/// The phrases of DynamoDB's messages that quote no value. A value can follow them in the message.
const KNOWN: [&str; 26] = [
    "An operand in the update expression has an incorrect data type",
    "The provided expression refers to an attribute that does not exist in the item",
    "The document path provided in the update expression is invalid for update",
    "The update expression attempted to update the secondary index key to unsupported type",
    "The provided key element does not match the schema",
    "The number of conditions on the keys is invalid",
    "One of the required keys was not given a value",
    "Missing the key",
    "Cannot update attribute",
    "Type mismatch",
    "contains duplicates",
    "cannot contain an empty string value",
    "An AttributeValue may not contain an empty",
    "Number overflow",
    "Number underflow",
    "cannot be converted to a numeric value",
    "exceeded the maximum allowed size",
    "Invalid UpdateExpression",
    "Invalid ConditionExpression",
    "Transaction request cannot include multiple operations on one item",
    "Cannot do operations on a non-existent table",
    "Requested resource not found",
    "KMS key access denied",
    "The security token included in the request is expired",
    "The security token included in the request is invalid",
    "Signature expired",
];

/// Returns the cause of an error of the SDK. `None` if there was a response: the SDK's error then has its message, or its body, and
/// both can quote an item.
pub fn cause<E>(error: SdkError<E>) -> Option<Box<dyn StdError + Send + Sync>>
where
    E: StdError + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(_) | SdkError::ResponseError(_) => None,
        error => error.into_source().ok(),
    }
}

/// Returns true if a validation message is about the size of the item.
pub fn is_about_size(message: &str) -> bool {
    message.contains("maximum allowed size")
}

/// Returns true if a send certainly failed before it had a connection; false if that is not certain.
pub fn never_connected(error: &ConnectorError) -> bool {
    let mut chain = chain(error);
    // If the HTTP client reports the stage of the failure, that decides, not the cause.
    if let Some(error) = chain
        .clone()
        .find_map(|error| error.downcast_ref::<hyper_util::client::legacy::Error>())
    {
        return error.is_connect();
    }
    chain.any(|error| {
        let refused = |error: &io::Error| {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            matches!(
                error.kind(),
                ConnectionRefused | HostUnreachable | NetworkUnreachable
            )
        };
        error.downcast_ref().is_some_and(refused)
    })
}

/// Iterates over an error and its causes, outermost first.
pub fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> + Clone {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        (*error).source()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_with_a_code_of_dynamodb_proves_that_nothing_was_applied() {
        for (status, code, proves) in [
            (400, Some("ConditionalCheckFailedException"), true),
            (400, Some("ThrottlingException"), true),
            (413, Some("RequestEntityTooLarge"), true),
            (400, Some("TransactionCanceledException"), true),
            (400, Some("TransactionInProgressException"), false),
            (400, None, false),
            (408, Some("RequestTimeoutException"), false),
            (408, Some("Timeout"), false),
            (500, Some("InternalServerError"), false),
            (503, Some("ThrottlingException"), false),
            (200, Some("ConditionalCheckFailedException"), false),
            (0, None, false),
        ] {
            assert_eq!(not_applied(status, code), proves, "{status:?} {code:?}");
        }
    }

    #[test]
    fn a_refused_connection_never_connected_and_a_reset_one_may_have() {
        let of = |kind: io::ErrorKind| ConnectorError::io(Box::new(io::Error::from(kind)));
        assert!(never_connected(&of(io::ErrorKind::ConnectionRefused)));
        assert!(!never_connected(&of(io::ErrorKind::ConnectionReset)));
        assert!(!never_connected(&of(io::ErrorKind::TimedOut)));
    }

    #[test]
    fn a_message_that_can_quote_values_is_left_out() {
        // Of a known message the phrase alone.
        let duplicates = "Input collection [a@b.c, a@b.c] contains duplicates.";
        let denied = "User: arn:aws:iam::1:role/f is not authorized to perform: dynamodb:PutItem";
        for (message, shown) in [
            ("Type mismatch", Some("Type mismatch")),
            ("1 error: Value '[4242]' at 'items'", None),
            (duplicates, Some("contains duplicates")),
            ("a@b.c is no number", None),
            (denied, Some(denied)),
        ] {
            assert_eq!(without_values(message).as_deref(), shown);
        }
    }
}

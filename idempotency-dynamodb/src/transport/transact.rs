//! Sends a transaction with the client of the AWS SDK.

use std::pin::pin;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Delete, Put, TransactWriteItem, Update};
use idempotency_core::store::StoreError;

use super::notes::{noted, noting_call};
use super::sdk::{ALL_OLD, names, to_item, values};
use crate::request::Request;
use crate::sends::Sends;

/// The reply of DynamoDB to a transaction.
pub(crate) enum TransactReply {
    /// It was applied, now or by an earlier send with the same token.
    Applied,
    /// It was cancelled. Contains a reason for each item, in the order of the request.
    Cancelled(Vec<CancellationReason>),
}

/// Returns the write of a record as a part of a transaction.
///
/// # Errors
///
/// If the request is a read, or has no update expression.
pub(crate) fn transact_item(
    table: &str,
    request: Request<'_>,
) -> Result<TransactWriteItem, BuildError> {
    let item = TransactWriteItem::builder();
    Ok(match request {
        Request::Put {
            item: attributes,
            expressions,
            ..
        } => item.put(
            Put::builder()
                .table_name(table)
                .set_item(Some(to_item(attributes)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        Request::Update { key, expressions } => item.update(
            Update::builder()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .set_update_expression(expressions.update().map(str::to_owned))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        Request::Delete { key, expressions } => item.delete(
            Delete::builder()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        Request::Get { .. } => return Err(BuildError::other("a read is no part of a transaction")),
    }
    .build())
}

/// Sends a transaction. `notes` is true if all calls of the client are noted.
///
/// # Errors
///
/// If there was no reply, or another error than a cancellation. The notes say if it may have been applied.
pub(super) async fn send(
    client: &Client,
    notes: bool,
    items: Vec<TransactWriteItem>,
    token: &str,
    sends: &Sends,
) -> Result<TransactReply, StoreError> {
    let call = client
        .transact_write_items()
        .set_transact_items(Some(items))
        .client_request_token(token);
    let result = if notes {
        noted(sends, pin!(call.send())).await
    } else {
        let call = call.customize().config_override(noting_call());
        noted(sends, pin!(call.send())).await
    };
    match result {
        Ok(_) => Ok(TransactReply::Applied),
        Err(SdkError::ServiceError(failure))
            if failure.err().is_transaction_canceled_exception() =>
        {
            // The raw response is dropped: it contains items.
            let reasons = match failure.into_err() {
                TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                    cancelled.cancellation_reasons
                }
                _ => None,
            };
            Ok(TransactReply::Cancelled(reasons.unwrap_or_default()))
        }
        Err(error) => Err(sends.error(error)),
    }
}

//! Sends requests with the client of the AWS SDK.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::pin::pin;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, CancellationReason, Delete, Put, ReturnValue,
    ReturnValuesOnConditionCheckFailure, TableDescription, TransactWriteItem, Update,
};
use idempotency_core::store::StoreError;

use super::Reply;
use super::notes::{noted, noting_call, noting_client};
use crate::item::Item;
use crate::request::{Attribute, Expressions, Request, Value};
use crate::sends::{CONDITION_FAILED, Sends};

/// Returns the present record with a failed condition, without the cost of a read.
pub(super) const ALL_OLD: ReturnValuesOnConditionCheckFailure =
    ReturnValuesOnConditionCheckFailure::AllOld;

/// The SDK's client of a store.
pub(crate) struct SdkClient {
    client: Client,
    /// True if all calls of the client are noted. If not, each call is configured for it.
    notes: bool,
}

impl SdkClient {
    pub(crate) fn new(client: Client) -> Self {
        match noting_client(&client) {
            Some(client) => Self {
                client,
                notes: true,
            },
            None => Self {
                client,
                notes: false,
            },
        }
    }

    /// Returns true if all calls of the client are noted.
    pub(super) fn notes(&self) -> bool {
        self.notes
    }

    /// Returns the client. Its calls can need their notes: see [`noted`].
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

/// Sends a call of a client, and notes its sends.
macro_rules! send {
    ($client:ident, $call:expr, $sends:ident) => {
        if $client.notes {
            noted($sends, pin!($call.send())).await
        } else {
            let call = $call.customize().config_override(noting_call());
            noted($sends, pin!(call.send())).await
        }
    };
}

/// Sends a request, as [`Transport::send`](super::Transport::send) does.
pub(super) async fn send(
    sdk: &SdkClient,
    request: Request<'_>,
    sends: &Sends,
) -> Result<Reply, StoreError> {
    let (client, table) = (sdk.client(), sends.table());
    match request {
        Request::Put {
            item,
            expressions,
            returns_replaced,
            returns_existing,
        } => {
            let call = client
                .put_item()
                .table_name(table)
                .set_item(Some(to_item(item)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .set_return_values_on_condition_check_failure(returns_existing.then_some(ALL_OLD))
                .set_return_values(returns_replaced.then_some(ReturnValue::AllOld));
            match send!(sdk, call, sends) {
                Ok(output) => Ok(Reply::Success(output.attributes)),
                Err(error) => failed(sends, error, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Update { key, expressions } => {
            let call = client
                .update_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .set_update_expression(expressions.update().map(str::to_owned))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD);
            match send!(sdk, call, sends) {
                Ok(_) => Ok(Reply::Success(None)),
                Err(error) => failed(sends, error, |error| match error {
                    UpdateItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Delete { key, expressions } => {
            let call = client
                .delete_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD);
            match send!(sdk, call, sends) {
                Ok(_) => Ok(Reply::Success(None)),
                Err(error) => failed(sends, error, |error| match error {
                    DeleteItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Get { key, consistent } => {
            let call = client
                .get_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .consistent_read(consistent);
            match send!(sdk, call, sends) {
                Ok(output) => Ok(Reply::Success(output.item)),
                Err(error) => Err(sends.error(error)),
            }
        }
    }
}

/// Describes the table.
pub(super) async fn describe(
    sdk: &SdkClient,
    sends: &Sends,
) -> Result<Option<TableDescription>, StoreError> {
    let call = sdk.client().describe_table().table_name(sends.table());
    match send!(sdk, call, sends) {
        Ok(output) => Ok(output.table),
        Err(error) => Err(sends.error(error)),
    }
}

/// Returns the result of a call that failed. `item` takes the present item out of a failed condition.
fn failed<E>(
    sends: &Sends,
    error: SdkError<E>,
    item: impl FnOnce(E) -> Option<Item>,
) -> Result<Reply, StoreError>
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(failure) if failure.err().code() == Some(CONDITION_FAILED) => {
            Ok(Reply::ConditionFailed(item(failure.into_err())))
        }
        error => Err(sends.error(error)),
    }
}

pub(super) fn to_item(attributes: Vec<Attribute<'_>>) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| (name.to_owned(), to_value(value)))
        .collect()
}

/// Converts a value to that of the SDK.
pub(crate) fn to_value(value: Value<'_>) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.to_owned()),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::Steps(steps) => AttributeValue::M(
            steps
                .iter()
                .map(|(name, result)| (name.to_owned(), to_value(Value::Text(result.as_str()))))
                .collect(),
        ),
    }
}

/// Returns the names of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
pub(super) fn names(expressions: &Expressions<'_>) -> Option<HashMap<String, String>> {
    let names = expressions.names();
    let names: HashMap<_, _> = names
        .map(|(placeholder, name)| (placeholder.to_owned(), name.to_owned()))
        .collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the values of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
pub(super) fn values(expressions: &Expressions<'_>) -> Option<HashMap<String, AttributeValue>> {
    let values = expressions.values();
    let values: HashMap<_, _> = values
        .map(|(placeholder, value)| (placeholder.to_owned(), to_value(value)))
        .collect();
    (!values.is_empty()).then_some(values)
}

// Sends a transaction with the client of the AWS SDK.

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
pub(super) async fn transact(
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

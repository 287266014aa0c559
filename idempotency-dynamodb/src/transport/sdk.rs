//! Sends requests with the client of the AWS SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::types::{Delete, Put, Update};
use dynamodb_lean_client::ItemReply as Reply;
use dynamodb_lean_client::sdk::{self, ALL_OLD, SdkWrite, noting};
use idempotency_core::store::StoreError;

use crate::request::{Expressions, Request};
use crate::sends::Sends;
use crate::value::{Item, to_item};

/// Sends a request, as [`Transport::send`](super::Transport::send) does.
pub(super) async fn send(
    client: &Client,
    request: Request<'_>,
    sends: &Sends,
) -> Result<Reply, StoreError> {
    if let Request::Get { key, consistent } = request {
        let call = client
            .get_item()
            .table_name(&sends.table.name)
            .set_key(Some(to_item(key)))
            .consistent_read(consistent)
            .customize()
            .config_override(noting::<GetItemError>(sends.clone()));
        let sent = call.send().await;
        return match sent {
            Ok(output) => Ok(Reply::Success(output.item)),
            Err(error) => Err(sends.error(error)),
        };
    }
    let returns_item = matches!(
        request,
        Request::Put {
            returns_replaced: true,
            ..
        }
    );
    let write = sdk_write(&sends.table.name, request);
    let write = write.map_err(|error| sends.table.not_built(error))?;
    let sent = sdk::send(client, write, returns_item, sends.clone()).await;
    sent.map_err(|error| sends.error(error))
}

/// Returns the names of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
fn names(expressions: &Expressions<'_>) -> Option<HashMap<String, String>> {
    let names = expressions.names();
    let names: HashMap<_, _> = names
        .map(|(placeholder, name)| (placeholder.to_owned(), name.to_owned()))
        .collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the values of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
fn values(expressions: &Expressions<'_>) -> Option<Item> {
    Some(to_item(expressions.values())).filter(|values| !values.is_empty())
}

/// Returns the write of a record in the SDK's form.
///
/// # Errors
///
/// If the request is a read.
pub(crate) fn sdk_write(table: &str, request: Request<'_>) -> Result<SdkWrite, BuildError> {
    Ok(match request {
        Request::Put {
            item,
            expressions,
            returns_existing,
            ..
        } => SdkWrite::Put(
            Put::builder()
                .table_name(table)
                .set_item(Some(to_item(item)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .set_return_values_on_condition_check_failure(returns_existing.then_some(ALL_OLD))
                .build()?,
        ),
        Request::Update { key, expressions } => SdkWrite::Update(
            Update::builder()
                .table_name(table)
                .set_key(Some(to_item(key)))
                // The builder demands a text, even for no change.
                .update_expression(expressions.update().unwrap_or_default())
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        Request::Delete { key, expressions } => SdkWrite::Delete(
            Delete::builder()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD)
                .build()?,
        ),
        Request::Get { .. } => return Err(BuildError::other("a read is no write")),
    })
}

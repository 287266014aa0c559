//! The same function, safe to retry: the order names the voucher, and both writes are one transaction that happens once.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

use crate::{Order, TABLE, Voucher};

/// Sells a voucher.
///
/// # Errors
///
/// If a request to DynamoDB fails.
#[idempotent(
    payload = event.payload,
    key = "order_id",
    key_required = "all",
    key_prefix = "voucher.careful",
    validate = "[account, price]"
)]
pub async fn sell(event: LambdaEvent<Order>, client: &Client) -> Result<Voucher, BoxError> {
    let order = event.payload;
    let code = format!("V-{}", order.order_id);
    let price = N(order.price.to_string());
    let voucher = Put::builder()
        .table_name(TABLE)
        .item("id", S(code.clone()))
        .item("worth", price.clone())
        .condition_expression("attribute_not_exists(id)")
        .build()?;
    let pay = Update::builder()
        .table_name(TABLE)
        .key("id", S(order.account))
        .update_expression("SET balance = balance - :price")
        .expression_attribute_values(":price", price)
        .build()?;
    let sale = client
        .transact_write_items()
        .transact_items(TransactWriteItem::builder().put(voucher).build())
        .transact_items(TransactWriteItem::builder().update(pay).build());
    if let Err(error) = sale.send().await
        && !is_sold(client, &code).await?
    {
        return Err(error.into());
    }
    Ok(Voucher {
        code,
        worth: order.price,
    })
}

/// Returns true if an earlier run has sold the voucher.
async fn is_sold(client: &Client, code: &str) -> Result<bool, BoxError> {
    let get = client.get_item().table_name(TABLE);
    let get = get.key("id", S(code.to_owned())).consistent_read(true);
    Ok(get.send().await?.item.is_some())
}

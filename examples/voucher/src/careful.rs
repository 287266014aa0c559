//! The function of `careless.rs`, safe to retry: the code of the voucher contains the order id, and both writes are one transaction
//! that is applied once.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

use crate::{Order, TABLE, Voucher};

/// Sells a voucher.
///
/// # Errors
///
/// If a request to DynamoDB fails, or if the voucher of the order was sold to another account or for another price. After a failed
/// request the sale may have been applied: send the same order again.
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
    let voucher = HashMap::from([
        ("id".to_owned(), S(code.clone())),
        ("worth".to_owned(), price.clone()),
        ("paid_by".to_owned(), S(order.account.clone())),
    ]);
    let put = Put::builder()
        .table_name(TABLE)
        .set_item(Some(voucher.clone()))
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
        .transact_items(TransactWriteItem::builder().put(put).build())
        .transact_items(TransactWriteItem::builder().update(pay).build());
    if let Err(error) = sale.send().await
        && !is_sold(client, voucher).await?
    {
        return Err(error.into());
    }
    Ok(Voucher {
        code,
        worth: order.price,
    })
}

/// Returns true if this voucher is in the table, for this account and price: an earlier run has sold it, or a send of this run whose
/// reply was lost. The voucher may have further attributes by now.
async fn is_sold(
    client: &Client,
    voucher: HashMap<String, AttributeValue>,
) -> Result<bool, BoxError> {
    let get = client.get_item().table_name(TABLE).consistent_read(true);
    let get = get.key("id", voucher["id"].clone());
    let item = get.send().await?.item.unwrap_or_default();
    let is_same = |name| item.get(name) == voucher.get(name);
    Ok(is_same("worth") && is_same("paid_by"))
}

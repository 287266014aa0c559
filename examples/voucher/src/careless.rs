//! A function that is protected by a key, and still not safe to retry.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

use crate::{Order, TABLE, Voucher};

/// Sells a voucher. A duplicate gets the same voucher, but a run that is killed halfway has already taken the price.
///
/// # Errors
///
/// If a request to DynamoDB fails.
#[idempotent(payload = event.payload, key = "order_id", key_required = "all", key_prefix = "voucher.careless", validate = "[account, price]")]
pub async fn sell(event: LambdaEvent<Order>, client: &Client) -> Result<Voucher, BoxError> {
    let order = event.payload;
    let pay = client
        .update_item()
        .table_name(TABLE)
        .key("id", S(order.account));
    let pay = pay.update_expression("SET balance = balance - :price");
    pay.expression_attribute_values(":price", N(order.price.to_string()))
        .send()
        .await?;
    // The code contains the request id, so a retry by the client makes another code.
    let code = format!("V-{}", event.context.request_id);
    let voucher = client
        .put_item()
        .table_name(TABLE)
        .item("id", S(code.clone()));
    voucher
        .item("worth", N(order.price.to_string()))
        .send()
        .await?;
    Ok(Voucher {
        code,
        worth: order.price,
    })
}

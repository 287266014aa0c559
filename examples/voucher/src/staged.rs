//! The careless function with its writes staged: they are applied together with the response, or not at all.

use aws_sdk_dynamodb::types::AttributeValue::{N, S};
use aws_sdk_dynamodb::types::{Put, Update};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::{BoxError, Call, LambdaEvent, idempotent};

use crate::{Order, TABLE, Voucher};

/// Sells a voucher, if the account can pay it.
///
/// # Errors
///
/// `TransactionRejected` if the balance is too low. Then nothing was written, and the same order can be sent again.
#[idempotent(
    payload = event.payload,
    key = "order_id",
    key_required = "all",
    key_prefix = "voucher.staged",
    validate = "[account, price]"
)]
pub async fn sell(event: LambdaEvent<Order>, call: Call) -> Result<Voucher, BoxError> {
    let order = event.payload;
    let price = N(order.price.to_string());
    let pay = Update::builder()
        .table_name(TABLE)
        .key("id", S(order.account))
        .update_expression("SET balance = balance - :price")
        .condition_expression("balance >= :price")
        .expression_attribute_values(":price", price.clone())
        .build()?;
    // A retry by the client makes another code. Only the run whose response is stored writes its voucher.
    let code = format!("V-{}", event.context.request_id);
    let voucher = Put::builder()
        .table_name(TABLE)
        .item("id", S(code.clone()))
        .item("worth", price)
        .build()?;
    call.transaction().update(pay)?.put(voucher)?;
    Ok(Voucher {
        code,
        worth: order.price,
    })
}

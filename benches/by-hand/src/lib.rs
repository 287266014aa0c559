//! An idempotent function as an engineer who knows DynamoDB well writes it by hand.
//!
//! One client, made at start. A conditional PutItem claims the key until the invocation's deadline, under a random owner token, and
//! returns the stored record if it is refused. A conditional UpdateItem stores the response, if the claim is still the
//! function's own. A duplicate gets the stored text as it is. The table has the layout of the framework.

pub mod http;
mod table;

use lambda_runtime::{Error, LambdaEvent};
use orders::{AsCharge, Charge};
use serde_json::value::{RawValue, to_raw_value};

pub use table::{Claim, Claimed, Table};

/// Charges an order at most once within the window, and returns the same receipt to each duplicate.
pub async fn handle<E: AsCharge>(
    table: &Table,
    event: LambdaEvent<E>,
) -> Result<Box<RawValue>, Error> {
    let order = event.payload.charge()?;
    let id = format!("charge#{}#{}", order.user_id, order.order_id);
    let validation = order.amount.to_string();
    let claim = match table.claim(id, validation, event.context.deadline).await? {
        Claimed::Response(text) => return Ok(RawValue::from_string(text)?),
        Claimed::Own(claim) => claim,
    };
    match run(order) {
        Ok(response) => {
            table.complete(claim, response.get()).await?;
            Ok(response)
        }
        Err(error) => {
            table.release(claim).await;
            Err(error)
        }
    }
}

/// Runs the work and writes its response, once: the same text is stored and returned.
fn run(order: Charge<'_>) -> Result<Box<RawValue>, Error> {
    Ok(to_raw_value(&orders::charge(order)?)?)
}

/// Describes an error of the SDK with its causes.
pub(crate) fn described(error: impl std::error::Error) -> Error {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Error::from(text)
}

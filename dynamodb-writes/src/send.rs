//! Sends one write with the SDK's client, and notes whether it may have been applied.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use dynamodb_lean_client::sdk::{self, SdkWrite, noting};
use dynamodb_lean_client::{ItemReply, SendNotes, SendResult};
use idempotency_core::store::SendLog;

use crate::error::RequestError;
use crate::item::Item;

/// The result of a write, and whether an earlier send of it may have been applied.
pub(crate) enum Reply {
    /// It was applied. With the item if the caller asked for it.
    Applied(Option<Item>),
    /// The condition failed.
    Refused {
        /// The current item; `None` if there is none.
        current: Option<Item>,
        /// True if an earlier send of this write may have been applied.
        maybe_applied: bool,
    },
}

/// Sends a write of [`once`](crate::once) or [`versioned`](crate::versioned).
pub(crate) async fn write(
    client: &Client,
    write: SdkWrite,
    returns_item: bool,
) -> Result<Reply, RequestError> {
    let (action, table) = match &write {
        SdkWrite::Put(put) => ("dynamodb:PutItem", put.table_name.clone()),
        SdkWrite::Update(update) => ("dynamodb:UpdateItem", update.table_name.clone()),
        SdkWrite::Delete(delete) => ("dynamodb:DeleteItem", delete.table_name.clone()),
    };
    let log = SendLog::new();
    log.preparing();
    let sent = sdk::send(client, write, returns_item, Notes(log.clone())).await;
    let maybe_applied = log.maybe_applied();
    match sent {
        Ok(ItemReply::Success(item)) => Ok(Reply::Applied(item)),
        Ok(ItemReply::ConditionFailed(current)) => Ok(Reply::Refused {
            current,
            maybe_applied,
        }),
        Err(error) => Err(RequestError::new(action, &table, error, maybe_applied)),
    }
}

/// Reads an item. `None` if there is none.
pub(crate) async fn read(
    client: &Client,
    table: &str,
    key: &Item,
) -> Result<Option<Item>, RequestError> {
    let call = client.get_item().table_name(table).consistent_read(true);
    let call = call.set_key(Some(key.clone())).customize();
    match call
        .config_override(noting::<GetItemError>(()))
        .send()
        .await
    {
        Ok(output) => Ok(output.item),
        Err(error) => Err(RequestError::new("dynamodb:GetItem", table, error, false)),
    }
}

/// Notes the sends of a write. The timeouts of the client stay: no deadline of a caller is known.
#[derive(Debug)]
struct Notes(SendLog);

impl SendNotes for Notes {
    fn starts(&self, _: &str) {
        self.0.sending();
    }

    fn ends(&self, result: SendResult<'_>) {
        // An error before the send, such as missing credentials, applies nothing.
        if self.0.is_sending() {
            self.0.ended(!result.proves_not_applied(), None);
        }
    }
}

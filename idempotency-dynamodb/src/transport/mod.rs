//! The client that sends requests: the SDK's, or another one.
//!
//! A transport sends one [`Request`], several times if a send fails temporarily. It keeps three promises:
//!
//! - It notes every send in [`Sends`]: [`starts`](Sends::starts) before the send, [`ends`](Sends::ends) after it.
//! - It limits the time of a send as [`Sends::timeout`] says, and sends again as the client's retry settings say.
//! - It reports an error as `failure.rs` classifies it, with the texts of [`TableRef`](crate::failure::TableRef).
//!
//! To add a client: one more variant here, and a module with one function like [`sdk::send`].

mod sdk;

pub(crate) use sdk::{TransactReply, sdk_write, to_value};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedAsyncSleep;
use aws_sdk_dynamodb::types::{TableDescription, TransactWriteItem};
use aws_smithy_async::rt::sleep::default_async_sleep;
use idempotency_core::store::StoreError;

use crate::item::Item;
use crate::request::Request;
use crate::sends::Sends;

/// The client of a store.
pub(crate) enum Transport {
    /// The client of the AWS SDK.
    Sdk(Client),
    /// The client of this crate.
    Lean(Box<crate::lean::Lean>),
}

/// The reply of DynamoDB to a request.
pub(crate) enum Reply {
    /// A success. Contains the item that a read found, or that a put replaced.
    Success(Option<Item>),
    /// The condition did not hold. Contains the present item, if DynamoDB returned one.
    ConditionFailed(Option<Item>),
}

impl Transport {
    /// Returns the SDK's client: the one that sends, or the one that the lean client has its settings from.
    fn client(&self) -> &Client {
        match self {
            Self::Sdk(client) => client,
            Self::Lean(client) => client.sdk(),
        }
    }

    /// Returns the timer of the client.
    pub(crate) fn sleep(&self) -> Option<SharedAsyncSleep> {
        let timer = self.client().config().sleep_impl();
        timer.or_else(default_async_sleep)
    }

    /// Describes the table of `sends`, always by the client of the SDK: it is asked at most once in a process.
    ///
    /// # Errors
    ///
    /// If there was no reply, or an error.
    pub(crate) async fn describe(
        &self,
        sends: &Sends,
    ) -> Result<Option<TableDescription>, StoreError> {
        sdk::describe(self.client(), sends).await
    }

    /// Sends a request to the table of `sends`.
    ///
    /// # Errors
    ///
    /// If there was no reply, or another error than a failed condition. The notes say if a write may have been applied.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        sends: &Sends,
    ) -> Result<Reply, StoreError> {
        match self {
            Self::Sdk(client) => sdk::send(client, request, sends).await,
            Self::Lean(client) => client.send(request, sends).await,
        }
    }

    /// Sends a transaction, always with the client of the SDK: its items are of the user, and in the SDK's form.
    ///
    /// # Errors
    ///
    /// If there was no reply, or another error than a cancellation.
    pub(crate) async fn transact(
        &self,
        items: Vec<TransactWriteItem>,
        token: &str,
        sends: &Sends,
    ) -> Result<TransactReply, StoreError> {
        sdk::transact(self.client(), items, token, sends).await
    }
}

//! The client that sends requests: the SDK's, or another one.
//!
//! A transport sends one [`Request`], several times if a send fails temporarily. It keeps three promises:
//!
//! - It notes every send in [`Sends`]: [`starts`](Sends::starts) before the send, [`ends`](Sends::ends) after it.
//! - It limits the time of a send as [`Sends::timeout`] says, and sends again as the client's retry settings say.
//! - It reports an error as `failure` classifies it, with the texts of [`TableRef`](crate::table::TableRef).
//!
//! To add a client: one more variant here, and what sends with it, as [`sdk::send`] does.

pub(crate) mod body;
mod scan;
mod sdk;

pub(crate) use dynamodb_lean_client::ItemReply as Reply;
pub(crate) use scan::{Page, PageRequest};
pub(crate) use sdk::sdk_write;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedAsyncSleep;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, TableDescription, TransactWriteItem};
use aws_smithy_async::rt::sleep::default_async_sleep;
use dynamodb_lean_client::TableClient;
use dynamodb_lean_client::sdk::noting;
use idempotency_core::store::StoreError;

use crate::request::Request;
use crate::sends::Sends;

/// The client of a store.
pub(crate) enum Transport {
    /// The client of the AWS SDK.
    Sdk(Client),
    /// The lean client.
    Lean(Box<TableClient>),
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
            Self::Lean(client) => {
                let body = body::body(&sends.table.name, &request);
                let body = body.map_err(|error| {
                    sends.error::<ErrorMetadata>(SdkError::construction_failure(error))
                })?;
                let reply = client.send(request.target(), body, sends).await;
                reply.map_err(|error| sends.error(error))
            }
        }
    }

    /// Describes the table of `sends`. A store asks for this until a reply shows that the table may hold events.
    ///
    /// # Errors
    ///
    /// If there was no reply, or an error.
    pub(crate) async fn describe(
        &self,
        sends: &Sends,
    ) -> Result<Option<TableDescription>, StoreError> {
        let call = self
            .client()
            .describe_table()
            .table_name(&sends.table.name)
            .customize()
            .config_override(noting::<DescribeTableError>(sends.clone()));
        match call.send().await {
            Ok(output) => Ok(output.table),
            Err(error) => Err(sends.error(error)),
        }
    }

    /// Reads a page of the table of `sends`.
    ///
    /// # Errors
    ///
    /// If there was no reply, or an error.
    pub(crate) async fn page(
        &self,
        request: PageRequest,
        sends: &Sends,
    ) -> Result<Page, StoreError> {
        scan::read(self.client(), request, sends).await
    }

    /// Sends a transaction: its items are of the user, and in the SDK's form. Returns `None` if it was applied, now or by an earlier
    /// send with the same token. If it was cancelled: a reason for each item, in the order of the request.
    ///
    /// # Errors
    ///
    /// If there was no reply, or another error than a cancellation. The notes say if it may have been applied.
    pub(crate) async fn transact(
        &self,
        items: Vec<TransactWriteItem>,
        token: &str,
        sends: &Sends,
    ) -> Result<Option<Vec<CancellationReason>>, StoreError> {
        let call = self
            .client()
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(token)
            .customize()
            .config_override(noting::<TransactWriteItemsError>(sends.clone()));
        let failure = match call.send().await {
            Ok(_) => return Ok(None),
            Err(SdkError::ServiceError(failure))
                if failure.err().is_transaction_canceled_exception() =>
            {
                failure
            }
            Err(error) => return Err(sends.error(error)),
        };
        // The raw response is dropped: it contains items.
        let reasons = match failure.into_err() {
            TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                cancelled.cancellation_reasons
            }
            _ => None,
        };
        Ok(Some(reasons.unwrap_or_default()))
    }
}

//! A client for one table.

use std::fmt;
use std::sync::OnceLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};

use crate::error::CONDITION_FAILED;
use crate::prepared::PreparedClient;
use crate::retry::RetryQuota;
use crate::send::{ItemReply, OutgoingRequest, SendError, SendNotes, send_until_done, within};

/// A client that sends requests to one table.
///
/// It takes configuration, credentials, endpoint, HTTP client, timeouts and retries from a client of the SDK. The interceptors
/// and plugins of that client are not called, and its own retry classifiers do not count. The adaptive retry mode counts as the
/// standard one.
pub struct TableClient {
    sdk: Client,
    table: String,
    quota: RetryQuota,
    /// The product that the header `user-agent` names.
    product: &'static str,
    /// Set by the first request.
    prepared: OnceLock<PreparedClient>,
}

impl TableClient {
    /// Makes a client from the settings of a client of the SDK. No request is sent.
    ///
    /// `table` is the table's name or ARN. `product` is the beginning of the header `user-agent`, such as `shop/1.0`. Clients with
    /// clones of one quota share it.
    pub fn new(
        sdk: Client,
        table: impl Into<String>,
        quota: RetryQuota,
        product: &'static str,
    ) -> Self {
        Self {
            sdk,
            table: table.into(),
            quota,
            product,
            prepared: OnceLock::new(),
        }
    }

    /// Returns the SDK's client from which this one has its settings.
    pub fn sdk(&self) -> &Client {
        &self.sdk
    }

    /// Sends a request, again if a send fails temporarily, as the retry settings say.
    ///
    /// `target` is the value of the header `x-amz-target`, such as `DynamoDB_20120810.PutItem`. `body` is the JSON of a request for
    /// one item of the table of this client.
    ///
    /// # Errors
    ///
    /// The error that the SDK's client would report. A failed condition is not an error. `notes` has each send, so it can say
    /// whether a write may have been applied.
    pub async fn send(
        &self,
        target: &'static str,
        body: Vec<u8>,
        notes: &impl SendNotes,
    ) -> Result<ItemReply, SdkError<ErrorMetadata>> {
        let outgoing = OutgoingRequest::new(target, body);
        let prepared = match self.prepared.get() {
            Some(prepared) => prepared,
            None => {
                let app = self.sdk.config().app_name();
                let user_agent = user_agent(self.product, app.map(AsRef::as_ref));
                let prepared = PreparedClient::of(&self.sdk, &self.table, &user_agent).await;
                let prepared = prepared
                    .map_err(|error| error.map_service_error(|error| error.meta().clone()))?;
                // Two concurrent first requests prepare equal clients. One of them is kept.
                self.prepared.get_or_init(|| prepared)
            }
        };
        let limit = prepared.timeouts.operation_timeout();
        let sends = send_until_done(prepared, &self.quota, &outgoing, notes);
        let ended = within(prepared, limit, sends).await;
        match ended
            .inspect_err(|error| notes.ends(error.as_result()))
            .flatten()
        {
            Ok(item) => Ok(ItemReply::Success(item)),
            Err(SendError::Response { body, .. }) if body.code() == Some(CONDITION_FAILED) => {
                Ok(ItemReply::ConditionFailed(body.item))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Debug for TableClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableClient")
            .field("table", &self.table)
            .field("region", &self.sdk.config().region())
            .finish_non_exhaustive()
    }
}

/// Returns the value of the header `user-agent`: the product, the language, the system, and if known the environment and the application.
fn user_agent(product: &str, app: Option<&str>) -> String {
    let mut text = format!("{product} lang/rust os/{}", std::env::consts::OS);
    if let Ok(environment) = std::env::var("AWS_EXECUTION_ENV") {
        text.push_str(" exec-env/");
        text.extend(
            environment
                .chars()
                .filter(|letter| letter.is_ascii_graphic()),
        );
    }
    if let Some(app) = app {
        text.push_str(" app/");
        text.push_str(app);
    }
    text
}

#[cfg(test)]
mod tests;

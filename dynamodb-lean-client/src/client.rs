//! A client for one table.

use std::fmt;
use std::sync::OnceLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};

use crate::prepared::PreparedRequest;
use crate::retry::RetryQuota;
use crate::send::{self, ItemReply, Outgoing, SendNotes};

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
    prepared: OnceLock<PreparedRequest>,
}

impl TableClient {
    /// Makes a client from the settings of a client of the SDK. No request is sent.
    ///
    /// `table` is the table's name or ARN. `product` is the begin of the header `user-agent`, such as `shop/1.0`. Clients with
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
    /// The error that the SDK's client would report, except that a failed condition is none. `notes` has heard of each send: it
    /// knows whether a write may have been applied.
    pub async fn send(
        &self,
        target: &'static str,
        body: Vec<u8>,
        notes: &impl SendNotes,
    ) -> Result<ItemReply, SdkError<ErrorMetadata>> {
        let outgoing = Outgoing::new(target, body);
        let prepared = match self.prepared.get() {
            Some(prepared) => prepared,
            None => {
                let app = self.sdk.config().app_name();
                let user_agent = user_agent(self.product, app.map(AsRef::as_ref));
                let prepared = PreparedRequest::of(&self.sdk, &self.table, &user_agent).await;
                let prepared = prepared
                    .map_err(|error| error.map_service_error(|error| error.meta().clone()))?;
                // Of two first requests one result is kept; they are equal.
                self.prepared.get_or_init(|| prepared)
            }
        };
        send::send(prepared, &self.quota, &outgoing, notes).await
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

/// Returns the value of the header `user-agent`: the product, the language, the system, and the application if it has a name.
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

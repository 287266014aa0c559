//! A client for one table.

use std::fmt;
use std::sync::OnceLock;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ErrorMetadata, SdkError};

use crate::prepared::PreparedClient;
use crate::retry::RetryQuota;
use crate::send::{
    CONDITION_FAILED, ItemReply, OutgoingRequest, SendError, SendNotes, send_until_done, within,
};

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

/// A client as its user sees it: what it sends, what it notes, what it returns.
#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
    use aws_sdk_dynamodb::config::retry::RetryConfig;
    use aws_sdk_dynamodb::config::{
        BehaviorVersion, Credentials, HttpClient, Region, RuntimeComponents,
    };
    use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
    use aws_sdk_dynamodb::types::AttributeValue;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
    };
    use aws_smithy_types::body::SdkBody;

    use super::*;
    use crate::send::SendResult;

    const PUT: &str = "DynamoDB_20120810.PutItem";

    /// Replies from a script, and keeps the requests.
    #[derive(Clone, Debug, Default)]
    struct Script {
        replies: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
        sent: Arc<Mutex<Vec<HttpRequest>>>,
    }

    impl HttpConnector for Script {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.sent.lock().unwrap().push(request);
            let (status, body) = self.replies.lock().unwrap().pop_front().unwrap();
            let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
            let headers = response.headers_mut();
            headers.insert("x-amzn-requestid", "1");
            headers.insert("content-type", "application/x-amz-json-1.0");
            HttpConnectorFuture::ready(Ok(response))
        }
    }

    impl HttpClient for Script {
        fn http_connector(
            &self,
            _: &HttpConnectorSettings,
            _: &RuntimeComponents,
        ) -> SharedHttpConnector {
            SharedHttpConnector::new(self.clone())
        }
    }

    fn table(replies: impl IntoIterator<Item = (u16, &'static str)>) -> (TableClient, Script) {
        let script = Script {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            ..Script::default()
        };
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("eu-west-1"))
            .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)))
            .credentials_provider(Credentials::new("access", "s3cr3t", None, None, "test"))
            .http_client(script.clone());
        let sdk = Client::from_conf(config.build());
        let table = TableClient::new(sdk, "orders", RetryQuota::default(), "shop/1.0");
        (table, script)
    }

    /// Keeps the notes of the sends.
    #[derive(Default)]
    struct KeptNotes(Mutex<Vec<String>>);

    impl SendNotes for KeptNotes {
        fn starts(&self, uri: &str) {
            self.0.lock().unwrap().push(uri.to_owned());
        }

        fn ends(&self, result: SendResult<'_>) {
            let notes = match result {
                SendResult::Response { status, code, .. } => format!("{status} {code:?}"),
                other => format!("{other:?}"),
            };
            self.0.lock().unwrap().push(notes);
        }
    }

    #[tokio::test]
    async fn a_send_that_was_throttled_is_repeated_and_each_one_is_noted() {
        let throttled = r#"{"__type":"com.amazonaws#ThrottlingException","message":"later"}"#;
        let refused = r#"{"__type":"x#ConditionalCheckFailedException","Item":{"id":{"S":"o-1"}}}"#;
        let (table, script) = table([(400, throttled), (400, refused)]);
        let notes = KeptNotes::default();
        let reply = table.send(PUT, b"{}".to_vec(), &notes).await.unwrap();
        let item = HashMap::from([("id".to_owned(), AttributeValue::S("o-1".to_owned()))]);
        assert_eq!(reply, ItemReply::ConditionFailed(Some(item)));
        let uri = "https://dynamodb.eu-west-1.amazonaws.com/";
        assert_eq!(
            *notes.0.lock().unwrap(),
            [
                uri,
                r#"400 Some("ThrottlingException")"#,
                uri,
                r#"400 Some("ConditionalCheckFailedException")"#
            ]
        );
        let sent = script.sent.lock().unwrap();
        let id = sent[0].headers().get("amz-sdk-invocation-id").unwrap();
        assert_eq!(id.len(), 36);
        for request in &*sent {
            let header = |name| request.headers().get(name).unwrap();
            assert_eq!(header("x-amz-target"), PUT);
            // The sends of one call have one id, as those of the SDK.
            assert_eq!(header("amz-sdk-invocation-id"), id);
            assert!(header("user-agent").starts_with("shop/1.0 lang/rust os/"));
            assert!(header("authorization").contains("/eu-west-1/dynamodb/aws4_request"));
            assert_eq!(request.body().bytes(), Some(&b"{}"[..]));
        }
    }

    #[tokio::test]
    async fn an_error_is_that_of_the_sdk_with_its_code() {
        let missing = r#"{"__type":"x#ResourceNotFoundException","message":"no such table"}"#;
        let (table, script) = table([(400, missing), (200, "{}")]);
        let error = table.send(PUT, b"{}".to_vec(), &()).await.unwrap_err();
        assert_eq!(error.code(), Some("ResourceNotFoundException"));
        let reply = table.send(PUT, b"{}".to_vec(), &()).await.unwrap();
        assert_eq!(reply, ItemReply::Success(None));
        assert_eq!(script.sent.lock().unwrap().len(), 2);
        assert!(!format!("{table:?}").contains("access"));
    }
}

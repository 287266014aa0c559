//! An HTTP client with scripted replies.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{
    AsyncSleep, BehaviorVersion, Credentials, HttpClient, IdentityCache, Region, RuntimeComponents,
    SharedAsyncSleep, SharedCredentialsProvider, Sleep, StalledStreamProtectionConfig,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

/// The reply to one send.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A response of DynamoDB.
    Response(u16, Value),
    /// A response of something else, such as a proxy.
    Text(u16, &'static str),
    /// The connection breaks after the request was sent.
    Reset,
    /// The connection is refused.
    Refused,
    /// No response arrives.
    Silence,
}

impl Reply {
    /// Returns an error response of DynamoDB.
    pub(crate) fn error(code: &str, message: &str) -> Self {
        let kind = format!("com.amazonaws.dynamodb.v20120810#{code}");
        let status = if code.starts_with("Internal") {
            500
        } else {
            400
        };
        Self::Response(status, json!({ "__type": kind, "message": message }))
    }

    /// Returns a failed condition with the present item.
    pub(crate) fn conflict(item: &Value) -> Self {
        let kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        let body =
            json!({ "__type": kind, "message": "The conditional request failed", "Item": item });
        Self::Response(400, body)
    }

    /// Returns a success.
    pub(crate) fn ok() -> Self {
        Self::Response(200, json!({}))
    }
}

/// The remaining replies, and the requests that were sent.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    sleeps: Sleeps,
}

impl Wire {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            requests: Arc::default(),
            sleeps: Sleeps::default(),
        }
    }

    /// Makes all pauses and timeouts of the clients endless.
    pub(crate) fn with_endless_pauses(mut self) -> Self {
        self.sleeps.endless = true;
        self
    }

    /// Returns an SDK configuration that leaves timeouts and retries to the store.
    pub(crate) fn sdk_config(&self, region: &'static str) -> SdkConfig {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static(region))
            .credentials_provider(SharedCredentialsProvider::new(credentials()))
            .sleep_impl(SharedAsyncSleep::new(self.sleeps.clone()))
            // Its sleeps would be counted as pauses.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .http_client(self.clone())
            .build()
    }

    /// Returns the pauses between sends so far. Every other sleep is the timeout of a send, at least one second.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        let sleeps = self.sleeps.noted.lock().unwrap();
        let pauses = sleeps.iter().copied();
        pauses
            .filter(|sleep| *sleep < Duration::from_secs(1))
            .collect()
    }

    /// Returns every pause and every timeout.
    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.noted.lock().unwrap().clone()
    }

    /// Returns the requests that were sent: DynamoDB's action and the body.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        assert!(
            self.replies.lock().unwrap().is_empty(),
            "some replies were not used"
        );
        self.requests.lock().unwrap().clone()
    }

    /// Returns the number of requests that were sent so far.
    pub(crate) fn sends(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Returns a client with credentials and the SDK's three sends.
    pub(crate) fn client(&self) -> Client {
        Client::from_conf(self.config().credentials_provider(credentials()).build())
    }

    /// Returns a client with a timeout for the whole call.
    pub(crate) fn client_with_a_timeout_of_the_whole_call(&self) -> Client {
        let call = TimeoutConfig::builder()
            .operation_timeout(Duration::from_secs(3))
            .disable_operation_attempt_timeout();
        Client::from_conf(
            self.config()
                .credentials_provider(credentials())
                .timeout_config(call.build())
                .build(),
        )
    }

    /// Returns a client without credentials.
    pub(crate) fn client_without_credentials(&self) -> Client {
        Client::from_conf(self.config().build())
    }

    /// Returns a client that can send nothing, as one has it without a TLS provider.
    pub(crate) fn client_without_an_http_client() -> Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-west-1"))
            .endpoint_url("http://127.0.0.1:1")
            .credentials_provider(credentials());
        Client::from_conf(config.build())
    }

    fn config(&self) -> aws_sdk_dynamodb::config::Builder {
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(3));
        aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-west-1"))
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(timeouts.build())
            .sleep_impl(self.sleeps.clone())
            .identity_cache(IdentityCache::lazy().build())
            .http_client(self.clone())
    }
}

fn credentials() -> Credentials {
    Credentials::new("key", "secret", None, None, "test")
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let action = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        self.requests.lock().unwrap().push((action, body));
        let reply = self.replies.lock().unwrap().pop_front();
        let broken = |kind: io::ErrorKind| Err(ConnectorError::io(Box::new(io::Error::from(kind))));
        let response =
            |status: u16, body: SdkBody| Ok(HttpResponse::new(status.try_into().unwrap(), body));
        HttpConnectorFuture::ready(match reply.expect("more sends than scripted replies") {
            Reply::Response(status, body) => response(status, SdkBody::from(body.to_string())),
            Reply::Text(status, body) => response(status, SdkBody::from(body)),
            Reply::Reset => broken(io::ErrorKind::ConnectionReset),
            Reply::Refused => broken(io::ErrorKind::ConnectionRefused),
            Reply::Silence => return HttpConnectorFuture::new(std::future::pending()),
        })
    }
}

impl HttpClient for Wire {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

/// Sleeps that end at once, so that pauses take no time and timeouts expire immediately. Notes each duration.
#[derive(Clone, Debug, Default)]
struct Sleeps {
    noted: Arc<Mutex<Vec<Duration>>>,
    /// True if sleeps never end instead.
    endless: bool,
}

impl AsyncSleep for Sleeps {
    fn sleep(&self, duration: Duration) -> Sleep {
        self.noted.lock().unwrap().push(duration);
        if self.endless {
            return Sleep::new(std::future::pending());
        }
        Sleep::new(std::future::ready(()))
    }
}

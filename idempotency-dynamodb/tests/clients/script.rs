//! An HTTP client with scripted replies, which notes the requests and the pauses of the clients of the store.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::{RetryPartition, TokenBucket};
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
use aws_types::sdk_config::Builder;
use serde_json::{Value, json};

/// The headers of each response of DynamoDB.
const OF_DYNAMODB: [(&str, &str); 2] = [
    ("x-amzn-requestid", "1"),
    ("content-type", "application/x-amz-json-1.0"),
];

/// The reply to one send.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A response: its status, headers and body.
    Response(u16, Vec<(&'static str, &'static str)>, String),
    /// The connection breaks after the request was sent.
    Reset,
    /// The connection is refused.
    Refused,
    /// No response arrives.
    Silence,
}

impl Reply {
    /// Returns a response of DynamoDB.
    pub(crate) fn new(status: u16, body: impl ToString) -> Self {
        Self::Response(status, OF_DYNAMODB.to_vec(), body.to_string())
    }

    /// Returns a response of another server.
    pub(crate) fn page(status: u16, body: impl ToString) -> Self {
        Self::Response(status, Vec::new(), body.to_string())
    }

    /// Adds a header to a response.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        if let Self::Response(_, headers, _) = &mut self {
            headers.push((name, value));
        }
        self
    }

    /// Returns an error response of DynamoDB.
    pub(crate) fn error(code: &str, message: &str) -> Self {
        let status = if code.starts_with("Internal") {
            500
        } else {
            400
        };
        Self::with_code(status, code, json!({ "message": message }))
    }

    /// Returns a failed condition with the current item.
    pub(crate) fn conflict(item: &Value) -> Self {
        let body = json!({ "message": "The conditional request failed", "Item": item });
        Self::with_code(400, "ConditionalCheckFailedException", body)
    }

    /// Returns a response with this error code in its body.
    pub(crate) fn with_code(status: u16, code: &str, mut body: Value) -> Self {
        body["__type"] = format!("com.amazonaws.dynamodb.v20120810#{code}").into();
        Self::new(status, body)
    }

    /// Returns a success.
    pub(crate) fn ok() -> Self {
        Self::new(200, "{}")
    }
}

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl SentRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the credential that signed it: the access key, the day, the region and the service.
    pub(crate) fn credential(&self) -> &str {
        let authorization = self.header("authorization");
        let (_, rest) = authorization.split_once("Credential=").unwrap();
        rest.split(',').next().unwrap()
    }
}

/// The remaining replies, and the requests that were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    /// True if no more requests may be sent than there are replies. Otherwise further requests succeed.
    is_complete: bool,
    sent: Arc<Mutex<Vec<SentRequest>>>,
    sleeps: Sleeps,
}

impl Wire {
    /// Returns a client that gets these replies, and sends no further request.
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            is_complete: true,
            ..Self::beginning_with(replies)
        }
    }

    /// Returns a client whose requests succeed after these replies.
    pub(crate) fn beginning_with(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            ..Self::default()
        }
    }

    /// Makes all pauses and timeouts of the clients endless.
    pub(crate) fn with_endless_pauses(mut self) -> Self {
        self.sleeps.endless = true;
        self
    }

    /// Returns a configuration in `eu-west-1`.
    pub(crate) fn config(&self, credentials: Credentials) -> Builder {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.clone())
    }

    /// Returns a configuration whose pauses and timeouts take no time, and are noted.
    pub(crate) fn quick_config(&self, credentials: Credentials) -> Builder {
        // The sleeps of the protection would be counted as pauses.
        self.config(credentials)
            .sleep_impl(SharedAsyncSleep::new(self.sleeps.clone()))
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
    }

    /// Returns an SDK configuration that leaves timeouts and retries to the store.
    pub(crate) fn sdk_config(&self, region: &'static str) -> SdkConfig {
        let config = self.quick_config(credentials());
        config.region(Region::from_static(region)).build()
    }

    /// Returns the pauses between sends so far. Every other sleep is the timeout of a send, at least one second.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        let mut pauses = self.sleeps();
        pauses.retain(|sleep| *sleep < Duration::from_secs(1));
        pauses
    }

    /// Returns every pause and every timeout.
    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.noted.lock().unwrap().clone()
    }

    /// Returns what was sent since the last call of this function.
    pub(crate) fn take(&self) -> Vec<SentRequest> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }

    /// Returns the requests that were sent: DynamoDB's action and the body.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        let left = self.replies.lock().unwrap().len();
        assert_eq!(left, 0, "some replies were not used");
        let request = |sent: &SentRequest| {
            let target = sent.header("x-amz-target");
            let action = target.rsplit('.').next().unwrap_or_default();
            (action.to_owned(), sent.body.clone())
        };
        self.sent.lock().unwrap().iter().map(request).collect()
    }

    /// Returns the number of requests that were sent so far.
    pub(crate) fn sends(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// Returns a client of the SDK with these credentials and a timeout, which sends at most three times.
    pub(crate) fn client_of(&self, credentials: Option<Credentials>, timeout: Timeout) -> Client {
        let seconds = Duration::from_secs(3);
        let timeouts = match timeout {
            Timeout::OfSend => TimeoutConfig::builder().operation_attempt_timeout(seconds),
            Timeout::OfCall => TimeoutConfig::builder()
                .operation_timeout(seconds)
                .disable_operation_attempt_timeout(),
        };
        // The SDK shares the budget of its retries among all clients of a service and a region: other tests would use it up.
        let retries = RetryPartition::custom("one client").token_bucket(TokenBucket::default());
        let mut config = aws_sdk_dynamodb::Config::builder()
            .retry_partition(retries.build())
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-west-1"))
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(timeouts.build())
            .sleep_impl(self.sleeps.clone())
            .identity_cache(IdentityCache::lazy().build())
            .http_client(self.clone());
        config.set_credentials_provider(credentials.map(SharedCredentialsProvider::new));
        Client::from_conf(config.build())
    }

    /// Returns a client of the SDK with credentials and a timeout for each send.
    pub(crate) fn client(&self) -> Client {
        self.client_of(Some(credentials()), Timeout::OfSend)
    }
}

/// What a timeout of three seconds is for.
pub(crate) enum Timeout {
    OfSend,
    OfCall,
}

pub(crate) fn credentials() -> Credentials {
    Credentials::new("key", "secret", None, None, "test")
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.sent.lock().unwrap().push(SentRequest {
            method: request.method().to_owned(),
            uri: request.uri().to_owned(),
            headers: headers.collect(),
            body: serde_json::from_slice(request.body().bytes().unwrap()).unwrap(),
        });
        let reply = self.replies.lock().unwrap().pop_front();
        assert!(
            reply.is_some() || !self.is_complete,
            "more sends than scripted replies"
        );
        let broken = |kind: io::ErrorKind| Err(ConnectorError::io(Box::new(io::Error::from(kind))));
        HttpConnectorFuture::ready(match reply.unwrap_or_else(Reply::ok) {
            Reply::Response(status, headers, body) => {
                let status = status.try_into().unwrap();
                let mut response = HttpResponse::new(status, SdkBody::from(body));
                for (name, value) in headers {
                    response.headers_mut().insert(name, value);
                }
                Ok(response)
            }
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

//! The store with each client. The lean client reports, sends and stores the same as the SDK's: the tests of `wire`, `connections`
//! and `embedded` run with both, and their requests are compared. Here: both clients, and an HTTP client that notes what they send.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

mod credentials;
mod environment;
mod same_faults;
mod same_reply;
mod same_wire;

/// Includes the tests of a store with one client. Their files are compiled for each client, so that no test is written twice.
macro_rules! tests_with {
    ($client:ident, $kind:expr) => {
        #[path = "."]
        #[allow(
            clippy::duplicate_mod,
            reason = "a test is written once for both clients"
        )]
        mod $client {
            const KIND: crate::Kind = $kind;

            pub(crate) mod connections;
            mod embedded;
            mod wire;
        }
    };
}

tests_with!(sdk, crate::Kind::Sdk);
tests_with!(lean, crate::Kind::Lean);

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, HttpClient, Region, RuntimeComponents, SharedCredentialsProvider,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder};
use serde_json::Value;

/// A client of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sdk,
    Lean,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sdk, Self::Lean];

    /// Returns the builder of a store with this client of the SDK, or with the lean client made from it.
    pub(crate) fn with_client(self, client: Client, table: &str) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStore::builder().table(table);
        match self {
            Self::Sdk => builder.client(client),
            Self::Lean => builder.lean_client(idempotency_dynamodb::LeanClient::new(client)),
        }
    }

    /// Returns the builder of a store with a client from this configuration.
    pub(crate) fn store(self, config: &SdkConfig, table: &str) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStore::builder().table(table);
        match self {
            Self::Sdk => builder.client(idempotency_dynamodb::sdk_client(config)),
            Self::Lean => builder.sdk_config(config),
        }
    }
}

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns whose request it is, and the day, region and service that it is signed for.
    pub(crate) fn credential(&self) -> &str {
        let (_, rest) = self
            .header("authorization")
            .split_once("Credential=")
            .unwrap();
        rest.split(',').next().unwrap()
    }
}

/// A reply: status, headers and body.
pub(crate) type Reply = (u16, Vec<(&'static str, &'static str)>, String);

/// An HTTP client that notes requests as they are sent. After the scripted replies each one succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    sent: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Recorder {
    pub(crate) fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            sent: Arc::default(),
        }
    }

    /// Returns a configuration in `eu-west-1`.
    pub(crate) fn config(&self, credentials: Credentials) -> aws_types::sdk_config::Builder {
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.clone())
    }

    /// Returns what was sent since the last call of this function.
    pub(crate) fn take(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

impl HttpConnector for Recorder {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let headers = request.headers().iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.sent.lock().unwrap().push(RecordedRequest {
            method: request.method().to_owned(),
            uri: request.uri().to_owned(),
            headers: headers.collect(),
            body: serde_json::from_slice(request.body().bytes().unwrap()).unwrap(),
        });
        let reply = self.replies.lock().unwrap().pop_front();
        let (status, headers, body) = reply.unwrap_or((200, Vec::new(), "{}".to_owned()));
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        for (name, value) in headers {
            response.headers_mut().insert(name, value);
        }
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Recorder {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

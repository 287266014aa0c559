//! A client as its user sees it: what it sends, what it notes, what it returns.
#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
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
use dynamodb_lean_client::{ItemReply, RetryQuota, SendNotes, SendResult, TableClient};

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
        let response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
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

/// Keeps what it hears.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl SendNotes for Heard {
    fn starts(&self, uri: &str) {
        self.0.lock().unwrap().push(uri.to_owned());
    }

    fn ends(&self, result: SendResult<'_>) {
        let heard = match result {
            SendResult::Response { status, code, .. } => format!("{status} {code:?}"),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(heard);
    }
}

#[tokio::test]
async fn a_send_that_was_throttled_is_repeated_and_each_one_is_noted() {
    let throttled = r#"{"__type":"com.amazonaws#ThrottlingException","message":"later"}"#;
    let refused = r#"{"__type":"x#ConditionalCheckFailedException","Item":{"id":{"S":"o-1"}}}"#;
    let (table, script) = table([(400, throttled), (400, refused)]);
    let heard = Heard::default();
    let reply = table.send(PUT, b"{}".to_vec(), &heard).await.unwrap();
    let item = HashMap::from([("id".to_owned(), AttributeValue::S("o-1".to_owned()))]);
    assert_eq!(reply, ItemReply::ConditionFailed(Some(item)));
    let uri = "https://dynamodb.eu-west-1.amazonaws.com/";
    assert_eq!(
        *heard.0.lock().unwrap(),
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

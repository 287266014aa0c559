//! The SDK and the lean client read any response to a GetItem alike: the same item, or the same error code. One of them may refuse an
//! item that the other one reads, and the lean client may find no code in an error, because it reads all of a body as JSON: the send
//! then counts as maybe applied. The first byte of the input chooses the status; the rest is the body.
#![no_main]

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Config, Credentials, HttpClient, Region, RuntimeComponents,
};
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use dynamodb_lean_client::{ItemReply, RetryQuota, TableClient};
use libfuzzer_sys::fuzz_target;

/// Responds to each request with this status and body.
#[derive(Clone, Debug, Default)]
struct Responder(Arc<Mutex<(u16, Vec<u8>)>>);

impl HttpConnector for Responder {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let (status, body) = self.0.lock().expect("no thread panics").clone();
        let status = status.try_into().expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(body));
        let headers = response.headers_mut();
        headers.insert("x-amzn-requestid", "1");
        headers.insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Responder {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

/// What a client read from a response: the item as text, or the error code. `None` if the client could not read it.
type Read = Option<Result<Option<String>, Option<String>>>;

/// Returns an item as text. A value of a type that one client does not know is an empty set for the other.
fn text(item: Option<std::collections::HashMap<String, AttributeValue>>) -> Option<String> {
    let sorted: Option<std::collections::BTreeMap<_, _>> =
        item.map(|item| item.into_iter().collect());
    sorted.map(|item| format!("{item:?}").replace("Unknown", "Ss([])"))
}

/// Returns the error code of an error response. A success that cannot be read is an error of the service too, for both clients.
fn error_code<E: ProvideErrorMetadata>(status: u16, error: &SdkError<E>) -> Read {
    match error {
        SdkError::ServiceError(_) if status != 200 => Some(Err(error.code().map(str::to_owned))),
        _ => None,
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((choice, body)) = input.split_first() else {
        return;
    };
    let status = [200, 400, 500][usize::from(*choice) % 3];
    let http = Responder(Arc::new(Mutex::new((status, body.to_vec()))));
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "fuzz"))
        .retry_config(RetryConfig::disabled())
        .http_client(http)
        .build();
    let client = Client::from_conf(config);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let (sdk, lean): (Read, Read) = runtime.expect("a runtime").block_on(async {
        let sdk = client
            .get_item()
            .table_name("t")
            .key("id", AttributeValue::S("a".to_owned()));
        let sdk = match sdk.send().await {
            Ok(output) => Some(Ok(text(output.item))),
            Err(error) => error_code(status, &error),
        };
        let lean = TableClient::new(client, "t", RetryQuota::default(), "fuzz/1");
        let lean = match lean
            .send("DynamoDB_20120810.GetItem", b"{}".to_vec(), &())
            .await
        {
            Ok(ItemReply::Success(item)) => Some(Ok(text(item))),
            Ok(ItemReply::ConditionFailed(_)) => {
                Some(Err(Some("ConditionalCheckFailedException".to_owned())))
            }
            Err(error) => error_code(status, &error),
        };
        (sdk, lean)
    });
    assert!(
        sdk == lean || sdk.is_none() || lean.is_none() || lean == Some(Err(None)),
        "{sdk:?} by the SDK, {lean:?} by the lean client"
    );
});

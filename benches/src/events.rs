//! Events of API Gateway, of about a given size, as text and as a type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The sizes of the events: their names and bytes.
pub const SIZES: [(&str, usize); 6] = [
    ("0.2KB", 200),
    ("1KB", 1024),
    ("4KB", 4 * 1024),
    ("32KB", 32 * 1024),
    ("256KB", 256 * 1024),
    ("6MB", 6 * 1024 * 1024 - 1024),
];

/// The sizes of the events and responses of whole calls.
pub const CALL_SIZES: [(&str, usize); 3] = [("0.2KB", 200), ("4KB", 4 * 1024), ("64KB", 64 * 1024)];

/// An HTTP event of API Gateway, with the members that the expressions of the benchmarks ask for and those that make it large.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpEvent {
    pub body: String,
    pub headers: BTreeMap<String, String>,
    pub is_base64_encoded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query_string_parameters: BTreeMap<String, String>,
    pub request_context: RequestContext,
}

/// The member `requestContext` of an [`HttpEvent`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestContext {
    pub request_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<BTreeMap<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
}

/// Returns the text of an event of at least `size` bytes. The smallest has about 200 bytes.
///
/// Up to 1.5 KB come from headers and the request's context, and the rest from the body, as in a real request.
pub fn http(size: usize) -> String {
    let mut items = Vec::new();
    loop {
        let text = with_items(&items, size > 900).to_string();
        if text.len() >= size {
            return text;
        }
        // An item takes less than 80 bytes in the event, so this never adds too many.
        for _ in 0..((size - text.len()) / 80).max(1) {
            items.push(item(items.len()));
        }
    }
}

fn item(number: usize) -> Value {
    json!({"sku": format!("sku-{number:06}"), "quantity": number % 3, "price": 9.5})
}

fn with_items(items: &[Value], large: bool) -> Value {
    let body = json!({"user_id": "u-1", "order_id": 42, "items": items}).to_string();
    if !large {
        return json!({
            "body": body,
            "headers": {"idempotency-key": "k-1"},
            "isBase64Encoded": false,
            "requestContext": {"requestId": "c6af9ac6-7b61"},
        });
    }
    json!({
        "body": body,
        "headers": {
            "accept": "application/json",
            "accept-encoding": "gzip, deflate, br",
            "content-type": "application/json",
            "host": "0123456789.execute-api.eu-west-1.amazonaws.com",
            "idempotency-key": "4f7a1c52-7e0b-4d4f-9d3c-0d5b1a5f7a10",
            "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
            "x-amzn-trace-id": "Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e",
            "x-forwarded-for": "203.0.113.64",
        },
        "isBase64Encoded": false,
        "path": "/orders",
        "queryStringParameters": {"dry_run": "false", "currency": "EUR"},
        "requestContext": {
            "identity": {"accountId": null, "sourceIp": "203.0.113.64", "userArn": null},
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "stage": "prod",
        },
    })
}

/// Returns the text of an event of an HTTP API (payload format 2.0), for a function that protects HTTP requests.
pub fn http_api(size: usize) -> String {
    let event: Value =
        serde_json::from_str(&http(size.saturating_sub(500).max(200))).expect("it is JSON");
    json!({
        "version": "2.0",
        "routeKey": "POST /orders",
        "rawPath": "/orders",
        "rawQueryString": "currency=EUR",
        "headers": {"content-type": "application/json", "idempotency-key": "\"4f7a1c52-7e0b-4d4f-9d3c-0d5b1a5f7a10\""},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "0123456789",
            "authorizer": {"jwt": {"claims": {"sub": "user-1"}, "scopes": []}},
            "domainName": "0123456789.execute-api.eu-west-1.amazonaws.com",
            "http": {"method": "POST", "path": "/orders", "protocol": "HTTP/1.1", "sourceIp": "203.0.113.64"},
            "requestId": "c6af9ac6-7b61",
            "stage": "$default",
            "timeEpoch": 1_700_000_000_000_i64,
        },
        "body": event["body"],
        "isBase64Encoded": false,
    })
    .to_string()
}

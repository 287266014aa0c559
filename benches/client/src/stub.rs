//! An HTTP client that replies at once, without a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};

/// Replies to every request, with the headers that DynamoDB sends. Clones are handles to the same stub.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stub {
    sent: Arc<AtomicU64>,
    replies: Arc<Mutex<Replies>>,
}

/// What the stub replies. All texts are made before a call is counted.
#[derive(Debug, Default)]
enum Replies {
    /// `{}` to every request.
    #[default]
    Applied,
    /// The same, and keeps the bodies of the requests.
    Kept(Vec<Value>),
    /// Refuses each claim with a record, and has the pieces of its response.
    Refused {
        refusal: String,
        /// The id of each piece, and the reply that has it.
        pieces: Vec<(String, String)>,
    },
}

impl Stub {
    /// Returns the number of bytes of all requests: their headers and bodies.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Keeps the bodies of the requests from now on.
    pub(crate) fn keep(&self) {
        *self.replies.lock().unwrap() = Replies::Kept(Vec::new());
    }

    /// Returns the bodies of the requests since [`keep`](Self::keep), and keeps no more.
    pub(crate) fn kept(&self) -> Vec<Value> {
        match std::mem::take(&mut *self.replies.lock().unwrap()) {
            Replies::Kept(bodies) => bodies,
            other => panic!("requests were not kept: {other:?}"),
        }
    }

    /// Refuses every claim with the record that these requests have written, from now on.
    pub(crate) fn refuse(&self, written: &[Value]) {
        let mut record = serde_json::Map::new();
        let mut pieces = Vec::new();
        for body in written {
            let item = &body["Item"];
            if item.get("data_piece").is_some() {
                let id = item["id"]["S"].as_str().unwrap().to_owned();
                pieces.push((id, json!({ "Item": item }).to_string()));
            } else if let Some(item) = item.as_object() {
                record = item.clone();
            } else {
                update(&mut record, body);
            }
        }
        let refusal = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "message": "The conditional request failed",
            "Item": record,
        });
        *self.replies.lock().unwrap() = Replies::Refused {
            refusal: refusal.to_string(),
            pieces,
        };
    }

    /// Returns the status and the body of a reply.
    fn reply(&self, request: &HttpRequest) -> (u16, String) {
        let body = request.body().bytes().unwrap_or_default();
        match &mut *self.replies.lock().unwrap() {
            Replies::Applied => (200, "{}".to_owned()),
            Replies::Kept(bodies) => {
                bodies.push(serde_json::from_slice(body).unwrap());
                (200, "{}".to_owned())
            }
            Replies::Refused { refusal, pieces } => {
                let target = request.headers().get("x-amz-target").unwrap_or_default();
                if !target.ends_with(".GetItem") {
                    return (400, refusal.clone());
                }
                let asked = std::str::from_utf8(body).unwrap();
                let piece = pieces.iter().find(|(id, _)| asked.contains(id));
                (200, piece.expect("there is such a piece").1.clone())
            }
        }
    }
}

/// Applies the `SET` clause of an UpdateItem to a record, such as `SET #a = :a, #b = :b`.
fn update(record: &mut serde_json::Map<String, Value>, body: &Value) {
    let expression = body["UpdateExpression"].as_str().unwrap();
    let set = expression.strip_prefix("SET ").unwrap();
    let set = set.split_once(" REMOVE ").map_or(set, |(set, _)| set);
    for clause in set.split(", ") {
        let (name, value) = clause.split_once(" = ").unwrap();
        let name = body["ExpressionAttributeNames"][name].as_str().unwrap();
        let value = body["ExpressionAttributeValues"][value].clone();
        record.insert(name.to_owned(), value);
    }
}

impl HttpConnector for Stub {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let headers: usize = request
            .headers()
            .iter()
            // The colon, the space, and the end of the line.
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        let body = request.body().bytes().map_or(0, <[u8]>::len);
        self.sent
            .fetch_add((headers + body) as u64, Ordering::Relaxed);
        let (status, reply) = self.reply(&request);
        let length = reply.len().to_string();
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(reply));
        let headers = response.headers_mut();
        headers.insert("server", "Server");
        headers.insert("date", "Sun, 22 Nov 2026 07:20:00 GMT");
        headers.insert("content-type", "application/x-amz-json-1.0");
        headers.insert("content-length", length);
        headers.insert(
            "x-amzn-requestid",
            "4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG",
        );
        headers.insert("x-amz-crc32", "2745614147");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Stub {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

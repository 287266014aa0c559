//! The proxy between the port and the database: notes each request and applies the faults.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::sleep;

use super::fault::{Faults, Injected, Kind};
use crate::wire::{self, HangUp};

pub(super) struct Proxy {
    database: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    log: Mutex<Log>,
    pub(super) faults: Faults,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    /// How many requests were cleared. Added to an index, it gives the request's number, which stays valid.
    cleared: usize,
}

impl Proxy {
    pub(super) fn new(database: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            database,
            client: Client::builder(TokioExecutor::new()).build_http(),
            log: Mutex::default(),
            faults: Faults::default(),
        })
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.log().requests.clone()
    }

    pub(super) fn clear_requests(&self) {
        let mut log = self.log();
        log.cleared += log.requests.len();
        log.requests.clear();
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: wire::Request,
    ) -> Result<wire::Response, HangUp> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
        let request = Request::read(&parts, &body);
        let fault = self.faults.apply_to(&request);
        let number = self.note(request);
        // In its own task: a request that has arrived is processed even if its sender is killed meanwhile.
        let reply = tokio::spawn(async move {
            match fault {
                None => self.apply(number, parts, body).await,
                Some((kind, injected)) => {
                    self.apply_with_fault(number, parts, body, kind, injected)
                        .await
                }
            }
        });
        reply.await.unwrap_or(Err(HangUp))
    }

    async fn apply_with_fault(
        self: Arc<Self>,
        number: usize,
        parts: Parts,
        body: Bytes,
        kind: Kind,
        injected: Injected,
    ) -> Result<wire::Response, HangUp> {
        // Counted when the fault begins. If the request is applied first, that is after the application.
        match kind {
            Kind::DropRequest => {
                let _processing = injected.processing();
                Err(HangUp)
            }
            Kind::DropReply => {
                let _ = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                Err(HangUp)
            }
            Kind::LateArrival => {
                let processing = injected.processing();
                tokio::spawn(async move {
                    injected.released().await;
                    let _ = self.apply(number, parts, body).await;
                    drop(processing);
                });
                Err(HangUp)
            }
            Kind::Hold => {
                let _processing = injected.processing();
                injected.released().await;
                self.apply(number, parts, body).await
            }
            Kind::HoldReply => {
                let reply = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                injected.released().await;
                reply
            }
            Kind::ArriveAfter(delay) => {
                let processing = injected.processing();
                tokio::spawn(async move {
                    sleep(delay).await;
                    let _ = self.apply(number, parts, body).await;
                    drop(processing);
                });
                Err(HangUp)
            }
            Kind::Delay(delay) => {
                let _processing = injected.processing();
                sleep(delay).await;
                self.apply(number, parts, body).await
            }
            Kind::DelayReply(delay) => {
                let reply = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                sleep(delay).await;
                reply
            }
            Kind::Respond {
                status,
                error,
                message,
                applied,
            } => {
                if applied {
                    let _ = self.apply(number, parts, body).await;
                }
                let _processing = injected.processing();
                Ok(error_response(status, &error, &message))
            }
        }
    }

    /// Forwards the request unchanged to the database.
    async fn apply(
        &self,
        number: usize,
        parts: Parts,
        body: Bytes,
    ) -> Result<wire::Response, HangUp> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri: Uri = format!("http://{}{path}", self.database)
            .parse()
            .map_err(|_| HangUp)?;
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers;
        let reply = self.client.request(request).await.map_err(|_| HangUp)?;
        let (parts, body) = reply.into_parts();
        let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
        self.note_response(number, parts.status.as_u16());
        Ok(wire::Response::from_parts(parts, Full::new(body)))
    }

    fn note(&self, request: Request) -> usize {
        let mut log = self.log();
        log.requests.push(request);
        log.cleared + log.requests.len() - 1
    }

    fn note_response(&self, number: usize, status: u16) {
        let mut log = self.log();
        let index = number.checked_sub(log.cleared);
        if let Some(request) = index.and_then(|index| log.requests.get_mut(index)) {
            request.status = Some(status);
            request.responded_at = Some(SystemTime::now());
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request as it arrived, retries included.
///
/// `Debug` omits the body, because bodies contain payloads.
///
/// # Examples
///
/// ```
/// # use aws_sdk_dynamodb::types::AttributeValue;
/// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = EmbeddedDynamoDb::start().await?;
/// # db.create_table(TableSpec::new("orders")).await?;
/// db.client().get_item().table_name("orders").key("id", AttributeValue::S("o-1".into())).send().await?;
///
/// let request = &db.requests()[0];
/// assert_eq!(request.operation, "GetItem");
/// assert_eq!(request.table.as_deref(), Some("orders"));
/// assert_eq!(request.key("id"), Some("o-1"));
/// assert_eq!(request.status, Some(200));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Request {
    /// The API operation, such as `PutItem`.
    pub operation: String,
    /// The table, if the operation names exactly one.
    pub table: Option<String>,
    /// The body; `Null` if it is not JSON.
    pub body: Value,
    /// The number of this attempt of the SDK, counted from 1; `None` if the client did not send it.
    pub attempt: Option<u32>,
    /// The SDK's id of the call, the same in each of its attempts.
    pub call: Option<String>,
    /// When it arrived.
    pub at: SystemTime,
    /// The HTTP status of the database's response; `None` if the request has not reached the database.
    ///
    /// The client may not have received it: [`drop_reply`](super::FaultBuilder::drop_reply) discards the response.
    pub status: Option<u16>,
    /// When the database responded; `None` as long as `status` is `None`.
    pub responded_at: Option<SystemTime>,
}

impl Request {
    /// Reads the parts that tests ask for.
    pub(super) fn read(parts: &Parts, body: &Bytes) -> Self {
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let target = header("x-amz-target").unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        Self {
            operation: target.rsplit('.').next().unwrap_or_default().to_owned(),
            table: body["TableName"].as_str().map(str::to_owned),
            attempt: header("amz-sdk-request").and_then(attempt),
            call: header("amz-sdk-invocation-id").map(str::to_owned),
            at: SystemTime::now(),
            status: None,
            responded_at: None,
            body,
        }
    }

    /// Returns the text of a key attribute, read from the request's `Key` or, in a `PutItem`, from its `Item`.
    ///
    /// `None` if the request has no such attribute, or if it is not a string, a number or binary (as base64).
    #[must_use]
    pub fn key(&self, attribute: &str) -> Option<&str> {
        let value = ["Key", "Item"]
            .iter()
            .find_map(|part| self.body.get(part)?.get(attribute))?;
        ["S", "N", "B"]
            .iter()
            .find_map(|kind| value.get(kind)?.as_str())
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("operation", &self.operation)
            .field("table", &self.table)
            .field("attempt", &self.attempt)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

fn attempt(header: &str) -> Option<u32> {
    let (_, rest) = header.split_once("attempt=")?;
    rest.split(';').next()?.trim().parse().ok()
}

/// Returns an error response in the form of DynamoDB.
pub(super) fn error_response(status: u16, kind: &str, message: &str) -> wire::Response {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
    let body = serde_json::json!({ "__type": kind, "message": message });
    wire::json(status, "application/x-amz-json-1.0", body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attempt_is_read_from_the_sdks_header() {
        assert_eq!(attempt("attempt=2; max=3"), Some(2));
        assert_eq!(attempt("ttl=20260101T000000Z; attempt=1; max=3"), Some(1));
        assert_eq!(attempt("max=3"), None);
    }
}

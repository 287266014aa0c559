//! A request, as the proxy notes it.

use std::fmt;
use std::time::SystemTime;

use hyper::body::Bytes;
use hyper::http::request::Parts;
use serde_json::Value;

use crate::wire;

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

use crate::wire;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use serde_json::Value;
use std::fmt;
use std::time::SystemTime;

/// A request as it arrived on the wire, retries included.
///
/// `Debug` leaves the body out, because bodies hold payloads.
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
    /// The table, where the operation names exactly one.
    pub table: Option<String>,
    /// The body; `Null` if it was not JSON.
    pub body: Value,
    /// Which try of the SDK this was, from 1; `None` if the client did not say.
    pub attempt: Option<u32>,
    /// The SDK's id of the call: the same for each try of it.
    pub call: Option<String>,
    /// When it arrived.
    pub at: SystemTime,
    /// The status the database answered with; `None` if the request did not reach it, or has not yet.
    ///
    /// It tells what happened, not what the client was told: under [`drop_reply`](super::FaultBuilder::drop_reply)
    /// the client saw nothing of it.
    pub status: Option<u16>,
    /// When the database answered; `None` as long as `status` is.
    pub answered_at: Option<SystemTime>,
}

impl Request {
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
            answered_at: None,
            body,
        }
    }

    /// The text of a key attribute, read from the request's `Key` or, in a `PutItem`, from its `Item`.
    ///
    /// `None` if the request holds no such attribute, or one that is not a string, a number or binary (as base64).
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let put = db.client().put_item().table_name("orders");
    /// put.item("id", AttributeValue::S("o-1".into())).send().await?;
    /// assert_eq!(db.requests()[0].key("id"), Some("o-1"));
    /// assert_eq!(db.requests()[0].key("sk"), None);
    /// # Ok(()) }
    /// ```
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

/// An error in the form in which DynamoDB sends one.
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

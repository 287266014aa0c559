//! The transport of the SDK's clients: requests pass the gate of their process, and go to the database of its scenario.

use std::io;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::RECORDS;
use super::database::Reply;
use super::gate::{FaultKind, Service};
use super::process::Process;

/// Finds the process by the thread, so that a client that outlives its process, as in a `static`, works in the next one too.
#[derive(Clone, Debug)]
pub(super) struct Transport;

impl HttpClient for Transport {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Transport {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        // Nothing is sent before the future is polled.
        HttpConnectorFuture::new(send(request))
    }
}

async fn send(request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
    let Some(process) = Process::current() else {
        let why = "a client of `retry_safety` was used on a thread that its process did not start";
        return Err(ConnectorError::user(why.into()));
    };
    if process.gate.is_dead() {
        return std::future::pending().await;
    }
    process.touch();
    let headers = headers(&request);
    let mut body = Bytes::copy_from_slice(request.body().bytes().unwrap_or_default());
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let operation = header("x-amz-target").and_then(|target| target.rsplit('.').next());
    let operation = operation.unwrap_or_default().to_owned();
    let call = header("amz-sdk-invocation-id")
        .unwrap_or_default()
        .to_owned();
    let mut content: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some((key, stored)) = completion(&content) {
        process.gate.completes_with(key, stored);
    }
    let label = label(&operation, &content);
    if is_eventual_read(&operation, &content) {
        process.gate.reads_stale(label.clone());
    }
    let fault = process.gate.request(Service::DynamoDb, label);
    if fault == Some(FaultKind::Refused) {
        process.refuse(&call);
    }
    if fault == Some(FaultKind::Outage) {
        process.break_down(Service::DynamoDb);
    }
    if process.refuses(&call) || process.is_down(Service::DynamoDb) {
        return response(500, &HeaderMap::new(), unavailable());
    }
    if fault != Some(FaultKind::CrashAfter) {
        process.play(fault);
    }
    if process.gate.is_dead() {
        return std::future::pending().await;
    }
    let unprocessed = match fault {
        Some(FaultKind::Partial) => take_last(&mut content),
        _ => None,
    };
    if unprocessed.is_some() {
        body = Bytes::from(content.to_string());
    }
    let reply = process.shared.database.exchange(headers, body);
    process.shared.note_items();
    process.touch();
    match fault {
        Some(FaultKind::CrashAfter) => {
            process.play(fault);
            std::future::pending().await
        }
        Some(FaultKind::NoReply) => std::future::pending().await,
        Some(FaultKind::LostReply) => Err(broken()),
        _ => {
            let mut reply = reply.ok_or_else(broken)?;
            if let Some(unprocessed) = unprocessed {
                reply.leave_out(&operation, unprocessed);
            }
            response(reply.status, &reply.headers, SdkBody::from(reply.body))
        }
    }
}

/// Returns the headers of a request, without those of its connection.
fn headers(request: &HttpRequest) -> HeaderMap {
    let all = request.headers().iter();
    let all = all.filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    all.filter(|(name, _)| *name != HOST && *name != CONTENT_LENGTH)
        .collect()
}

fn response(
    status: u16,
    headers: &HeaderMap,
    body: SdkBody,
) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|_| broken())?;
    let mut response = HttpResponse::new(status, body);
    for (name, value) in headers {
        if let Ok(value) = value.to_str() {
            let _ = response
                .headers_mut()
                .try_insert(name.as_str().to_owned(), value.to_owned());
        }
    }
    Ok(response)
}

fn unavailable() -> SdkBody {
    let kind = "com.amazonaws.dynamodb.v20120810#InternalServerError";
    let body = json!({ "__type": kind, "message": "refused by retry_safety: it was not applied" });
    SdkBody::from(body.to_string())
}

fn broken() -> ConnectorError {
    ConnectorError::io(Box::new(io::Error::from(io::ErrorKind::ConnectionReset)))
}

/// Returns what a report calls the request: the operation and its tables.
fn label(operation: &str, body: &Value) -> String {
    let mut tables = Vec::new();
    tables_of(body, &mut tables);
    tables.dedup();
    let tables = tables
        .iter()
        .map(|table| table.rsplit('/').next().unwrap_or_default());
    let tables: Vec<_> = tables.collect();
    format!("{operation} {}", tables.join(", "))
        .trim()
        .to_owned()
}

/// Collects the tables of a request, also those of the requests inside a transaction or batch.
fn tables_of<'a>(body: &'a Value, tables: &mut Vec<&'a str>) {
    if let Some(table) = body["TableName"].as_str() {
        tables.push(table);
    }
    for item in body["TransactItems"].as_array().into_iter().flatten() {
        let operations = item.as_object().into_iter().flat_map(|item| item.values());
        operations.for_each(|operation| tables_of(operation, tables));
    }
    if let Some(batch) = body["RequestItems"].as_object() {
        tables.extend(batch.keys().map(String::as_str));
    }
}

/// Returns true if the request can read items of the function's own that are out of date.
fn is_eventual_read(operation: &str, content: &Value) -> bool {
    let is_eventual = |read: &Value| read["ConsistentRead"] != true && read["TableName"] != RECORDS;
    match operation {
        "GetItem" | "Query" | "Scan" => is_eventual(content),
        "BatchGetItem" => {
            let tables = content["RequestItems"].as_object();
            tables
                .into_iter()
                .flatten()
                .any(|(_, read)| is_eventual(read))
        }
        _ => false,
    }
}

/// Takes the last item out of a batch request, and returns what the reply says of it: it was not processed.
fn take_last(content: &mut Value) -> Option<Value> {
    let (table, requests) = content["RequestItems"].as_object_mut()?.iter_mut().last()?;
    let mut left_out = requests.clone();
    let last = match requests {
        Value::Array(writes) => {
            let last = writes.pop()?;
            left_out = json!([last]);
            writes.is_empty()
        }
        reads => {
            let keys = reads["Keys"].as_array_mut()?;
            left_out["Keys"] = json!([keys.pop()?]);
            keys.is_empty()
        }
    };
    let table = table.clone();
    if last {
        content["RequestItems"].as_object_mut()?.remove(&table);
    }
    Some(json!({ table: left_out }))
}

impl Reply {
    /// Adds what was left out of a batch. A batch of which nothing was left was refused by the database: nothing was processed.
    fn leave_out(&mut self, operation: &str, unprocessed: Value) {
        let mut content = match self.status {
            200 => serde_json::from_slice(&self.body).unwrap_or_else(|_| json!({})),
            _ => json!({ "Responses": {} }),
        };
        let name = if operation == "BatchGetItem" {
            "UnprocessedKeys"
        } else {
            "UnprocessedItems"
        };
        content[name] = unprocessed;
        self.status = 200;
        self.headers.remove("x-amz-crc32");
        self.body = Bytes::from(content.to_string());
    }
}

/// Returns the key of the record, and the response that the request stores there, if it is a completion.
fn completion(body: &Value) -> Option<(String, String)> {
    if let Some(items) = body["TransactItems"].as_array() {
        return items.iter().find_map(|item| completion(&item["Update"]));
    }
    if body["TableName"] != RECORDS {
        return None;
    }
    let names = body["ExpressionAttributeNames"].as_object()?;
    let (data, _) = names.iter().find(|(_, name)| *name == "data")?;
    let update = body["UpdateExpression"].as_str()?;
    let (_, rest) = update.split_once(&format!("{data} = "))?;
    let value = rest.split([',', ' ']).next()?;
    let value = body["ExpressionAttributeValues"][value].as_object()?;
    let value = value.values().next()?.as_str()?;
    Some((body["Key"].to_string(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_called_by_its_operation_and_its_tables() {
        let put = json!({ "TableName": "accounts" });
        assert_eq!(label("PutItem", &put), "PutItem accounts");
        let arn = "arn:aws:dynamodb:eu-central-1:1:table/accounts";
        assert_eq!(
            label("PutItem", &json!({ "TableName": arn })),
            "PutItem accounts"
        );
        let both = json!({ "TransactItems": [
            { "Update": { "TableName": "accounts" } },
            { "Put": { "TableName": "accounts" } },
            { "Update": { "TableName": "idempotency" } },
        ]});
        assert_eq!(
            label("TransactWriteItems", &both),
            "TransactWriteItems accounts, idempotency"
        );
        let batch = json!({ "RequestItems": { "accounts": [] } });
        assert_eq!(label("BatchWriteItem", &batch), "BatchWriteItem accounts");
        assert_eq!(label("ListTables", &json!({})), "ListTables");
    }

    #[test]
    fn the_last_item_of_a_batch_is_left_out_of_it() {
        let mut writes = json!({ "RequestItems": { "a": [1, 2] } });
        assert_eq!(take_last(&mut writes), Some(json!({ "a": [2] })));
        assert_eq!(take_last(&mut writes), Some(json!({ "a": [1] })));
        assert_eq!(writes, json!({ "RequestItems": {} }));
        let mut reads =
            json!({ "RequestItems": { "a": { "Keys": [1, 2], "ConsistentRead": true } } });
        let last = json!({ "a": { "Keys": [2], "ConsistentRead": true } });
        assert_eq!(take_last(&mut reads), Some(last));
        assert!(!is_eventual_read("BatchGetItem", &reads));
        assert!(is_eventual_read("GetItem", &json!({ "TableName": "a" })));
        assert!(!is_eventual_read(
            "GetItem",
            &json!({ "TableName": RECORDS })
        ));
    }

    #[test]
    fn a_completion_has_the_response_that_it_stores() {
        let request = json!({
            "TableName": RECORDS,
            "Key": { "id": { "S": "a#1" } },
            "UpdateExpression": "SET #a = :a, #b = :b REMOVE #c",
            "ExpressionAttributeNames": { "#a": "status", "#b": "data", "#c": "owner" },
            "ExpressionAttributeValues": { ":a": { "S": "COMPLETED" }, ":b": { "S": "[1]" } },
        });
        let stored = (r#"{"id":{"S":"a#1"}}"#.to_owned(), "[1]".to_owned());
        assert_eq!(completion(&request), Some(stored.clone()));
        let transaction = json!({ "TransactItems": [{ "Put": {} }, { "Update": request }] });
        assert_eq!(completion(&transaction), Some(stored));
        let mut other = request;
        other["TableName"] = json!("accounts");
        assert_eq!(completion(&other), None);
    }
}

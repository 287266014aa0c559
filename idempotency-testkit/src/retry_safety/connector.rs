//! The transport of the SDK's clients: requests pass the gate of their process, and go to the database of its scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, HttpClient, Region, RuntimeComponents, SharedCredentialsProvider,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper_util::client::legacy::Client as Connections;
use hyper_util::client::legacy::connect::HttpConnector as TcpConnector;
use hyper_util::rt::TokioExecutor;
use idempotency_core::store::Store;
use idempotency_lambda::{ConfigurationError, DynamoDbStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::RECORDS;
use super::effects::Items;
use super::gate::{FaultKind, Service};
use super::plan::Plan;
use super::process::{Process, RequestFate};
use super::world::World;
use crate::dynamodb::{Cause, DatabaseError, TableSpec, open_database, serve_database};
use crate::wire::Background;

/// Finds its process by the thread. So a client that outlives its process, as in a `static`, works in the next one too.
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

impl World {
    /// Returns the configuration of a client of the scenario's DynamoDB, for the SDK or for a store.
    ///
    /// A client works in the threads of its process: in the handler and in the tasks that it spawns.
    pub fn sdk_config(&self) -> SdkConfig {
        // The SDK keeps one quota of retries for each region. Each client here gets its own, as in a new process.
        static CLIENTS: AtomicU32 = AtomicU32::new(1);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let credentials = Credentials::new("test", "test", None, None, "retry_safety");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(format!("eu-central-{number}")))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url("http://dynamodb.invalid")
            .http_client(Transport)
            .build()
    }

    /// Returns a client of the scenario's DynamoDB, for tables of the function's own.
    ///
    /// [`RetrySafety::table`](super::RetrySafety::table) creates them. What the items hold is compared after each scenario.
    pub fn dynamodb(&self) -> Client {
        Client::new(&self.sdk_config())
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
    // Both clients of the store send this header. It is the same in each send of a call.
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
    let refuses = |fault| {
        if fault == Some(FaultKind::Refused) {
            process.refuse(&call);
        }
        process.refuses(&call)
    };
    let perform = |fault| {
        let unprocessed = match fault {
            Some(FaultKind::Partial) => take_last(&mut content),
            _ => None,
        };
        if unprocessed.is_some() {
            body = Bytes::from(content.to_string());
        }
        let reply = process.shared.database.exchange(headers, body);
        process.shared.note_items();
        (reply, unprocessed)
    };
    let passed = process.pass(Service::DynamoDb, label, refuses, perform);
    match passed.await {
        RequestFate::Refused => response(500, &HeaderMap::new(), unavailable()),
        RequestFate::Lost | RequestFate::Done((None, _)) => Err(broken()),
        RequestFate::Done((Some(mut reply), unprocessed)) => {
            if let Some(unprocessed) = unprocessed {
                reply.report_unprocessed(&operation, unprocessed);
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
    let mut tables = BTreeSet::new();
    tables_of(body, &mut tables);
    let tables = tables
        .iter()
        .map(|table| table.rsplit('/').next().unwrap_or_default());
    let tables: Vec<_> = tables.collect();
    format!("{operation} {}", tables.join(", "))
        .trim()
        .to_owned()
}

/// Collects the tables of a request, also those of the requests inside a transaction or batch.
fn tables_of<'a>(body: &'a Value, tables: &mut BTreeSet<&'a str>) {
    if let Some(table) = body["TableName"].as_str() {
        tables.insert(table);
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
    /// Adds the items that were left out of a batch. The database refuses a batch without items: then nothing was processed.
    fn report_unprocessed(&mut self, operation: &str, unprocessed: Value) {
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

/// Returns the store of a process, over the table of the framework.
pub(super) fn store(world: &World) -> Result<Arc<dyn Store>, ConfigurationError> {
    let store = DynamoDbStore::builder().sdk_config(&world.sdk_config());
    Ok(Arc::new(store.table(RECORDS).build()?))
}

/// The thread that runs the databases of a check.
pub(super) struct Server {
    background: Background,
    client: Connections<TcpConnector, Full<Bytes>>,
}

/// An empty database. It ends when it is dropped.
pub(super) struct Database {
    inner: dynoxide::Database,
    address: SocketAddr,
    client: Connections<TcpConnector, Full<Bytes>>,
    handle: Handle,
    _running: oneshot::Sender<()>,
}

/// A response of the database.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Server {
    pub(super) fn start() -> Result<Self, DatabaseError> {
        let background = Background::start("retry-safety").map_err(Cause::Start)?;
        Ok(Self {
            background,
            client: Connections::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Starts a database with the table of the framework, and those of the check.
    pub(super) fn database(&self, plan: &Plan) -> Result<Database, DatabaseError> {
        let (running, ended) = oneshot::channel::<()>();
        let handle = self.background.handle();
        let inner = open_database()?;
        let served = inner.clone();
        let serve = async move { serve_database(served, async move { drop(ended.await) }) };
        let database = Database {
            inner,
            address: blocking(handle, serve).unwrap_or(Err(Cause::Stopped))?,
            client: self.client.clone(),
            handle: handle.clone(),
            _running: running,
        };
        database.create(&TableSpec::new(RECORDS))?;
        for table in &plan.tables {
            database.create(table)?;
        }
        Ok(database)
    }
}

impl Database {
    /// Performs a request and waits for its response. `None` if there is none.
    pub(super) fn exchange(&self, headers: HeaderMap, body: Bytes) -> Option<Reply> {
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = hyper::Method::POST;
        *request.uri_mut() = format!("http://{}/", self.address).parse().ok()?;
        *request.headers_mut() = headers;
        let client = self.client.clone();
        blocking(&self.handle, async move {
            let (parts, body) = client.request(request).await.ok()?.into_parts();
            Some(Reply {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.collect().await.ok()?.to_bytes(),
            })
        })?
    }

    /// Returns the items of all tables, except those of the table `hidden`.
    pub(super) fn items(&self, hidden: &str) -> Result<Items, DatabaseError> {
        let tables = self.call("ListTables", "", json!({}), dynoxide::Database::list_tables)?;
        let names = tables["TableNames"].as_array().into_iter().flatten();
        let names = names
            .filter_map(Value::as_str)
            .filter(|name| *name != hidden);
        names
            .map(|name| Ok((name.to_owned(), self.items_of(name)?)))
            .collect()
    }

    /// Returns when the first record of the framework expires, in seconds.
    pub(super) fn expiration(&self) -> Result<Option<i64>, DatabaseError> {
        let records = self.items_of(RECORDS)?;
        let times = records.values().filter_map(|record| {
            let time = record["expiration"]["N"].as_str()?;
            time.parse().ok()
        });
        Ok(times.min())
    }

    fn items_of(&self, table: &str) -> Result<BTreeMap<String, Value>, DatabaseError> {
        let describe = json!({ "TableName": table });
        let describe_table = dynoxide::Database::describe_table;
        let description = self.call("DescribeTable", table, describe, describe_table)?;
        let schema = description["Table"]["KeySchema"].as_array();
        let keys: Vec<_> = schema
            .into_iter()
            .flatten()
            .filter_map(|key| key["AttributeName"].as_str())
            .collect();
        let mut items = BTreeMap::new();
        let mut start = Value::Null;
        loop {
            let mut scan = json!({ "TableName": table, "ConsistentRead": true });
            if !start.is_null() {
                scan["ExclusiveStartKey"] = start;
            }
            let mut page = self.call("Scan", table, scan, dynoxide::Database::scan)?;
            if let Some(Value::Array(found)) = page.get_mut("Items").map(Value::take) {
                items.extend(found.into_iter().map(|item| (key_of(&keys, &item), item)));
            }
            start = page["LastEvaluatedKey"].take();
            if start.is_null() {
                return Ok(items);
            }
        }
    }

    fn create(&self, table: &TableSpec) -> Result<(), DatabaseError> {
        let sort = table.sort_key.iter().map(|name| (name, "RANGE"));
        let keys = [(&table.partition_key, "HASH")].into_iter().chain(sort);
        let of_key = |(name, kind)| {
            let attribute = json!({ "AttributeName": name, "AttributeType": "S" });
            (attribute, json!({ "AttributeName": name, "KeyType": kind }))
        };
        let (attributes, schema): (Vec<_>, Vec<_>) = keys.map(of_key).unzip();
        let create = json!({
            "TableName": table.name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes,
            "KeySchema": schema,
        });
        let create_table = dynoxide::Database::create_table;
        self.call("CreateTable", &table.name, create, create_table)
            .map(drop)
    }

    /// Performs a request of the check itself, without HTTP: a check makes more of them than its function.
    fn call<Q: DeserializeOwned, R: Serialize>(
        &self,
        operation: &'static str,
        table: &str,
        request: Value,
        perform: impl FnOnce(&dynoxide::Database, Q) -> dynoxide::Result<R>,
    ) -> Result<Value, DatabaseError> {
        let refused = |reason| Cause::Refused {
            operation,
            table: table.to_owned(),
            reason,
        };
        let request =
            serde_json::from_value(request).map_err(|error| refused(error.to_string()))?;
        let response = perform(&self.inner, request);
        let response =
            response.map_err(|error| refused(format!("{}: {error}", error.error_type())))?;
        Ok(serde_json::to_value(response).map_err(|error| refused(error.to_string()))?)
    }
}

/// Returns the key of an item as a text.
fn key_of(keys: &[&str], item: &Value) -> String {
    let values = keys.iter().map(|key| {
        let value = item[*key]
            .as_object()
            .and_then(|typed| typed.values().next());
        value.and_then(Value::as_str).unwrap_or_default()
    });
    values.collect::<Vec<_>>().join(", ")
}

/// Runs `work` on the background runtime, and blocks this thread until it is done. `None` if the runtime has ended.
fn blocking<T: Send + 'static>(
    handle: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (send, receive) = sync_channel(1);
    handle.spawn(async move {
        let _ = send.send(work.await);
    });
    receive.recv().ok()
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
    fn the_last_item_of_a_batch_is_left_out_and_only_reads_of_own_items_can_be_out_of_date() {
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

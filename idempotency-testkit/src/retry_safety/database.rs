//! The DynamoDB of one scenario: an empty database, which the thread of a process asks and waits for.
//!
//! A request blocks the thread of its process. So no virtual time passes while the database works, and a request is one step
//! of the process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::dynamodb::{DatabaseError, TableSpec};
use crate::wire::{self, Background};

/// The thread that runs the databases of a check.
pub(super) struct Server {
    background: Background,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// An empty database. It ends when it is dropped.
pub(super) struct Database {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    handle: Handle,
    _running: oneshot::Sender<()>,
}

/// A response of the database.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The items of all tables: table, key, attributes in DynamoDB's JSON.
pub(super) type Items = BTreeMap<String, BTreeMap<String, Value>>;

impl Server {
    pub(super) fn start() -> Result<Self, DatabaseError> {
        let background = Background::start("retry-safety").map_err(DatabaseError::Start)?;
        Ok(Self {
            background,
            client: Client::builder(TokioExecutor::new()).build_http(),
        })
    }

    /// Starts a database with these tables.
    pub(super) fn database(&self, tables: &[TableSpec]) -> Result<Database, DatabaseError> {
        let (running, ended) = oneshot::channel::<()>();
        let open = async move {
            let database = dynoxide::Database::memory()
                .map_err(|error| DatabaseError::Open(error.to_string()))?;
            let (listener, address) = wire::bind().map_err(DatabaseError::Start)?;
            tokio::spawn(dynoxide::server::serve_with_shutdown(
                listener,
                database,
                async move { drop(ended.await) },
            ));
            Ok(address)
        };
        let database = Database {
            address: self.wait_for(open)?,
            client: self.client.clone(),
            handle: self.background.handle().clone(),
            _running: running,
        };
        for table in tables {
            database.create(table)?;
        }
        Ok(database)
    }

    fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        blocking(self.background.handle(), work).unwrap_or(Err(DatabaseError::Stopped))
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
        let tables = self.call("ListTables", "", &json!({}))?;
        let names = tables["TableNames"].as_array().into_iter().flatten();
        let names = names
            .filter_map(Value::as_str)
            .filter(|name| *name != hidden);
        names
            .map(|name| Ok((name.to_owned(), self.items_of(name)?)))
            .collect()
    }

    fn items_of(&self, table: &str) -> Result<BTreeMap<String, Value>, DatabaseError> {
        let description = self.call("DescribeTable", table, &json!({ "TableName": table }))?;
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
            let mut page = self.call("Scan", table, &scan)?;
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
        let keys: Vec<_> = [Some((&table.partition_key, "HASH"))]
            .into_iter()
            .chain([table.sort_key.as_ref().map(|name| (name, "RANGE"))])
            .flatten()
            .collect();
        let attributes = keys
            .iter()
            .map(|(name, _)| json!({ "AttributeName": name, "AttributeType": "S" }));
        let schema = keys
            .iter()
            .map(|(name, kind)| json!({ "AttributeName": name, "KeyType": kind }));
        let create = json!({
            "TableName": table.name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": attributes.collect::<Vec<_>>(),
            "KeySchema": schema.collect::<Vec<_>>(),
        });
        self.call("CreateTable", &table.name, &create).map(drop)
    }

    /// Performs a request of the check itself.
    fn call(
        &self,
        operation: &'static str,
        table: &str,
        request: &Value,
    ) -> Result<Value, DatabaseError> {
        let mut headers = HeaderMap::new();
        let target = format!("DynamoDB_20120810.{operation}");
        if let (Ok(target), Ok(kind)) = (target.parse(), "application/x-amz-json-1.0".parse()) {
            headers.insert("x-amz-target", target);
            headers.insert(CONTENT_TYPE, kind);
        }
        if let Ok(authorization) = AUTHORIZATION.parse() {
            headers.insert(hyper::header::AUTHORIZATION, authorization);
            headers.insert(
                "x-amz-date",
                hyper::header::HeaderValue::from_static("20260101T000000Z"),
            );
        }
        let body = Bytes::from(request.to_string());
        let reply = self.exchange(headers, body).ok_or(DatabaseError::Stopped)?;
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 200 {
            return Ok(body);
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Err(DatabaseError::Refused {
            operation,
            table: table.to_owned(),
            reason: format!("{}: {}", text("__type"), text("message")),
        })
    }
}

/// The database wants to see a signature, and does not check it.
const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/dynamodb/aws4_request, \
                             SignedHeaders=host, Signature=0";

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

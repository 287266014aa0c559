//! The proxy between the port and the database: it notes each request, and applies each fault to the requests that the fault
//! selects.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lock::lock;
use crate::wire::{self, HangUp};

/// A failure of one or more requests: built with [`Fault::on`], injected with
/// [`EmbeddedDynamoDb::inject`](super::EmbeddedDynamoDb::inject).
///
/// # Examples
///
/// ```
/// use idempotency_testkit::dynamodb::Fault;
/// // The second write is applied, but its reply is lost.
/// let fault = Fault::on("UpdateItem").table("idempotency").nth(2).drop_reply();
/// # let _ = fault;
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `EmbeddedDynamoDb::inject`"]
pub struct Fault {
    pub(super) target: FaultBuilder,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    DropRequest,
    DropReply,
    LateArrival,
    Hold,
    HoldReply,
    Respond {
        status: u16,
        error: String,
        /// True if the request is applied before the error is sent.
        applied: bool,
    },
}

/// Selects the requests that a [`Fault`] applies to. By default: the first one of the operation after the injection.
#[derive(Clone, Debug)]
#[must_use = "choose what goes wrong, such as `.drop_reply()`"]
pub struct FaultBuilder {
    operation: Option<String>,
    table: Option<String>,
    pub(super) first: usize,
    pub(super) times: usize,
    release_after: Option<Duration>,
}

impl Fault {
    /// Selects requests of one API operation, such as `PutItem`.
    pub fn on(operation: impl Into<String>) -> FaultBuilder {
        FaultBuilder {
            operation: Some(operation.into()),
            ..Self::on_any()
        }
    }

    /// Selects requests of every operation.
    pub fn on_any() -> FaultBuilder {
        FaultBuilder {
            operation: None,
            table: None,
            first: 1,
            times: 1,
            release_after: None,
        }
    }
}

impl FaultBuilder {
    /// Selects only requests to this table.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Lets the matching requests before the `nth` pass. Counted from 1, starting at the injection, retries included.
    pub fn nth(mut self, nth: usize) -> Self {
        self.first = nth.max(1);
        self
    }

    /// Applies to this many requests in a row; 1 by default.
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Applies to every request, starting with the [`nth`](Self::nth).
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Releases each request that [`hold`](Self::hold), [`hold_reply`](Self::hold_reply) or [`late_arrival`](Self::late_arrival)
    /// holds after this time, by the system clock: the test need not call [`Injected::release`].
    pub fn release_after(mut self, time: Duration) -> Self {
        self.release_after = Some(time);
        self
    }

    /// Loses the request: the connection closes and nothing is applied.
    pub fn drop_request(self) -> Fault {
        self.kind(Kind::DropRequest)
    }

    /// Loses the reply: the request is applied, then the connection closes.
    pub fn drop_reply(self) -> Fault {
        self.kind(Kind::DropReply)
    }

    /// Closes the connection now and applies the request on [`Injected::release`](super::Injected::release).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let late = db.inject(Fault::on("PutItem").late_arrival());
    /// let put = db.client().put_item().table_name("orders");
    /// put.item("id", AttributeValue::S("o-1".into())).send().await?;
    /// db.delete("orders", [("id", "o-1")]).await?;
    ///
    /// // The first attempt arrives now, long after the second one succeeded.
    /// late.release().await;
    /// assert_eq!(db.items("orders").await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn late_arrival(self) -> Fault {
        self.kind(Kind::LateArrival)
    }

    /// Holds the request until [`Injected::release`](super::Injected::release), then applies it and responds.
    pub fn hold(self) -> Fault {
        self.kind(Kind::Hold)
    }

    /// Applies the request at once, and holds its reply until [`Injected::release`](super::Injected::release).
    pub fn hold_reply(self) -> Fault {
        self.kind(Kind::HoldReply)
    }

    /// Responds with `ProvisionedThroughputExceededException` (400), which the SDK retries. Nothing is applied.
    pub fn throttle(self) -> Fault {
        self.respond_with(400, "ProvisionedThroughputExceededException")
    }

    /// Responds with this HTTP status and error code, such as `(400, "AccessDeniedException")`, which the SDK does not retry, or
    /// `(500, "InternalServerError")`, which it retries. Nothing is applied.
    pub fn respond_with(self, status: u16, error: impl Into<String>) -> Fault {
        self.failed(status, error.into(), false)
    }

    /// Applies the request and responds with `InternalServerError` (500): after a 500 a client cannot know the result.
    pub fn internal_error_although_applied(self) -> Fault {
        self.failed(500, "InternalServerError".to_owned(), true)
    }

    fn failed(self, status: u16, error: String, applied: bool) -> Fault {
        self.kind(Kind::Respond {
            status,
            error,
            applied,
        })
    }

    fn kind(self, kind: Kind) -> Fault {
        Fault { target: self, kind }
    }

    /// Returns true if the fault selects this request.
    pub(super) fn matches(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| match wanted {
            Some(wanted) => found == Some(wanted),
            None => true,
        };
        same(&self.operation, Some(&request.operation))
            && same(&self.table, request.table.as_deref())
    }
}

/// A fault that was injected. It stays active when this handle is dropped.
#[derive(Clone, Debug)]
pub struct Injected {
    state: Arc<State>,
    release_after: Option<Duration>,
}

#[derive(Debug)]
struct State {
    open: watch::Sender<bool>,
    applied: watch::Sender<usize>,
    done: watch::Sender<usize>,
}

impl Injected {
    fn new(release_after: Option<Duration>) -> Self {
        Self {
            release_after,
            state: Arc::new(State {
                open: watch::Sender::new(false),
                applied: watch::Sender::new(0),
                done: watch::Sender::new(0),
            }),
        }
    }

    /// Returns the number of requests that the fault has applied to.
    pub fn applied_count(&self) -> usize {
        *self.state.applied.borrow()
    }

    /// Waits until the fault has applied to its first request.
    ///
    /// If the fault holds the request, the request is held now. If it drops or holds the reply, the request has been applied.
    pub async fn reached(&self) {
        let mut applied = self.state.applied.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = applied.wait_for(|applied| *applied > 0).await;
    }

    /// Releases the held requests, and waits until the database has processed each of them.
    ///
    /// Requests that the fault applies to later do not wait. Has no effect on a fault that holds nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = EmbeddedDynamoDb::start().await?;
    /// # db.create_table(TableSpec::new("orders")).await?;
    /// let held = db.inject(Fault::on("PutItem").hold());
    /// let put = db.client().put_item().table_name("orders").item("id", AttributeValue::S("o-1".into()));
    /// let put = tokio::spawn(put.send());
    ///
    /// held.reached().await;
    /// assert!(db.items("orders").await?.is_empty());
    /// held.release().await;
    /// assert_eq!(db.items("orders").await?.len(), 1);
    /// put.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(&self) {
        self.state.open.send_replace(true);
        let applied = self.applied_count();
        let mut done = self.state.done.subscribe();
        let _ = done.wait_for(|done| *done >= applied).await;
    }

    /// Waits until the test releases the request, or its time to be held ends.
    pub(super) async fn released(&self) {
        let mut open = self.state.open.subscribe();
        let time = self.release_after.unwrap_or(Duration::MAX);
        let _ = timeout(time, open.wait_for(|open| *open)).await;
    }

    /// Counts the request as processed when the guard is dropped, however the processing ends.
    pub(super) fn processing(&self) -> ProcessingGuard {
        self.state.applied.send_modify(|applied| *applied += 1);
        ProcessingGuard(self.clone())
    }
}

pub(super) struct ProcessingGuard(Injected);

impl Drop for ProcessingGuard {
    fn drop(&mut self) {
        self.0.state.done.send_modify(|done| *done += 1);
    }
}

/// All active faults, in the order of their injection.
#[derive(Default)]
pub(super) struct Faults(Mutex<FaultList>);

#[derive(Default)]
struct FaultList {
    armed: Vec<ArmedFault>,
    choose: Option<Choose>,
}

/// Chooses the fault of a request that no injected fault applies to.
pub(super) type Choose = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

#[derive(Debug)]
struct ArmedFault {
    fault: Fault,
    seen: usize,
    injected: Injected,
}

impl Faults {
    pub(super) fn inject(&self, fault: Fault) -> Injected {
        let injected = Injected::new(fault.target.release_after);
        self.list().armed.push(ArmedFault {
            fault,
            seen: 0,
            injected: injected.clone(),
        });
        injected
    }

    pub(super) fn choose(&self, choose: Choose) {
        self.list().choose = Some(choose);
    }

    pub(super) fn clear(&self) {
        *self.list() = FaultList::default();
    }

    /// Returns the fault that applies to this request: the first injected one, otherwise the chosen one. Every injected
    /// fault that matches counts the request.
    pub(super) fn apply_to(&self, request: &Request) -> Option<(Kind, Injected)> {
        let mut found = None;
        let mut list = self.list();
        for armed in &mut list.armed {
            let target = &armed.fault.target;
            if !target.matches(request) {
                continue;
            }
            armed.seen += 1;
            let due = armed.seen >= target.first && armed.seen - target.first < target.times;
            if due && found.is_none() {
                found = Some((armed.fault.kind.clone(), armed.injected.clone()));
            }
        }
        found.or_else(|| {
            let fault = list.choose.as_mut()?(request)?;
            Some((fault.kind, Injected::new(fault.target.release_after)))
        })
    }

    fn list(&self) -> MutexGuard<'_, FaultList> {
        lock(&self.0)
    }
}

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
        // `processing` counts the request when its fault begins. A fault of the reply begins after the request was applied.
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
            Kind::Respond {
                status,
                error,
                applied,
            } => {
                if applied {
                    let _ = self.apply(number, parts, body).await;
                }
                let _processing = injected.processing();
                Ok(error_response(status, &error))
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
        lock(&self.log)
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
    /// The number of this attempt of the SDK, counted from 1; `None` if the client did not send the number.
    pub attempt: Option<u32>,
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
        let header = |name: &str| parts.headers.get(name)?.to_str().ok();
        let target = header("x-amz-target").unwrap_or_default();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        Self {
            operation: target.rsplit('.').next().unwrap_or_default().to_owned(),
            table: body["TableName"].as_str().map(str::to_owned),
            attempt: header("amz-sdk-request").and_then(attempt),
            at: SystemTime::now(),
            status: None,
            responded_at: None,
            body,
        }
    }

    /// Returns the text of a key attribute, read from the request's `Key` or, in a `PutItem`, from its `Item`.
    ///
    /// `None` if the request has no such attribute, or if it is not a string, a number or binary (as base64).
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

/// Returns an injected error in the form of DynamoDB.
fn error_response(status: u16, kind: &str) -> wire::Response {
    let message = format!("{kind}, injected by a test");
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

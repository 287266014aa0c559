//! Faults: which requests they apply to, and what happens to those; the active ones; the handle of an injected one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::proxy::Request;

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
    ArriveAfter(Duration),
    Delay(Duration),
    DelayReply(Duration),
    Respond {
        status: u16,
        error: String,
        message: String,
        /// True if the request is applied before the error is sent.
        applied: bool,
    },
}

/// Selects the requests that a [`Fault`] applies to. By default: the first one of the operation after the injection.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::dynamodb::Fault;
/// let from_the_third_on = Fault::on("PutItem").nth(3).always().throttle();
/// # let _ = from_the_third_on;
/// ```
#[derive(Clone, Debug)]
#[must_use = "choose what goes wrong, such as `.drop_reply()`"]
pub struct FaultBuilder {
    operation: Option<String>,
    table: Option<String>,
    pub(super) first: usize,
    pub(super) times: usize,
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("ListTables").nth(2).access_denied());
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// assert!(db.client().list_tables().send().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn nth(mut self, nth: usize) -> Self {
        self.first = nth.max(1);
        self
    }

    /// Applies to this many requests in a row; 1 by default.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// // The SDK makes three attempts: the first two fail, the third succeeds.
    /// let throttled = db.inject(Fault::on("ListTables").times(2).throttle());
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// assert_eq!(throttled.applied_count(), 2);
    /// # Ok(()) }
    /// ```
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Applies to every request, starting with the [`nth`](Self::nth).
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// Loses the request: the connection closes and nothing is applied.
    pub fn drop_request(self) -> Fault {
        self.kind(Kind::DropRequest)
    }

    /// Loses the reply: the request is applied, then the connection closes.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("PutItem").drop_reply());
    /// let put = db.client().put_item().table_name("orders").condition_expression("attribute_not_exists(id)");
    /// let put = put.item("id", AttributeValue::S("o-1".into())).send().await;
    /// assert!(put.is_err(), "the condition of the second attempt fails: the first one wrote the item");
    /// # Ok(()) }
    /// ```
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
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = db.inject(Fault::on("PutItem").hold());
    /// let put = db.client().put_item().table_name("orders").item("id", AttributeValue::S("o-1".into()));
    /// let put = tokio::spawn(put.send());
    /// held.reached().await;
    /// assert!(db.items("orders").await?.is_empty(), "it is not applied yet");
    /// held.release().await;
    /// put.await??;
    /// # Ok(()) }
    /// ```
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

    /// Responds with `InternalServerError` (500), which the SDK retries. Nothing is applied.
    pub fn internal_error(self) -> Fault {
        self.respond_with(500, "InternalServerError")
    }

    /// Responds with `AccessDeniedException` (400), which the SDK does not retry. Nothing is applied.
    pub fn access_denied(self) -> Fault {
        self.respond_with(400, "AccessDeniedException")
    }

    /// Responds with this HTTP status and error code, such as `(400, "RequestLimitExceeded")`. Nothing is applied.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use aws_sdk_dynamodb::error::ProvideErrorMetadata;
    /// db.inject(Fault::on("ListTables").respond_with(400, "ValidationException"));
    /// let error = db.client().list_tables().send().await.unwrap_err();
    /// assert_eq!(error.code(), Some("ValidationException"));
    /// # Ok(()) }
    /// ```
    pub fn respond_with(self, status: u16, error: impl Into<String>) -> Fault {
        self.failed(status, error.into(), false)
    }

    /// Applies the request and responds with `InternalServerError` (500): after a 500 a client cannot know the result.
    pub fn internal_error_although_applied(self) -> Fault {
        self.failed(500, "InternalServerError".to_owned(), true)
    }

    /// Delays the request by this long, by the system clock, then applies it and responds.
    pub fn delay(self, delay: Duration) -> Fault {
        self.kind(Kind::Delay(delay))
    }

    /// Applies the request at once, and sends its reply this much later, by the system clock.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// // Longer than the timeout of one attempt: the client sends the request again.
    /// db.inject(Fault::on("PutItem").delay_reply(Duration::from_secs(2)));
    /// # Ok(()) }
    /// ```
    pub fn delay_reply(self, delay: Duration) -> Fault {
        self.kind(Kind::DelayReply(delay))
    }

    /// Closes the connection now, and applies the request this much later, by the system clock.
    ///
    /// As [`late_arrival`](Self::late_arrival), for a test that does not choose the moment.
    pub fn arrive_after(self, delay: Duration) -> Fault {
        self.kind(Kind::ArriveAfter(delay))
    }

    fn failed(self, status: u16, error: String, applied: bool) -> Fault {
        let message = format!("{error}, injected by a test");
        self.kind(Kind::Respond {
            status,
            error,
            message,
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
///
/// # Examples
///
/// ```no_run
/// # use idempotency_testkit::dynamodb::*;
/// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
/// let denied = db.inject(Fault::on("ListTables").access_denied());
/// assert!(db.client().list_tables().send().await.is_err());
/// assert_eq!(denied.applied_count(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Injected {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    open: watch::Sender<bool>,
    applied: watch::Sender<usize>,
    done: watch::Sender<usize>,
}

impl Injected {
    pub(super) fn new() -> Self {
        Self {
            state: Arc::new(State {
                open: watch::Sender::new(false),
                applied: watch::Sender::new(0),
                done: watch::Sender::new(0),
            }),
        }
    }

    /// Returns the number of requests that the fault has applied to.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let denied = db.inject(Fault::on("ListTables").access_denied());
    /// for _ in 0..3 {
    ///     let _ = db.client().list_tables().send().await;
    /// }
    /// assert_eq!(denied.applied_count(), 1, "a fault applies to one request unless `times` or `always` is set");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn applied_count(&self) -> usize {
        *self.state.applied.borrow()
    }

    /// Waits until the fault has applied to its first request.
    ///
    /// If the fault holds the request, the request is held now. If it drops or holds the reply, the request has been applied.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = db.inject(Fault::on("ListTables").hold());
    /// let tables = tokio::spawn(db.client().list_tables().send());
    /// held.reached().await;
    /// assert_eq!(db.requests().len(), 1);
    /// held.release().await;
    /// tables.await??;
    /// # Ok(()) }
    /// ```
    pub async fn reached(&self) {
        self.reached_times(1).await;
    }

    /// Waits until the fault has applied to this many requests, for example to release two claims at once.
    pub async fn reached_times(&self, times: usize) {
        let mut applied = self.state.applied.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = applied.wait_for(|applied| *applied >= times).await;
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

    pub(super) async fn released(&self) {
        let mut open = self.state.open.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }

    /// Counts the request as processed when the guard is dropped, however the processing ends.
    pub(super) fn processing(&self) -> Processing {
        self.state.applied.send_modify(|applied| *applied += 1);
        Processing(self.clone())
    }
}

pub(super) struct Processing(Injected);

impl Drop for Processing {
    fn drop(&mut self) {
        self.0.state.done.send_modify(|done| *done += 1);
    }
}

/// All active faults, in the order of their injection.
#[derive(Default)]
pub(super) struct Faults(Mutex<Table>);

#[derive(Default)]
struct Table {
    armed: Vec<Armed>,
    choose: Option<Choose>,
}

/// Chooses the fault of a request that no injected fault applies to.
pub(super) type Choose = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: usize,
    injected: Injected,
}

impl Faults {
    pub(super) fn inject(&self, fault: Fault) -> Injected {
        let injected = Injected::new();
        self.table().armed.push(Armed {
            fault,
            seen: 0,
            injected: injected.clone(),
        });
        injected
    }

    pub(super) fn choose(&self, choose: Choose) {
        self.table().choose = Some(choose);
    }

    pub(super) fn clear(&self) {
        *self.table() = Table::default();
    }

    /// Returns the fault that applies to this request: the first injected one, otherwise the chosen one. Every injected
    /// fault that matches counts the request.
    pub(super) fn apply_to(&self, request: &Request) -> Option<(Kind, Injected)> {
        let mut found = None;
        let mut table = self.table();
        for armed in &mut table.armed {
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
            let fault = table.choose.as_mut()?(request)?;
            Some((fault.kind, Injected::new()))
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

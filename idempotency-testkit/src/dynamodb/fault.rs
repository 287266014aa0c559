use super::request::Request;
use std::time::Duration;

/// Something that goes wrong with one request, or with several: built with [`Fault::on`], put in force with
/// [`EmbeddedDynamoDb::inject`](super::EmbeddedDynamoDb::inject).
///
/// ```
/// use idempotency_testkit::dynamodb::Fault;
/// // The second write is applied, but its reply is lost.
/// let lost = Fault::on("UpdateItem").table("idempotency").nth(2).drop_reply();
/// # let _ = lost;
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `EmbeddedDynamoDb::inject`"]
pub struct Fault {
    pub(super) place: FaultBuilder,
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
    Answer {
        status: u16,
        error: String,
        message: String,
        /// Whether the request is applied all the same.
        applied: bool,
    },
}

/// Which requests a [`Fault`] meets: by default the first of the operation that arrives after the injection.
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
    /// Meets requests of one API operation, such as `PutItem`.
    ///
    /// ```
    /// use idempotency_testkit::dynamodb::Fault;
    /// let second_and_third = Fault::on("PutItem").nth(2).times(2).throttle();
    /// # let _ = second_and_third;
    /// ```
    pub fn on(operation: impl Into<String>) -> FaultBuilder {
        FaultBuilder {
            operation: Some(operation.into()),
            ..Self::on_any()
        }
    }

    /// Meets requests of every operation.
    ///
    /// ```
    /// # use idempotency_testkit::dynamodb::Fault;
    /// let outage = Fault::on_any().always().internal_error();
    /// # let _ = outage;
    /// ```
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
    /// Meets requests to one table alone.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("PutItem").table("payments").access_denied());
    /// let put = db.client().put_item().table_name("orders");
    /// assert!(put.item("id", AttributeValue::S("o-1".into())).send().await.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Lets the matching requests before the `nth` pass; counted from 1, from the injection on, retries included.
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

    /// Meets this many requests in a row; 1 by default.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// // The SDK tries three times: twice in vain, then it is answered.
    /// let throttled = db.inject(Fault::on("ListTables").times(2).throttle());
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// assert_eq!(throttled.met(), 2);
    /// # Ok(()) }
    /// ```
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// Meets every request from the [`nth`](Self::nth) on.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// // The SDK tries three times, always in vain.
    /// let throttled = db.inject(Fault::on("ListTables").always().throttle());
    /// assert!(db.client().list_tables().send().await.is_err());
    /// assert_eq!(throttled.met(), 3);
    /// # Ok(()) }
    /// ```
    pub fn always(self) -> Self {
        self.times(usize::MAX)
    }

    /// The request is lost: the connection closes and nothing is applied.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("PutItem").drop_request());
    /// let put = db.client().put_item().table_name("orders");
    /// put.item("id", AttributeValue::S("o-1".into())).send().await?;
    /// let statuses: Vec<_> = db.requests().iter().map(|request| request.status).collect();
    /// assert_eq!(statuses, [None, Some(200)], "the second try was applied");
    /// # Ok(()) }
    /// ```
    pub fn drop_request(self) -> Fault {
        self.kind(Kind::DropRequest)
    }

    /// The reply is lost: the request is applied, then the connection closes.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("PutItem").drop_reply());
    /// let put = db.client().put_item().table_name("orders").condition_expression("attribute_not_exists(id)");
    /// let put = put.item("id", AttributeValue::S("o-1".into())).send().await;
    /// assert!(put.is_err(), "the second try is refused: it meets the item of the first");
    /// # Ok(()) }
    /// ```
    pub fn drop_reply(self) -> Fault {
        self.kind(Kind::DropReply)
    }

    /// The connection closes now, and the request is applied upon [`Injected::release`](super::Injected::release).
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
    /// // The first try arrives now, long after the second was answered.
    /// late.release().await;
    /// assert_eq!(db.items("orders").await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn late_arrival(self) -> Fault {
        self.kind(Kind::LateArrival)
    }

    /// The request waits for [`Injected::release`](super::Injected::release), then is applied and answered.
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

    /// The request is applied at once, and its reply waits for [`Injected::release`](super::Injected::release).
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let held = db.inject(Fault::on("PutItem").hold_reply());
    /// let put = db.client().put_item().table_name("orders").item("id", AttributeValue::S("o-1".into()));
    /// let put = tokio::spawn(put.send());
    /// held.reached().await;
    /// assert_eq!(db.items("orders").await?.len(), 1, "it is applied, and nobody has heard of it");
    /// held.release().await;
    /// put.await??;
    /// # Ok(()) }
    /// ```
    pub fn hold_reply(self) -> Fault {
        self.kind(Kind::HoldReply)
    }

    /// `ProvisionedThroughputExceededException` (400), which the SDK retries; nothing is applied.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("ListTables").throttle());
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// assert_eq!(db.requests().len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn throttle(self) -> Fault {
        self.answer(400, "ProvisionedThroughputExceededException")
    }

    /// `InternalServerError` (500), which the SDK retries; nothing is applied.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("ListTables").internal_error());
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// assert_eq!(db.requests().len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn internal_error(self) -> Fault {
        self.answer(500, "InternalServerError")
    }

    /// `AccessDeniedException` (400), which the SDK does not retry; nothing is applied.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("ListTables").access_denied());
    /// assert!(db.client().list_tables().send().await.is_err());
    /// assert_eq!(db.requests().len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn access_denied(self) -> Fault {
        self.answer(400, "AccessDeniedException")
    }

    /// Any other error of the service, by status and name, such as `(400, "RequestLimitExceeded")`; nothing is applied.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use aws_sdk_dynamodb::error::ProvideErrorMetadata;
    /// db.inject(Fault::on("ListTables").answer(400, "ValidationException"));
    /// let error = db.client().list_tables().send().await.unwrap_err();
    /// assert_eq!(error.code(), Some("ValidationException"));
    /// # Ok(()) }
    /// ```
    pub fn answer(self, status: u16, error: impl Into<String>) -> Fault {
        self.failed(status, error.into(), false)
    }

    /// `InternalServerError` (500) although the request was applied: after a 500 a client cannot know.
    ///
    /// ```no_run
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on("PutItem").times(3).internal_error_although_applied());
    /// let put = db.client().put_item().table_name("orders");
    /// assert!(put.item("id", AttributeValue::S("o-1".into())).send().await.is_err());
    /// assert_eq!(db.items("orders").await?.len(), 1);
    /// # Ok(()) }
    /// ```
    pub fn internal_error_although_applied(self) -> Fault {
        self.failed(500, "InternalServerError".to_owned(), true)
    }

    /// The request waits this long, by the system's clock, then is applied and answered.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::{Duration, Instant};
    /// let (delay, began) = (Duration::from_millis(20), Instant::now());
    /// db.inject(Fault::on("ListTables").delay(delay));
    /// db.client().list_tables().send().await?;
    /// assert!(began.elapsed() >= delay);
    /// # Ok(()) }
    /// ```
    pub fn delay(self, delay: Duration) -> Fault {
        self.kind(Kind::Delay(delay))
    }

    /// The request is applied at once, and its reply is sent this much later, by the system's clock.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// // Longer than the client waits for one send: it sends again.
    /// db.inject(Fault::on("PutItem").delay_reply(Duration::from_secs(2)));
    /// # Ok(()) }
    /// ```
    pub fn delay_reply(self, delay: Duration) -> Fault {
        self.kind(Kind::DelayReply(delay))
    }

    /// The connection closes now, and the request is applied this much later, by the system's clock.
    ///
    /// As [`late_arrival`](Self::late_arrival), for a test that does not choose the moment.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// db.inject(Fault::on("PutItem").arrive_after(Duration::from_millis(100)));
    /// # Ok(()) }
    /// ```
    pub fn arrive_after(self, delay: Duration) -> Fault {
        self.kind(Kind::ArriveAfter(delay))
    }

    fn failed(self, status: u16, error: String, applied: bool) -> Fault {
        let message = format!("{error}, injected by a test");
        self.kind(Kind::Answer {
            status,
            error,
            message,
            applied,
        })
    }

    fn kind(self, kind: Kind) -> Fault {
        Fault { place: self, kind }
    }

    pub(super) fn meets(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, found: Option<&str>| match wanted {
            Some(wanted) => found == Some(wanted),
            None => true,
        };
        same(&self.operation, Some(&request.operation))
            && same(&self.table, request.table.as_deref())
    }
}

//! The handle of an injected fault: counts the requests that it applied to, and releases those that it holds.

use std::sync::Arc;

use tokio::sync::watch;

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

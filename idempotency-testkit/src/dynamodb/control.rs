//! What a test asks of the proxy: what arrived, and what shall go wrong.

use super::{EmbeddedDynamoDb, Fault, Injected, Request};

impl EmbeddedDynamoDb {
    /// Every request that arrived since the start or the last [`clear_requests`](Self::clear_requests), in order of
    /// arrival.
    ///
    /// ```no_run
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.client().list_tables().send().await?;
    /// let operations: Vec<_> = db.requests().into_iter().map(|request| request.operation).collect();
    /// assert_eq!(operations, ["ListTables"]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.proxy.requests()
    }

    /// Forgets the requests noted so far.
    ///
    /// ```no_run
    /// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.client().list_tables().send().await?;
    /// db.clear_requests();
    /// assert!(db.requests().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn clear_requests(&self) {
        self.proxy.clear_requests();
    }

    /// Puts a fault in force. Where several meet one request, the one injected first has it.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let lost = db.inject(Fault::on("ListTables").drop_reply());
    /// db.client().list_tables().send().await?;
    /// assert_eq!(lost.met(), 1);
    /// assert_eq!(db.requests().len(), 2, "the SDK sent it again");
    /// # Ok(()) }
    /// ```
    pub fn inject(&self, fault: Fault) -> Injected {
        self.proxy.faults.inject(fault)
    }

    /// Asks `choose` about each request that no injected fault meets, such as one in ten by a seeded chance.
    ///
    /// Where the fault it returns would strike does not count: `choose` has seen the request. Replaces what was chosen with
    /// before. `choose` must not wait; requests are asked about one at a time.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut number = 0;
    /// db.inject_chosen(move |_request| {
    ///     number += 1;
    ///     (number % 2 == 1).then(|| Fault::on_any().throttle())
    /// });
    /// db.client().list_tables().send().await?;
    /// assert_eq!(db.requests().len(), 2, "the SDK sent it again");
    /// # Ok(()) }
    /// ```
    pub fn inject_chosen(&self, choose: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.proxy.faults.choose(Box::new(choose));
    }

    /// Takes all faults out of force. Requests that one of them holds go on waiting for their release.
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// db.inject(Fault::on_any().always().access_denied());
    /// assert!(db.client().list_tables().send().await.is_err());
    /// db.clear_faults();
    /// assert!(db.client().list_tables().send().await.is_ok());
    /// # Ok(()) }
    /// ```
    pub fn clear_faults(&self) {
        self.proxy.faults.clear();
    }
}

//! Methods for the test: which requests arrived, and which faults to inject.

use super::{EmbeddedDynamoDb, Fault, Injected, Request};

impl EmbeddedDynamoDb {
    /// Returns every request since the start or the last [`clear_requests`](Self::clear_requests), in order of arrival.
    ///
    /// # Examples
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
    pub fn clear_requests(&self) {
        self.proxy.clear_requests();
    }

    /// Activates a fault. If several faults match a request, the one that was injected first applies.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use idempotency_testkit::dynamodb::*;
    /// # async fn example(db: EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
    /// let fault = db.inject(Fault::on("ListTables").drop_reply());
    /// db.client().list_tables().send().await?;
    /// assert_eq!(fault.applied_count(), 1);
    /// assert_eq!(db.requests().len(), 2, "the SDK sent it again");
    /// # Ok(()) }
    /// ```
    pub fn inject(&self, fault: Fault) -> Injected {
        self.proxy.faults.inject(fault)
    }

    /// Calls `choose` for each request that no injected fault applies to, for example to fail one in ten at random.
    ///
    /// The [`FaultBuilder`](super::FaultBuilder)'s own conditions are ignored, because `choose` has seen the request. A later
    /// call replaces `choose`. `choose` must not block; it is called for one request at a time.
    ///
    /// # Examples
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

    /// Removes all faults. Requests that a fault holds still wait for their release.
    pub fn clear_faults(&self) {
        self.proxy.faults.clear();
    }
}

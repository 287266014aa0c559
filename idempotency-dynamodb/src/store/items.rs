//! The items of the table: their keys, and the requests that read one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idempotency_core::store::{SendLog, StoreError};

use crate::limits::{LONGEST_PARTITION, LONGEST_SORT};
use crate::names::{AttributeNames, Composite};
use crate::request::{GET, Request, Shapes};
use crate::sends::Sends;
use crate::table::TableRef;
use crate::transport::{Reply, Transport};
use crate::value::{Item, NamedValue, Value};

/// The id that a warm-up reads. No record has it, because record ids end with a hexadecimal digest.
pub(super) const WARM_UP_ID: &str = "#warm-up";

/// The items of one table, and the client that sends the requests for them.
pub(crate) struct Items {
    pub(super) transport: Transport,
    pub(super) table: Arc<TableRef>,
    pub(super) names: AttributeNames,
    pub(super) composite: Option<Composite>,
    /// The expressions of the requests, without their values.
    pub(super) shapes: Shapes,
    /// True if a read has shown that the table has the configured keys.
    keys_checked: AtomicBool,
}

impl Items {
    pub(crate) fn new(
        transport: Transport,
        table: TableRef,
        names: AttributeNames,
        composite: Option<Composite>,
    ) -> Self {
        Self {
            transport,
            table: Arc::new(table),
            shapes: Shapes::new(names.clone()),
            names,
            composite,
            keys_checked: AtomicBool::new(false),
        }
    }

    /// Reads once before the first write to a table with a sort key, to check that the table has one. Without a sort key every
    /// record would be the same item, and DynamoDB would accept the writes.
    ///
    /// A successful read is remembered, also that of the store's `warm_up`. A read that fails for another reason does
    /// not count.
    pub(super) async fn check_keys(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.composite.is_none() || self.keys_checked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.get(WARM_UP_ID, false, log).await.map(drop)
    }

    /// Returns the key attributes of the record under `id`, with space for `more` attributes.
    pub(super) fn key<'a>(&'a self, id: &'a str, more: usize) -> Vec<NamedValue<'a>> {
        let mut attributes = Vec::with_capacity(2 + more);
        let key = self.names.key.as_str();
        match &self.composite {
            None => attributes.push((key, Value::Text(id))),
            Some(Composite {
                sort_key,
                partition,
            }) => attributes.extend([
                (key, Value::Text(partition)),
                (sort_key.as_str(), Value::Text(id)),
            ]),
        }
        attributes
    }

    /// Returns the length of the longest id, in bytes.
    pub(super) fn longest_id(&self) -> usize {
        self.composite
            .as_ref()
            .map_or(LONGEST_PARTITION, |_| LONGEST_SORT)
    }

    /// Reads an item, and remembers that the table has the configured keys.
    pub(super) async fn get(
        &self,
        id: &str,
        consistent: bool,
        log: &SendLog,
    ) -> Result<Option<Item>, StoreError> {
        let sends = Sends::new(log, &self.table, GET);
        let key = self.key(id, 0);
        let request = Request::Get { key, consistent };
        let item = self.read_item(request, &sends).await?;
        self.keys_checked.store(true, Ordering::Release);
        Ok(item)
    }

    /// Sends a read. A failed condition is an error: a read has none, and no item must be inferred from it.
    pub(super) async fn read_item(
        &self,
        request: Request<'_>,
        sends: &Sends,
    ) -> Result<Option<Item>, StoreError> {
        match self.transport.send(request, sends).await? {
            Reply::Success(item) => Ok(item),
            Reply::ConditionFailed(_) => Err(self.table.read_refused()),
        }
    }
}

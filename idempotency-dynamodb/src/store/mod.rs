//! The store: one request for each operation, unless the SDK has to send again.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::SdkConfig;
use idempotency_core::config::ConfigurationError;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::RecordId;
use idempotency_core::store::{
    Consistency, ReadOutcome, SendLog, Store, StoreError, Write, WriteOutcome,
};

use crate::attribute_names::AttributeNames;
use crate::builder::DynamoDbStoreBuilder;
use crate::composite::Composite;
use crate::item::{self, Item};
use crate::request::{Attribute, Request, Shapes, Value};
use crate::sends::{READ, Sends};
use crate::size;
use crate::table_ref::TableRef;
use crate::transport::{Reply, Transport};

/// The id that a warm-up reads. No record has it, because record ids end with a hexadecimal digest.
const WARM_UP_ID: &str = "#warm-up";

/// A store of records in a DynamoDB table.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_core::store::Store;
/// use idempotency_dynamodb::DynamoDbStore;
///
/// let client = idempotency_dynamodb::default_client().await?;
/// let store = DynamoDbStore::builder().table("idempotency").client(client).build()?;
/// store.warm_up().await?;
/// # Ok(())
/// # }
/// ```
pub struct DynamoDbStore {
    transport: Transport,
    table_ref: Arc<TableRef>,
    names: AttributeNames,
    composite: Option<Composite>,
    /// The expressions of the requests, without their values.
    shapes: Shapes,
    /// True if a read has shown that the table has the configured keys.
    keys_checked: AtomicBool,
}

impl DynamoDbStore {
    /// Returns a builder without settings.
    pub fn builder() -> DynamoDbStoreBuilder {
        DynamoDbStoreBuilder::default()
    }

    /// Builds a store with the default attribute names, on a client from this configuration (see
    /// [`DynamoDbStoreBuilder::sdk_config`]).
    ///
    /// # Errors
    ///
    /// If the table name is empty, or if the configuration has no region.
    pub fn from_sdk_config(
        config: &SdkConfig,
        table: impl Into<String>,
    ) -> Result<Self, ConfigurationError> {
        Self::builder().table(table).sdk_config(config).build()
    }

    /// Returns the name or ARN of the table.
    pub fn table(&self) -> &str {
        &self.table_ref.table
    }

    pub(crate) fn new(
        transport: Transport,
        table_ref: TableRef,
        names: AttributeNames,
        composite: Option<Composite>,
    ) -> Self {
        Self {
            transport,
            table_ref: Arc::new(table_ref),
            names,
            composite,
            shapes: Shapes::default(),
            keys_checked: AtomicBool::new(false),
        }
    }

    /// Reads once before the first write to a table with a sort key, to check that the table has one. Without it every record
    /// would be the same item, and DynamoDB would accept the writes.
    ///
    /// A successful read is remembered, also that of [`warm_up`](Store::warm_up). A read that fails for another reason does
    /// not count.
    async fn check_keys(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.composite.is_none() || self.keys_checked.load(Ordering::Acquire) {
            return Ok(());
        }
        self.get(WARM_UP_ID, false, log).await.map(drop)
    }

    /// Returns the key attributes of the record under `id`.
    fn key<'a>(&'a self, id: &'a str) -> Vec<Attribute<'a>> {
        let key = self.names.key.as_str();
        match &self.composite {
            None => vec![(key, Value::Text(id))],
            Some(Composite {
                sort_key,
                partition,
            }) => vec![
                (key, Value::Text(partition)),
                (sort_key.as_str(), Value::Text(id)),
            ],
        }
    }

    /// Reads an item, and remembers that the table has the configured keys.
    async fn get(
        &self,
        id: &str,
        consistent: bool,
        log: &SendLog,
    ) -> Result<Option<Item>, StoreError> {
        let sends = Sends::new(log, &self.table_ref, READ);
        let key = self.key(id);
        let request = Request::Get { key, consistent };
        let (Reply::Success(item) | Reply::ConditionFailed(item)) =
            self.transport.send(request, &sends).await?;
        self.keys_checked.store(true, Ordering::Release);
        Ok(item)
    }

    /// Performs a write, after a check of the table's keys if there was none.
    async fn perform(
        &self,
        id: &RecordId,
        write: &Write,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        if matches!(write, Write::Put(_))
            && let Err(error) = self.check_keys(log).await
        {
            return WriteOutcome::Failed {
                maybe_applied: false,
                error,
            };
        }
        let sends = Sends::new(log, &self.table_ref, action(write));
        let request = match self.request(id, write, condition) {
            Ok(request) => request,
            Err(error) => {
                return WriteOutcome::Failed {
                    maybe_applied: false,
                    error,
                };
            }
        };
        let reply = self.transport.send(request, &sends).await;
        match reply {
            Ok(Reply::Success(replaced)) => {
                if let Some(replaced) = replaced {
                    log.replaced(item::record(replaced, &self.names));
                }
                WriteOutcome::Applied
            }
            Ok(Reply::ConditionFailed(existing)) => WriteOutcome::ConditionFailed {
                existing: existing
                    .filter(|item| !item.is_empty())
                    .map(|item| item::record(item, &self.names)),
                maybe_applied: sends.maybe_applied(),
            },
            Err(error) => WriteOutcome::Failed {
                maybe_applied: sends.maybe_applied(),
                error,
            },
        }
    }

    /// Returns the request of a write.
    ///
    /// # Errors
    ///
    /// If the record is too large. The attributes that an update keeps are not known here; DynamoDB counts them.
    fn request<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
    ) -> Result<Request<'a>, StoreError> {
        let key = self.key(id.as_str());
        Ok(match write {
            Write::Put(record) => {
                let mut item = key;
                let attributes = item::attributes(record);
                item.extend(attributes.map(|(attribute, value)| (self.names.of(attribute), value)));
                self.fits(item.iter().copied())?;
                Request::Put {
                    item,
                    expressions: self.shapes.condition(&self.names, condition),
                    // A claim brings back what it replaces, at no cost: then a takeover is known.
                    returns_replaced: *condition != Condition::NoRecord,
                    returns_existing: true,
                }
            }
            Write::Update(change) => {
                let set: Vec<_> = item::attributes(&change.set).collect();
                let attributes = set
                    .iter()
                    .map(|(attribute, value)| (self.names.of(*attribute), *value));
                let attributes = attributes.chain(key.iter().copied());
                self.fits(attributes)?;
                let shapes = &self.shapes;
                Request::Update {
                    key,
                    expressions: shapes.update(&self.names, &set, &change.remove, condition),
                }
            }
            Write::Delete => Request::Delete {
                key,
                expressions: self.shapes.condition(&self.names, condition),
            },
        })
    }

    fn fits<'a>(
        &self,
        attributes: impl IntoIterator<Item = Attribute<'a>>,
    ) -> Result<(), StoreError> {
        let bytes = size::of(attributes);
        if bytes > size::LARGEST {
            return Err(self.table_ref.too_large(bytes));
        }
        Ok(())
    }
}

/// Returns the IAM action of a write.
fn action(write: &Write) -> &'static str {
    match write {
        Write::Put(_) => "dynamodb:PutItem",
        Write::Update(_) => "dynamodb:UpdateItem",
        Write::Delete => "dynamodb:DeleteItem",
    }
}

impl Store for DynamoDbStore {
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        Box::pin(self.perform(id, write, condition, log))
    }

    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        consistency: Consistency,
        log: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            let consistent = consistency == Consistency::Strong;
            match self.get(id.as_str(), consistent, log).await {
                Ok(Some(item)) => ReadOutcome::Found(item::record(item, &self.names)),
                Ok(None) => ReadOutcome::NotFound,
                Err(error) => ReadOutcome::Failed(error),
            }
        })
    }

    /// Returns the table, and the endpoint if it is not one of AWS.
    fn name(&self) -> String {
        match self.table_ref.configured_endpoint() {
            Some(endpoint) => format!("DynamoDB table `{}` at {endpoint}", self.table()),
            None => format!("DynamoDB table `{}`", self.table()),
        }
    }

    /// Reads a key that no record has; the cost is 0.5 read units. This connects, fetches credentials, and detects a missing
    /// table, other keys or a denied `dynamodb:GetItem` before the first event. On a table with a sort key the first claim
    /// makes this read if there was none before.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.get(WARM_UP_ID, false, &SendLog::new()).await.map(drop) })
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("table", &self.table_ref.table)
            .field("region", &self.table_ref.region)
            .finish_non_exhaustive()
    }
}

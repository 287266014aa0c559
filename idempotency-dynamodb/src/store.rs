//! The store: one request an operation, unless the SDK has to send again.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::get_item::{GetItemError, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use idempotency_core::config::ConfigurationError;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{
    Change, ReadOutcome, SendLog, Store, StoreError, Write, WriteOutcome,
};

use crate::attempts::{Attempts, CONDITION_FAILED, READ};
use crate::attribute_names::AttributeNames;
use crate::builder::{Composite, DynamoDbStoreBuilder};
use crate::expression::Expressions;
use crate::item::{self, Item};
use crate::size;
use crate::table_ref::TableRef;

/// The id that a warm-up reads. Records end with a hex digest, so none has it.
const NOBODY: &str = "#warm-up";

/// Brings the old record back with a refusal, at no cost in reads.
const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// Records in a DynamoDB table.
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
    client: Client,
    place: Arc<TableRef>,
    names: AttributeNames,
    composite: Option<Composite>,
    /// Whether a request has shown that the table has the keys that are configured.
    keys_are_right: AtomicBool,
}

impl DynamoDbStore {
    /// The settings of a store, to be filled in.
    ///
    /// ```
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let error = DynamoDbStore::builder().build().unwrap_err();
    /// assert!(error.to_string().contains("set IDEMPOTENCY_TABLE"));
    /// ```
    pub fn builder() -> DynamoDbStoreBuilder {
        DynamoDbStoreBuilder::default()
    }

    /// A store with the default names, on a client from a configuration of the caller's.
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// assert_eq!(DynamoDbStore::from_sdk_config(&config, "idempotency")?.table(), "idempotency");
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// If the table's name is empty, or the configuration has no region.
    pub fn from_sdk_config(
        config: &SdkConfig,
        table: impl Into<String>,
    ) -> Result<Self, ConfigurationError> {
        Self::builder().table(table).sdk_config(config).build()
    }

    /// The table's name.
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// # let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// assert_eq!(DynamoDbStore::from_sdk_config(&config, "payments")?.table(), "payments");
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn table(&self) -> &str {
        &self.place.table
    }

    pub(crate) fn new(
        client: Client,
        place: TableRef,
        names: AttributeNames,
        composite: Option<Composite>,
    ) -> Self {
        Self {
            client,
            place: Arc::new(place),
            names,
            composite,
            keys_are_right: AtomicBool::new(false),
        }
    }

    /// Refuses the first write to a table with a sort key until a read has shown that the table has one: without it every
    /// record would be the same item, and DynamoDB would take the writes. The read is remembered once it succeeds, so a
    /// read that fails for another reason does not count, and [`warm_up`](Store::warm_up) spares it the first call.
    async fn check_keys(&self, log: &SendLog) -> Result<(), StoreError> {
        if self.composite.is_none() || self.keys_are_right.load(Ordering::Acquire) {
            return Ok(());
        }
        self.get(NOBODY, false, log).await.map(drop)
    }

    /// The key attributes of the record under `id`.
    fn key(&self, id: &str) -> Item {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        match &self.composite {
            None => Item::from([(self.names.key.clone(), text(id))]),
            Some(Composite {
                sort_key,
                partition,
            }) => Item::from([
                (self.names.key.clone(), text(partition)),
                (sort_key.clone(), text(id)),
            ]),
        }
    }

    /// Refuses a record that DynamoDB would not take, before it is sent. What an update leaves in place is not known
    /// here: DynamoDB counts that.
    fn fits(
        &self,
        key: &Item,
        attributes: &[(Attribute, AttributeValue)],
    ) -> Result<(), StoreError> {
        let key = key.iter().map(|(name, value)| size::attribute(name, value));
        let attributes = attributes.iter();
        let attributes =
            attributes.map(|(attribute, value)| size::attribute(self.names.of(*attribute), value));
        let bytes = key.chain(attributes).sum();
        if bytes > size::LARGEST {
            return Err(self.place.too_large(bytes));
        }
        Ok(())
    }

    /// What a write came to. `item` takes the old item out of a refusal.
    fn came_to<T, E>(
        &self,
        attempts: &Attempts<E>,
        result: Result<T, SdkError<E>>,
        item: impl FnOnce(E) -> Option<Item>,
    ) -> WriteOutcome
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let error = match result {
            Ok(_) => return WriteOutcome::Applied,
            Err(error) => error,
        };
        let maybe_applied = attempts.maybe_applied();
        match error {
            SdkError::ServiceError(refusal) if refusal.err().code() == Some(CONDITION_FAILED) => {
                let existing = item(refusal.into_err()).filter(|item| !item.is_empty());
                WriteOutcome::ConditionFailed {
                    existing: existing.map(|item| item::record(item, &self.names)),
                    maybe_applied,
                }
            }
            error => WriteOutcome::Failed {
                maybe_applied,
                error: self.place.error(attempts.action(), error, attempts.sent()),
            },
        }
    }

    async fn get(
        &self,
        id: &str,
        consistent: bool,
        log: &SendLog,
    ) -> Result<GetItemOutput, StoreError> {
        let attempts = Attempts::<GetItemError>::new(log, &self.place, READ);
        let request = self.client.get_item().table_name(self.table());
        let request = request
            .set_key(Some(self.key(id)))
            .consistent_read(consistent);
        let result = request
            .customize()
            .interceptor(attempts.clone())
            .send()
            .await;
        match result {
            Ok(output) => {
                self.keys_are_right.store(true, Ordering::Release);
                Ok(output)
            }
            Err(error) => Err(self.place.error(READ, error, attempts.sent())),
        }
    }

    async fn put_item(
        &self,
        id: &RecordId,
        record: &Record,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        if let Err(error) = self.check_keys(log).await {
            return WriteOutcome::Failed {
                maybe_applied: false,
                error,
            };
        }
        let attempts = Attempts::new(log, &self.place, "dynamodb:PutItem");
        let (mut item, attributes) = (self.key(id.as_str()), item::attributes(record));
        if let Err(error) = self.fits(&item, &attributes) {
            return WriteOutcome::Failed {
                maybe_applied: false,
                error,
            };
        }
        let attributes = attributes.into_iter();
        item.extend(
            attributes.map(|(attribute, value)| (self.names.of(attribute).to_owned(), value)),
        );
        let mut expressions = Expressions::new(&self.names);
        let condition = expressions.condition(condition);
        let request = self
            .client
            .put_item()
            .table_name(self.table())
            .set_item(Some(item));
        let request = request
            .condition_expression(condition)
            .set_expression_attribute_names(expressions.names())
            .set_expression_attribute_values(expressions.values())
            .return_values_on_condition_check_failure(ALL_OLD);
        let result = request
            .customize()
            .interceptor(attempts.clone())
            .send()
            .await;
        self.came_to(&attempts, result, |error| match error {
            PutItemError::ConditionalCheckFailedException(refusal) => refusal.item,
            _ => None,
        })
    }

    async fn update_item(
        &self,
        id: &RecordId,
        change: &Change,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        let attempts = Attempts::new(log, &self.place, "dynamodb:UpdateItem");
        let (key, set) = (self.key(id.as_str()), item::attributes(&change.set));
        if let Err(error) = self.fits(&key, &set) {
            return WriteOutcome::Failed {
                maybe_applied: false,
                error,
            };
        }
        let mut expressions = Expressions::new(&self.names);
        let update = expressions.update(set, &change.remove);
        let condition = expressions.condition(condition);
        let request = self.client.update_item().table_name(self.table());
        let request = request
            .set_key(Some(key))
            .set_update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(expressions.names())
            .set_expression_attribute_values(expressions.values())
            .return_values_on_condition_check_failure(ALL_OLD);
        let result = request
            .customize()
            .interceptor(attempts.clone())
            .send()
            .await;
        self.came_to(&attempts, result, |error| match error {
            UpdateItemError::ConditionalCheckFailedException(refusal) => refusal.item,
            _ => None,
        })
    }

    async fn delete_item(
        &self,
        id: &RecordId,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        let attempts = Attempts::new(log, &self.place, "dynamodb:DeleteItem");
        let mut expressions = Expressions::new(&self.names);
        let condition = expressions.condition(condition);
        let request = self.client.delete_item().table_name(self.table());
        let request = request
            .set_key(Some(self.key(id.as_str())))
            .condition_expression(condition)
            .set_expression_attribute_names(expressions.names())
            .set_expression_attribute_values(expressions.values())
            .return_values_on_condition_check_failure(ALL_OLD);
        let result = request
            .customize()
            .interceptor(attempts.clone())
            .send()
            .await;
        self.came_to(&attempts, result, |error| match error {
            DeleteItemError::ConditionalCheckFailedException(refusal) => refusal.item,
            _ => None,
        })
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
        match write {
            Write::Put(record) => Box::pin(self.put_item(id, record, condition, log)),
            Write::Update(change) => Box::pin(self.update_item(id, change, condition, log)),
            Write::Delete => Box::pin(self.delete_item(id, condition, log)),
        }
    }

    fn read<'a>(&'a self, id: &'a RecordId, log: &'a SendLog) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            match self.get(id.as_str(), true, log).await {
                Ok(output) => match output.item {
                    Some(item) => ReadOutcome::Found(item::record(item, &self.names)),
                    None => ReadOutcome::NotFound,
                },
                Err(error) => ReadOutcome::Failed(error),
            }
        })
    }

    /// The table, and the endpoint where it is not AWS's own.
    fn name(&self) -> String {
        match self.place.configured_endpoint() {
            Some(endpoint) => format!("DynamoDB table `{}` at {endpoint}", self.table()),
            None => format!("DynamoDB table `{}`", self.table()),
        }
    }

    /// Reads a key that no record has, at 0.5 read units: it connects, fetches credentials, and meets a missing table,
    /// other keys or a denied `dynamodb:GetItem` before the first event does. On a table with a sort key the first claim
    /// makes this request where nothing was read before.
    fn warm_up(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.get(NOBODY, false, &SendLog::new()).await.map(drop) })
    }
}

impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("table", &self.place.table)
            .field("region", &self.place.region)
            .finish_non_exhaustive()
    }
}

//! The store: one request for each operation, unless the SDK has to send again.

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
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use idempotency_core::config::ConfigurationError;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{
    Change, Consistency, ReadOutcome, SendLog, Store, StoreError, Write, WriteOutcome,
};

use crate::attribute_names::AttributeNames;
use crate::builder::DynamoDbStoreBuilder;
use crate::composite::Composite;
use crate::expression::Expressions;
use crate::item::{self, Item};
use crate::sends::{CONDITION_FAILED, READ, Sends};
use crate::size;
use crate::table_ref::TableRef;

/// The id that a warm-up reads. No record has it, because record ids end with a hexadecimal digest.
const WARM_UP_ID: &str = "#warm-up";

/// Returns the present record with a failed condition, without the cost of a read.
const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

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
    client: Client,
    table_ref: Arc<TableRef>,
    names: AttributeNames,
    composite: Option<Composite>,
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
        client: Client,
        table_ref: TableRef,
        names: AttributeNames,
        composite: Option<Composite>,
    ) -> Self {
        Self {
            client,
            table_ref: Arc::new(table_ref),
            names,
            composite,
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

    /// Checks before a request that the record is not too large. The attributes that an update keeps are not known here;
    /// DynamoDB counts them.
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
            return Err(self.table_ref.too_large(bytes));
        }
        Ok(())
    }

    /// Returns the outcome of a write. `item` takes the present item out of a failed condition.
    fn outcome<T, E>(
        &self,
        sends: &Sends<E>,
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
        let maybe_applied = sends.maybe_applied();
        match error {
            SdkError::ServiceError(failure) if failure.err().code() == Some(CONDITION_FAILED) => {
                let existing = item(failure.into_err()).filter(|item| !item.is_empty());
                WriteOutcome::ConditionFailed {
                    existing: existing.map(|item| item::record(item, &self.names)),
                    maybe_applied,
                }
            }
            error => WriteOutcome::Failed {
                maybe_applied,
                error: self.table_ref.error(sends.action(), error, sends.sent()),
            },
        }
    }

    /// Reads an item, and remembers that the table has the configured keys.
    async fn get(
        &self,
        id: &str,
        consistent: bool,
        log: &SendLog,
    ) -> Result<GetItemOutput, StoreError> {
        let sends = Sends::<GetItemError>::new(log, &self.table_ref, READ);
        let request = self.client.get_item().table_name(self.table());
        let request = request
            .set_key(Some(self.key(id)))
            .consistent_read(consistent);
        let result = request.customize().interceptor(sends.clone()).send().await;
        match result {
            Ok(output) => {
                self.keys_checked.store(true, Ordering::Release);
                Ok(output)
            }
            Err(error) => Err(self.table_ref.error(READ, error, sends.sent())),
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
        let sends = Sends::new(log, &self.table_ref, "dynamodb:PutItem");
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
        // A claim brings back what it replaces, at no cost: then a takeover is known.
        let replaces = *condition != Condition::NoRecord;
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
            .return_values_on_condition_check_failure(ALL_OLD)
            .set_return_values(replaces.then_some(ReturnValue::AllOld));
        let mut result = request.customize().interceptor(sends.clone()).send().await;
        if let Ok(output) = &mut result
            && let Some(replaced) = output.attributes.take()
        {
            log.replaced(item::record(replaced, &self.names));
        }
        self.outcome(&sends, result, |error| match error {
            PutItemError::ConditionalCheckFailedException(failure) => failure.item,
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
        let sends = Sends::new(log, &self.table_ref, "dynamodb:UpdateItem");
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
        let result = request.customize().interceptor(sends.clone()).send().await;
        self.outcome(&sends, result, |error| match error {
            UpdateItemError::ConditionalCheckFailedException(failure) => failure.item,
            _ => None,
        })
    }

    async fn delete_item(
        &self,
        id: &RecordId,
        condition: &Condition,
        log: &SendLog,
    ) -> WriteOutcome {
        let sends = Sends::new(log, &self.table_ref, "dynamodb:DeleteItem");
        let mut expressions = Expressions::new(&self.names);
        let condition = expressions.condition(condition);
        let request = self.client.delete_item().table_name(self.table());
        let request = request
            .set_key(Some(self.key(id.as_str())))
            .condition_expression(condition)
            .set_expression_attribute_names(expressions.names())
            .set_expression_attribute_values(expressions.values())
            .return_values_on_condition_check_failure(ALL_OLD);
        let result = request.customize().interceptor(sends.clone()).send().await;
        self.outcome(&sends, result, |error| match error {
            DeleteItemError::ConditionalCheckFailedException(failure) => failure.item,
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

    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        consistency: Consistency,
        log: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome> {
        Box::pin(async move {
            let consistent = consistency == Consistency::Strong;
            match self.get(id.as_str(), consistent, log).await {
                Ok(output) => match output.item {
                    Some(item) => ReadOutcome::Found(item::record(item, &self.names)),
                    None => ReadOutcome::NotFound,
                },
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

//! A factory of stores on one DynamoDB table, for the conformance suite.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::{Staged, Store};
use idempotency_dynamodb::{DynamoDbStore, LeanClient, transact};
use idempotency_lambda::BoxError;
use idempotency_testkit::conformance::{ForeignRecord, ForeignValue, StoreFactory};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};
use idempotency_testkit::store::StoreOperation;

use crate::has_sdk_client;

/// The size limit of an item, in bytes.
const LARGEST: usize = 400 * 1024;

/// The largest response of Lambda, in bytes.
const LARGEST_RESPONSE: usize = 6_291_556;

/// Makes stores on one DynamoDB table.
pub struct TableFactory {
    client: Client,
    table: String,
    /// The name of the sort key and the value of the partition key.
    composite: Option<(String, String)>,
    /// True if large responses are compressed and split.
    large: bool,
    /// True if the stores have the lean client.
    lean: bool,
    /// The embedded database, if replies can be lost.
    database: Option<Arc<EmbeddedDynamoDb>>,
}

impl TableFactory {
    /// Returns a factory of stores on this table, which has a partition key alone. They have the client that this test program tests.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            composite: None,
            large: false,
            lean: !has_sdk_client(),
            database: None,
        }
    }

    /// Sets the sort key of the table, and the partition of the stores.
    #[must_use]
    pub fn composite(self, sort_key: &str, partition: &str) -> Self {
        let composite = Some((sort_key.to_owned(), partition.to_owned()));
        Self { composite, ..self }
    }

    /// Lets the stores compress and split large responses.
    #[must_use]
    pub fn with_large_responses(self) -> Self {
        Self {
            large: true,
            ..self
        }
    }

    /// Sets whether the stores have the lean client.
    #[must_use]
    pub fn lean(self, lean: bool) -> Self {
        Self { lean, ..self }
    }

    /// Lets the suite lose replies of this database.
    #[must_use]
    pub fn losing_replies(self, database: &Arc<EmbeddedDynamoDb>) -> Self {
        let database = Some(Arc::clone(database));
        Self { database, ..self }
    }

    fn key(&self, id: &RecordId) -> HashMap<String, AttributeValue> {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        match &self.composite {
            None => [("id".to_owned(), text(id.as_str()))].into(),
            Some((sort_key, partition)) => [
                ("id".to_owned(), text(partition)),
                (sort_key.clone(), text(id.as_str())),
            ]
            .into(),
        }
    }
}

impl StoreFactory for TableFactory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        Box::pin(async move {
            // Not the subject here: an emulator does not say whether it encrypts.
            let store = DynamoDbStore::builder()
                .table(&self.table)
                .unencrypted_events(true);
            let store = if self.large {
                store
            } else {
                store.compress_above(None).split_large_responses(false)
            };
            let client = self.client.clone();
            let store = if self.lean {
                store.lean_client(LeanClient::new(client))
            } else {
                store.client(client)
            };
            let store = match &self.composite {
                None => store,
                Some((sort_key, partition)) => store.composite_key(sort_key, partition),
            };
            let store: Arc<dyn Store> = Arc::new(store.build()?);
            Ok(store)
        })
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        Some(Box::pin(async move {
            let mut item = self.key(id);
            item.extend(
                foreign
                    .attributes
                    .iter()
                    .map(|(name, value)| (name.clone(), attribute(value))),
            );
            let put = self.client.put_item().table_name(&self.table);
            put.set_item(Some(item)).send().await?;
            Ok(())
        }))
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        let Some(database) = &self.database else {
            return false;
        };
        let operation = match operation {
            StoreOperation::Put => "PutItem",
            StoreOperation::Update => "UpdateItem",
            StoreOperation::Delete => "DeleteItem",
            StoreOperation::Transact => "TransactWriteItems",
            StoreOperation::Read => "GetItem",
            _ => return false,
        };
        database.inject(Fault::on(operation).drop_reply());
        true
    }

    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let number = |number: u32| AttributeValue::N(number.to_string());
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(self.key(&RecordId::new(name))))
            .update_expression("ADD taken :one")
            .condition_expression("attribute_not_exists(taken) OR taken < :limit")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":limit", number(limit))
            .build()
            .ok()?;
        transact::staged([TransactWriteItem::builder().update(update).build()]).ok()
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        Box::pin(async move {
            let key = self.key(&RecordId::new(name));
            let get = self.client.get_item().table_name(&self.table);
            let got = get.set_key(Some(key)).consistent_read(true);
            let item = got.send().await?.item;
            match item.as_ref().and_then(|item| item.get("taken")) {
                Some(AttributeValue::N(taken)) => Ok(taken.parse()?),
                _ => Ok(0),
            }
        })
    }

    fn largest_record(&self) -> Option<usize> {
        (!self.large).then_some(LARGEST)
    }

    fn largest_response(&self) -> Option<usize> {
        self.large.then_some(LARGEST_RESPONSE)
    }
}

fn attribute(value: &ForeignValue) -> AttributeValue {
    match value {
        ForeignValue::Text(text) => AttributeValue::S(text.clone()),
        ForeignValue::Number(number) => AttributeValue::N(number.clone()),
        ForeignValue::Bool(value) => AttributeValue::Bool(*value),
        ForeignValue::Bytes(bytes) => AttributeValue::B(Blob::new(bytes.clone())),
        ForeignValue::List(values) => AttributeValue::L(values.iter().map(attribute).collect()),
        ForeignValue::Map(values) => {
            let values = values
                .iter()
                .map(|(name, value)| (name.clone(), attribute(value)));
            AttributeValue::M(values.collect())
        }
        _ => AttributeValue::Null(true),
    }
}

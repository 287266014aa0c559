//! Tables and items: what a test creates, writes and reads directly, so that it is not counted and no fault applies.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::io;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, SseSpecification, SseType, TimeToLiveSpecification,
};

use super::EmbeddedDynamoDb;

impl EmbeddedDynamoDb {
    /// Creates a table. It can be used at once.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Refused`] if the table exists already or a name is not allowed.
    pub async fn create_table(&self, table: TableSpec) -> Result<(), DatabaseError> {
        let client = self.direct.clone();
        let create = async move {
            let partition = Some((table.partition_key, KeyType::Hash));
            let sort = table.sort_key.map(|attribute| (attribute, KeyType::Range));
            let keys: Vec<_> = partition.into_iter().chain(sort).collect();
            let create = client
                .create_table()
                .table_name(&table.name)
                .billing_mode(BillingMode::PayPerRequest)
                .set_sse_specification(table.encrypted.then(encryption))
                .set_attribute_definitions(Some(keys.iter().filter_map(definition).collect()))
                .set_key_schema(Some(keys.iter().filter_map(key).collect()));
            create
                .send()
                .await
                .map_err(|error| DatabaseError::refused("CreateTable", &table.name, error))?;
            if let Some(attribute) = table.ttl {
                let ttl = TimeToLiveSpecification::builder()
                    .attribute_name(attribute)
                    .enabled(true)
                    .build();
                client
                    .update_time_to_live()
                    .table_name(&table.name)
                    .set_time_to_live_specification(ttl.ok())
                    .send()
                    .await
                    .map_err(|error| {
                        DatabaseError::refused("UpdateTimeToLive", &table.name, error)
                    })?;
            }
            Ok(())
        };
        self.in_background(create).await
    }

    /// Writes an item without a condition; replaces the item that has this key.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Refused`] if there is no such table or a key attribute is missing.
    pub async fn put<K>(
        &self,
        table: &str,
        item: impl IntoIterator<Item = (K, AttributeValue)>,
    ) -> Result<(), DatabaseError>
    where
        K: Into<String>,
    {
        let item: Item = item
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        let put = self
            .direct
            .put_item()
            .table_name(table)
            .set_item(Some(item));
        let put = self
            .in_background(async move { Ok(put.send().await) })
            .await?;
        put.map(drop)
            .map_err(|error| DatabaseError::refused("PutItem", table, error))
    }

    /// Reads the item with this key, with a consistent read; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Refused`] if there is no such table or a key attribute is missing.
    ///
    /// # Examples
    ///
    /// ```
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// # use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = EmbeddedDynamoDb::start().await?;
    /// db.create_table(TableSpec::new("orders")).await?;
    /// db.put("orders", [("id", AttributeValue::S("o-1".into())), ("paid", AttributeValue::Bool(true))]).await?;
    ///
    /// let item = db.item("orders", [("id", "o-1")]).await?.expect("it was put");
    /// assert_eq!(item["paid"], AttributeValue::Bool(true));
    /// assert!(db.requests().is_empty(), "helpers are not counted");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn item<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Option<Item>, DatabaseError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let read = self
            .direct
            .get_item()
            .table_name(table)
            .consistent_read(true)
            .set_key(Some(strings(key)));
        let read = self
            .in_background(async move { Ok(read.send().await) })
            .await?;
        read.map(|output| output.item)
            .map_err(|error| DatabaseError::refused("GetItem", table, error))
    }

    /// Reads all items of a table, in no particular order.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Refused`] if there is no such table.
    pub async fn items(&self, table: &str) -> Result<Vec<Item>, DatabaseError> {
        let pages = self
            .direct
            .scan()
            .table_name(table)
            .consistent_read(true)
            .into_paginator()
            .items();
        let all = self
            .in_background(async move { Ok(pages.send().collect::<Result<Vec<_>, _>>().await) })
            .await?;
        all.map_err(|error| DatabaseError::refused("Scan", table, error))
    }

    /// Deletes the item with this key, as TTL or an operator would.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Refused`] if there is no such table or a key attribute is missing.
    pub async fn delete<K, V>(
        &self,
        table: &str,
        key: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DatabaseError>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let delete = self
            .direct
            .delete_item()
            .table_name(table)
            .set_key(Some(strings(key)));
        let delete = self
            .in_background(async move { Ok(delete.send().await) })
            .await?;
        delete
            .map(drop)
            .map_err(|error| DatabaseError::refused("DeleteItem", table, error))
    }

    /// Runs `work` on the background runtime, which owns the connections of the direct client.
    async fn in_background<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DatabaseError>> + Send + 'static,
    ) -> Result<T, DatabaseError> {
        let done = self.background.handle().spawn(work).await;
        done.map_err(|_| DatabaseError::Stopped)?
    }
}

fn strings<K, V>(key: impl IntoIterator<Item = (K, V)>) -> Item
where
    K: Into<String>,
    V: Into<String>,
{
    key.into_iter()
        .map(|(name, value)| (name.into(), AttributeValue::S(value.into())))
        .collect()
}

/// Returns the encryption with a key of KMS.
fn encryption() -> SseSpecification {
    let encryption = SseSpecification::builder().enabled(true);
    encryption.sse_type(SseType::Kms).build()
}

// All required fields are set, so neither builder fails.
fn definition((attribute, _): &(String, KeyType)) -> Option<AttributeDefinition> {
    AttributeDefinition::builder()
        .attribute_name(attribute)
        .attribute_type(ScalarAttributeType::S)
        .build()
        .ok()
}

fn key((attribute, kind): &(String, KeyType)) -> Option<KeySchemaElement> {
    KeySchemaElement::builder()
        .attribute_name(attribute)
        .key_type(kind.clone())
        .build()
        .ok()
}

/// An item as the SDK represents it: attribute names and values.
pub type Item = HashMap<String, AttributeValue>;

/// A table to create. By default: partition key `id` (a string), on-demand billing, TTL on `expiration`.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::dynamodb::TableSpec;
///
/// let plain = TableSpec::new("idempotency");
/// let shared = TableSpec::new("everything").partition_key("pk").with_sort_key("sk").without_ttl();
/// # let _ = (plain, shared);
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `EmbeddedDynamoDb::create_table`"]
pub struct TableSpec {
    pub(crate) name: String,
    pub(crate) partition_key: String,
    pub(crate) sort_key: Option<String>,
    pub(super) ttl: Option<String>,
    pub(super) encrypted: bool,
}

impl TableSpec {
    /// Describes a table with the default layout.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partition_key: "id".to_owned(),
            sort_key: None,
            ttl: Some("expiration".to_owned()),
            encrypted: false,
        }
    }

    /// Sets the name of the partition key, a string attribute.
    pub fn partition_key(mut self, attribute: impl Into<String>) -> Self {
        self.partition_key = attribute.into();
        self
    }

    /// Adds a sort key, a string attribute.
    pub fn with_sort_key(mut self, attribute: impl Into<String>) -> Self {
        self.sort_key = Some(attribute.into());
        self
    }

    /// Sets the TTL attribute (a number, in seconds since the epoch).
    pub fn ttl(mut self, attribute: impl Into<String>) -> Self {
        self.ttl = Some(attribute.into());
        self
    }

    /// Encrypts the table with a key of KMS, as its description says it. The embedded database encrypts nothing.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// Leaves TTL off.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }
}

/// Why the embedded DynamoDB could not do what the test asked for.
///
/// # Examples
///
/// ```no_run
/// # async fn example(db: idempotency_testkit::dynamodb::EmbeddedDynamoDb) -> Result<(), Box<dyn std::error::Error>> {
/// use idempotency_testkit::dynamodb::DatabaseError;
/// let refused = db.items("payments").await;
/// assert!(matches!(refused, Err(DatabaseError::Refused { operation: "Scan", .. })), "no such table");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// No thread or port is available.
    #[error("the embedded DynamoDB could not start: check the limits on open files and threads")]
    Start(#[source] io::Error),

    /// The requested port is not available.
    #[error(
        "the embedded DynamoDB could not listen on port {port}: choose another one, or 0 for an unused one"
    )]
    #[non_exhaustive]
    Port {
        /// The requested port; 0 means any.
        port: u16,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },

    /// The database did not open.
    #[error("the embedded database could not be opened: {0}")]
    Open(String),

    /// The database rejected the request of a helper.
    #[error(
        "{operation} on table `{table}` failed: {reason}; create the table first, and set every key attribute"
    )]
    #[non_exhaustive]
    Refused {
        /// The API operation.
        operation: &'static str,
        /// The table.
        table: String,
        /// The code and message of the database.
        reason: String,
    },

    /// The thread of the server has ended.
    #[error("the embedded DynamoDB has stopped: keep the value alive while it is used")]
    Stopped,
}

impl DatabaseError {
    /// Classifies an error of the SDK.
    pub(super) fn refused<E>(operation: &'static str, table: &str, error: SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        // Code and message only: the SDK's full context would print the raw response, which contains the item.
        let reason = match &error {
            SdkError::ServiceError(context) => {
                let code = context.err().code().unwrap_or("unknown error");
                let message = context.err().message().unwrap_or("no message");
                format!("{code}: {message}")
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
                "the database did not respond".to_owned()
            }
            SdkError::ConstructionFailure(_) => "the request could not be built".to_owned(),
            _ => "the response of the database could not be read".to_owned(),
        };
        Self::Refused {
            operation,
            table: table.to_owned(),
            reason,
        }
    }
}

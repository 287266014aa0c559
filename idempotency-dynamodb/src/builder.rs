//! The settings of a store.

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::config::ConfigurationError;

use crate::attribute_names::AttributeNames;
use crate::client;
use crate::store::DynamoDbStore;
use crate::table_ref::TableRef;

/// The longest partition key, in bytes.
const LONGEST_PARTITION: usize = 2048;

/// The settings of a [`DynamoDbStore`]. A table and a client are required.
///
/// ```
/// use idempotency_dynamodb::DynamoDbStore;
/// # use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
/// # let config = aws_sdk_dynamodb::Config::builder()
/// #     .behavior_version(BehaviorVersion::v2026_01_12())
/// #     .region(Region::new("eu-west-1"))
/// #     .build();
/// # let client = aws_sdk_dynamodb::Client::from_conf(config);
/// let store = DynamoDbStore::builder()
///     .table("idempotency")
///     .client(client)
///     .composite_key("sk", "idempotency#payments")
///     .build()?;
/// assert_eq!(store.table(), "idempotency");
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct DynamoDbStoreBuilder {
    table: Option<String>,
    client: Option<Client>,
    names: AttributeNames,
    composite: Option<Composite>,
}

/// The keys of a table that holds other items too.
#[derive(Clone, Debug)]
pub(crate) struct Composite {
    /// The name of the sort key, which holds the record's id.
    pub(crate) sort_key: String,
    /// The value of the partition key in every record.
    pub(crate) partition: String,
}

impl DynamoDbStoreBuilder {
    /// The table's name or ARN.
    ///
    /// ```
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let builder = DynamoDbStore::builder().table("arn:aws:dynamodb:eu-west-1:123456789012:table/idempotency");
    /// ```
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// A client of the caller's, or the one that [`default_client`](crate::default_client) makes.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
    /// # use idempotency_dynamodb::{DynamoDbStore, default_client};
    /// let builder = DynamoDbStore::builder().client(default_client().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets a client from a configuration of the caller's.
    ///
    /// Timeouts that the configuration leaves out are set: 1 s to connect, 1.5 s a send. So are retry settings: five
    /// sends, with random pauses of at most 25 ms, then 50, 100 and 200 ms. A retry setting that equals the SDK's own
    /// default counts as left out, because `aws_config` writes its defaults into what it loads. Use [`client`](Self::client)
    /// to decide every setting.
    ///
    /// ```
    /// # use aws_config::{Region, SdkConfig};
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
    /// let store = DynamoDbStore::builder().table("idempotency").sdk_config(&config).build()?;
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn sdk_config(self, config: &SdkConfig) -> Self {
        self.client(client::from_sdk_config(config))
    }

    /// The names of the attributes.
    ///
    /// ```
    /// # use idempotency_dynamodb::{AttributeNames, DynamoDbStore};
    /// let mut names = AttributeNames::default();
    /// names.key = "pk".to_owned();
    /// let builder = DynamoDbStore::builder().names(names);
    /// ```
    pub fn names(mut self, names: AttributeNames) -> Self {
        self.names = names;
        self
    }

    /// A table with a sort key: it holds the record's id, while the partition key is `partition` in every record.
    ///
    /// The usual value is `idempotency#{AWS_LAMBDA_FUNCTION_NAME}`. All records of one value share one partition, which
    /// DynamoDB serves with 1000 writes of 1 KB a second.
    ///
    /// ```
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let builder = DynamoDbStore::builder().composite_key("sk", "idempotency#payments");
    /// ```
    pub fn composite_key(
        mut self,
        sort_key_attribute: impl Into<String>,
        partition: impl Into<String>,
    ) -> Self {
        self.composite = Some(Composite {
            sort_key: sort_key_attribute.into(),
            partition: partition.into(),
        });
        self
    }

    /// The store.
    ///
    /// ```
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let error = DynamoDbStore::builder().table("idempotency").build().unwrap_err();
    /// assert!(error.to_string().contains("set `client` or `sdk_config`"));
    /// ```
    ///
    /// # Errors
    /// If the table or the client is missing, the client has no region, or a name is one that DynamoDB would not take or
    /// that two attributes share.
    pub fn build(self) -> Result<DynamoDbStore, ConfigurationError> {
        let table = self.table.filter(|table| !table.is_empty()).ok_or_else(|| {
            ConfigurationError::new("the DynamoDB store has no table: set IDEMPOTENCY_TABLE, or `table` in the builder")
        })?;
        let client = self.client.ok_or_else(|| {
            ConfigurationError::new(
                "the DynamoDB store has no client: set `client` or `sdk_config` in the builder",
            )
        })?;
        let region = client
            .config()
            .region()
            .filter(|region| client::is_present(region))
            .ok_or_else(client::no_region)?
            .to_string();
        self.names.check(
            self.composite
                .as_ref()
                .map(|composite| composite.sort_key.as_str()),
        )?;
        if let Some(Composite { partition, .. }) = &self.composite {
            check_partition(partition)?;
        }
        let table_ref = TableRef {
            table,
            region,
            sort_key: self
                .composite
                .as_ref()
                .map(|composite| composite.sort_key.clone()),
            key: self.names.key.clone(),
            endpoint: OnceLock::new(),
        };
        Ok(DynamoDbStore::new(
            client,
            table_ref,
            self.names,
            self.composite,
        ))
    }
}

/// Refuses a value of the partition key that DynamoDB would not take.
pub(crate) fn check_partition(partition: &str) -> Result<(), ConfigurationError> {
    if partition.is_empty() {
        let message = "the value of the partition key is empty: set IDEMPOTENCY_STATIC_PK_VALUE";
        return Err(ConfigurationError::new(message));
    }
    if partition.len() > LONGEST_PARTITION {
        let remedy = format!("write at most {LONGEST_PARTITION} bytes");
        return Err(ConfigurationError::value(
            "the value of the partition key",
            partition,
            remedy,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
    use idempotency_core::store::Store;

    use super::*;

    fn client(region: Option<Region>) -> Client {
        let config =
            aws_sdk_dynamodb::Config::builder().behavior_version(BehaviorVersion::v2026_01_12());
        Client::from_conf(config.region(region).build())
    }

    fn builder() -> DynamoDbStoreBuilder {
        DynamoDbStore::builder()
            .table("idempotency")
            .client(client(Some(Region::from_static("eu-west-1"))))
    }

    fn refusal(builder: DynamoDbStoreBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn a_store_is_called_by_its_table() {
        assert_eq!(
            builder().build().unwrap().name(),
            "DynamoDB table `idempotency`"
        );
    }

    #[test]
    fn a_missing_table_client_or_region_is_named_with_its_remedy() {
        assert!(refusal(DynamoDbStore::builder()).contains("set IDEMPOTENCY_TABLE"));
        assert!(refusal(builder().table("")).contains("set IDEMPOTENCY_TABLE"));
        assert!(refusal(DynamoDbStore::builder().table("t")).contains("has no client"));
        assert!(refusal(builder().client(client(None))).contains("set AWS_REGION"));
        let empty = client(Some(Region::from_static("")));
        assert!(refusal(builder().client(empty)).contains("AWS_REGION"));
    }

    #[test]
    fn a_sort_key_that_is_an_attribute_or_an_empty_partition_is_refused() {
        assert!(
            refusal(builder().composite_key("status", "p"))
                .contains("sort key attribute is `status`")
        );
        assert!(
            refusal(builder().composite_key("sk", "")).contains("set IDEMPOTENCY_STATIC_PK_VALUE")
        );
        assert!(
            refusal(builder().composite_key("sk", "p".repeat(2049))).contains("at most 2048 bytes")
        );
    }

    #[test]
    fn a_configuration_of_the_callers_makes_a_client() {
        let config = SdkConfig::builder()
            .region(Region::from_static("eu-west-1"))
            .build();
        let store = DynamoDbStore::from_sdk_config(&config, "payments").unwrap();
        assert_eq!(store.table(), "payments");
        assert!(!format!("{store:?}").contains("redentials"));
    }
}

//! The builder of a store.
//!
//! `store` and this file refer to each other: `DynamoDbStore::builder` begins here, and `build` returns a store.

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::config::ConfigurationError;

use super::attribute_names::{AttributeNames, Composite, check_partition};
use crate::client;
use crate::failure::table_ref::TableRef;
use crate::large::Settings;
#[cfg(feature = "lean-client")]
use crate::lean::{Lean, LeanClient};
use crate::store::DynamoDbStore;
use crate::transport::{SdkClient, Transport};

/// Builds a [`DynamoDbStore`]. A table and a client are required.
///
/// # Examples
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
    /// Sends the requests instead of `client`, from which it has its settings.
    #[cfg(feature = "lean-client")]
    lean: Option<LeanClient>,
    names: AttributeNames,
    composite: Option<Composite>,
    large: Settings,
    unencrypted_events: bool,
}

impl DynamoDbStoreBuilder {
    /// Sets the table's name or ARN.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Sets the client. [`default_client`](crate::default_client) makes one with suitable timeouts and retries.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        #[cfg(feature = "lean-client")]
        {
            self.lean = None;
        }
        self
    }

    /// Sets a client that needs less CPU than the SDK's, instead of [`client`](Self::client).
    #[cfg(feature = "lean-client")]
    pub fn lean_client(mut self, client: LeanClient) -> Self {
        self.client = Some(client.sdk().clone());
        self.lean = Some(client);
        self
    }

    /// Sets a client made from an SDK configuration.
    ///
    /// Timeouts that the configuration does not set become 1 s to connect and 1.5 s for each send. Retry settings that it does
    /// not set become five sends, with random pauses of at most 25, 50, 100 and 200 ms. A retry setting that equals the SDK's
    /// default counts as not set, because `aws_config` writes its defaults into every configuration that it loads. Use
    /// [`client`](Self::client) to control every setting.
    ///
    /// # Examples
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

    /// Sets the names of the attributes.
    ///
    /// # Examples
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

    /// Uses a table with a sort key. The sort key contains the record id; the partition key is `partition` in every record.
    ///
    /// The usual value is `idempotency#{AWS_LAMBDA_FUNCTION_NAME}`. All records with the same value are in one partition, for
    /// which DynamoDB supports 1000 writes of 1 KB per second.
    ///
    /// # Examples
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

    /// Sets the length above which the text of a response is compressed, in bytes; `None` compresses none. Default: 16 KiB, or
    /// `None` without the feature `zstd`.
    ///
    /// A response that does not become smaller is stored as it is. Libraries in other languages cannot read a compressed response:
    /// set `None` for a table that is shared with one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// // Records are those of Powertools for AWS Lambda (Python), for responses of any length.
    /// let builder = DynamoDbStore::builder().compress_above(None).split_large_responses(false);
    /// ```
    pub fn compress_above(mut self, bytes: Option<usize>) -> Self {
        self.large.compress_above = bytes;
        self
    }

    /// Sets whether a response that does not fit one item is split over several items of the table. Default: true.
    ///
    /// If not, such a response is too large: its caller gets it, and duplicates get `ResponseUnavailable`.
    pub fn split_large_responses(mut self, split: bool) -> Self {
        self.large.split = split;
        self
    }

    /// Allows events (`store_event`) in a table that is not encrypted with a key of KMS. Default: false.
    ///
    /// Otherwise the store asks once whether the table is, with `dynamodb:DescribeTable`, before it writes the first event.
    pub fn unencrypted_events(mut self, allowed: bool) -> Self {
        self.unencrypted_events = allowed;
        self
    }

    /// Builds the store.
    ///
    /// # Errors
    ///
    /// If the table or the client is missing, if the client has no region or cannot do what it is configured for, or if an
    /// attribute name is not valid in DynamoDB or is used twice.
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
        self.large.check()?;
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
        #[cfg(feature = "lean-client")]
        let transport = match self.lean {
            Some(lean) => {
                lean.check()?;
                Transport::Lean(Box::new(Lean::new(lean, &table_ref.table)))
            }
            None => Transport::Sdk(SdkClient::new(client)),
        };
        #[cfg(not(feature = "lean-client"))]
        let transport = Transport::Sdk(SdkClient::new(client));
        Ok(DynamoDbStore::new(
            transport,
            table_ref,
            self.names,
            self.composite,
            self.large,
            self.unencrypted_events,
        ))
    }
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

    fn error_text(builder: DynamoDbStoreBuilder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn the_name_of_a_store_contains_its_table() {
        assert_eq!(
            builder().build().unwrap().name(),
            "DynamoDB table `idempotency`"
        );
    }

    #[test]
    fn a_missing_table_client_or_region_is_named_with_what_to_set() {
        assert!(error_text(DynamoDbStore::builder()).contains("set IDEMPOTENCY_TABLE"));
        assert!(error_text(builder().table("")).contains("set IDEMPOTENCY_TABLE"));
        assert!(error_text(DynamoDbStore::builder().table("t")).contains("has no client"));
        assert!(error_text(builder().client(client(None))).contains("set AWS_REGION"));
        let empty = client(Some(Region::from_static("")));
        assert!(error_text(builder().client(empty)).contains("AWS_REGION"));
    }

    #[test]
    fn a_sort_key_that_is_another_attribute_or_an_empty_partition_is_an_error() {
        assert!(
            error_text(builder().composite_key("status", "p"))
                .contains("sort key attribute is `status`")
        );
        assert!(
            error_text(builder().composite_key("sk", ""))
                .contains("set IDEMPOTENCY_STATIC_PK_VALUE")
        );
        assert!(
            error_text(builder().composite_key("sk", "p".repeat(2049)))
                .contains("at most 2048 bytes")
        );
    }

    #[test]
    fn a_store_can_be_built_from_an_sdk_configuration() {
        let config = SdkConfig::builder()
            .region(Region::from_static("eu-west-1"))
            .build();
        let store = DynamoDbStore::from_sdk_config(&config, "payments").unwrap();
        assert_eq!(store.table(), "payments");
        assert!(!format!("{store:?}").contains("redentials"));
    }
}

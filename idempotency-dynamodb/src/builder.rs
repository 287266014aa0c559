//! The builder of a store.

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::compression;
use idempotency_core::config::ConfigurationError;
use idempotency_core::record::Attribute;

use crate::client::{self, LeanClient};
use crate::large::Settings;
use crate::names::{AttributeNames, Composite, check_partition};
use crate::store::{DynamoDbStore, Items};
use crate::table::TableRef;
use crate::transport::Transport;

impl DynamoDbStore {
    /// Returns a builder without settings.
    pub fn builder() -> DynamoDbStoreBuilder {
        DynamoDbStoreBuilder::default()
    }
}

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
    client: Option<StoreClient>,
    names: AttributeNames,
    composite: Option<Composite>,
    large: Settings,
    unencrypted_events: bool,
}

/// The client of a store.
#[derive(Clone, Debug)]
enum StoreClient {
    /// The client of the caller, as it is.
    Sdk(Client),
    /// A lean client.
    Lean(LeanClient),
}

impl DynamoDbStoreBuilder {
    /// Sets the table's name or ARN.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Sets a client of the SDK, which is used as it is, with its interceptors and plugins.
    /// [`default_client`](crate::default_client) makes one with suitable timeouts and retries.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(StoreClient::Sdk(client));
        self
    }

    /// Sets a lean client. Stores with clones of one client share its retry quota.
    pub fn lean_client(mut self, client: LeanClient) -> Self {
        self.client = Some(StoreClient::Lean(client));
        self
    }

    /// Sets a client with the settings of an SDK configuration: a [`LeanClient`], or the SDK's client if the configuration has the
    /// adaptive retry mode.
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
        let client = client::sdk_client(config);
        if LeanClient::can_replace(&client) {
            self.lean_client(LeanClient::new(client))
        } else {
            self.client(client)
        }
    }

    /// Sets the name of an attribute of a record. The defaults are those of Powertools for AWS Lambda (Python).
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::record::Attribute;
    /// # use idempotency_dynamodb::DynamoDbStore;
    /// let builder = DynamoDbStore::builder().attribute_name(Attribute::Expiration, "ttl");
    /// ```
    pub fn attribute_name(mut self, attribute: Attribute, name: impl Into<String>) -> Self {
        self.names.set(attribute, name.into());
        self
    }

    /// Sets the names of all attributes.
    pub(crate) fn names(mut self, names: AttributeNames) -> Self {
        self.names = names;
        self
    }

    /// Sets the name of the partition key. Default: `id`.
    pub fn partition_key(mut self, name: impl Into<String>) -> Self {
        self.names.key = name.into();
        self
    }

    /// Uses a table with a sort key. The sort key contains the record id; the partition key is `partition` in every record.
    ///
    /// The usual value is `idempotency#{AWS_LAMBDA_FUNCTION_NAME}`. All records with the same value are in one partition, for
    /// which DynamoDB supports 1000 writes of 1 KB per second.
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
    /// If the table or the client is missing or has a name or region that cannot be, if the client has no region or cannot do what it is configured for, or if an
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
        check_table(&table)?;
        let (sdk, lean) = match client {
            StoreClient::Sdk(client) => (client, None),
            StoreClient::Lean(lean) => {
                lean.check()?;
                (lean.sdk().clone(), Some(lean))
            }
        };
        let region = sdk
            .config()
            .region()
            .filter(|region| client::is_set(region))
            .ok_or_else(client::no_region)?
            .to_string();
        client::check_region(&region)?;
        self.names.check(
            self.composite
                .as_ref()
                .map(|composite| composite.sort_key.as_str()),
        )?;
        if let Some(Composite { partition, .. }) = &self.composite {
            check_partition(partition)?;
        }
        compression::check(self.large.compress_above)?;
        let table = TableRef {
            name: table,
            region,
            sort_key: self
                .composite
                .as_ref()
                .map(|composite| composite.sort_key.clone()),
            key: self.names.key.clone(),
            endpoint: OnceLock::new(),
        };
        let transport = match lean {
            Some(lean) => Transport::Lean(Box::new(lean.of_table(&table.name))),
            None => Transport::Sdk(sdk),
        };
        let items = Items::new(transport, table, self.names, self.composite);
        Ok(DynamoDbStore::new(
            items,
            self.large,
            self.unencrypted_events,
        ))
    }
}

/// The longest ARN of a table.
const LONGEST_TABLE: usize = 1024;

/// Checks that a table can have this name or ARN.
fn check_table(table: &str) -> Result<(), ConfigurationError> {
    let allowed = if table.starts_with("arn:") {
        "_-.:/"
    } else {
        "_-."
    };
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || allowed.contains(letter);
    if table.chars().all(is_allowed) && table.len() <= LONGEST_TABLE {
        return Ok(());
    }
    let remedy =
        "write the name of a table, of ASCII letters, digits, `_`, `-` and `.`, or its ARN";
    let shown = table.escape_debug().to_string();
    Err(ConfigurationError::value(
        "the table (IDEMPOTENCY_TABLE)",
        &shown,
        remedy,
    ))
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

    #[test]
    fn the_name_of_a_store_contains_its_table() {
        let store = builder().build().unwrap();
        assert_eq!(store.name(), "DynamoDB table `idempotency`");
    }

    #[test]
    fn what_a_builder_lacks_or_cannot_use_is_named_with_what_to_set() {
        let empty = client(Some(Region::from_static("")));
        let composite = |key: &str, partition: &str| builder().composite_key(key, partition);
        for (builder, named) in [
            (DynamoDbStore::builder(), "set IDEMPOTENCY_TABLE"),
            (builder().table(""), "set IDEMPOTENCY_TABLE"),
            (DynamoDbStore::builder().table("t"), "has no client"),
            (builder().client(client(None)), "set AWS_REGION"),
            (builder().client(empty), "AWS_REGION"),
            (
                builder().table("pay ments"),
                "IDEMPOTENCY_TABLE) is `pay ments`: write",
            ),
            (builder().table("payments\n"), r"is `payments\n`: write"),
            (
                builder().table("arn:aws:dynamodb:eu-west-1:1:table/a b"),
                "or its ARN",
            ),
            (
                builder().table("https://host/payments"),
                "write the name of a table",
            ),
            (
                builder().client(client(Some(Region::new("eu west-1")))),
                "AWS_REGION) is `eu west-1`",
            ),
            (
                builder().client(client(Some(Region::new("eu-west-1\n")))),
                r"is `eu-west-1\n`: write",
            ),
            (
                builder().attribute_name(Attribute::Data, "status"),
                "name of the data attribute is `status`",
            ),
            (
                builder().partition_key(""),
                "name of the key attribute is empty",
            ),
            (composite("status", "p"), "sort key attribute is `status`"),
            (composite("sk", ""), "set IDEMPOTENCY_STATIC_PK_VALUE"),
            (composite("sk", &"p".repeat(2049)), "at most 2048 bytes"),
        ] {
            let text = builder.build().unwrap_err().to_string();
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn a_store_can_be_built_from_an_sdk_configuration() {
        let config = SdkConfig::builder()
            .region(Region::from_static("eu-west-1"))
            .build();
        let builder = DynamoDbStore::builder().table("payments");
        let store = builder.sdk_config(&config).build().unwrap();
        assert_eq!(store.table(), "payments");
        assert!(!format!("{store:?}").contains("redentials"));
    }
}

//! The settings of a store: of its builder, and from environment variables.

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::config::{ConfigurationError, Variables};

use crate::client::{self, LeanClient};
use crate::large::Settings;
use crate::names::{AttributeNames, Composite, check_partition};
use crate::store::DynamoDbStore;
use crate::table::TableRef;
use crate::transport::Transport;

// The table configuration from environment variables.

const TABLE: &str = "IDEMPOTENCY_TABLE";
const KEY: &str = "IDEMPOTENCY_KEY_ATTR";
const SORT_KEY: &str = "IDEMPOTENCY_SORT_KEY_ATTR";
const PARTITION: &str = "IDEMPOTENCY_STATIC_PK_VALUE";
const EXPIRATION: &str = "IDEMPOTENCY_EXPIRY_ATTR";
const IN_PROGRESS_EXPIRATION: &str = "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR";
const STATUS: &str = "IDEMPOTENCY_STATUS_ATTR";
const DATA: &str = "IDEMPOTENCY_DATA_ATTR";
const VALIDATION: &str = "IDEMPOTENCY_VALIDATION_ATTR";
const COMPRESS_ABOVE: &str = "IDEMPOTENCY_COMPRESS_ABOVE";
const LARGE_RESPONSES: &str = "IDEMPOTENCY_LARGE_RESPONSES";
const UNENCRYPTED_EVENTS: &str = "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED";
const CLIENT: &str = "IDEMPOTENCY_CLIENT";

/// A table and its layout, as `IDEMPOTENCY_TABLE` and the `IDEMPOTENCY_*_ATTR` variables describe them.
///
/// # Examples
///
/// ```
/// use idempotency_core::config::Variables;
/// use idempotency_dynamodb::TableConfig;
/// let variables = Variables::from_iter([("IDEMPOTENCY_TABLE".to_owned(), "payments".to_owned())]);
/// let settings = TableConfig::from_variables(&variables)?;
/// assert_eq!((settings.table.as_str(), settings.names.key.as_str()), ("payments", "id"));
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The name or ARN of the table.
    pub table: String,
    /// The names of the attributes.
    pub names: AttributeNames,
    /// The name of the sort key, if the table has one. It contains the record id.
    pub sort_key: Option<String>,
    /// The value of the partition key in every record, if the table has a sort key.
    pub partition: String,
    /// The length above which the text of a response is compressed, in bytes. `None`: none is.
    pub compress_above: Option<usize>,
    /// True if a response that does not fit one item is split over several items.
    pub split_large_responses: bool,
    /// True if events may be kept in a table that is not encrypted with a key of KMS.
    pub unencrypted_events: bool,
    /// True if [`connect`](Self::connect) uses the client of the SDK, and not the lean one.
    sdk_client: bool,
}

impl TableConfig {
    /// The names of all environment variables that describe a table.
    pub const VARIABLES: &'static [&'static str] = &[
        TABLE,
        KEY,
        SORT_KEY,
        PARTITION,
        EXPIRATION,
        IN_PROGRESS_EXPIRATION,
        STATUS,
        DATA,
        VALIDATION,
        COMPRESS_ABOVE,
        LARGE_RESPONSES,
        UNENCRYPTED_EVENTS,
        CLIENT,
    ];

    /// Reads the configuration from environment variables.
    ///
    /// # Errors
    ///
    /// If no table is set, or if a variable for large responses, events or the client has a value that it cannot have.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::config::Variables;
    /// # use idempotency_dynamodb::TableConfig;
    /// let variables = [("IDEMPOTENCY_TABLE", "payments"), ("IDEMPOTENCY_SORT_KEY_ATTR", "sk")];
    /// let variables = Variables::from_iter(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    /// assert_eq!(TableConfig::from_variables(&variables)?.sort_key.as_deref(), Some("sk"));
    /// let error = TableConfig::from_variables(&Variables::default()).unwrap_err();
    /// assert!(error.to_string().starts_with("IDEMPOTENCY_TABLE is not set"));
    /// # Ok::<(), idempotency_core::config::ConfigurationError>(())
    /// ```
    pub fn from_variables(variables: &Variables) -> Result<Self, ConfigurationError> {
        let table = variables.value(TABLE).ok_or_else(|| {
            ConfigurationError::new(
                "IDEMPOTENCY_TABLE is not set: set it to the name of the DynamoDB table (or set \
                 IDEMPOTENCY_STORE=memory to try a function without a table)",
            )
        })?;
        let sort_key = variables.value(SORT_KEY);
        let large = large(variables)?;
        Ok(Self {
            table: table.to_owned(),
            names: names(variables),
            sort_key: sort_key.map(str::to_owned),
            partition: partition(variables),
            compress_above: large.compress_above,
            split_large_responses: large.split,
            unencrypted_events: unencrypted_events(variables)?,
            sdk_client: names_sdk_client(variables)?,
        })
    }

    /// Checks every variable that describes a table, even if no table is set.
    ///
    /// # Errors
    ///
    /// If an attribute name is not valid in DynamoDB or is used twice, if the value of the partition key is too long, or if a
    /// variable for large responses, events or the client has a value that it cannot have.
    pub fn check(variables: &Variables) -> Result<(), ConfigurationError> {
        names(variables).check(variables.value(SORT_KEY))?;
        large(variables)?.check()?;
        unencrypted_events(variables)?;
        names_sdk_client(variables)?;
        check_partition(&partition(variables))
    }

    /// Builds the store on this table, with the client that `IDEMPOTENCY_CLIENT` names, and the SDK's settings of the environment.
    ///
    /// # Errors
    ///
    /// Without a region or TLS provider, with adaptive retries of the lean client, or with a name or partition key that is not valid.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
    /// # let variables = idempotency_core::config::Variables::default();
    /// use idempotency_dynamodb::TableConfig;
    ///
    /// let store = TableConfig::from_variables(&variables)?.connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(&self) -> Result<DynamoDbStore, ConfigurationError> {
        let client = client::default_client().await?;
        if self.sdk_client {
            return self.store(client);
        }
        self.builder().lean_client(LeanClient::new(client)).build()
    }

    /// Builds the store on this table, with a client of the caller.
    ///
    /// # Errors
    ///
    /// If the client has no region, or if an attribute name is not valid in DynamoDB or is used twice.
    pub fn store(&self, client: Client) -> Result<DynamoDbStore, ConfigurationError> {
        self.builder().client(client).build()
    }

    /// Returns a builder of the store on this table. It has no client yet.
    pub fn builder(&self) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStore::builder()
            .table(&self.table)
            .names(self.names.clone())
            .compress_above(self.compress_above)
            .split_large_responses(self.split_large_responses)
            .unencrypted_events(self.unencrypted_events);
        match &self.sort_key {
            Some(sort_key) => builder.composite_key(sort_key, &self.partition),
            None => builder,
        }
    }
}

/// Returns the attribute names: the defaults, changed by the variables.
fn names(variables: &Variables) -> AttributeNames {
    let mut names = AttributeNames::default();
    for (name, variable) in [
        (&mut names.key, KEY),
        (&mut names.expiration, EXPIRATION),
        (&mut names.in_progress_expiration, IN_PROGRESS_EXPIRATION),
        (&mut names.status, STATUS),
        (&mut names.data, DATA),
        (&mut names.validation, VALIDATION),
    ] {
        if let Some(value) = variables.value(variable) {
            value.clone_into(name);
        }
    }
    names
}

/// Returns how large responses are stored: the defaults, changed by the variables.
fn large(variables: &Variables) -> Result<Settings, ConfigurationError> {
    let mut settings = Settings::default();
    if let Some(value) = variables.value(COMPRESS_ABOVE) {
        settings.compress_above = match value {
            "off" => None,
            bytes => Some(bytes.parse().map_err(|_| {
                let remedy = "write a number of bytes, such as `16384`, or `off`";
                ConfigurationError::value(COMPRESS_ABOVE, value, remedy)
            })?),
        };
    }
    let remedy = "write `split` or `off`";
    settings.split = !is_second_value(variables, LARGE_RESPONSES, ["split", "off"], remedy)?;
    Ok(settings)
}

/// Returns true if a variable has the second of two values, and false if it has the first one, which is the default.
fn is_second_value(
    variables: &Variables,
    name: &str,
    values: [&str; 2],
    remedy: &str,
) -> Result<bool, ConfigurationError> {
    match variables.value(name) {
        None => Ok(false),
        Some(value) if value == values[0] => Ok(false),
        Some(value) if value == values[1] => Ok(true),
        Some(value) => Err(ConfigurationError::value(name, value, remedy)),
    }
}

/// Returns true if events may be kept in a table that is not encrypted with a key of KMS.
fn unencrypted_events(variables: &Variables) -> Result<bool, ConfigurationError> {
    let remedy = "write `true` or `false`";
    is_second_value(variables, UNENCRYPTED_EVENTS, ["false", "true"], remedy)
}

/// The clients that a variable can name. The first one is the default.
const CLIENTS: [&str; 2] = ["lean", "sdk"];

/// Returns true if the client of the SDK is named, and false for the lean one, which is the default.
fn names_sdk_client(variables: &Variables) -> Result<bool, ConfigurationError> {
    let remedy = "write one of `lean`, `sdk`";
    is_second_value(variables, CLIENT, CLIENTS, remedy)
}

/// Returns the value of the partition key for a table with a sort key.
fn partition(variables: &Variables) -> String {
    match variables.value(PARTITION) {
        Some(value) => value.to_owned(),
        None => {
            let function = variables.value("AWS_LAMBDA_FUNCTION_NAME").unwrap_or("");
            format!("idempotency#{function}")
        }
    }
}

// The builder of a store.
//
// `store` and this file refer to each other: `DynamoDbStore::builder` begins here, and `build` returns a store.

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
        self.large.check()?;
        let table_ref = TableRef {
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
            Some(lean) => Transport::Lean(Box::new(lean.of_table(&table_ref.name))),
            None => Transport::Sdk(sdk),
        };
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

    #[test]
    fn the_configuration_page_has_the_default_of_each_variable() {
        let page = include_str!("../../../docs/reference/configuration.md");
        let config = TableConfig::from_variables(&variables(&[(TABLE, "t")])).unwrap();
        assert!(!config.sdk_client && !config.unencrypted_events && config.split_large_responses);
        let names = &config.names;
        let threshold = config.compress_above.map(|bytes| bytes.to_string());
        for (variable, default) in [
            (KEY, names.key.as_str()),
            (EXPIRATION, &names.expiration),
            (IN_PROGRESS_EXPIRATION, &names.in_progress_expiration),
            (STATUS, &names.status),
            (DATA, &names.data),
            (VALIDATION, &names.validation),
            // The page has the default with zstd.
            (COMPRESS_ABOVE, threshold.as_deref().unwrap_or("16384")),
            (UNENCRYPTED_EVENTS, "false"),
            (LARGE_RESPONSES, "split"),
            (CLIENT, CLIENTS[0]),
        ] {
            let mut rows = page.lines().filter(|line| line.starts_with('|'));
            let row = rows.find(|row| row.contains(&format!("| `{variable}` |")));
            let end = format!("| `{default}` |");
            assert!(
                row.is_some_and(|row| row.ends_with(&end)),
                "{variable}: {row:?}"
            );
        }
    }

    fn variables(variables: &[(&str, &str)]) -> Variables {
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn attribute_names_are_read_from_the_variables() {
        let names = names(&variables(&[
            ("IDEMPOTENCY_KEY_ATTR", "pk"),
            ("IDEMPOTENCY_DATA_ATTR", "response"),
        ]));
        let changed = AttributeNames {
            key: "pk".to_owned(),
            data: "response".to_owned(),
            ..AttributeNames::default()
        };
        assert_eq!(names, changed);
    }

    #[test]
    fn the_partition_contains_the_name_of_the_function_unless_it_is_set() {
        let function = ("AWS_LAMBDA_FUNCTION_NAME", "shop");
        assert_eq!(partition(&variables(&[function])), "idempotency#shop");
        let set = ("IDEMPOTENCY_STATIC_PK_VALUE", "all");
        assert_eq!(partition(&variables(&[function, set])), "all");
    }

    #[test]
    fn large_responses_are_compressed_and_split_unless_the_variables_say_otherwise() {
        let read = |pairs: &[(&str, &str)]| {
            let settings = large(&variables(pairs))?;
            Ok::<_, ConfigurationError>((settings.compress_above, settings.split))
        };
        let default = cfg!(feature = "zstd").then_some(16_384);
        assert_eq!(read(&[]), Ok((default, true)));
        let both_off = [(COMPRESS_ABOVE, "off"), (LARGE_RESPONSES, "off")];
        assert_eq!(read(&both_off), Ok((None, false)));
        let set = [(COMPRESS_ABOVE, "1000"), (LARGE_RESPONSES, "split")];
        assert_eq!(read(&set), Ok((Some(1_000), true)));
    }

    #[test]
    fn events_need_an_encrypted_table_unless_a_variable_waives_it() {
        let read = |pairs: &[(&str, &str)]| unencrypted_events(&variables(pairs));
        assert_eq!(read(&[]), Ok(false));
        assert_eq!(read(&[(UNENCRYPTED_EVENTS, "false")]), Ok(false));
        assert_eq!(read(&[(UNENCRYPTED_EVENTS, "true")]), Ok(true));
    }

    #[test]
    fn another_value_of_a_variable_is_an_error_that_says_which_it_can_have() {
        let bytes = "write a number of bytes, such as `16384`, or `off`";
        for (name, value, remedy) in [
            (COMPRESS_ABOVE, "16 KB", bytes),
            (LARGE_RESPONSES, "on", "write `split` or `off`"),
            (UNENCRYPTED_EVENTS, "1", "write `true` or `false`"),
            (CLIENT, "fast", "write one of `lean`, `sdk`"),
        ] {
            let error = TableConfig::check(&variables(&[(name, value)])).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} is `{value}`: {remedy}"));
        }
    }

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
        let store = DynamoDbStore::from_sdk_config(&config, "payments").unwrap();
        assert_eq!(store.table(), "payments");
        assert!(!format!("{store:?}").contains("redentials"));
    }
}

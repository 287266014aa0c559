//! The settings of a store from environment variables.

use idempotency_core::compression::{self, COMPRESS_ABOVE};
use idempotency_core::config::{ConfigurationError, HostVariables, Variables};
use idempotency_core::store::events::{UNENCRYPTED_EVENTS, unencrypted_events};

use crate::builder::DynamoDbStoreBuilder;
use crate::client::{self, LeanClient};
use crate::large::Settings;
use crate::names::{AttributeNames, check_partition};
use crate::store::DynamoDbStore;

const TABLE: &str = "IDEMPOTENCY_TABLE";
const KEY: &str = "IDEMPOTENCY_KEY_ATTR";
const SORT_KEY: &str = "IDEMPOTENCY_SORT_KEY_ATTR";
const PARTITION: &str = "IDEMPOTENCY_STATIC_PK_VALUE";
const EXPIRATION: &str = "IDEMPOTENCY_EXPIRY_ATTR";
const IN_PROGRESS_EXPIRATION: &str = "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR";
const STATUS: &str = "IDEMPOTENCY_STATUS_ATTR";
const DATA: &str = "IDEMPOTENCY_DATA_ATTR";
const VALIDATION: &str = "IDEMPOTENCY_VALIDATION_ATTR";
const LARGE_RESPONSES: &str = "IDEMPOTENCY_LARGE_RESPONSES";
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
/// assert_eq!((settings.table.as_str(), settings.partition_key()), ("payments", "id"));
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The name or ARN of the table.
    pub table: String,
    /// The name of the sort key, if the table has one. It contains the record id.
    pub sort_key: Option<String>,
    /// The value of the partition key in every record, if the table has a sort key.
    pub partition: String,
    names: AttributeNames,
    large: Settings,
    unencrypted_events: bool,
    /// True if [`connect`](Self::connect) uses the client of the SDK, and not the lean one.
    sdk_client: bool,
}

impl TableConfig {
    /// The names of all environment variables that describe a table.
    #[doc(hidden)]
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
        Ok(Self {
            table: table.to_owned(),
            names: names(variables),
            sort_key: sort_key.map(str::to_owned),
            partition: partition(variables),
            large: large(variables)?,
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
    #[doc(hidden)]
    pub fn check(variables: &Variables) -> Result<(), ConfigurationError> {
        names(variables).check(variables.value(SORT_KEY))?;
        compression::check(large(variables)?.compress_above)?;
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
            return self.builder().client(client).build();
        }
        self.builder().lean_client(LeanClient::new(client)).build()
    }

    /// Returns the name of the partition key.
    pub fn partition_key(&self) -> &str {
        &self.names.key
    }

    /// Returns the name of the table's TTL attribute.
    pub fn ttl_attribute(&self) -> &str {
        &self.names.expiration
    }

    /// Returns a builder of the store on this table. It has no client yet.
    pub fn builder(&self) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStoreBuilder::default()
            .table(&self.table)
            .names(self.names.clone())
            .compress_above(self.large.compress_above)
            .split_large_responses(self.large.split)
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
    let mut settings = Settings {
        compress_above: compression::threshold(variables)?,
        ..Settings::default()
    };
    let remedy = "write `split` or `off`";
    settings.split = !variables.is_second_value(LARGE_RESPONSES, ["split", "off"], remedy)?;
    Ok(settings)
}

/// The clients that a variable can name. The first one is the default.
const CLIENTS: [&str; 2] = ["lean", "sdk"];

/// Returns true if the client of the SDK is named, and false for the lean one, which is the default.
fn names_sdk_client(variables: &Variables) -> Result<bool, ConfigurationError> {
    let remedy = "write one of `lean`, `sdk`";
    variables.is_second_value(CLIENT, CLIENTS, remedy)
}

/// Returns the value of the partition key for a table with a sort key.
fn partition(variables: &Variables) -> String {
    match variables.value(PARTITION) {
        Some(value) => value.to_owned(),
        None => {
            let function = variables.value(HostVariables::LAMBDA.name);
            format!("idempotency#{}", function.unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_page_has_the_default_of_each_variable() {
        let page = include_str!("../../docs/reference/configuration.md");
        let config = TableConfig::from_variables(&variables(&[(TABLE, "t")])).unwrap();
        assert!(!config.sdk_client && !config.unencrypted_events && config.large.split);
        let names = &config.names;
        let threshold = config.large.compress_above.map(|bytes| bytes.to_string());
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
        let set = [(TABLE, "t"), (KEY, "pk"), (EXPIRATION, "ttl")];
        let config = TableConfig::from_variables(&variables(&set)).unwrap();
        assert_eq!(
            (config.partition_key(), config.ttl_attribute()),
            ("pk", "ttl")
        );
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
        for off in ["off", "Off"] {
            let both_off = [(COMPRESS_ABOVE, off), (LARGE_RESPONSES, off)];
            assert_eq!(read(&both_off), Ok((None, false)));
        }
        let set = [(COMPRESS_ABOVE, "1000"), (LARGE_RESPONSES, "split")];
        assert_eq!(read(&set), Ok((Some(1_000), true)));
    }

    #[test]
    fn events_need_an_encrypted_table_unless_a_variable_waives_it() {
        let read = |pairs: &[(&str, &str)]| unencrypted_events(&variables(pairs));
        assert_eq!(read(&[]), Ok(false));
        assert_eq!(read(&[(UNENCRYPTED_EVENTS, "false")]), Ok(false));
        for truth in ["true", "1", "Yes"] {
            assert_eq!(read(&[(UNENCRYPTED_EVENTS, truth)]), Ok(true));
        }
    }

    #[test]
    fn another_value_of_a_variable_is_an_error_that_says_which_it_can_have() {
        let bytes = "write a number of bytes, such as `16384`, or `off`";
        for (name, value, remedy) in [
            (COMPRESS_ABOVE, "16 KB", bytes),
            (LARGE_RESPONSES, "on", "write `split` or `off`"),
            (UNENCRYPTED_EVENTS, "ok", "write `true` or `false`"),
            (CLIENT, "fast", "write one of `lean`, `sdk`"),
        ] {
            let error = TableConfig::check(&variables(&[(name, value)])).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} is `{value}`: {remedy}"));
        }
    }
}

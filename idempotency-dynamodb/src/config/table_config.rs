//! The table configuration from environment variables.

use aws_sdk_dynamodb::Client;
use idempotency_core::config::{ConfigurationError, Variables};

use super::attribute_names::{AttributeNames, check_partition};
use crate::config::DynamoDbStoreBuilder;
use crate::large::Settings;
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
const COMPRESS_ABOVE: &str = "IDEMPOTENCY_COMPRESS_ABOVE";
const LARGE_RESPONSES: &str = "IDEMPOTENCY_LARGE_RESPONSES";
const UNENCRYPTED_EVENTS: &str = "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED";

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
    ];

    /// Reads the configuration from environment variables.
    ///
    /// # Errors
    ///
    /// If no table is set, or if a variable for large responses has another value than those that it can have.
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
        })
    }

    /// Checks every variable that describes a table, even if no table is set.
    ///
    /// # Errors
    ///
    /// If an attribute name is not valid in DynamoDB or is used twice, if the value of the partition key is too long, or if a
    /// variable for large responses has another value than those that it can have.
    pub fn check(variables: &Variables) -> Result<(), ConfigurationError> {
        names(variables).check(variables.value(SORT_KEY))?;
        large(variables)?.check()?;
        unencrypted_events(variables)?;
        check_partition(&partition(variables))
    }

    /// Builds the store on this table.
    ///
    /// # Errors
    ///
    /// If the client has no region, or if an attribute name is not valid in DynamoDB or is used twice.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
    /// # let variables = idempotency_core::config::Variables::default();
    /// use idempotency_dynamodb::{TableConfig, default_client};
    /// let store = TableConfig::from_variables(&variables)?.store(default_client().await?)?;
    /// # Ok(())
    /// # }
    /// ```
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
    if let Some(value) = variables.value(LARGE_RESPONSES) {
        settings.split = match value {
            "split" => true,
            "off" => false,
            _ => {
                let remedy = "write `split` or `off`";
                return Err(ConfigurationError::value(LARGE_RESPONSES, value, remedy));
            }
        };
    }
    Ok(settings)
}

/// Returns true if events may be kept in a table that is not encrypted with a key of KMS.
fn unencrypted_events(variables: &Variables) -> Result<bool, ConfigurationError> {
    match variables.value(UNENCRYPTED_EVENTS) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(value) => {
            let remedy = "write `true` or `false`";
            Err(ConfigurationError::value(UNENCRYPTED_EVENTS, value, remedy))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            read(&[(COMPRESS_ABOVE, "1000"), (LARGE_RESPONSES, "split")]),
            Ok((Some(1_000), true))
        );
        assert_eq!(
            read(&[(COMPRESS_ABOVE, "16 KB")]).unwrap_err().to_string(),
            "IDEMPOTENCY_COMPRESS_ABOVE is `16 KB`: write a number of bytes, such as `16384`, or `off`"
        );
        assert_eq!(
            read(&[(LARGE_RESPONSES, "on")]).unwrap_err().to_string(),
            "IDEMPOTENCY_LARGE_RESPONSES is `on`: write `split` or `off`"
        );
    }

    #[test]
    fn events_need_an_encrypted_table_unless_a_variable_waives_it() {
        let read = |pairs: &[(&str, &str)]| unencrypted_events(&variables(pairs));
        assert_eq!(read(&[]), Ok(false));
        assert_eq!(read(&[(UNENCRYPTED_EVENTS, "false")]), Ok(false));
        assert_eq!(read(&[(UNENCRYPTED_EVENTS, "true")]), Ok(true));
        assert_eq!(
            read(&[(UNENCRYPTED_EVENTS, "1")]).unwrap_err().to_string(),
            "IDEMPOTENCY_STORE_EVENT_UNENCRYPTED is `1`: write `true` or `false`"
        );
    }
}

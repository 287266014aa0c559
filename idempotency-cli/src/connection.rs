//! The table and the client that the variables describe, the same as the functions'.

use std::error::Error as StdError;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use idempotency_core::config::Variables;
use idempotency_dynamodb::{DynamoDbStore, TableConfig, default_client};

use crate::exit::{Exit, Failure};

pub(crate) struct Connection {
    pub(crate) settings: TableConfig,
    pub(crate) client: Client,
    pub(crate) store: DynamoDbStore,
    /// Whether a variable says what the partition key of a composite key holds.
    partition_known: bool,
}

impl Connection {
    pub(crate) async fn open(variables: &Variables) -> Result<Self, Failure> {
        if variables.value("IDEMPOTENCY_TABLE").is_none() {
            let message = "no table is named: add `--table NAME`, or set IDEMPOTENCY_TABLE";
            return Err(Failure::new(Exit::Usage, message));
        }
        let settings = TableConfig::from_variables(variables)?;
        let client = default_client().await?;
        let store = settings.store(client.clone())?;
        let known = ["IDEMPOTENCY_STATIC_PK_VALUE", "AWS_LAMBDA_FUNCTION_NAME"];
        Ok(Self {
            partition_known: known.iter().any(|name| variables.value(name).is_some()),
            settings,
            client,
            store,
        })
    }

    /// The store, for commands on one record. The functions' own name stands in the partition key of their records,
    /// and an operator's machine does not know it: without a word about it, every record would seem to be missing.
    pub(crate) fn records(&self) -> Result<&DynamoDbStore, Failure> {
        if self.settings.sort_key.is_some() && !self.partition_known {
            let message = "the table has a sort key, and nothing says what the partition key holds: set \
                           IDEMPOTENCY_STATIC_PK_VALUE as the function has it, or else AWS_LAMBDA_FUNCTION_NAME to the \
                           function's name";
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(&self.store)
    }

    /// A request about the table failed.
    pub(crate) fn refused<E>(&self, action: &str, error: &SdkError<E>) -> Failure
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let table = &self.settings.table;
        let why = match (error.code(), error.message()) {
            (Some(code), message) => format!("{code}: {}", message.unwrap_or("no message")),
            (None, _) => chain(error),
        };
        let message = format!("dynamodb:{action} on the table `{table}` failed: {why}");
        Failure::new(Exit::Failed, message)
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

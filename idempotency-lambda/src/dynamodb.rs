//! The DynamoDB store, from environment variables.

use idempotency_core::config::{ConfigurationError, Variables};
use idempotency_dynamodb::DynamoDbStore;
use idempotency_dynamodb::names::Names;

/// The store that `IDEMPOTENCY_TABLE` and the `IDEMPOTENCY_*_ATTR` variables describe, on a client of its own.
pub(crate) async fn from_variables(
    variables: &Variables,
) -> Result<DynamoDbStore, ConfigurationError> {
    let table = variables.value("IDEMPOTENCY_TABLE").ok_or_else(|| {
        ConfigurationError::new(
            "IDEMPOTENCY_TABLE is not set: set it to the name of the DynamoDB table (or try things without one by \
             IDEMPOTENCY_STORE=memory)",
        )
    })?;
    let mut builder = DynamoDbStore::builder()
        .table(table)
        .names(names(variables))
        .client(idempotency_dynamodb::client::client().await?);
    if let Some(sort_key) = variables.value("IDEMPOTENCY_SORT_KEY_ATTR") {
        builder = builder.composite_key(sort_key, partition(variables));
    }
    builder.build()
}

fn names(variables: &Variables) -> Names {
    let mut names = Names::default();
    for (name, variable) in [
        (&mut names.key, "IDEMPOTENCY_KEY_ATTR"),
        (&mut names.expiration, "IDEMPOTENCY_EXPIRY_ATTR"),
        (
            &mut names.in_progress_expiration,
            "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR",
        ),
        (&mut names.status, "IDEMPOTENCY_STATUS_ATTR"),
        (&mut names.data, "IDEMPOTENCY_DATA_ATTR"),
        (&mut names.validation, "IDEMPOTENCY_VALIDATION_ATTR"),
    ] {
        if let Some(value) = variables.value(variable) {
            value.clone_into(name);
        }
    }
    names
}

/// The partition key of every record in a table with a sort key.
fn partition(variables: &Variables) -> String {
    match variables.value("IDEMPOTENCY_STATIC_PK_VALUE") {
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
    fn the_names_of_attributes_come_from_the_variables() {
        let names = names(&variables(&[
            ("IDEMPOTENCY_KEY_ATTR", "pk"),
            ("IDEMPOTENCY_DATA_ATTR", "answer"),
        ]));
        let changed = Names {
            key: "pk".to_owned(),
            data: "answer".to_owned(),
            ..Names::default()
        };
        assert_eq!(names, changed);
    }

    #[test]
    fn the_partition_of_a_composite_key_names_the_function_unless_it_is_set() {
        let function = ("AWS_LAMBDA_FUNCTION_NAME", "shop");
        assert_eq!(partition(&variables(&[function])), "idempotency#shop");
        let set = ("IDEMPOTENCY_STATIC_PK_VALUE", "all");
        assert_eq!(partition(&variables(&[function, set])), "all");
    }
}

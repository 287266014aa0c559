//! `idempotency table create`: creates the table and switches TTL on.

use std::io::Write;
use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification,
};
use idempotency_core::key::Json;

use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::json;

/// The pause between two checks of the new table. Usually it is active after some seconds.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of checks.
const MAX_CHECKS: u32 = 300;

pub(crate) async fn create(as_json: bool, connection: &Connection) -> Result<Exit, Failure> {
    let (config, client) = (&connection.config, &connection.client);
    let names = &config.names;
    let mut request = client
        .create_table()
        .table_name(&config.table)
        .billing_mode(BillingMode::PayPerRequest);
    let sort_key = config.sort_key.as_ref().map(|name| (name, KeyType::Range));
    for (name, kind) in [(&names.key, KeyType::Hash)].into_iter().chain(sort_key) {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind);
        request = request
            .attribute_definitions(definition.build().map_err(incomplete)?)
            .key_schema(key.build().map_err(incomplete)?);
    }
    request.send().await.map_err(|error| {
        if error.code() == Some("ResourceInUseException") {
            let message = format!(
                "the table `{}` exists already: check it with `idempotency table check`",
                config.table
            );
            return Failure::new(Exit::Failed, message);
        }
        connection.failed("CreateTable", &error)
    })?;
    until_active(connection).await?;
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(&names.expiration)
        .enabled(true)
        .build()
        .map_err(incomplete)?;
    let request = client.update_time_to_live().table_name(&config.table);
    request
        .time_to_live_specification(ttl)
        .send()
        .await
        .map_err(|error| {
            let mut failure = connection.failed("UpdateTimeToLive", &error);
            failure.message += &format!(
                "; the table was created: switch TTL on for `{}`",
                names.expiration
            );
            failure
        })?;
    report(as_json, connection).map_err(Failure::output)?;
    Ok(Exit::Done)
}

/// Waits until the table is active.
async fn until_active(connection: &Connection) -> Result<(), Failure> {
    let table = &connection.config.table;
    for _ in 0..MAX_CHECKS {
        match connection
            .client
            .describe_table()
            .table_name(table)
            .send()
            .await
        {
            Ok(output) => {
                let status = output.table.and_then(|table| table.table_status);
                if status == Some(TableStatus::Active) {
                    return Ok(());
                }
            }
            // A new table may not be visible yet.
            Err(error) if error.code() == Some("ResourceNotFoundException") => {}
            Err(error) => return Err(connection.failed("DescribeTable", &error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let message = format!(
        "the table `{table}` is not active yet and has no TTL: switch TTL on when `idempotency table check` finds the table"
    );
    Err(Failure::new(Exit::Failed, message))
}

/// Prints the result.
fn report(as_json: bool, connection: &Connection) -> std::io::Result<()> {
    let config = &connection.config;
    let (table, ttl) = (&config.table, &config.names.expiration);
    let mut output = std::io::stdout().lock();
    if as_json {
        let created = [
            ("created", Some(Json::Bool(true))),
            ("table", Some(json::text(table))),
            ("partition_key", Some(json::text(&config.names.key))),
            ("sort_key", config.sort_key.as_ref().map(json::text)),
            ("ttl", Some(json::text(ttl))),
        ];
        return json::write(&mut output, &json::object(created));
    }
    let key = &config.names.key;
    let keys = match &config.sort_key {
        None => format!("partition key `{key}`"),
        Some(sort_key) => format!("partition key `{key}`, sort key `{sort_key}`"),
    };
    writeln!(
        output,
        "created the table `{table}`: {keys}, on demand, TTL on `{ttl}`"
    )
}

/// Converts the error of an SDK builder with a missing field. All required fields are set.
fn incomplete(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, error)
}

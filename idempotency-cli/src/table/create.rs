//! `idempotency table create`.

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

/// How often DynamoDB is asked whether the table is there, and how long: usually it takes some seconds.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES: u32 = 300;

pub(crate) async fn create(as_json: bool, connection: &Connection) -> Result<Exit, Failure> {
    let (settings, client) = (&connection.settings, &connection.client);
    let names = &settings.names;
    let mut request = client
        .create_table()
        .table_name(&settings.table)
        .billing_mode(BillingMode::PayPerRequest);
    let sort_key = settings
        .sort_key
        .as_ref()
        .map(|name| (name, KeyType::Range));
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
                "there is a table `{}` already: see what it is with `idempotency table check`",
                settings.table
            );
            return Failure::new(Exit::Failed, message);
        }
        connection.refused("CreateTable", &error)
    })?;
    until_active(connection).await?;
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(&names.expiration)
        .enabled(true)
        .build()
        .map_err(incomplete)?;
    let request = client.update_time_to_live().table_name(&settings.table);
    request
        .time_to_live_specification(ttl)
        .send()
        .await
        .map_err(|error| {
            let mut failure = connection.refused("UpdateTimeToLive", &error);
            failure.message += &format!(
                "; the table is there: switch TTL on for `{}`",
                names.expiration
            );
            failure
        })?;
    told(as_json, connection).map_err(Failure::output)?;
    Ok(Exit::Done)
}

async fn until_active(connection: &Connection) -> Result<(), Failure> {
    let table = &connection.settings.table;
    for _ in 0..TRIES {
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
            // What was just created may not be known everywhere yet.
            Err(error) if error.code() == Some("ResourceNotFoundException") => {}
            Err(error) => return Err(connection.refused("DescribeTable", &error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let message = format!(
        "the table `{table}` is not active yet, and has no TTL: when `idempotency table check` finds it, switch TTL on"
    );
    Err(Failure::new(Exit::Failed, message))
}

fn told(as_json: bool, connection: &Connection) -> std::io::Result<()> {
    let settings = &connection.settings;
    let (table, ttl) = (&settings.table, &settings.names.expiration);
    let mut output = std::io::stdout().lock();
    if as_json {
        let created = [
            ("created", Some(Json::Bool(true))),
            ("table", Some(json::text(table))),
            ("partition_key", Some(json::text(&settings.names.key))),
            ("sort_key", settings.sort_key.as_ref().map(json::text)),
            ("ttl", Some(json::text(ttl))),
        ];
        return json::write(&mut output, &json::object(created));
    }
    let key = &settings.names.key;
    let keys = match &settings.sort_key {
        None => format!("partition key `{key}`"),
        Some(sort_key) => format!("partition key `{key}`, sort key `{sort_key}`"),
    };
    writeln!(
        output,
        "created the table `{table}`: {keys}, on demand, TTL on `{ttl}`"
    )
}

/// The SDK's builders name what is missing; nothing is.
fn incomplete(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, error)
}

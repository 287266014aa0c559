//! A DynamoDB that environment variables name.
//!
//! | variable | meaning |
//! |---|---|
//! | `CONFORMANCE_DYNAMODB_ENDPOINT` | a URL, or `aws` for the account of the default credentials |
//! | `CONFORMANCE_TABLE` | a table with the partition key `id` (S); default `conformance` |
//! | `CONFORMANCE_COMPOSITE_TABLE` | a table that also has the sort key `sk` (S); default `conformance-composite` |
//! | `CONFORMANCE_DYNAMODB_LOCAL` | the URL of AWS's DynamoDB Local, to compare with the embedded database |
//!
//! At a URL, missing tables are created. On AWS they must exist, and a table whose variable is not set is left out.

use std::env;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;

use super::say;
use super::table::TableFactory;

const ENDPOINT: &str = "CONFORMANCE_DYNAMODB_ENDPOINT";
const DYNAMODB_LOCAL: &str = "CONFORMANCE_DYNAMODB_LOCAL";
const SORT_KEY: &str = "sk";

/// Returns the tables that the variables name, each with a clock. Returns none if no endpoint is set.
pub(crate) async fn factories() -> Result<Vec<(TableFactory, ManualClock)>, BoxError> {
    let Ok(endpoint) = env::var(ENDPOINT) else {
        say(format_args!(
            "NOT RUN: the conformance suite on a DynamoDB of your own; {ENDPOINT} is not set (a URL, or `aws`)"
        ));
        return Ok(Vec::new());
    };
    let aws = endpoint == "aws";
    let client = if aws {
        idempotency_dynamodb::default_client().await?
    } else {
        at(&endpoint)
    };
    let mut factories = Vec::new();
    for (variable, default, sort_key) in [
        ("CONFORMANCE_TABLE", "conformance", None),
        (
            "CONFORMANCE_COMPOSITE_TABLE",
            "conformance-composite",
            Some(SORT_KEY),
        ),
    ] {
        let table = match env::var(variable) {
            Ok(table) => table,
            Err(_) if aws => {
                say(format_args!("NOT RUN: {variable} is not set"));
                continue;
            }
            Err(_) => default.to_owned(),
        };
        if !aws {
            create(&client, &table, sort_key).await?;
        }
        say(format_args!(
            "running the conformance suite on `{table}` at {endpoint}"
        ));
        let factory = || {
            let factory = TableFactory::new(client.clone(), &table);
            match sort_key {
                None => factory,
                Some(sort_key) => factory.composite(sort_key, "idempotency#conformance"),
            }
        };
        factories.push((factory(), clock()?));
        factories.push((factory().with_large_responses(), clock()?));
    }
    if factories.is_empty() {
        return Err(
            "no table is named: set CONFORMANCE_TABLE, or CONFORMANCE_COMPOSITE_TABLE".into(),
        );
    }
    Ok(factories)
}

/// Returns a client of DynamoDB Local and the name of a new table. Returns `None` if the variable is not set.
pub(crate) async fn dynamodb_local() -> Result<Option<(Client, String)>, BoxError> {
    let Ok(endpoint) = env::var(DYNAMODB_LOCAL) else {
        say(format_args!(
            "NOT RUN: the comparison of the embedded database with DynamoDB Local; {DYNAMODB_LOCAL} is not set (a URL)"
        ));
        return Ok(None);
    };
    let (client, table) = (at(&endpoint), format!("comparison-{}", std::process::id()));
    create(&client, &table, None).await?;
    say(format_args!(
        "comparing the embedded database with DynamoDB Local at {endpoint}"
    ));
    Ok(Some((client, table)))
}

/// Returns a clock that is a week ahead, so that records that the suite considers expired are not deleted by TTL.
fn clock() -> Result<ManualClock, BoxError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let ahead = now + Duration::from_secs(7 * 24 * 60 * 60);
    Ok(ManualClock::at(i64::try_from(ahead.as_millis())?))
}

fn at(endpoint: &str) -> Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(endpoint)
        .http_client(idempotency_dynamodb::http_client());
    Client::from_conf(config.build())
}

async fn create(client: &Client, table: &str, sort_key: Option<&str>) -> Result<(), BoxError> {
    let mut create = client.create_table().table_name(table);
    for (name, kind) in [(Some("id"), KeyType::Hash), (sort_key, KeyType::Range)] {
        let Some(name) = name else { continue };
        let definition = AttributeDefinition::builder().attribute_name(name);
        let definition = definition.attribute_type(ScalarAttributeType::S).build()?;
        let key = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind)
            .build()?;
        create = create.attribute_definitions(definition).key_schema(key);
    }
    match create.billing_mode(BillingMode::PayPerRequest).send().await {
        Ok(_) => Ok(()),
        Err(error) => match error.into_service_error() {
            exists if exists.is_resource_in_use_exception() => Ok(()),
            other => Err(other.into()),
        },
    }
}

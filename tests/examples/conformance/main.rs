//! The conformance suite on a DynamoDB that environment variables name, with both clients and both key layouts.
//!
//! ```console
//! CONFORMANCE_DYNAMODB_ENDPOINT=http://127.0.0.1:8000 cargo run -p idempotency-tests --features servers --example conformance
//! CONFORMANCE_DYNAMODB_ENDPOINT=http://127.0.0.1:8000 cargo run -p idempotency-tests --features servers --example conformance differences
//! ```
//!
//! It is no test: without an endpoint it fails, so that a success always means a run. `differences` compares the embedded
//! database with AWS's DynamoDB Local at the endpoint instead.
//!
//! | variable | meaning |
//! |---|---|
//! | `CONFORMANCE_DYNAMODB_ENDPOINT` | a URL, or `aws` for the account of the default credentials |
//! | `CONFORMANCE_TABLE` | a table with the partition key `id` (S); default `conformance` |
//! | `CONFORMANCE_COMPOSITE_TABLE` | a table that also has the sort key `sk` (S); default `conformance-composite` |
//! | `CONFORMANCE_QUICK` | if set, one run for each table: with the lean client, without large responses |
//!
//! At a URL, missing tables are created. On AWS they must exist, and a table whose variable is not set is left out.

mod emulators;

use std::env;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{Report, check};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_tests::TableFactory;

const ENDPOINT: &str = "CONFORMANCE_DYNAMODB_ENDPOINT";
const QUICK: &str = "CONFORMANCE_QUICK";
const SORT_KEY: &str = "sk";

/// The runs on each table: with the lean client, with large responses.
const RUNS: [(bool, bool); 4] = [(true, false), (false, false), (false, true), (true, true)];

/// The tables: the variable of the name, its default, and the sort key.
const TABLES: [(&str, &str, Option<&str>); 2] = [
    ("CONFORMANCE_TABLE", "conformance", None),
    (
        "CONFORMANCE_COMPOSITE_TABLE",
        "conformance-composite",
        Some(SORT_KEY),
    ),
];

/// The requests to which the embedded database and DynamoDB Local reply differently. The protocol sends none of them.
const KNOWN: [&str; 4] = [
    "`<` with a truth value",
    "`<` with null",
    "an attribute's name of 64 KB",
    "TTL switched on again",
];

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let endpoint = env::var(ENDPOINT)
        .map_err(|_| format!("nothing was run: set {ENDPOINT} to a URL, or to `aws`"))?;
    match env::args().nth(1).as_deref() {
        None => suite(&endpoint).await,
        Some("differences") => differences(&endpoint).await,
        Some(other) => {
            Err(format!("`{other}` is no command: write `differences`, or nothing").into())
        }
    }
}

/// Runs the suite on each table, with each client.
async fn suite(endpoint: &str) -> Result<(), BoxError> {
    let is_aws = endpoint == "aws";
    let client = if is_aws {
        idempotency_dynamodb::default_client().await?
    } else {
        at(endpoint)
    };
    let of_each = if env::var_os(QUICK).is_some() {
        &RUNS[..1]
    } else {
        &RUNS
    };
    let (mut runs, mut failed) = (0, Vec::new());
    for (variable, default, sort_key) in TABLES {
        let table = match env::var(variable) {
            Ok(table) => table,
            Err(_) if is_aws => {
                println!("left out: {variable} is not set");
                continue;
            }
            Err(_) => default.to_owned(),
        };
        if !is_aws {
            create(&client, &table, sort_key).await?;
        }
        for &(lean, large) in of_each {
            println!("`{table}` at {endpoint}, lean client: {lean}, large responses: {large}");
            let factory = TableFactory::new(client.clone(), &table).lean(lean);
            let factory = match sort_key {
                None => factory,
                Some(sort_key) => factory.composite(sort_key, "idempotency#conformance"),
            };
            let factory = if large {
                factory.with_large_responses()
            } else {
                factory
            };
            // The other runs can show more.
            if let Err(error) = passed(&check(factory, &clock()?).await) {
                failed.push(format!(
                    "`{table}`, lean client: {lean}, large responses: {large}: {error}"
                ));
            }
            runs += 1;
        }
    }
    if runs == 0 {
        return Err(
            "nothing was run: set CONFORMANCE_TABLE, or CONFORMANCE_COMPOSITE_TABLE".into(),
        );
    }
    if !failed.is_empty() {
        let count = failed.len();
        return Err(format!("{count} of {runs} runs failed:\n{}", failed.join("\n")).into());
    }
    println!("the store conforms in all of {runs} runs");
    Ok(())
}

/// Checks that no case failed, and that each skipped case needs lost replies, a limit on a record's size or a transaction that a
/// handler begins. An external database loses no replies on request, a store that splits large responses has no limit, and the
/// transactions of DynamoDB are staged.
fn passed(report: &Report) -> Result<(), BoxError> {
    let expected = [
        "the factory loses no replies",
        "the store has no limit on a record's size (`Store::limits`)",
        "the factory begins no transactions",
    ];
    println!("{report}");
    let skipped = report.skipped().map(|(_, reason)| reason);
    let lost: Vec<_> = skipped.filter(|reason| *reason == expected[0]).collect();
    let all_expected = report
        .skipped()
        .all(|(_, reason)| expected.contains(&reason));
    if report.failures().next().is_some() || lost.len() != 2 || !all_expected {
        return Err("the store does not conform, or a case was not run".into());
    }
    Ok(())
}

/// Compares the embedded database with DynamoDB Local.
async fn differences(endpoint: &str) -> Result<(), BoxError> {
    let (client, table) = (at(endpoint), format!("comparison-{}", std::process::id()));
    create(&client, &table, None).await?;
    let database = EmbeddedDynamoDb::start().await?;
    database
        .create_table(TableSpec::new("simple").ttl(None))
        .await?;
    let embedded = database.client();
    let found = emulators::differences((&embedded, "simple"), (&client, &table)).await?;
    if found != KNOWN {
        return Err(format!("the databases differ in {found:?}, and {KNOWN:?} are known").into());
    }
    println!("the embedded database and {endpoint} differ as documented");
    Ok(())
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
    if let Err(error) = create.billing_mode(BillingMode::PayPerRequest).send().await {
        let error = error.into_service_error();
        if !error.is_resource_in_use_exception() {
            return Err(error.into());
        }
    }
    until_active(client, table).await
}

/// Waits until a table can be used, for a minute at most.
async fn until_active(client: &Client, table: &str) -> Result<(), BoxError> {
    for _ in 0..120 {
        let described = client.describe_table().table_name(table).send().await?;
        let status = described.table.and_then(|table| table.table_status);
        if status == Some(TableStatus::Active) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Err(format!("the table `{table}` is not active after a minute").into())
}

//! Measures how much a failed request to DynamoDB adds to a call: the median with a fault minus the median without one.
//!
//! ```bash
//! cargo run --release -p idempotency-tests --features servers --example added_latency      # or with a number of calls for each line
//! ```
//!
//! Each line is measured twice: with the pauses of the SDK's standard retries and with those of this store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Builder, Region};
use idempotency_lambda::{
    Backend, BoxError, Deadline, DynamoDbStore, Operation, backend_over, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, FaultBuilder, TableSpec};
use serde_json::json;

/// The table's name.
const TABLE: &str = "idempotency";

type Ends = fn(FaultBuilder) -> Fault;

const CLAIM: &str = "PutItem";
const COMPLETION: &str = "UpdateItem";
const THROTTLED: Ends = FaultBuilder::throttle;
const REFUSED: Ends = FaultBuilder::drop_request;
const LOST: Ends = FaultBuilder::drop_reply;

/// What goes wrong in a call: which request fails, how often, and how.
const LINES: [(&str, &str, usize, Ends); 8] = [
    ("no fault", CLAIM, 0, THROTTLED),
    ("claim throttled once", CLAIM, 1, THROTTLED),
    ("claim throttled three times", CLAIM, 3, THROTTLED),
    ("completion throttled once", COMPLETION, 1, THROTTLED),
    ("completion throttled three times", COMPLETION, 3, THROTTLED),
    ("connection of the claim reset", CLAIM, 1, REFUSED),
    ("reply to the claim lost", CLAIM, 1, LOST),
    ("claim accepted, no reply, once", CLAIM, 1, |on| on.hold()),
];

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let calls = match std::env::args().nth(1) {
        Some(calls) => calls.parse()?,
        None => 40,
    };
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    let operation = Operation::builder("measured::charge")
        .key("order")
        .build()?;
    println!("| what goes wrong | before, ms | failed | now, ms | failed |");
    println!("|---|---|---|---|---|");
    let mut orders = 0;
    let mut usual = [0.0; 2];
    for (line, (name, request, times, ends)) in LINES.into_iter().enumerate() {
        let mut columns = String::new();
        for (setting, usual) in usual.iter_mut().enumerate() {
            // The SDK keeps one retry quota per region.
            let region = Region::new(format!("measured-{line}-{setting}"));
            let backend = backend(&database, region, setting == 0)?;
            let (mut took, mut failed) = (Vec::new(), 0);
            for call in 0..=calls {
                orders += 1;
                if call > 0 && times > 0 {
                    database.inject(ends(Fault::on(request).times(times)));
                }
                let payload = json!({ "order": orders });
                let begun = Instant::now();
                let run = operation.run(&payload, Deadline::Inherited, || async {
                    Ok::<_, BoxError>(1)
                });
                let outcome = with_backend(backend.clone(), run).await;
                let elapsed = begun.elapsed();
                database.clear_faults();
                database.clear_requests();
                // The first call opens the connection.
                if call > 0 {
                    took.push(elapsed);
                    failed += usize::from(outcome.is_err());
                }
            }
            let median = median(took);
            if line == 0 {
                *usual = median;
                columns += &format!(" {median:.1} in total | {failed} |");
            } else {
                columns += &format!(" {:.1} | {failed} |", median - *usual);
            }
        }
        println!("| {name} |{columns}");
    }
    Ok(())
}

/// Returns a backend whose store pauses as the SDK does by default, or with its own settings.
fn backend(
    database: &EmbeddedDynamoDb,
    region: Region,
    as_the_sdk: bool,
) -> Result<Backend, BoxError> {
    let config = database.sdk_config().into_builder().region(region).build();
    let builder = DynamoDbStore::builder().table(TABLE);
    let store = if as_the_sdk {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(1))
            .operation_attempt_timeout(Duration::from_millis(1_500));
        let config = Builder::from(&config)
            .retry_config(RetryConfig::standard())
            .timeout_config(timeouts.build());
        builder.client(Client::from_conf(config.build()))
    } else {
        builder.sdk_config(&config)
    };
    Ok(backend_over(Arc::new(store.build()?)))
}

/// Returns the median in milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    middle.as_secs_f64() * 1_000.0
}

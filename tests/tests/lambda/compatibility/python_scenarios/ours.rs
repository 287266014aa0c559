//! Plays a situation with this framework: the real store on the embedded DynamoDB, and a clock that the test controls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, retry::RetryConfig};
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::config::Variables;
use idempotency_core::store::Store;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    Backend, BoxError, Deadline, DynamoDbStore, Error, ErrorKind, Operation, Outcome, OutcomeKind,
    Replay, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, Request, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::QuickPauses;
use serde_json::{Value, json};

use super::scenario::{Handler, Hook, Item, Mode, Scenario, Step, TABLE};

/// The process that plays a situation.
pub(crate) struct Play<'a> {
    scenario: &'a Scenario,
    database: EmbeddedDynamoDb,
    clock: QuickPauses,
    backend: Backend,
    operation: Result<Operation, ErrorKind>,
}

/// The result of a call.
pub(crate) struct CallResult {
    /// The response, the framework's error, or `None` for the handler's own.
    pub(crate) result: Result<Value, Option<ErrorKind>>,
    /// True if it ran without a claim.
    pub(crate) bypassed: bool,
    pub(crate) runs: usize,
    pub(crate) requests: Vec<Request>,
    pub(crate) items: Vec<Item>,
}

impl<'a> Play<'a> {
    pub(crate) async fn start(scenario: &'a Scenario) -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        // The scenarios were recorded without retries of the SDK.
        let config = Builder::from(&database.sdk_config()).retry_config(RetryConfig::disabled());
        let store = DynamoDbStore::builder()
            .client(Client::from_conf(config.build()))
            // As the guide says for a table that is shared.
            .compress_above(None)
            .split_large_responses(false)
            .table(TABLE);
        let (table, store) = match &scenario.store.sort_key {
            None => (TableSpec::new(TABLE), store),
            // Python's default if the variable with the function's name is missing.
            Some(name) => (
                TableSpec::new(TABLE).with_sort_key(name),
                store.composite_key(name, "idempotency#"),
            ),
        };
        database.create_table(table).await?;
        if let Some(item) = &scenario.existing_item {
            database.put(TABLE, attributes(item)).await?;
        }
        let store = store.build()?;
        // As at the start of a function, the keys of the table are read before the first claim.
        store.warm_up(false).await?;
        let clock = QuickPauses(ManualClock::at(0));
        let backend = Backend::new(
            Arc::new(store),
            Arc::new(clock.clone()),
            Arc::new(SeededRandom::new(7)),
        );
        Ok(Self {
            scenario,
            database,
            clock,
            backend,
            operation: operation(scenario),
        })
    }

    pub(crate) async fn step(&self, step: &Step) -> Result<CallResult, BoxError> {
        self.clock.0.set(step.at_ms);
        self.inject(step);
        self.database.clear_requests();
        let runs = AtomicUsize::new(0);
        let mut bypassed = false;
        let result = match &self.operation {
            Err(kind) => Err(Some(*kind)),
            Ok(operation) => {
                let deadline = step.remaining_ms.map_or(Deadline::Inherited, |remaining| {
                    Deadline::At(EpochMillis::new(step.at_ms + remaining))
                });
                let call = operation.run(&step.event, deadline, || async {
                    runs.fetch_add(1, Ordering::Relaxed);
                    handle(&step.handler)
                });
                let outcome = with_backend(self.backend.clone(), call).await;
                let response = |outcome: Outcome<Value>| {
                    bypassed = matches!(outcome.kind(), OutcomeKind::Bypassed(_));
                    let outcome = match self.scenario.response_hook {
                        None => outcome,
                        Some(hook) => outcome.on_replay(|a, r| hooked(hook, a, r)),
                    };
                    outcome.into_response()
                };
                let kind = |error: BoxError| error.downcast_ref().map(Error::kind);
                outcome.map(response).map_err(kind)
            }
        };
        let requests = self.database.requests();
        self.database.clear_faults();
        let items = self.database.items(TABLE).await?;
        Ok(CallResult {
            result,
            bypassed,
            runs: runs.into_inner(),
            requests,
            items: items.into_iter().map(json_item).collect(),
        })
    }

    fn inject(&self, step: &Step) {
        for injection in &step.inject {
            let fault = Fault::on(&injection.op).times(injection.times.unwrap_or(usize::MAX));
            let is_internal = injection.error == "InternalServerError";
            let status = if is_internal { 500 } else { 400 };
            let fault = fault.respond_with(status, &injection.error);
            self.database.inject(fault);
        }
        // A DynamoDB that refuses a claim without returning the record.
        if !self.scenario.condition_check_returns_item && self.scenario.existing_item.is_some() {
            let refusal = Fault::on("PutItem").respond_with(400, "ConditionalCheckFailedException");
            self.database.inject(refusal);
        }
    }
}

/// Builds the operation with the equivalent settings. Returns the kind of the error if it cannot be built.
fn operation(scenario: &Scenario) -> Result<Operation, ErrorKind> {
    let prefix = match (&scenario.key_prefix, scenario.mode) {
        (Some(prefix), _) => prefix,
        (None, Mode::Handler) => "test-func.orders.app.lambda_handler",
        (None, Mode::Function) => "test-func.orders.app.process_order",
    };
    let variables: Variables = scenario.env.clone().into_iter().collect();
    let mut builder = Operation::builder("orders::app")
        .variables(variables)
        .key_prefix(prefix)
        // Python's default.
        .key_required(false)
        // Each scenario stands for a separate program.
        .shared_key_prefix(true);
    let config = &scenario.config;
    if let Some(key) = &config.event_key {
        builder = builder.key(key);
    }
    if let Some(validate) = &config.validation {
        builder = builder.validate(validate);
    }
    if let Some(seconds) = config.expires_after_seconds {
        builder = builder.expires_after(Duration::from_secs(seconds));
    }
    if config.use_local_cache {
        builder = builder.local_cache(256);
    }
    builder.build().map_err(|error| error.kind())
}

fn handle(handler: &Handler) -> Result<Value, BoxError> {
    match handler {
        Handler::Return(response) => Ok(response.clone()),
        Handler::Raise(message) => Err(message.clone().into()),
        Handler::ReturnStringOfLength(length) => Ok("x".repeat(*length).into()),
    }
}

fn hooked(hook: Hook, mut response: Value, replay: &Replay) -> Value {
    match hook {
        Hook::AddField => {
            response["hooked"] = replay.key().as_str().into();
            response
        }
        Hook::Wrap => json!({
            "wrapped": response,
            "status": "COMPLETED",
            "exp": replay.expires_at().map(|end| end.get()),
        }),
    }
}

/// Converts an item from DynamoDB's JSON.
pub(crate) fn attributes(item: &Item) -> Vec<(String, AttributeValue)> {
    item.iter()
        .map(|(name, value)| (name.clone(), attribute(value)))
        .collect()
}

/// Converts a value from DynamoDB's JSON.
pub(crate) fn attribute(value: &Value) -> AttributeValue {
    match (value["S"].as_str(), value["N"].as_str()) {
        (Some(text), _) => AttributeValue::S(text.to_owned()),
        (None, Some(number)) => AttributeValue::N(number.to_owned()),
        (None, None) => panic!("the scenarios have only texts and numbers"),
    }
}

fn json_item(item: HashMap<String, AttributeValue>) -> Item {
    item.into_iter()
        .map(|(name, value)| {
            let value = match value {
                AttributeValue::S(text) => json!({ "S": text }),
                AttributeValue::N(number) => json!({ "N": number }),
                other => panic!("{name} is neither a text nor a number: {other:?}"),
            };
            (name, value)
        })
        .collect()
}

//! The units of each request, as the database reports them, against those that `idempotency cost` prints.
//!
//! DynamoDB reports no units for a refused write, and neither does the embedded database. Its documentation says that such a write
//! consumes units by the size of the item. For these writes the rule is applied to the stored item.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeTransmitInterceptorContextMut, FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError as SdkBoxError;
use aws_sdk_dynamodb::types::{AttributeValue, Put};
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use idempotency_core::config::Variables;
use idempotency_core::future::BoxFuture;
use idempotency_core::store::{Consistency, Store};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, Lookup, OnError, OnInProgress, Operation,
    OperationBuilder, Steps, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use serde_json::{Value, json};

use super::capacity::{Capacity, Path, RecordSize};
use super::{RESPONSES, amount, kilobytes};

/// The time at which tests start, in milliseconds since the epoch.
const START: i64 = 1_700_000_000_500;

/// Returns the builder of an operation that reads no environment variables.
fn operation() -> OperationBuilder {
    Operation::builder("shop::charge")
        .variables(Variables::default())
        .key_prefix("local.shop.charge")
        // Each test stands for a program of its own.
        .shared_key_prefix(true)
}

type Item = HashMap<String, AttributeValue>;

/// A request that the database served: its operation, with `!` if it was refused, and the units that it reported.
type Served = (String, Option<f64>);

/// An interceptor that asks DynamoDB for the units of each request, and notes them.
#[derive(Clone, Debug, Default)]
struct Units(Arc<Mutex<Vec<Served>>>);

impl Intercept for Units {
    fn name(&self) -> &'static str {
        "units"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), SdkBoxError> {
        let request = context.request_mut();
        let mut body: Value = serde_json::from_slice(request.body().bytes().unwrap())?;
        body["ReturnConsumedCapacity"] = "TOTAL".into();
        let body = body.to_string();
        let length = body.len().to_string();
        request.headers_mut().insert("content-length", length);
        *request.body_mut() = body.into();
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), SdkBoxError> {
        let operation = config.load::<Metadata>().unwrap().name();
        let response = context.response().unwrap();
        let refused = match response.status().is_success() {
            true => "",
            false => "!",
        };
        let reply: Value = serde_json::from_slice(response.body().bytes().unwrap())?;
        let units = match &reply["ConsumedCapacity"] {
            Value::Array(tables) => {
                let units = tables.iter().map(|table| table["CapacityUnits"].as_f64());
                units.sum()
            }
            one => one["CapacityUnits"].as_f64(),
        };
        let served = (format!("{operation}{refused}"), units);
        self.0.lock().unwrap().push(served);
        Ok(())
    }
}

/// Returns the units of these requests. DynamoDB reports none for a refused claim, which met a record of `found` bytes.
fn consumed(served: &[Served], found: usize) -> Capacity {
    let mut sum = Capacity::default();
    for (operation, reported) in served {
        match (operation.as_str(), reported) {
            ("GetItem", Some(units)) => sum.read += units,
            ("PutItem!", None) => sum = sum + Capacity::of_write(found),
            ("PutItem" | "UpdateItem" | "DeleteItem", Some(units)) => sum.write += units,
            other => panic!("{other:?}"),
        }
    }
    sum
}

/// A database, and a store whose requests are noted.
struct Measured {
    database: Arc<EmbeddedDynamoDb>,
    store: Arc<DynamoDbStore>,
    units: Units,
    processes: AtomicU64,
}

impl Measured {
    async fn start() -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new("idempotency")).await?;
        let units = Units::default();
        let config = aws_sdk_dynamodb::config::Builder::from(&database.sdk_config());
        let client = Client::from_conf(config.interceptor(units.clone()).build());
        let store = DynamoDbStore::builder()
            .client(client)
            .table("idempotency")
            // The tables count what is stored.
            .compress_above(None)
            .split_large_responses(false);
        Ok(Self {
            database: Arc::new(database),
            store: Arc::new(store.build()?),
            units,
            processes: AtomicU64::new(1),
        })
    }

    /// Returns the backend of a new process, with this clock.
    fn process(&self, clock: Arc<dyn Clock>) -> Backend {
        let seed = self.processes.fetch_add(1, Ordering::Relaxed);
        let random = Arc::new(SeededRandom::new(seed));
        Backend::new(self.store.clone(), clock, random)
    }

    /// Calls the operation in a new process, by this clock.
    async fn call(
        &self,
        operation: &Operation,
        clock: Arc<dyn Clock>,
        handler: impl AsyncFnOnce() -> Result<String, BoxError>,
    ) -> Result<String, BoxError> {
        let payload = order();
        let call = operation.run(&payload, deadline(), || handler());
        let called = with_backend(self.process(clock), call).await?;
        Ok(called.into_response())
    }

    /// Returns the requests since the last call of this function.
    fn take(&self) -> Vec<Served> {
        std::mem::take(&mut *self.units.0.lock().unwrap())
    }

    /// Returns the only item.
    async fn item(&self) -> Result<Item, BoxError> {
        let mut items = self.database.items("idempotency").await?;
        let item = items.pop().filter(|_| items.is_empty());
        item.ok_or_else(|| "not one item".into())
    }

    /// Returns the size of the only item, by DynamoDB's rules.
    async fn item_size(&self) -> Result<usize, BoxError> {
        let size = |value: &AttributeValue| match value {
            AttributeValue::S(text) => text.len(),
            // One byte for two digits, plus one.
            AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
            AttributeValue::M(steps) => {
                let steps = steps.iter();
                let sizes = steps.map(|(name, text)| name.len() + text.as_s().unwrap().len() + 1);
                3 + sizes.sum::<usize>()
            }
            other => panic!("{other:?} is no attribute of a record"),
        };
        let item = self.item().await?;
        let sizes = item.iter().map(|(name, value)| name.len() + size(value));
        Ok(sizes.sum())
    }
}

fn order() -> Value {
    json!({ "order_id": 7 })
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(START))
}

fn deadline() -> Deadline {
    Deadline::At(EpochMillis::new(START + 30_000))
}

/// Returns a response whose JSON text has this many bytes.
fn response(bytes: usize) -> String {
    "r".repeat(bytes - 2)
}

/// A clock that stands still. The other call completes in the pause that a waiting call makes.
struct ClockWithCompletion {
    database: Arc<EmbeddedDynamoDb>,
    completed: Item,
}

impl Clock for ClockWithCompletion {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(START)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_millis(25) {
            // Too long for a pause: it is the time limit of a request, which never ends here.
            return Box::pin(std::future::pending());
        }
        let (database, completed) = (self.database.clone(), self.completed.clone());
        Box::pin(async move { database.put("idempotency", completed).await.unwrap() })
    }
}

/// Performs the path, and returns its requests and the size of the record that its calls met.
async fn requests_of(
    path: Path,
    lookup: Lookup,
    bytes: usize,
) -> Result<(Vec<Served>, usize), BoxError> {
    let measured = Measured::start().await?;
    let builder = || operation().key("order_id").lookup(lookup);
    let charge = builder().build()?;
    let text = response(bytes);
    let first = || measured.call(&charge, clock(), async || Ok(text.clone()));
    let fails = async || Err("declined".into());
    match path {
        Path::FirstRun => drop(first().await?),
        Path::Duplicate => {
            first().await?;
            measured.take();
            assert_eq!(first().await?, text);
        }
        Path::InProgress => {
            let mut seen = (Vec::new(), 0);
            let outer = measured.call(&charge, clock(), async || {
                measured.take();
                let error = first().await.unwrap_err();
                assert!(error.to_string().contains("in progress"), "{error}");
                seen = (measured.take(), measured.item_size().await?);
                Ok(String::new())
            });
            outer.await?;
            return Ok(seen);
        }
        Path::Waited => {
            let mut claim = Item::new();
            let other = measured.call(&charge, clock(), async || {
                claim = measured.item().await?;
                Ok(text.clone())
            });
            other.await?;
            let (database, completed) = (measured.database.clone(), measured.item().await?);
            database.put("idempotency", claim).await?;
            measured.take();
            let size = measured.item_size().await?;
            let clock = Arc::new(ClockWithCompletion {
                database,
                completed,
            });
            let waits = builder().on_in_progress(OnInProgress::Wait).build()?;
            assert_eq!(measured.call(&waits, clock, fails).await?, text);
            return Ok((measured.take(), size));
        }
        Path::Released => drop(measured.call(&charge, clock(), fails).await.unwrap_err()),
        Path::Recorded => {
            let records = builder().on_error(OnError::Record).build()?;
            drop(measured.call(&records, clock(), fails).await.unwrap_err());
        }
        Path::WarmUp => measured.store.warm_up(false).await?,
    }
    let size = measured.item_size().await.unwrap_or_default();
    Ok((measured.take(), size))
}

#[tokio::test]
async fn each_path_consumes_the_units_of_the_documentation() -> Result<(), BoxError> {
    for path in Path::ALL {
        for lookup in [Lookup::ClaimFirst, Lookup::ReadFirst] {
            for bytes in RESPONSES {
                let what = format!("{path:?}, {lookup:?}, {bytes} bytes");
                let (served, size) = requests_of(path, lookup, bytes).await?;
                let operations = served.iter().map(|(name, _)| name);
                assert!(operations.eq(path.requests(lookup)), "{what}: {served:?}");
                let expected = path.capacity(lookup, RecordSize::of_response(bytes));
                assert_eq!(consumed(&served, size), expected, "{what}");
            }
        }
    }
    Ok(())
}

/// The bytes of an empty map of steps: the attribute's name, and three bytes.
const MAP: usize = 5 + 3;

/// Returns the size of a record in progress with the first results of [`STEPS`]. A member of a map takes one byte more.
fn with_results(size: RecordSize, results: usize) -> usize {
    let steps = STEPS.iter().take(results);
    size.claim
        + MAP
        + steps
            .map(|(name, bytes)| name.len() + bytes + 1)
            .sum::<usize>()
}

/// Returns the capacity of a run that finds the first `recorded` results (0: no record), runs the other steps and completes.
fn of_steps(size: RecordSize, recorded: usize) -> Capacity {
    let found = with_results(size, recorded);
    let claim = match recorded {
        0 => Capacity::of_write(found),
        // A refused claim, a takeover and a read.
        _ => {
            let refused = Capacity::of_write(found);
            refused + Capacity::of_write(found) + Capacity::of_read(found, Consistency::Strong)
        }
    };
    // A write counts the larger of the record before and after it.
    let completed = with_results(size, STEPS.len()).max(size.completed);
    let steps = (recorded..STEPS.len()).map(|step| with_results(size, step + 1));
    let writes = steps.chain([completed]).map(Capacity::of_write);
    writes.fold(claim, |sum, write| sum + write)
}

/// The names of steps, and the bytes of their results.
const STEPS: [(&str, usize); 3] = [("reserve", 300), ("charge", 2_400), ("ship", 700)];

/// Runs a handler that has the first `steps` of [`STEPS`] and returns this response, or an error if there is none.
async fn run_steps(
    measured: &Measured,
    steps: usize,
    response: Option<String>,
) -> Result<Vec<Served>, BoxError> {
    let operation = operation().key("order_id").steps(Steps::Keep).build()?;
    let payload = order();
    let ended = operation.run(&payload, deadline(), |call: Call| async move {
        for (name, bytes) in STEPS.into_iter().take(steps) {
            let result = async || Ok::<_, BoxError>("r".repeat(bytes - 2));
            call.step(name, result).await?;
        }
        response.ok_or_else(|| BoxError::from("declined"))
    });
    drop(with_backend(measured.process(clock()), ended).await);
    Ok(measured.take())
}

#[tokio::test]
async fn runs_with_steps_consume_the_units_of_the_documentation() -> Result<(), BoxError> {
    for bytes in RESPONSES {
        for recorded in 0..=STEPS.len() {
            let measured = Measured::start().await?;
            let mut found = 0;
            if recorded > 0 {
                run_steps(&measured, recorded, None).await?;
                found = measured.item_size().await?;
            }
            let expected = of_steps(RecordSize::of_response(bytes), recorded);
            let served = run_steps(&measured, 3, Some(response(bytes))).await?;
            let what = format!("{bytes} bytes, {recorded} recorded");
            assert_eq!(consumed(&served, found), expected, "{what}");
        }
    }
    Ok(())
}

/// Returns the write units of a first run with staged writes: the claim, and one transaction with the completion and these items, of
/// which each costs twice its units. `staged` has the size of each item in bytes, the larger of before and after.
fn first_run_with_transaction(size: RecordSize, staged: [usize; 2]) -> f64 {
    let items = staged.into_iter().chain([size.completed]);
    let units = |bytes| Capacity::of_write(bytes).write;
    units(size.claim) + items.map(|bytes| 2.0 * units(bytes)).sum::<f64>()
}

#[tokio::test]
async fn a_transaction_consumes_twice_the_units_of_each_item() -> Result<(), BoxError> {
    for (response_bytes, staged_bytes) in [(500, [100, 200]), (4_000, [100, 3_000])] {
        let measured = Measured::start().await?;
        let accounts = TableSpec::new("accounts");
        measured.database.create_table(accounts).await?;
        let charge = operation().key("order_id").build()?;
        let text = |bytes| AttributeValue::S("x".repeat(bytes));
        let payload = order();
        let call = charge.run(&payload, deadline(), |call: Call| async move {
            let mut transaction = call.transaction();
            for (id, bytes) in ["1", "2"].into_iter().zip(staged_bytes) {
                let put = Put::builder().table_name("accounts");
                let put = put.item("id", AttributeValue::S(id.to_owned()));
                transaction = transaction.put(put.item("b", text(bytes)).build()?)?;
            }
            Ok::<_, BoxError>(response(response_bytes))
        });
        with_backend(measured.process(clock()), call).await?;
        let served = measured.take();
        let operations: Vec<_> = served.iter().map(|(name, _)| name).collect();
        assert_eq!(operations, ["PutItem", "TransactWriteItems"]);
        let units: f64 = served.iter().filter_map(|(_, units)| *units).sum();
        // Beside `b`: the names of both attributes, and the id.
        let staged = staged_bytes.map(|bytes| bytes + 4);
        let size = RecordSize::of_response(response_bytes);
        assert_eq!(units, first_run_with_transaction(size, staged));
    }
    // As docs/reference/cost.md shows.
    let two_small_items = first_run_with_transaction(RecordSize::of_response(500), [100, 100]);
    assert_eq!(two_small_items, 7.0);
    Ok(())
}

#[tokio::test]
async fn the_other_attributes_of_a_record_take_no_more_than_is_reckoned() -> Result<(), BoxError> {
    let (_, size) = requests_of(Path::FirstRun, Lookup::ClaimFirst, 500).await?;
    let others = size - 500;
    assert!(
        (150..=RecordSize::OTHER_ATTRIBUTES).contains(&others),
        "{others}"
    );
    Ok(())
}

#[test]
fn sizes_and_amounts_have_the_digits_that_they_need() {
    let shown: Vec<_> = [500, 1_000, 4_096, 40_000].map(kilobytes).into();
    assert_eq!(shown, ["0.5 KB", "1 KB", "4.096 KB", "40 KB"]);
    let shown: Vec<_> = [0.0625, 1.25, 99.994, 250.4].map(amount).into();
    assert_eq!(shown, ["0.0625", "1.250", "99.99", "250"]);
}

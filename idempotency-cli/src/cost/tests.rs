//! The units of each request, as the database reports them, against those that `idempotency cost` prints.
//!
//! DynamoDB reports no units for a refused write, and neither does the embedded database. Its documentation says that such a write
//! consumes units by the size of the item. For these writes the rule is applied to the stored item.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError as SdkBoxError;
use aws_sdk_dynamodb::operation::delete_item::{DeleteItemInput, DeleteItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsInput, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{AttributeValue, Put, ReturnConsumedCapacity};
use idempotency_core::config::Variables;
use idempotency_core::future::BoxFuture;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{Change, Consistency, SendLog, Store, StoreRequest, Write};
use idempotency_core::time::{Clock, EpochMillis, EpochSeconds};
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, HashAlgorithm, Lookup, OnError, OnInProgress,
    Operation, OperationBuilder, Steps, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::{ManualClock, SeededRandom};
use serde_json::{Value, json};

use super::capacity::{Capacity, Path, RecordSize, write_units};
use super::{Table, amount, kilobytes};

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

/// The responses, as bytes of JSON text.
const RESPONSES: [usize; 5] = [500, 1_000, 4_000, 40_000, 400_000];

/// A request that the database served: its operation, and the units that it reported.
type Served = (&'static str, Option<f64>);

/// Asks for the units of each request, and notes them.
#[derive(Clone, Debug, Default)]
struct Units(Arc<Mutex<Vec<Served>>>);

impl Intercept for Units {
    fn name(&self) -> &'static str {
        "units"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), SdkBoxError> {
        let total = Some(ReturnConsumedCapacity::Total);
        let input = context.input_mut();
        if let Some(input) = input.downcast_mut::<PutItemInput>() {
            input.return_consumed_capacity = total;
        } else if let Some(input) = input.downcast_mut::<UpdateItemInput>() {
            input.return_consumed_capacity = total;
        } else if let Some(input) = input.downcast_mut::<DeleteItemInput>() {
            input.return_consumed_capacity = total;
        } else if let Some(input) = input.downcast_mut::<GetItemInput>() {
            input.return_consumed_capacity = total;
        } else if let Some(input) = input.downcast_mut::<TransactWriteItemsInput>() {
            input.return_consumed_capacity = total;
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), SdkBoxError> {
        let served = match context.output_or_error() {
            // Only a claim is refused in these tests.
            Err(_) => ("PutItem!", None),
            Ok(output) => {
                if let Some(output) = output.downcast_ref::<PutItemOutput>() {
                    ("PutItem", output.consumed_capacity())
                } else if let Some(output) = output.downcast_ref::<UpdateItemOutput>() {
                    ("UpdateItem", output.consumed_capacity())
                } else if let Some(output) = output.downcast_ref::<DeleteItemOutput>() {
                    ("DeleteItem", output.consumed_capacity())
                } else if let Some(output) = output.downcast_ref::<GetItemOutput>() {
                    ("GetItem", output.consumed_capacity())
                } else if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
                    let of_tables = output.consumed_capacity().iter();
                    let units = of_tables.filter_map(|table| table.capacity_units()).sum();
                    self.0
                        .lock()
                        .unwrap()
                        .push(("TransactWriteItems", Some(units)));
                    return Ok(());
                } else {
                    return Ok(());
                }
            }
        };
        let (operation, capacity) = served;
        let units = capacity.and_then(|capacity| capacity.capacity_units());
        self.0.lock().unwrap().push((operation, units));
        Ok(())
    }
}

/// A database, and a store whose requests are noted.
struct Measured {
    database: EmbeddedDynamoDb,
    store: Arc<DynamoDbStore>,
    units: Units,
    processes: Mutex<u64>,
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
            database,
            store: Arc::new(store.build()?),
            units,
            processes: Mutex::default(),
        })
    }

    /// Calls the operation in a new process, by this clock.
    async fn call(
        &self,
        operation: &Operation,
        clock: Arc<dyn Clock>,
        handler: impl AsyncFnOnce() -> Result<String, BoxError>,
    ) -> Result<String, BoxError> {
        let seed = {
            let mut processes = self.processes.lock().unwrap();
            *processes += 1;
            *processes
        };
        let random = Arc::new(SeededRandom::new(seed));
        let backend = Backend::new(self.store.clone(), clock, random);
        let deadline = Deadline::At(EpochMillis::new(START + 30_000));
        let payload = order();
        let call = operation.run(&payload, deadline, || handler());
        Ok(with_backend(backend, call).await?.into_response())
    }

    /// Returns the requests since the last call of this function.
    fn take(&self) -> Vec<Served> {
        std::mem::take(&mut *self.units.0.lock().unwrap())
    }

    /// Returns the size of the only item, by DynamoDB's rules.
    async fn item_size(&self) -> Result<usize, BoxError> {
        let items = self.database.items("idempotency").await?;
        let [item] = items.as_slice() else {
            return Err(format!("{} items", items.len()).into());
        };
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
        Ok(item
            .iter()
            .map(|(name, value)| name.len() + size(value))
            .sum())
    }
}

fn order() -> Value {
    json!({ "order_id": 7 })
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(START))
}

/// Returns a response whose JSON text has this many bytes.
fn response(bytes: usize) -> String {
    "r".repeat(bytes - 2)
}

/// A clock that stands still. In the pause of a wait the other call completes.
struct CompletesInThePause {
    store: Arc<DynamoDbStore>,
    id: RecordId,
    data: String,
}

impl Clock for CompletesInThePause {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(START)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_millis(25) {
            // The time limit of a request.
            return Box::pin(std::future::pending());
        }
        let (store, id, data) = (self.store.clone(), self.id.clone(), self.data.clone());
        Box::pin(async move {
            let completion = Write::Update(Change {
                set: Record {
                    status: Field::Value(Status::Completed),
                    data: Field::Value(Data::new(data)),
                    ..Record::default()
                },
                remove: Vec::new(),
            });
            let always = Condition::All(Vec::new());
            store
                .send(
                    StoreRequest::write(&id, &completion, &always),
                    &SendLog::new(),
                )
                .await;
        })
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
            let outer = measured.call(&charge, clock(), async || {
                measured.take();
                let error = first().await.unwrap_err();
                assert!(error.to_string().contains("in progress"), "{error}");
                let seen = (measured.take(), measured.item_size().await?);
                Err(Box::new(Seen(seen)) as BoxError)
            });
            let error = outer.await.unwrap_err();
            let Seen(seen) = *error.downcast::<Seen>()?;
            return Ok(seen);
        }
        Path::Waited => {
            let digest = HashAlgorithm::Md5.hex("7");
            let id = RecordId::new(format!("{}#{digest}", charge.key_prefix()));
            let claim = Write::Put(Record {
                expiration: Field::Value(EpochSeconds::new(START / 1_000 + 3_600)),
                in_progress_expiration: Field::Value(EpochMillis::new(START + 30_000)),
                status: Field::Value(Status::InProgress),
                owner: Field::Value(OwnerToken::from_bytes([9; 16])),
                ..Record::default()
            });
            let always = Condition::All(Vec::new());
            measured
                .store
                .send(StoreRequest::write(&id, &claim, &always), &SendLog::new())
                .await;
            measured.take();
            let clock = CompletesInThePause {
                store: measured.store.clone(),
                id,
                data: serde_json::to_string(&text)?,
            };
            let waits = builder().on_in_progress(OnInProgress::Wait).build()?;
            let size = measured.item_size().await?;
            let waited = measured.call(&waits, Arc::new(clock), fails).await?;
            assert_eq!(waited, text);
            let mut served = measured.take();
            // The completion is the other call's.
            served.retain(|(operation, _)| *operation != "UpdateItem");
            return Ok((served, size));
        }
        Path::Released => drop(measured.call(&charge, clock(), fails).await.unwrap_err()),
        Path::Recorded => {
            let records = builder().on_error(OnError::Record).build()?;
            drop(measured.call(&records, clock(), fails).await.unwrap_err());
        }
        Path::WarmUp => measured.store.warm_up().await?,
    }
    let size = measured.item_size().await.unwrap_or_default();
    Ok((measured.take(), size))
}

/// What the inner call of a run saw.
#[derive(Debug)]
struct Seen((Vec<Served>, usize));

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("seen")
    }
}

impl std::error::Error for Seen {}

#[tokio::test]
async fn each_path_consumes_the_units_of_the_documentation() -> Result<(), BoxError> {
    for path in Path::ALL {
        for lookup in [Lookup::ClaimFirst, Lookup::ReadFirst] {
            for bytes in RESPONSES {
                let what = format!("{path:?}, {lookup:?}, {bytes} bytes");
                let (served, size) = requests_of(path, lookup, bytes).await?;
                let operations: Vec<_> = served.iter().map(|(name, _)| *name).collect();
                assert_eq!(operations, path.requests(lookup), "{what}");
                let (mut write, mut read) = (0.0, 0.0);
                for (operation, reported) in served {
                    match (operation, reported) {
                        ("GetItem", Some(units)) => read += units,
                        ("PutItem!", None) => write += write_units(size),
                        ("PutItem" | "UpdateItem" | "DeleteItem", Some(units)) => write += units,
                        other => panic!("{what}: {other:?}"),
                    }
                }
                let expected = path.capacity(lookup, RecordSize::of_response(bytes));
                assert_eq!((write, read), (expected.write, expected.read), "{what}");
            }
        }
    }
    Ok(())
}

/// The bytes of an empty map of steps: the attribute's name, and three bytes.
const MAP: usize = 5 + 3;

/// The results of the steps of one key, in the order in which they are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StepResults(Vec<usize>);

impl StepResults {
    /// Adds a step with this name, whose result has this many bytes as it is stored: JSON text, or compressed.
    fn add(&mut self, name: &str, bytes: usize) {
        // One byte for a member of a map.
        self.0.push(name.len() + bytes + 1);
    }

    /// Returns what a run consumes that finds no record, runs all steps and completes.
    fn first_run(&self, size: RecordSize) -> Capacity {
        Capacity::of_write(size.claim + MAP) + self.run_after(size, 0)
    }

    /// Returns what a run consumes that takes over a record with the first `recorded` of the results, runs the other steps and
    /// completes.
    fn takeover(&self, size: RecordSize, recorded: usize) -> Capacity {
        let found = self.record(size, recorded);
        let (refused, update) = (Capacity::of_write(found), Capacity::of_write(found));
        let read = Capacity::of_read(found, Consistency::Strong);
        refused + update + read + self.run_after(size, recorded)
    }

    /// Returns what a run consumes after its claim.
    fn run_after(&self, size: RecordSize, recorded: usize) -> Capacity {
        let steps = (recorded..self.0.len()).map(|step| self.record(size, step + 1));
        let steps = steps.map(Capacity::of_write);
        // A write counts the larger of the record before and after it.
        let completed = self.record(size, self.0.len()).max(size.completed);
        steps.fold(Capacity::of_write(completed), |sum, step| sum + step)
    }

    /// Returns the size of a record in progress with so many results.
    fn record(&self, size: RecordSize, results: usize) -> usize {
        size.claim + MAP + self.0.iter().take(results).sum::<usize>()
    }
}

/// The names of steps, and the bytes of their results.
const STEPS: [(&str, usize); 3] = [("reserve", 300), ("charge", 2_400), ("ship", 700)];

/// Runs the handler with its first `steps` steps, and then ends in this response, or in an error.
async fn run_steps(
    measured: &Measured,
    now: i64,
    steps: usize,
    response: Option<String>,
) -> Result<Vec<Served>, BoxError> {
    let operation = operation().key("order_id").steps(Steps::Keep).build()?;
    let random = Arc::new(SeededRandom::new(now.unsigned_abs()));
    let clock = Arc::new(ManualClock::at(now));
    let backend = Backend::new(measured.store.clone(), clock, random);
    let (deadline, payload) = (Deadline::At(EpochMillis::new(now + 30_000)), order());
    let ended = operation.run(&payload, deadline, |call: Call| async move {
        for (name, bytes) in STEPS.into_iter().take(steps) {
            let result = async || Ok::<_, BoxError>("r".repeat(bytes - 2));
            call.step(name, result).await?;
        }
        response.ok_or_else(|| BoxError::from("declined"))
    });
    drop(with_backend(backend, ended).await);
    Ok(measured.take())
}

#[tokio::test]
async fn runs_with_steps_consume_the_units_of_the_documentation() -> Result<(), BoxError> {
    for bytes in RESPONSES {
        for recorded in 0..=STEPS.len() {
            let measured = Measured::start().await?;
            let mut results = StepResults::default();
            for (name, bytes) in STEPS {
                results.add(name, bytes);
            }
            let size = RecordSize::of_response(bytes);
            let mut expected = results.first_run(size);
            let mut found = None;
            if recorded > 0 {
                run_steps(&measured, START, recorded, None).await?;
                found = Some(measured.item_size().await?);
                expected = results.takeover(size, recorded);
            }
            let served = run_steps(&measured, START + 1, 3, Some(response(bytes))).await?;
            let (mut write, mut read) = (0.0, 0.0);
            for (operation, reported) in served {
                match (operation, reported) {
                    ("GetItem", Some(units)) => read += units,
                    ("PutItem!", None) => write += write_units(found.unwrap()),
                    ("PutItem" | "UpdateItem", Some(units)) => write += units,
                    other => panic!("{other:?}"),
                }
            }
            let what = format!("{bytes} bytes, {recorded} recorded");
            assert_eq!((write, read), (expected.write, expected.read), "{what}");
        }
    }
    Ok(())
}

/// Returns what a first run with staged writes consumes: the claim, and one transaction with the completion and these items, of
/// which each costs twice its units. `staged` has the size of each item in bytes, the larger of before and after.
fn first_run_with_transaction(
    size: RecordSize,
    staged: impl IntoIterator<Item = usize>,
) -> Capacity {
    let items = staged.into_iter().chain([size.completed]);
    let transaction: f64 = items.map(|bytes| 2.0 * write_units(bytes)).sum();
    Capacity::of_write(size.claim)
        + Capacity {
            write: transaction,
            read: 0.0,
        }
}

#[tokio::test]
async fn a_transaction_consumes_twice_the_units_of_each_item() -> Result<(), BoxError> {
    for (response_bytes, staged_bytes) in [(500, [100, 200]), (4_000, [100, 3_000])] {
        let measured = Measured::start().await?;
        measured
            .database
            .create_table(TableSpec::new("accounts"))
            .await?;
        let charge = operation().key("order_id").build()?;
        let backend = Backend::new(
            measured.store.clone(),
            clock(),
            Arc::new(SeededRandom::new(1)),
        );
        let deadline = Deadline::At(EpochMillis::new(START + 30_000));
        let text = |bytes| AttributeValue::S("x".repeat(bytes));
        let call = charge.run(&order(), deadline, |call: Call| async move {
            let mut transaction = call.transaction();
            for (id, bytes) in ["1", "2"].into_iter().zip(staged_bytes) {
                let put = Put::builder().table_name("accounts");
                let put = put.item("id", AttributeValue::S(id.to_owned()));
                transaction = transaction.put(put.item("b", text(bytes)).build()?)?;
            }
            Ok::<_, BoxError>(response(response_bytes))
        });
        with_backend(backend, call).await?;
        let served = measured.take();
        let operations: Vec<_> = served.iter().map(|(name, _)| *name).collect();
        assert_eq!(operations, ["PutItem", "TransactWriteItems"]);
        let units: f64 = served.iter().filter_map(|(_, units)| *units).sum();
        // Beside `b`: the names of both attributes, and the id.
        let staged = staged_bytes.map(|bytes| bytes + 4);
        let size = RecordSize::of_response(response_bytes);
        assert_eq!(units, first_run_with_transaction(size, staged).write);
    }
    // As docs/reference/cost.md shows.
    let two_small_items = first_run_with_transaction(RecordSize::of_response(500), [100, 100]);
    assert_eq!(two_small_items.write, 7.0);
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

#[test]
fn columns_are_as_wide_as_their_longest_cell() {
    let text = |text: &str| text.to_owned();
    let mut table = Table::new([text("call")].into_iter(), &[text("1 KB")]);
    table.row([text("a long name")], [text("3")].into_iter());
    assert_eq!(
        table.to_string(),
        "| call        | 1 KB |\n|-------------|------|\n| a long name | 3    |\n"
    );
}

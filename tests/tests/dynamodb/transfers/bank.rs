//! The bank: two accounts, and a ledger with an entry for each transfer that was applied.
//!
//! A store of one process that loses requests and replies, holds writes back, and whose process can be killed at a request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ReturnValuesOnConditionCheckFailure, ScalarAttributeType, Update,
};
use idempotency_core::future::BoxFuture;
use idempotency_core::random::Random;
use idempotency_core::store::{SendLog, Store, StoreLimits, StoreReply, StoreRequest, Write};
use idempotency_core::time::Clock;
use idempotency_dynamodb::DynamoDbStore;
use idempotency_lambda::dynamodb::Transactional;
use idempotency_lambda::{Backend, BoxError, Call, Deadline, Operation, with_backend};
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, operation};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The time that a call has.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a response is kept. Slow owners move the clock by a minute each. A transfer whose window has ended would rightly be applied
/// again.
pub(crate) const WINDOW: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const RECORDS: &str = "idempotency";

const ACCOUNTS: &str = "accounts";

/// A transfer between the two accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) number: usize,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) amount: i64,
}

/// The response: which run of which transfer made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) transfer: usize,
    pub(crate) run: usize,
}

/// An entry of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// How often the transfer was applied.
    pub(crate) applied: i64,
    pub(crate) run: usize,
}

pub(crate) struct Bank {
    pub(crate) clock: ManualClock,
    client: Client,
    /// The names of the tables have this at their end, so that two tests can share a database.
    suffix: String,
    operation: Operation,
    runs: AtomicUsize,
    processes: AtomicUsize,
    /// The embedded database; `None` if the environment names another one.
    pub(crate) database: Option<EmbeddedDynamoDb>,
}

impl Bank {
    /// Opens a bank on the embedded database, with a balance of `each` in each account.
    pub(crate) async fn open(suffix: &str, each: i64) -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
        let config = aws_sdk_dynamodb::config::Builder::from(&database.sdk_config());
        let client = Client::from_conf(config.retry_config(retries).build());
        Self::on(client, Some(database), suffix, each).await
    }

    /// Opens a bank on the database that the environment names, or on the embedded one.
    pub(crate) async fn open_anywhere(suffix: &str, each: i64) -> Self {
        let Ok(endpoint) = std::env::var("TRANSFERS_DYNAMODB_ENDPOINT") else {
            return Self::open(suffix, each).await;
        };
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(endpoint)
            .http_client(idempotency_dynamodb::http_client());
        let suffix = format!("{suffix}-{}", std::process::id());
        Self::on(Client::from_conf(config.build()), None, &suffix, each).await
    }

    async fn on(
        client: Client,
        database: Option<EmbeddedDynamoDb>,
        suffix: &str,
        each: i64,
    ) -> Self {
        let operation = operation().key("transfer").validate("amount");
        let operation = operation.expires_after(WINDOW);
        let bank = Self {
            clock: ManualClock::at(START),
            client,
            suffix: suffix.to_owned(),
            operation: operation.build().unwrap(),
            runs: AtomicUsize::new(0),
            processes: AtomicUsize::new(0),
            database,
        };
        bank.create(RECORDS).await;
        bank.create(ACCOUNTS).await;
        for account in ["alice", "bob"] {
            bank.set_balance(account, each).await;
        }
        bank
    }

    fn table(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    async fn create(&self, name: &str) {
        let id = AttributeDefinition::builder().attribute_name("id");
        let key = KeySchemaElement::builder().attribute_name("id");
        let create = self.client.create_table().table_name(self.table(name));
        let create = create
            .attribute_definitions(id.attribute_type(ScalarAttributeType::S).build().unwrap())
            .key_schema(key.key_type(KeyType::Hash).build().unwrap());
        let created = create.billing_mode(BillingMode::PayPerRequest).send().await;
        created.unwrap();
    }

    pub(crate) async fn set_balance(&self, account: &str, balance: i64) {
        let put = self.client.put_item().table_name(self.table(ACCOUNTS));
        let put = put
            .item("id", text(account))
            .item("balance", number(balance));
        put.send().await.unwrap();
    }

    /// Returns the store on the table of records.
    pub(crate) fn store(&self) -> DynamoDbStore {
        let store = DynamoDbStore::builder().table(self.table(RECORDS));
        store.client(self.client.clone()).build().unwrap()
    }

    /// Returns the backend of a new process over a store.
    pub(crate) fn process(&self, store: Arc<dyn Store>) -> Backend {
        let seed = self.processes.fetch_add(1, Ordering::Relaxed);
        crate::process(store, &self.clock, seed as u64)
    }

    /// Delivers a transfer to a process. `before_it_ends` runs in the handler, after the writes are staged.
    pub(crate) async fn deliver<F>(
        &self,
        process: Backend,
        transfer: Transfer,
        before_it_ends: F,
    ) -> Result<Receipt, BoxError>
    where
        F: AsyncFnOnce() -> Result<(), BoxError>,
    {
        let payload = json!({ "transfer": transfer.number, "amount": transfer.amount });
        let deadline = Deadline::At(self.clock.now().plus(TIMEOUT));
        let handler = async |call: Call| {
            let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
            self.stage(&call, transfer, run)?;
            before_it_ends().await?;
            let transfer = transfer.number;
            Ok::<_, BoxError>(Receipt { transfer, run })
        };
        let call = self.operation.run(&payload, deadline, handler);
        Ok(with_backend(process, call).await?.into_response())
    }

    /// Delivers a transfer without faults.
    pub(crate) async fn transfer(&self, transfer: Transfer) -> Result<Receipt, BoxError> {
        let process = self.process(Arc::new(self.store()));
        self.deliver(process, transfer, async || Ok(())).await
    }

    /// Stages the writes of a transfer: what every user would write.
    fn stage(&self, call: &Call, transfer: Transfer, run: usize) -> Result<(), BoxError> {
        let update = |id: &str| {
            Update::builder()
                .table_name(self.table(ACCOUNTS))
                .key("id", text(id))
        };
        let amount = number(transfer.amount);
        let take = update(transfer.from)
            .update_expression("SET balance = balance - :amount")
            .condition_expression("balance >= :amount")
            .expression_attribute_values(":amount", amount.clone())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let give = update(transfer.to)
            .update_expression("SET balance = balance + :amount")
            .expression_attribute_values(":amount", amount);
        let entry = update(&entry_id(transfer.number))
            .update_expression("SET run = :run ADD applied :one")
            .expression_attribute_values(":run", number(i64::try_from(run)?))
            .expression_attribute_values(":one", number(1));
        let mut transaction = call.transaction();
        for write in [take, give, entry] {
            transaction = transaction.update(write.build()?)?;
        }
        Ok(())
    }

    pub(crate) async fn balance(&self, account: &str) -> i64 {
        let item = self.item(account).await.expect("the account exists");
        integer(&item, "balance")
    }

    /// Returns the entry of a transfer, or `None` if it was not applied.
    pub(crate) async fn entry(&self, transfer: usize) -> Option<Entry> {
        let item = self.item(&entry_id(transfer)).await?;
        Some(Entry {
            applied: integer(&item, "applied"),
            run: usize::try_from(integer(&item, "run")).unwrap(),
        })
    }

    async fn item(&self, id: &str) -> Option<HashMap<String, AttributeValue>> {
        let get = self.client.get_item().table_name(self.table(ACCOUNTS));
        let get = get.key("id", text(id)).consistent_read(true);
        get.send().await.unwrap().item
    }

    /// Deletes every record, as an operator would.
    pub(crate) async fn evict_all(&self) {
        let records = self.client.scan().table_name(self.table(RECORDS));
        let records = records.send().await.unwrap().items.unwrap_or_default();
        for mut record in records {
            let delete = self.client.delete_item().table_name(self.table(RECORDS));
            let key = record.remove("id").unwrap();
            delete.key("id", key).send().await.unwrap();
        }
    }

    /// Returns the number of runs so far.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

fn entry_id(transfer: usize) -> String {
    format!("transfer#{transfer}")
}

pub(crate) fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn integer(item: &HashMap<String, AttributeValue>, name: &str) -> i64 {
    item[name].as_n().unwrap().parse().unwrap()
}

/// Random choices that are the same for the same seed.
#[derive(Clone)]
pub(crate) struct Dice(Arc<SeededRandom>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(SeededRandom::new(seed)))
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        let [a, b, c, d, ..] = self.0.bytes().unwrap();
        u64::from(u32::from_le_bytes([a, b, c, d])) % end
    }

    /// Returns true in `chance` of 100 calls, on average.
    pub(crate) fn percent(&self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// The store of one process, with a fault in some of its requests.
pub(crate) struct Flaky<S> {
    pub(crate) store: FaultyStore<S>,
    dice: Dice,
    /// The number of requests before the one at which the process is killed.
    left: AtomicUsize,
}

impl<S: Store> Flaky<S> {
    pub(crate) fn new(store: S, dice: Dice) -> Self {
        let kill = dice.percent(15).then(|| dice.below(5) as usize);
        Self {
            store: FaultyStore::new(store),
            dice,
            left: AtomicUsize::new(kill.unwrap_or(usize::MAX)),
        }
    }

    /// Chooses the fault of the next request of this kind.
    fn arrange(&self, operation: StoreOperation) {
        let is_killed = self.left.fetch_sub(1, Ordering::Relaxed) == 0;
        let fault = if is_killed {
            self.left.store(usize::MAX, Ordering::Relaxed);
            let hangs = [StoreFault::Hang, StoreFault::HangAfter];
            Some(hangs[self.dice.below(2) as usize])
        } else {
            match self.dice.below(20) {
                0 | 1 => Some(StoreFault::LoseReply),
                2 => Some(StoreFault::LoseRequest),
                3 => Some(StoreFault::Throttle),
                4 if operation != StoreOperation::Read => Some(StoreFault::Delay),
                5 => Some(StoreFault::Resend),
                6 if operation == StoreOperation::Transact => Some(StoreFault::Conflict),
                7 => Some(StoreFault::OmitItem),
                _ => None,
            }
        };
        if let Some(fault) = fault {
            self.store.inject(operation, 1, fault);
        }
    }
}

impl<S: Store> Store for Flaky<S> {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        self.arrange(match request {
            StoreRequest::Read(..) => StoreOperation::Read,
            StoreRequest::Transact(_) => StoreOperation::Transact,
            StoreRequest::Write(record) => match record.write {
                Write::Put(_) => StoreOperation::Put,
                Write::Update(_) => StoreOperation::Update,
                Write::Delete => StoreOperation::Delete,
                Write::Step { .. } => StoreOperation::Step,
            },
        });
        self.store.send(request, log)
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    fn name(&self) -> String {
        self.store.name()
    }
}

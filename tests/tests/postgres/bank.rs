//! A bank with two accounts, whose calls move money between them.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::future::BoxFuture;
use idempotency_core::operation::{Call, CompiledOperation};
use idempotency_core::outcome::Outcome;
use idempotency_core::record::{RecordId, Status};
use idempotency_core::store::{Consistency, SendLog, Store, StoreReply, StoreRequest};
use idempotency_core::system::SystemClock;
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_lambda::BoxError;
use idempotency_postgres::sqlx::{self, Connection as _, PgConnection, query_scalar};
use idempotency_postgres::{Begin as _, PostgresStore};
use idempotency_testkit::SeededRandom;
use idempotency_tests::Proxy;
use idempotency_tests::postgres::{database, database_url, execute, server, store, url};

const ACCOUNTS: &str = "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0)); \
                        INSERT INTO accounts VALUES ('alice', 10), ('bob', 10)";

/// The clock of a machine that is so many minutes ahead. No request waits longer than 3 s for its reply.
pub(crate) struct Late(pub(crate) u64);

impl Clock for Late {
    fn now(&self) -> EpochMillis {
        SystemClock.now().plus(Duration::from_secs(60 * self.0))
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(time.min(Duration::from_secs(3)))
    }
}

/// A bank with two accounts, beside the records.
#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) store: Arc<PostgresStore>,
    /// Its URL without a proxy.
    pub(crate) url: Arc<str>,
    random: Arc<SeededRandom>,
    pub(crate) variables: Variables,
}

impl Bank {
    pub(crate) async fn new(connections: u32) -> Self {
        let url = database_url(&database().await);
        Self::over(&url, store(&url, connections)).await
    }

    /// Returns a bank whose requests go through a proxy.
    pub(crate) async fn behind_a_proxy() -> (Self, Proxy) {
        let (database, proxy) = (
            database().await,
            Proxy::before_postgres(server()).await.unwrap(),
        );
        let through = url(proxy.address(), "postgres", &database);
        let bank = Self::over(&database_url(&database), store(&through, 2)).await;
        (bank, proxy)
    }

    pub(crate) async fn over(url: &str, store: PostgresStore) -> Self {
        execute(url, ACCOUNTS).await;
        Self {
            store: Arc::new(store),
            url: url.into(),
            random: Arc::new(SeededRandom::new(7)),
            variables: Variables::default(),
        }
    }

    /// Makes a call with this key, at the time of a clock.
    pub(crate) async fn call_at<F>(
        &self,
        clock: Late,
        key: u32,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<i64, BoxError>
    where
        F: Future<Output = Result<i64, BoxError>>,
    {
        let backend = Backend::new(self.store.clone(), Arc::new(clock), self.random.clone());
        let settings = Settings {
            key_prefix: Some("bank".into()),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("bank::pay", &settings, &self.variables)?;
        let identity = operation.identify(&key.to_string(), None)?;
        let errors = Errors::new(BoxError::from);
        let run = operation.run(&backend, &identity, None, Codec::json(), errors, handler);
        run.await.map(Outcome::into_response)
    }

    pub(crate) async fn call<F>(
        &self,
        key: u32,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<i64, BoxError>
    where
        F: Future<Output = Result<i64, BoxError>>,
    {
        self.call_at(Late(0), key, handler).await
    }

    /// Asserts that the caller gets an error of this kind, with these words.
    pub(crate) async fn fails<F>(
        &self,
        key: u32,
        kind: ErrorKind,
        words: &str,
        handler: impl FnOnce(Call) -> F,
    ) where
        F: Future<Output = Result<i64, BoxError>>,
    {
        let error = self.call(key, handler).await.unwrap_err();
        let error = error.downcast_ref::<Error>().unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }

    pub(crate) async fn balances(&self) -> (i64, i64) {
        let mut connection = PgConnection::connect(&self.url).await.unwrap();
        let balances = query_scalar("SELECT balance FROM accounts ORDER BY id");
        let balances: Vec<i64> = balances.fetch_all(&mut connection).await.unwrap();
        (balances[0], balances[1])
    }

    /// Returns the status of the record of a call.
    pub(crate) async fn status(&self, key: &RecordId) -> Option<Status> {
        let read = StoreRequest::Read(key, Consistency::Strong);
        match self.store.send(read, &SendLog::new()).await {
            StoreReply::Found { record, .. } => record?.status.value().cloned(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) async fn add(
    connection: &mut PgConnection,
    account: &str,
    amount: i64,
) -> Result<i64, BoxError> {
    let add = "UPDATE accounts SET balance = balance + $2 WHERE id = $1 RETURNING balance";
    let add = sqlx::query_scalar(add).bind(account).bind(amount);
    Ok(add.fetch_one(connection).await?)
}

/// Moves three from Alice to Bob. Returns what Alice has left.
pub(crate) async fn pay(call: Call) -> Result<i64, BoxError> {
    let mut tx = call.begin().await?;
    let left = add(&mut tx, "alice", -3).await?;
    add(&mut tx, "bob", 3).await?;
    tx.commit_with_response();
    Ok(left)
}

//! The conformance suite, with records of another program.

use std::error::Error;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, RecordId};
use idempotency_core::store::{OpenTransaction, Store, StoreScan};
use idempotency_postgres::sqlx::{self, Connection as _, PgConnection};
use idempotency_postgres::{PostgresStore, PostgresTransaction};
use idempotency_testkit::ManualClock;
use idempotency_testkit::store::StoreOperation;

use idempotency_testkit::conformance::{self, ForeignRecord, ForeignValue, StoreFactory};
use idempotency_tests::postgres::{database, database_url, execute, server, store, told, url};
use idempotency_tests::{Proxy, WireFault};

type BoxError = Box<dyn Error + Send + Sync>;

/// A store, and a way to lose the reply to a write.
struct Factory {
    store: Arc<PostgresStore>,
    /// The server for statements of the suite: with a connection of its pool the store would keep none.
    url: String,
    proxy: Option<Proxy>,
    /// True if each request is a transaction.
    is_pooled: bool,
    largest_response: Option<usize>,
}

impl StoreFactory for Factory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.store.clone();
        Box::pin(async move { Ok(store) })
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        let store: Arc<dyn StoreScan> = self.store.clone();
        Some(Box::pin(async move { Ok(store) }))
    }

    /// A column has one type, so only values of that type, and steps without pairs, can be planted.
    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        let mut columns = vec![("id".to_owned(), format!("'{}'", id.as_str()))];
        for attribute in Attribute::ALL {
            let name = attribute.default_name();
            let Some(value) = foreign.attributes.get(name) else {
                continue;
            };
            let is_time = matches!(
                attribute,
                Attribute::Expiration | Attribute::InProgressExpiration
            );
            let sql = match value {
                ForeignValue::Number(number) if is_time => {
                    format!("floor({number}::numeric)::bigint")
                }
                ForeignValue::Text(_) if attribute == Attribute::Steps => {
                    "ARRAY['reserve']".to_owned()
                }
                ForeignValue::Text(text) if !is_time => format!("'{}'", text.replace('\'', "''")),
                _ => return None,
            };
            columns.push((name.to_owned(), sql));
        }
        let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let insert = format!(
            "DELETE FROM idempotency WHERE id = '{}'; INSERT INTO idempotency ({}) VALUES ({})",
            id.as_str(),
            names.join(", "),
            values.join(", ")
        );
        Some(Box::pin(async move {
            execute(&self.url, &insert).await;
            Ok(())
        }))
    }

    fn largest_response(&self) -> Option<usize> {
        self.largest_response
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        let Some(proxy) = &self.proxy else {
            return false;
        };
        let commits = self.is_pooled || operation == StoreOperation::Transact;
        let command = if commits { "COMMIT" } else { "BIND" };
        proxy.inject_into(command, WireFault::LoseReply);
        operation != StoreOperation::Read
    }

    fn open_taking_one<'a>(
        &'a self,
        name: &'a str,
    ) -> Option<BoxFuture<'a, Result<OpenTransaction, BoxError>>> {
        Some(Box::pin(async move {
            let mut open = self.store.begin(None).await?;
            let transaction = open.downcast_mut::<PostgresTransaction>();
            let transaction = transaction.ok_or("another form")?;
            // The others fail if the record is changed meanwhile, as they must.
            let level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
            sqlx::raw_sql(level).execute(&mut **transaction).await?;
            let take = "INSERT INTO taken VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET number = taken.number + 1";
            let take = sqlx::query(take).bind(name).persistent(false);
            take.execute(&mut **transaction).await?;
            Ok(open)
        }))
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        Box::pin(async move {
            let mut connection = PgConnection::connect(&self.url).await?;
            let taken = "SELECT coalesce(sum(number), 0) FROM taken WHERE name = $1";
            let taken = sqlx::query_scalar::<_, i64>(taken).bind(name);
            Ok(u32::try_from(taken.fetch_one(&mut connection).await?)?)
        })
    }
}

async fn conforms(factory: Factory) {
    factory.store.warm_up(false).await.unwrap();
    let taken = "CREATE TABLE taken (name text PRIMARY KEY, number int NOT NULL)";
    execute(&factory.url, taken).await;
    let clock = ManualClock::at(1_700_000_000_500);
    println!("{}", conformance::assert_conformance(factory, &clock).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_conformant() {
    let proxy = Proxy::before_postgres(server()).await.unwrap();
    let database = database().await;
    let proxied = url(proxy.address(), "postgres", &database);
    conforms(Factory {
        store: Arc::new(store(&proxied, 16)),
        url: database_url(&database),
        proxy: Some(proxy),
        is_pooled: false,
        largest_response: Some(8 * 1024 * 1024),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_conformant_behind_a_pooler_without_prepared_statements() {
    let pooler = told("POSTGRES_POOLER").parse().unwrap();
    let proxy = Proxy::before_postgres(pooler).await.unwrap();
    let database = database().await;
    let proxied = url(proxy.address(), "postgres", &database);
    let builder = PostgresStore::builder().url(proxied).connections(16);
    let pooled = builder.transaction_pooler().unencrypted_events(true);
    conforms(Factory {
        store: Arc::new(pooled.build().unwrap()),
        url: database_url(&database),
        proxy: Some(proxy),
        is_pooled: true,
        largest_response: None,
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_conformant_at_every_isolation_level() {
    for level in ["repeatable read", "serializable"] {
        let database = database().await;
        let url = database_url(&database);
        let set =
            format!("ALTER DATABASE {database} SET default_transaction_isolation = '{level}'");
        execute(&url, &set).await;
        conforms(Factory {
            store: Arc::new(store(&url, 16)),
            url,
            proxy: None,
            is_pooled: false,
            largest_response: None,
        })
        .await;
    }
}

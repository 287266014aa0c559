//! The conformance suite, with records of another program.

use std::error::Error;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, RecordId};
use idempotency_core::store::{Store, StoreScan};
use idempotency_postgres::PostgresStore;
use idempotency_postgres::sqlx::{self, AssertSqlSafe, PgPool};
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{self, ForeignRecord, ForeignValue, StoreFactory};

type BoxError = Box<dyn Error + Send + Sync>;

struct Factory(Arc<PostgresStore>);

impl StoreFactory for Factory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.0.clone();
        Box::pin(async move { Ok(store) })
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        let store: Arc<dyn StoreScan> = self.0.clone();
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
            sqlx::raw_sql(AssertSqlSafe(insert))
                .execute(self.0.pool())
                .await?;
            Ok(())
        }))
    }

    fn largest_response(&self) -> Option<usize> {
        Some(8 * 1024 * 1024)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_is_conformant() {
    let url = std::env::var("POSTGRES_URL").unwrap();
    let pool = PgPool::connect(&url).await.unwrap();
    sqlx::raw_sql("DROP TABLE IF EXISTS idempotency")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::raw_sql(idempotency_postgres::MIGRATION)
        .execute(&pool)
        .await
        .unwrap();
    let store = PostgresStore::builder()
        .url(url)
        .connections(16)
        .build()
        .unwrap();
    store.warm_up().await.unwrap();
    let report = conformance::assert_conformance(
        Factory(Arc::new(store)),
        &ManualClock::at(1_700_000_000_500),
    )
    .await;
    println!("{report}");
}

//! Poolers: what is refused before a statement can be mistaken for that of another client.

use idempotency_core::record::RecordId;
use idempotency_core::store::{
    Consistency, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
};
use idempotency_postgres::PostgresStore;
use idempotency_postgres::sqlx::query_scalar;

use crate::requests::{claim, found};
use idempotency_tests::postgres::{database, database_url, execute, told, url};

fn names_the_setting(error: &StoreError) {
    let text = error.to_string();
    assert!(
        text.contains("IDEMPOTENCY_POSTGRES_POOLER=transaction"),
        "{text}"
    );
}

#[tokio::test]
async fn statements_that_a_pooler_mixes_up_are_never_executed_in_place_of_others() {
    let url = url(told("POSTGRES_POOLER"), "postgres", &database().await);
    // Each store numbers its statements in another order. The pooler has three connections.
    let stores: Vec<_> = (0..6)
        .map(|_| PostgresStore::builder().url(&url).build().unwrap())
        .collect();
    let mut refusals = 0;
    for round in 0..30_u8 {
        for (number, store) in stores.iter().enumerate() {
            let log = SendLog::new();
            if (number + usize::from(round)) % 2 == 0 {
                match claim(store, 1, &log).await {
                    StoreReply::Failed { error, .. } => {
                        assert_eq!(error.kind(), StoreErrorKind::Rejected, "{error}");
                        names_the_setting(&error);
                        refusals += 1;
                    }
                    StoreReply::Applied { .. } | StoreReply::ConditionFailed { .. } => {}
                    other => panic!("{other:?}"),
                }
            } else {
                let id = RecordId::new("pay#1");
                let read = StoreRequest::Read(&id, Consistency::Strong);
                match store.send(read, &log).await {
                    StoreReply::Failed { error, .. } => {
                        names_the_setting(&error);
                        refusals += 1;
                    }
                    StoreReply::Found { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(refusals > 0, "the pooler kept the statements apart");
    let pooled = PostgresStore::builder()
        .url(&url)
        .transaction_pooler()
        .build()
        .unwrap();
    pooled.warm_up(false).await.unwrap();
    claim(&pooled, 1, &SendLog::new()).await;
    assert!(found(&pooled).await.is_some());
}

/// A process can be frozen or cut off between the statement and its COMMIT.
#[tokio::test]
async fn the_transaction_of_a_statement_ends_itself() {
    let url = database_url(&database().await);
    let record = "CREATE TABLE limits AS SELECT setting::bigint AS ms FROM pg_settings LIMIT 0; \
                  CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO limits SELECT setting::bigint \
                  FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'; RETURN NEW; END $$; \
                  CREATE TRIGGER note BEFORE INSERT ON idempotency FOR EACH ROW EXECUTE FUNCTION note()";
    execute(&url, record).await;
    let pooled = PostgresStore::builder()
        .url(&url)
        .transaction_pooler()
        .build()
        .unwrap();
    claim(&pooled, 1, &SendLog::new()).await;
    let limit = query_scalar("SELECT ms FROM limits").fetch_one(pooled.pool());
    let limit: i64 = limit.await.unwrap();
    assert!((1_000..=60_000).contains(&limit), "{limit}");
}

#[tokio::test]
async fn a_pooler_in_statement_mode_is_refused() {
    let url = url(
        told("POSTGRES_STATEMENT_POOLER"),
        "postgres",
        &database().await,
    );
    let pooled = PostgresStore::builder()
        .url(&url)
        .transaction_pooler()
        .build()
        .unwrap();
    let StoreReply::Failed { error, .. } = claim(&pooled, 1, &SendLog::new()).await else {
        panic!("a transaction in statement mode");
    };
    assert!(
        error.to_string().contains("statement mode cannot be used"),
        "{error}"
    );
}

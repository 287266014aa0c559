//! `retry_safety` sees the SQL of a handler.

use std::time::Duration;

use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
use idempotency_postgres::Begin as _;
use idempotency_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use idempotency_postgres::sqlx::{Connection as _, query, query_scalar};
use idempotency_testkit::retry_safety::{SafetyReport, SafetyVerdict, World, retry_safety};
use serde_json::{Value, json};

use idempotency_tests::postgres::{database_url, empty_database, execute, server, url};

const SETUP: &str = "CREATE TABLE accounts (id text PRIMARY KEY, balance bigint NOT NULL); \
                     CREATE TABLE entries (id bigserial PRIMARY KEY, amount bigint NOT NULL); \
                     INSERT INTO accounts VALUES ('a', 100), ('b', 100)";

/// Where a handler has its mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A write outside of the transaction.
    Beside,
    /// A savepoint whose error is ignored.
    Ignored,
    /// A write of what was read before another transaction wrote.
    LostUpdate,
    /// A commit as text.
    Text,
}

const ENTRY: &str = "INSERT INTO entries (amount) VALUES ($1)";

#[idempotent(payload = event.payload, key = "order_id", key_prefix = "shop.pay")]
async fn pay(
    event: LambdaEvent<Value>,
    call: idempotency_lambda::Call,
    pool: &PgPool,
    mistake: Mistake,
) -> Result<Value, BoxError> {
    let amount = event.payload["amount"].as_i64().unwrap_or_default();
    let mut tx = call.begin().await?;
    match mistake {
        Mistake::None | Mistake::LostUpdate => {
            let lock = match mistake {
                Mistake::None => "SELECT balance FROM accounts WHERE id = 'a' FOR UPDATE",
                _ => "SELECT balance FROM accounts WHERE id = 'a'",
            };
            let balance: i64 = query_scalar(lock).fetch_one(&mut *tx).await?;
            let write = query("UPDATE accounts SET balance = $1 WHERE id = 'a'");
            write.bind(balance - amount).execute(&mut *tx).await?;
            if mistake == Mistake::None {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        Mistake::Beside => {
            query(ENTRY).bind(amount).execute(pool).await?;
        }
        Mistake::Ignored => {
            let mut savepoint = tx.begin().await?;
            let written = query(ENTRY).bind(amount).execute(&mut *savepoint).await;
            if written.is_ok() {
                savepoint.commit().await?;
            }
        }
        Mistake::Text => {
            query(ENTRY).bind(amount).execute(&mut *tx).await?;
            query("COMMIT").execute(&mut *tx).await?;
        }
    }
    tx.commit_with_response();
    Ok(json!({ "paid": amount }))
}

/// A password, which no report may have.
const PASSWORD: &str = "s3cr3t";

/// Returns the URL of a database, for a role that may create schemas and no more. To check a password takes long in a test.
async fn test_database(with_password: bool) -> String {
    let database = empty_database(server()).await;
    let role = format!(
        "CREATE ROLE of_{database} LOGIN PASSWORD '{PASSWORD}'; GRANT CREATE ON DATABASE {database} TO of_{database}"
    );
    execute(&database_url(&database), &role).await;
    if with_password {
        let group = "DO $$ BEGIN CREATE ROLE secret; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$";
        execute(&database_url(&database), group).await;
        let grant = format!("GRANT secret TO of_{database}");
        execute(&database_url(&database), &grant).await;
    }
    url(
        server(),
        format!("of_{database}:{PASSWORD}").as_str(),
        &database,
    )
}

/// Checks the handler with a mistake.
async fn check(mistake: Mistake) -> SafetyReport {
    let url = test_database(mistake == Mistake::Text).await;
    let event = |order: u64| {
        let payload = json!({ "order_id": order, "amount": 5 });
        LambdaEvent::new(payload, Context::default())
    };
    let check = retry_safety(
        event(1),
        async move |world: World, event: LambdaEvent<Value>| {
            let pool = PgPoolOptions::new().max_connections(1);
            let pool = pool.connect_lazy_with(world.postgres());
            pay(event, &pool, mistake).await
        },
    );
    let mut check = check.postgres(&url, SETUP);
    if matches!(mistake, Mistake::None | Mistake::LostUpdate) {
        check = check.another(event(2));
    }
    check.run().await
}

#[tokio::test]
async fn a_handler_whose_writes_commit_with_its_response_is_safe() {
    let report = check(Mistake::None).await;
    report.assert_safe();
    assert!(
        !report.to_string().contains("was committed by itself"),
        "{report}"
    );
    for expected in [
        "SELECT idempotency",
        "INSERT idempotency",
        "UPDATE idempotency",
        "await 1 after UPDATE accounts",
    ] {
        let mut points = report.rows().iter().map(|row| &row.point);
        assert!(points.any(|it| it.starts_with(expected)), "{report}");
    }
    assert!(!report.to_string().contains("pg_class"), "{report}");
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_an_error_without_its_password() {
    let nowhere = format!("postgres://app:{PASSWORD}@127.0.0.1:1/shop");
    let url = test_database(true).await;
    for (url, setup, says) in [
        (PASSWORD, "", "its URL cannot be read"),
        (&nowhere, "", "Connection refused"),
        (
            &*url,
            "CREATE TABLE a (id unknown_type)",
            "type \"unknown_type\" does not exist",
        ),
    ] {
        let check = retry_safety(1, async |_: World, _: i32| Ok::<_, BoxError>(1));
        let report = check.postgres(url, setup).run().await.to_string();
        let expected = "the PostgreSQL of the check cannot be used: ";
        assert!(
            report.contains(expected) && report.contains(says),
            "{says}: {report}"
        );
        assert!(!report.contains(PASSWORD), "{report}");
    }
}

#[tokio::test]
async fn a_write_outside_of_the_transaction_happens_twice() {
    let report = check(Mistake::Beside).await;
    let rows = report.unsafe_rows();
    let twice = rows.iter().filter(|row| {
        row.verdict == SafetyVerdict::EffectTwice && row.point.starts_with("INSERT INTO entries")
    });
    let alone = "`INSERT INTO entries (amount) VALUES ($1)` was committed by itself, not in the transaction of the response";
    assert!(report.to_string().contains(alone), "{report}");
    let faults: Vec<_> = twice.filter_map(|row| row.fault).collect();
    assert!(faults.contains(&"crash after"), "{report}");
}

#[tokio::test]
async fn an_error_of_a_savepoint_that_is_ignored_loses_its_write() {
    let report = check(Mistake::Ignored).await;
    let is_found = report
        .unsafe_rows()
        .iter()
        .any(|row| row.verdict == SafetyVerdict::EffectLost && row.fault == Some("refused"));
    assert!(is_found, "{report}");
}

#[tokio::test]
async fn an_update_that_another_order_overwrites_is_found() {
    let report = check(Mistake::LostUpdate).await;
    let is_found = report
        .unsafe_rows()
        .iter()
        .any(|row| row.fault == Some("another"));
    assert!(is_found, "{report}");
}

#[tokio::test]
async fn a_commit_as_text_fails_without_a_fault() {
    let report = check(Mistake::Text).await;
    assert!(!report.is_safe());
    let text = report.to_string();
    assert!(
        text.contains("the handler ended its transaction itself"),
        "{text}"
    );
}

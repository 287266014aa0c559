//! What an operator does with the table.

use idempotency_core::store::StoreErrorKind as Kind;
use idempotency_core::time::EpochSeconds;
use idempotency_postgres::sqlx::{self, Connection, PgConnection};
use idempotency_postgres::{PostgresStore, TableVerdict};

use idempotency_tests::postgres::{
    database, database_url, empty_database, execute, server, store, url,
};

const HOUR: i64 = 3_600;
const WEEK: i64 = 7 * 24 * HOUR;

/// Returns what is not good, and its detail.
async fn wrong(store: &PostgresStore) -> Vec<(String, TableVerdict, String)> {
    let findings = store.findings().await.unwrap().into_iter();
    let wrong = findings.filter(|it| it.verdict != TableVerdict::Good);
    wrong.map(|it| (it.check, it.verdict, it.detail)).collect()
}

/// Returns the ids that are left.
async fn left(store: &PostgresStore) -> String {
    let ids = sqlx::query_scalar("SELECT string_agg(id, ' ' ORDER BY id) FROM idempotency");
    ids.fetch_one(store.pool()).await.unwrap()
}

#[tokio::test]
async fn a_table_is_created_once_also_under_another_name_and_nothing_is_wrong_with_it() {
    let url = database_url(&empty_database(server()).await);
    execute(&url, "CREATE SCHEMA \"Shop\"").await;
    let named = PostgresStore::builder().url(&url).table("Shop.records");
    for store in [store(&url, 1), named.build().unwrap()] {
        let missing = wrong(&store).await;
        assert!(
            matches!(&*missing, [(check, TableVerdict::Flaw(Kind::TableMissing), _)] if check == "table"),
            "{missing:?}"
        );
        store.create_table().await.unwrap();
        assert_eq!(wrong(&store).await, []);
        assert_eq!(store.findings().await.unwrap().len(), 12);
        let again = store.create_table().await.unwrap_err().to_string();
        assert!(
            again.contains("already exists") && again.contains("`idempotency table check`"),
            "{again}"
        );
    }
}

#[tokio::test]
async fn a_search_path_of_the_program_leads_an_operator_to_no_other_table() {
    let database = database().await;
    let url = database_url(&database);
    let tenant =
        "CREATE SCHEMA tenant; CREATE TABLE tenant.idempotency (LIKE idempotency INCLUDING ALL)";
    let expired =
        "INSERT INTO idempotency (id, status, expiration) VALUES ('pay#1', 'COMPLETED', 1)";
    execute(
        &url,
        &format!("{tenant}; {expired}; ALTER TABLE tenant.idempotency DROP undo"),
    )
    .await;
    let store = store(&url, 1);
    let set = "SET search_path = tenant";
    sqlx::query(set).execute(store.pool()).await.unwrap();
    assert_eq!(wrong(&store).await, []);
    let now = EpochSeconds::new(2 * HOUR);
    assert_eq!(store.delete_expired(now, 10).await.unwrap(), 1);
    execute(&url, "DROP TABLE idempotency").await;
    // Behind the path of the program there is one.
    let other = PostgresStore::builder()
        .pool(store.pool().clone())
        .build()
        .unwrap();
    assert_eq!(wrong(&other).await.len(), 1);
    other.create_table().await.unwrap();
    assert_eq!(wrong(&other).await, []);
    // One that the role's own path leads to is not created again before it.
    let before =
        format!("CREATE SCHEMA before; ALTER DATABASE {database} SET search_path = before, public");
    execute(&url, &before).await;
    let named = PostgresStore::builder().url(&url).build().unwrap();
    let again = named.create_table().await.unwrap_err().to_string();
    assert!(again.contains("already exists"), "{again}");
}

#[tokio::test]
async fn a_role_that_may_not_create_the_table_learns_what_it_lacks() {
    let database = empty_database(server()).await;
    let role = format!("reader_{database}");
    let create = format!("CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    execute(&database_url(&database), &create).await;
    let reader = store(&url(server(), &role, &database), 1);
    let error = reader.create_table().await.unwrap_err();
    assert_eq!(error.kind(), Kind::AccessDenied);
    let says = format!("TO \"{role}\", and USAGE on its schema, or CREATE to create the table");
    assert!(error.to_string().contains(&says), "{error}");
}

#[tokio::test]
async fn what_could_be_better_is_a_note_and_all_flaws_are_found_at_once() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    let change = "DROP INDEX idempotency_expiration_idx; ALTER TABLE idempotency RESET (fillfactor), DROP undo, DROP steps; \
                  ALTER TABLE idempotency SET UNLOGGED, ENABLE ROW LEVEL SECURITY";
    execute(&url, change).await;
    let found = wrong(&store).await;
    let checks: Vec<_> = found.iter().map(|(check, ..)| &**check).collect();
    assert_eq!(checks, ["storage", "columns", "index", "fillfactor"]);
    assert!(
        found[1].2.starts_with(
            "there is no column `steps` of the type text[], `undo` of the type text: "
        ),
        "{found:?}"
    );
    for (_, verdict, detail) in &found[2..] {
        let is_note = *verdict == TableVerdict::Note;
        assert!(
            is_note
                && (detail.contains("CREATE INDEX ON idempotency (expiration)")
                    || detail.contains("SET (fillfactor = 80)"))
        );
    }
}

#[tokio::test]
async fn a_database_that_lacks_letters_is_refused() {
    let name = format!("latin_{}", empty_database(server()).await);
    let create = format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LC_COLLATE 'C' LC_CTYPE 'C'"
    );
    execute(&database_url("postgres"), &create).await;
    let found = wrong(&store(&database_url(&name), 1)).await;
    let (check, verdict, detail) = &found[0];
    assert_eq!(
        (&**check, *verdict),
        ("encoding", TableVerdict::Flaw(Kind::WrongSchema))
    );
    assert!(detail.contains("LATIN1"), "{detail}");
}

#[tokio::test]
async fn the_statement_of_the_guide_deletes_what_the_method_deletes() {
    let page = include_str!("../../../docs/guide/postgres.md");
    let (_, rest) = page.split_once("```sql\n").unwrap();
    let (statement, _) = rest.split_once("```").unwrap();
    // By the guide; by this clock; by a clock that is a year ahead.
    for ahead in [None, Some(0), Some(52 * WEEK)] {
        let url = database_url(&database().await);
        let store = store(&url, 1);
        let now = sqlx::query_scalar("SELECT extract(epoch FROM now())::bigint");
        let now: i64 = now.fetch_one(store.pool()).await.unwrap();
        for (id, status, expiration) in [
            // A held claim and a half undone key end in ten years.
            ("held", "INPROGRESS", now + 520 * WEEK),
            ("late-clock", "COMPLETED", now - HOUR / 2),
            ("done", "COMPLETED", now - HOUR - 60),
            ("killed", "INPROGRESS", now - 2 * WEEK + HOUR),
            ("killed-long-ago", "INPROGRESS", now - 2 * WEEK - 60),
            ("undoing", "UNDOING", now - WEEK),
            ("unknown", "OTHER", now - WEEK),
        ] {
            let insert = format!(
                "INSERT INTO idempotency (id, status, expiration) VALUES ('{id}', '{status}', {expiration})"
            );
            execute(&url, &insert).await;
        }
        execute(&url, "INSERT INTO idempotency (id) VALUES ('endless')").await;
        match ahead {
            None => execute(&url, statement).await,
            Some(ahead) => {
                let deleted = store.delete_expired(EpochSeconds::new(now + ahead), 10);
                assert_eq!(deleted.await.unwrap(), 2);
            }
        }
        assert_eq!(
            left(&store).await,
            "endless held killed late-clock undoing unknown"
        );
    }
}

#[tokio::test]
async fn expired_rows_are_deleted_in_pieces_and_those_in_use_stay() {
    let url = database_url(&database().await);
    let store = store(&url, 1);
    let fill = "INSERT INTO idempotency (id, status, expiration) SELECT 'pay#' || n, 'COMPLETED', n FROM generate_series(1, 26) n";
    execute(&url, fill).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut holding = other.begin().await.unwrap();
    let lock = "SELECT FROM idempotency WHERE id = 'pay#7' FOR UPDATE";
    sqlx::query(lock).fetch_all(&mut *holding).await.unwrap();
    let now = EpochSeconds::new(HOUR + 26);
    for deleted in [10, 10, 4, 0] {
        assert_eq!(store.delete_expired(now, 10).await.unwrap(), deleted);
    }
    assert_eq!(left(&store).await, "pay#26 pay#7");
    holding.rollback().await.unwrap();
    assert_eq!(store.delete_expired(now, 10).await.unwrap(), 1);
}

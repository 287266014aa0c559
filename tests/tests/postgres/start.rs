//! What is found before the first event: a server, a role or a table that cannot be used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_core::store::{SendLog, Store, StoreError, StoreErrorKind as Kind, StoreReply};
use idempotency_core::time::EpochSeconds;
use idempotency_postgres::{MIGRATION, PostgresStore, TableVerdict, sqlx};

use crate::requests::claim;
use idempotency_tests::postgres::{
    Server, database, database_url, empty_database, execute, server, store, told, url,
};

const PASSWORD: &str = "s3cr3t";

/// Returns the error of the start.
async fn refused(store: &PostgresStore) -> StoreError {
    let error = store.warm_up(false).await.unwrap_err();
    let text = format!("{error} {error:?} {store:?}");
    assert!(!text.contains(PASSWORD), "{text}");
    error
}

#[track_caller]
fn says(error: &StoreError, kind: Kind, text: &str) {
    assert!(
        error.kind() == kind && error.to_string().contains(text),
        "{kind:?} {text}: {error:?}"
    );
}

#[tokio::test]
async fn a_table_of_the_migration_can_be_used() {
    let url = database_url(&database().await);
    store(&url, 1).warm_up(false).await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_missing_or_another_one_is_refused() {
    let url = database_url(&empty_database(server()).await);
    let store = store(&url, 1);
    let missing = "there is no table `idempotency`";
    says(&refused(&store).await, Kind::TableMissing, missing);
    let claimed = claim(&store, 1, &Default::default()).await;
    let text = format!("{claimed:?}");
    assert!(
        text.contains("TableMissing") && text.contains("maybe_applied: false"),
        "{text}"
    );
    execute(&url, MIGRATION).await;
    for (change, undo, text) in [
        (
            "ALTER TABLE idempotency DROP undo",
            "ALTER TABLE idempotency ADD undo text",
            "there is no column `undo`",
        ),
        (
            "ALTER TABLE idempotency ALTER data TYPE jsonb USING data::jsonb",
            "ALTER TABLE idempotency ALTER data TYPE text",
            "there is no column `data` of the type text",
        ),
        (
            "ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey",
            "ALTER TABLE idempotency ADD PRIMARY KEY (id)",
            "`id` is not its primary key",
        ),
        (
            "ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey, ADD PRIMARY KEY (id) DEFERRABLE",
            "ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey, ADD PRIMARY KEY (id)",
            "DEFERRABLE",
        ),
        (
            "ALTER TABLE idempotency ADD region text NOT NULL, ADD number int GENERATED ALWAYS AS IDENTITY, ADD at date NOT NULL DEFAULT now()",
            "ALTER TABLE idempotency DROP region",
            "`region` must not be NULL",
        ),
        (
            "ALTER TABLE idempotency ALTER id TYPE text COLLATE \"default\"",
            "ALTER TABLE idempotency ALTER id TYPE text COLLATE \"C\"",
            "`id` is not its primary key",
        ),
        (
            "ALTER TABLE idempotency SET UNLOGGED",
            "ALTER TABLE idempotency SET LOGGED",
            "unlogged",
        ),
    ] {
        execute(&url, change).await;
        says(&refused(&store).await, Kind::WrongSchema, text);
        execute(&url, undo).await;
    }
    store.warm_up(false).await.unwrap();
    execute(
        &url,
        "CREATE SCHEMA \"Shop\"; ALTER TABLE idempotency SET SCHEMA \"Shop\"",
    )
    .await;
    says(&refused(&store).await, Kind::TableMissing, missing);
    let named = PostgresStore::builder()
        .url(&url)
        .table("Shop.idempotency")
        .build()
        .unwrap();
    named.warm_up(false).await.unwrap();
}

#[tokio::test]
async fn a_remedy_can_be_executed_as_it_is_written() {
    let database = empty_database(server()).await;
    let owner = database_url(&database);
    let role = format!("App-{database}");
    let create = format!(
        "CREATE ROLE \"{role}\" LOGIN; CREATE SCHEMA \"Shop\"; GRANT USAGE ON SCHEMA \"Shop\" TO \"{role}\""
    );
    execute(&owner, &create).await;
    let build = |url: &str| {
        let builder = PostgresStore::builder().url(url).table("Shop.Records");
        builder.build().unwrap()
    };
    build(&owner).create_table().await.unwrap();
    let worse = "ALTER TABLE \"Shop\".\"Records\" RESET (fillfactor); DROP INDEX \"Shop\".\"Records_expiration_idx\"";
    execute(&owner, worse).await;
    let app = build(&url(server(), &role, &database));
    let refused = claim(&app, 1, &Default::default()).await;
    let grant =
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON \"Shop\".\"Records\" TO \"{role}\"");
    let StoreReply::Failed { error, .. } = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains(&grant), "{error}");
    for _ in 0..3 {
        let findings = app.findings().await.unwrap().into_iter();
        let wrong = findings.filter(|it| it.verdict != TableVerdict::Good);
        for it in wrong {
            let at = ["GRANT ", "CREATE ", "ALTER "]
                .into_iter()
                .find_map(|verb| it.detail.find(verb));
            execute(&owner, &it.detail[at.unwrap()..]).await;
        }
    }
    let findings = app.findings().await.unwrap();
    assert!(
        findings.iter().all(|it| it.verdict == TableVerdict::Good),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_role_without_usage_of_the_schema_learns_that() {
    let database = database().await;
    let role = format!("outside_{database}");
    let revoke = format!("CREATE ROLE {role} LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC");
    execute(&database_url(&database), &revoke).await;
    let outside = store(&url(server(), &role, &database), 1);
    let error = refused(&outside).await;
    says(
        &error,
        Kind::TableMissing,
        "or USAGE on its schema is missing",
    );
}

#[tokio::test]
async fn a_role_without_a_permission_is_refused() {
    let database = database().await;
    let owner = database_url(&database);
    let role = format!("app_{database}");
    execute(
        &owner,
        &format!("CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT ON idempotency TO {role}"),
    )
    .await;
    let app = store(&url(server(), &role, &database), 1);
    let grant = format!("GRANT UPDATE, DELETE ON idempotency TO {role}");
    says(&refused(&app).await, Kind::AccessDenied, &grant);
    execute(&owner, &grant).await;
    app.warm_up(false).await.unwrap();
    execute(&owner, &format!("ALTER TABLE idempotency ENABLE ROW LEVEL SECURITY; CREATE POLICY none ON idempotency TO {role} USING (false)")).await;
    says(
        &refused(&app).await,
        Kind::WrongSchema,
        "row level security",
    );
    execute(&owner, &format!("ALTER TABLE idempotency DISABLE ROW LEVEL SECURITY; ALTER ROLE {role} SET synchronous_commit = off")).await;
    let app = store(&url(server(), &role, &database), 1);
    says(
        &refused(&app).await,
        Kind::Rejected,
        &format!("ALTER ROLE {role} SET synchronous_commit = on"),
    );
    execute(&owner, &format!("ALTER ROLE {role} SET default_transaction_read_only = on; ALTER ROLE {role} RESET synchronous_commit")).await;
    let app = store(&url(server(), &role, &database), 1);
    says(
        &refused(&app).await,
        Kind::AccessDenied,
        "connect to the primary",
    );
    let claimed = format!("{:?}", claim(&app, 1, &Default::default()).await);
    assert!(
        claimed.contains("connect to the primary") && claimed.contains("maybe_applied: false"),
        "{claimed}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_a_function_can_give_the_right_one() {
    let server = server();
    let database = database().await;
    let role = format!("secret_{database}");
    let create = format!(
        "CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'; GRANT ALL ON idempotency TO {role}; GRANT secret TO {role}"
    );
    let group = "DO $$ BEGIN CREATE ROLE secret; EXCEPTION WHEN duplicate_object THEN END $$";
    execute(&database_url(&database), group).await;
    execute(&database_url(&database), &create).await;
    let wrong = store(&url(server, &format!("{role}:wrong"), &database), 1);
    says(
        &refused(&wrong).await,
        Kind::Credentials,
        &format!("check the password of the role `{role}`"),
    );
    let right = store(&url(server, &format!("{role}:{PASSWORD}"), &database), 1);
    right.warm_up(false).await.unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let given = PostgresStore::builder()
        .url(url(server, &role, &database))
        .password(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, std::io::Error>(PASSWORD.to_owned()) }
        });
    let given = given.build().unwrap();
    given.warm_up(false).await.unwrap();
    claim(&given, 1, &Default::default()).await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // A password that was refused is asked for again.
    let turns = Arc::new(AtomicUsize::new(0));
    let builder = PostgresStore::builder().url(url(server, &role, &database));
    let changing = builder.password(move || {
        let turn = turns.fetch_add(1, Ordering::Relaxed);
        let password = if turn == 0 { "old" } else { PASSWORD };
        async move { Ok::<_, std::io::Error>(password.to_owned()) }
    });
    let changing = changing.build().unwrap();
    refused(&changing).await;
    changing.warm_up(false).await.unwrap();
    let failing = PostgresStore::builder()
        .url(url(server, &role, &database))
        .password(|| async { Err::<String, _>("no token") });
    says(
        &refused(&failing.build().unwrap()).await,
        Kind::Credentials,
        "no token",
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_refused() {
    let server = server();
    let absent = store(&url(server, "postgres", "absent"), 1);
    says(
        &refused(&absent).await,
        Kind::TableMissing,
        "create the database",
    );
    let encrypted = store(
        &format!("postgres://postgres:{PASSWORD}@{server}/postgres"),
        1,
    );
    says(
        &refused(&encrypted).await,
        Kind::Certificate,
        "sslmode=disable",
    );
    let full = database().await;
    let role = format!("full_{full}");
    let create = format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 0");
    execute(&database_url(&full), &create).await;
    let full = store(&url(server, &role, &full), 1);
    let deleted = full.delete_expired(EpochSeconds::new(0), 1).await;
    says(
        &deleted.unwrap_err(),
        Kind::Throttled,
        "raise its `max_connections`",
    );
    // The pool does not say why it waits.
    let log = SendLog::with_limit(Duration::from_millis(500));
    let StoreReply::Failed { error, .. } = claim(&full, 1, &log).await else {
        panic!("a connection over the limit");
    };
    says(
        &error,
        Kind::Unreachable,
        "has no connection left (`max_connections`)",
    );
    let closed = store(
        "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable",
        1,
    );
    says(&refused(&closed).await, Kind::Unreachable, "refused");
    let unknown = store("postgres://postgres@db.invalid/postgres?sslmode=disable", 1);
    says(
        &refused(&unknown).await,
        Kind::Unreachable,
        "no connection to PostgreSQL table `idempotency` of `postgres` at db.invalid:5432",
    );
}

#[tokio::test]
async fn tls_is_used_and_its_certificate_checked_as_the_url_says() {
    let plain = store(&database_url("postgres"), 1);
    let library = sqlx::query_scalar("SHOW ssl_library");
    let library: String = library.fetch_one(plain.pool()).await.unwrap();
    if library.is_empty() {
        // The wheel of PostgreSQL 18 was built without TLS. Debian's server has it.
        assert!(told("POSTGRES_BIN").contains("wheel"));
        return;
    }
    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/functions/tls");
    let server = Server::start_with(
        &["ssl=on"],
        &[
            ("server.crt", include_str!("../functions/tls/server.pem")),
            ("server.key", include_str!("../functions/tls/server.key")),
        ],
    );
    let port = server.address().port();
    let database = empty_database(server.address()).await;
    execute(&url(server.address(), "postgres", &database), MIGRATION).await;
    for (more, kind) in [
        ("", None),
        ("?sslmode=prefer", None),
        ("?sslmode=verify-full", Some(Kind::Certificate)),
        ("?sslmode=verify-full&sslrootcert=TLS/server.pem", None),
        (
            "?sslmode=verify-full&sslrootcert=TLS/other.pem",
            Some(Kind::Certificate),
        ),
        (
            "?sslmode=verify-full&sslrootcert=TLS/absent.pem",
            Some(Kind::Unreachable),
        ),
        ("?sslmode=verify-ca&sslrootcert=TLS/server.pem", None),
    ] {
        let more = more.replace("TLS", tls);
        let store = store(
            &format!("postgres://postgres@localhost:{port}/{database}{more}"),
            1,
        );
        assert_eq!(
            store.warm_up(false).await.err().map(|error| error.kind()),
            kind,
            "{more}"
        );
        if kind.is_none() {
            let asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
            let is_used: bool = sqlx::query_scalar(asked)
                .fetch_one(store.pool())
                .await
                .unwrap();
            assert!(is_used, "{more}");
        }
    }
}

#[tokio::test]
async fn a_server_that_has_ended_or_was_replaced_by_a_standby_is_noticed() {
    let mut server = Server::start(&[]);
    let url = url(
        server.address(),
        "postgres",
        &empty_database(server.address()).await,
    );
    execute(&url, MIGRATION).await;
    let store = store(&url, 1);
    store.warm_up(false).await.unwrap();
    claim(&store, 1, &Default::default()).await;
    server.kill();
    let error = refused(&store).await;
    says(&error, Kind::Unreachable, "check that the server runs");
    server.restart_as_standby();
    says(&refused(&store).await, Kind::AccessDenied, "read-only");
}

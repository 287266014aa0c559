//! A table in PostgreSQL, on a server that `tests/scripts/postgres.sh` starts.

use std::process::Command;

use idempotency_postgres::PostgresStore;
use idempotency_postgres::sqlx::{self, AssertSqlSafe};

use crate::snapshots::check;
use crate::{Ran, command, finish, start};

/// A password, which nothing may print.
const PASSWORD: &str = "s3cr3t";

/// A database of the server, for one test.
struct Database {
    server: String,
    name: String,
}

impl Database {
    async fn new(name: &str) -> Self {
        let server = std::env::var("POSTGRES_SERVER");
        let server = server.unwrap_or_else(|_| {
            panic!("POSTGRES_SERVER is not set: run tests/scripts/postgres.sh")
        });
        let name = format!("cli_{name}_{}", std::process::id());
        let database = Self { server, name };
        let create = format!("CREATE DATABASE {} TEMPLATE template0", database.name);
        database.execute("postgres", &create).await;
        database
    }

    fn url(&self, role: &str, database: &str) -> String {
        let server = &self.server;
        format!("postgres://{role}:{PASSWORD}@{server}/{database}?sslmode=disable")
    }

    /// Executes statements in a database. Returns the version of the server.
    async fn execute(&self, database: &str, statements: &str) -> String {
        let store = PostgresStore::builder().url(self.url("postgres", database));
        let store = store.build().unwrap();
        let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
        statements.execute(store.pool()).await.unwrap();
        let version = sqlx::query_scalar("SHOW server_version");
        version.fetch_one(store.pool()).await.unwrap()
    }

    fn command(&self, line: &str, role: &str) -> Command {
        let mut command = command(line);
        command.env("IDEMPOTENCY_STORE", "postgres");
        command.env("IDEMPOTENCY_POSTGRES_URL", self.url(role, &self.name));
        command
    }

    /// Compares what the commands of a file print.
    async fn check(&self, file: &str) {
        let version = self.execute(&self.name, "").await;
        let hidden = [
            (&*self.server, "SERVER"),
            (&*self.name, "DATABASE"),
            (&*version, "VERSION"),
        ];
        check(file, |line| self.command(line, "postgres"), &hidden);
    }
}

#[tokio::test]
async fn a_table_is_created_and_checked() {
    Database::new("table").await.check("postgres").await;
}

#[tokio::test]
async fn expired_rows_are_deleted_in_pieces_and_a_poor_table_is_improved() {
    let database = Database::new("expire").await;
    let fill = "INSERT INTO idempotency (id, status, expiration) SELECT n::text, 'COMPLETED', n FROM generate_series(1, 27) n; \
                INSERT INTO idempotency (id, status, expiration) VALUES ('held', 'INPROGRESS', 32503680000); \
                DROP INDEX idempotency_expiration_idx; ALTER TABLE idempotency RESET (fillfactor)";
    let fill = idempotency_postgres::MIGRATION.to_owned() + fill;
    database.execute(&database.name, &fill).await;
    database.check("expire").await;
    let left = "DO $$ BEGIN ASSERT (SELECT array_agg(id) FROM idempotency) = ARRAY['held']; END $$";
    database.execute(&database.name, left).await;
}

#[tokio::test]
async fn an_interrupted_deletion_says_what_it_deleted() {
    let database = Database::new("interrupt").await;
    let table = idempotency_postgres::MIGRATION;
    database.execute(&database.name, table).await;
    let store = PostgresStore::builder().url(database.url("postgres", &database.name));
    let store = store.connections(2).build().unwrap();
    let mut held = store.pool().begin().await.unwrap();
    let lock = sqlx::raw_sql("LOCK TABLE idempotency");
    lock.execute(&mut *held).await.unwrap();
    let child = start(database.command("expire", "postgres"));
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'idempotency'::regclass)";
    while !sqlx::query_scalar::<_, bool>(waits)
        .fetch_one(store.pool())
        .await
        .unwrap()
    {}
    let mut kill = Command::new("kill");
    let id = child.id().to_string();
    assert!(kill.args(["-INT", &id]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap());
    let says = "deleted 0 rows: interrupted, perhaps after one more piece: run it again";
    ran.exits(130).prints(says);
}

#[tokio::test]
async fn an_error_names_the_server_the_database_the_table_and_the_role_and_no_password() {
    let database = Database::new("error").await;
    for line in ["table check", "table create", "expire", "get $KEY"] {
        let (server, name) = (&database.server, &database.name);
        let store = format!("store        PostgreSQL table `idempotency` of `{name}` at {server}");
        finish(database.command(line, "absent"), "")
            .fails(1, &store)
            .complains("role         absent")
            .complains("check the password of the role `absent`")
            .hides(PASSWORD);
    }
    let check = database.command("table check --prefix pay", "postgres");
    finish(check, "").fails(2, "`--prefix` is about DynamoDB");
    let piece = "expire --pieces-of 10";
    let ran = finish(database.command(piece, "postgres"), "");
    ran.fails(1, "deleted 0 rows, then: ")
        .complains("create the table `idempotency`");
}

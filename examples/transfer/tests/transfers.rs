//! The server over a real PostgreSQL, which `tests/scripts/postgres.sh` starts: what its clients get, and what a kill leaves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Stdio;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use idempotency_core::system::{SystemClock, SystemRandom};
use idempotency_core::time::Clock;
use idempotency_http::Backend;
use idempotency_postgres::PostgresStore;
use idempotency_postgres::sqlx::{AssertSqlSafe, PgPool, query_scalar, raw_sql};
use idempotency_testkit::ManualClock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tower::ServiceExt;

/// A database that one test uses.
struct Database {
    url: String,
    pool: PgPool,
}

impl Database {
    async fn create(name: &str) -> Self {
        let server = std::env::var("POSTGRES_SERVER").expect("run tests/scripts/postgres.sh");
        let url = |name: &str| format!("postgres://postgres@{server}/{name}?sslmode=disable");
        let name = format!("transfer_{name}_{}", std::process::id());
        let all = PgPool::connect(&url("postgres")).await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        raw_sql(create).execute(&all).await.unwrap();
        let url = url(&name);
        let pool = PgPool::connect(&url).await.unwrap();
        Self { url, pool }
    }

    /// Returns the balances of both accounts.
    async fn balances(&self) -> String {
        let balances = "SELECT string_agg(id || ' ' || balance, ', ' ORDER BY id) FROM accounts";
        query_scalar(balances).fetch_one(&self.pool).await.unwrap()
    }
}

/// The program of this example.
struct Server {
    process: Child,
    /// It is open for as long as the process may print.
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    async fn start(database: &Database) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfer"));
        command
            .env("DATABASE_URL", &database.url)
            .env("LISTEN", "127.0.0.1:0");
        let mut process = command
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).await.unwrap();
        let address = line.split([' ', ',']).nth(2).unwrap().to_owned();
        Self {
            process,
            _output: output,
            address,
        }
    }

    /// Sends the body of a transfer of Ann. Returns the whole response, which is empty if the connection broke before it.
    async fn send(&self, key: &str, body: &str) -> String {
        let address = &self.address;
        let mut client = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST /transfers HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer token-of-ann\r\n\
             idempotency-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        let _ = client.read_to_string(&mut response).await;
        response
    }

    /// Sends a transfer. Returns the status and the body, with `replayed` before them if an earlier request had this response.
    async fn get(&self, key: &str, amount: i64) -> String {
        self.get_of(key, &transfer(amount)).await
    }

    async fn get_of(&self, key: &str, body: &str) -> String {
        let response = self.send(key, body).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let is_replay = head.contains("idempotent-replayed: true");
        let replayed = if is_replay { "replayed " } else { "" };
        format!("{replayed}{} {body}", &head["HTTP/1.1 ".len()..][..3])
    }
}

fn transfer(amount: i64) -> String {
    format!(r#"{{"to":"bob","amount":{amount}}}"#)
}

#[tokio::test]
async fn each_key_has_one_result_also_if_it_was_declined() {
    let database = Database::create("results").await;
    let server = Server::start(&database).await;
    assert_eq!(server.get("k-1", 30).await, r#"201 {"balance":70}"#);
    assert_eq!(server.get("k-2", 50).await, r#"201 {"balance":20}"#);
    let again = server.get("k-1", 30).await;
    assert_eq!(again, r#"replayed 201 {"balance":70}"#);
    assert_eq!(server.get("k-3", 30).await, "402 not enough money");
    let unknown = server
        .get_of("k-5", r#"{"to":"b\u0000b","amount":1}"#)
        .await;
    assert_eq!(unknown, "400 no amount, or no other account");
    assert_eq!(database.balances().await, "ann 20, bob 180");

    // Enough for it now. Its key has a result.
    let add = "UPDATE accounts SET balance = 500 WHERE id = 'ann'";
    raw_sql(add).execute(&database.pool).await.unwrap();
    let again = server.get("k-3", 30).await;
    assert_eq!(again, "replayed 402 not enough money");
    assert_eq!(server.get("k-4", 30).await, r#"201 {"balance":470}"#);
    assert_eq!(database.balances().await, "ann 470, bob 210");
}

#[tokio::test]
async fn a_kill_in_the_transaction_moves_nothing_and_the_retry_moves_once() {
    let database = Database::create("kill").await;
    let mut server = Server::start(&database).await;
    let clock = ManualClock::at(SystemClock.now().get());
    // The second update of a transfer waits for as long as the test holds the lock.
    let pause = "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END $$;
        CREATE TRIGGER pause AFTER UPDATE ON accounts
            FOR EACH ROW WHEN (new.balance > old.balance) EXECUTE FUNCTION pause();";
    raw_sql(pause).execute(&database.pool).await.unwrap();
    let mut held = database.pool.begin().await.unwrap();
    let hold = raw_sql("SELECT pg_advisory_xact_lock(1)");
    hold.execute(&mut *held).await.unwrap();

    let waits = async {
        let waits =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
        while !query_scalar::<_, bool>(waits)
            .fetch_one(&database.pool)
            .await
            .unwrap()
        {}
    };
    let body = transfer(30);
    tokio::select! {
        () = waits => {}
        response = server.send("k-1", &body) => panic!("the transfer has ended: {response}"),
    }
    server.process.kill().await.unwrap();
    held.rollback().await.unwrap();
    assert_eq!(database.balances().await, "ann 100, bob 100");

    // The client retries at another server, whose clock is that of the time before the claim.
    let store = PostgresStore::builder()
        .url(&database.url)
        .connections(8)
        .build()
        .unwrap();
    let backend = Backend::new(
        Arc::new(store),
        Arc::new(clock.clone()),
        Arc::new(SystemRandom),
    );
    let app = ::transfer::app(::transfer::layer(backend).unwrap());
    let mut waited = 0;
    let (replayed, body) = loop {
        let request = Request::post("/transfers")
            .header("authorization", "Bearer token-of-ann")
            .header("idempotency-key", "k-1")
            .header("content-type", "application/json");
        let response = app
            .clone()
            .oneshot(request.body(Body::from(transfer(30))).unwrap());
        let (head, body) = response.await.unwrap().into_parts();
        if let Some(wait) = head.headers.get("retry-after") {
            let wait: u64 = wait.to_str().unwrap().parse().unwrap();
            clock.advance(std::time::Duration::from_secs(wait));
            waited += wait;
            continue;
        }
        let is_replay = head.headers.contains_key("idempotent-replayed");
        break (is_replay, body.collect().await.unwrap().to_bytes());
    };
    assert!(waited >= 10, "{waited} s");
    assert!(!replayed && body == r#"{"balance":70}"#, "{body:?}");
    assert_eq!(database.balances().await, "ann 70, bob 130");
    let server = Server::start(&database).await;
    assert_eq!(
        server.get("k-1", 30).await,
        r#"replayed 201 {"balance":70}"#
    );
    assert_eq!(database.balances().await, "ann 70, bob 130");
}

#[tokio::test]
async fn without_a_database_the_program_says_what_to_set() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfer"));
    let output = command.env_remove("DATABASE_URL").output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("DATABASE_URL is not set."), "{said}");
    assert!(!output.status.success());
}

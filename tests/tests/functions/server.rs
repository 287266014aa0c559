//! The server of `examples/server`, over a table. It runs in a process that is killed, or that gets a SIGTERM.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use idempotency_core::system::SystemRandom;
use idempotency_dynamodb::{DynamoDbStore, LeanClient};
use idempotency_http::{Backend, backend};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_tests::process::{self, TABLE, claims};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tower::ServiceExt;

/// The lease of a server with `renew`.
const LEASE: Duration = Duration::from_secs(30);
const ORDER: &str = r#"{"order_id":"o-1","amount":4200}"#;

pub(crate) async fn serve() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let client = LeanClient::from_env().await?;
    let store = DynamoDbStore::builder()
        .table(TABLE)
        .lean_client(client)
        .build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    server::serve(listener, backend(store), server::stop_signal()).await
}

/// A process of the server.
struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Server {
    async fn start(database: &EmbeddedDynamoDb) -> Result<Self, BoxError> {
        let mut command = Command::from(process::server("server/payments")?);
        let command = command.envs(database.environment()).kill_on_drop(true);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = String::new();
        let mut server = Self {
            process,
            lines,
            address,
        };
        let line = server.line("listening on ").await;
        server.address = line.rsplit(' ').next().unwrap().to_owned();
        Ok(server)
    }

    /// Waits for a line with this text.
    async fn line(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.next_line().await.unwrap();
            let line = line.unwrap_or_else(|| panic!("the process has ended before `{text}`"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Sends a payment, and waits until its handler has begun. Returns the connection, and the token of the charge.
    async fn pay(
        &mut self,
        key: &str,
        gateway_seconds: u32,
    ) -> Result<(TcpStream, String), BoxError> {
        let mut client = TcpStream::connect(&self.address).await?;
        let (host, length) = (&self.address, ORDER.len());
        let request = format!(
            "POST /payments HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer token-of-ann\r\n\
             idempotency-key: {key}\r\ngateway-seconds: {gateway_seconds}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{ORDER}"
        );
        client.write_all(request.as_bytes()).await?;
        let line = self.line("charging the card").await;
        let token = line.rsplit("token=").next().unwrap().to_owned();
        Ok((client, token))
    }

    fn signal(&self, name: &str) -> Result<(), BoxError> {
        let process = self
            .process
            .id()
            .ok_or("the process has ended")?
            .to_string();
        let sent = std::process::Command::new("kill")
            .args(["-s", name, &process])
            .status()?;
        assert!(sent.success());
        Ok(())
    }
}

/// Returns another server over the table, with a clock that the test moves. It begins at this time, in milliseconds.
fn another(database: &EmbeddedDynamoDb, now: u64) -> Result<(Router, ManualClock), BoxError> {
    let clock = ManualClock::at(i64::try_from(now)?);
    let store = DynamoDbStore::builder()
        .table(TABLE)
        .client(database.client())
        .build()?;
    let backend = Backend::new(
        Arc::new(store),
        Arc::new(clock.clone()),
        Arc::new(SystemRandom),
    );
    Ok((server::app(server::layer(backend)?), clock))
}

/// Sends the payment again to this server.
async fn retry(app: &Router, key: &str) -> Result<Response<String>, BoxError> {
    let request = Request::post("/payments")
        .header("authorization", "Bearer token-of-ann")
        .header("idempotency-key", key)
        .header("content-type", "application/json");
    let response = app
        .clone()
        .oneshot(request.body(Body::from(ORDER))?)
        .await?;
    let (parts, body) = response.into_parts();
    let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    Ok(Response::from_parts(parts, body))
}

async fn database() -> Result<EmbeddedDynamoDb, BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    Ok(database)
}

#[tokio::test]
async fn after_a_kill_a_client_gets_a_response_within_one_and_a_half_leases() -> Result<(), BoxError>
{
    let database = database().await?;
    let mut server = Server::start(&database).await?;
    let (mut client, token) = server.pay("k-1", 3_600).await?;
    server.process.kill().await?;
    let mut received = Vec::new();
    let broken = client.read_to_end(&mut received).await;
    assert!(broken.is_err() || received.is_empty(), "{received:?}");

    let begun = claims(&database)[0].lease_ends - u64::try_from(LEASE.as_millis())?;
    let (app, clock) = another(&database, begun)?;
    let (mut waited, mut refusals) = (Duration::ZERO, 0);
    let response = loop {
        let response = retry(&app, "k-1").await?;
        if response.status() != StatusCode::CONFLICT {
            break response;
        }
        let seconds = response.headers()["retry-after"].to_str()?.parse()?;
        clock.advance(Duration::from_secs(seconds));
        waited += Duration::from_secs(seconds);
        refusals += 1;
    };
    assert!(
        refusals > 0 && waited <= LEASE * 3 / 2,
        "{refusals} in {waited:?}"
    );
    // The gateway gets the token of the run that was killed.
    let paid = format!(r#"{{"payment_id":"pay-{}","amount":4200}}"#, &token[..8]);
    assert_eq!(
        (response.status(), response.body()),
        (StatusCode::CREATED, &paid)
    );
    assert_eq!(
        retry(&app, "k-1").await?.headers()["idempotent-replayed"],
        "true"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_stop_signal_ends_each_request_also_without_its_client()
-> Result<(), BoxError> {
    let database = database().await?;
    // Neither request ends before the server stops.
    let completions = database.inject(Fault::on("UpdateItem").always().hold());
    let mut server = Server::start(&database).await?;
    let (mut client, _) = server.pay("k-1", 0).await?;
    let (gone, _) = server.pay("k-2", 0).await?;
    completions.reached().await;
    drop(gone);
    server.signal("TERM")?;
    server.line("stopping").await;
    database.clear_faults();
    completions.release().await;
    let mut response = String::new();
    client.read_to_string(&mut response).await?;
    assert!(response.starts_with("HTTP/1.1 201 Created"), "{response}");
    assert!(server.process.wait().await?.success());

    let (app, _) = another(&database, process::now())?;
    for key in ["k-1", "k-2"] {
        let replayed = retry(&app, key).await?;
        assert_eq!(replayed.headers()["idempotent-replayed"], "true", "{key}");
    }
    Ok(())
}

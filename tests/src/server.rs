//! The server of `examples/server`: in a process that a test kills or stops, and in the test, with a clock that the test moves.

use std::process::{Command as StdCommand, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use idempotency_core::store::Store;
use idempotency_core::system::SystemRandom;
use idempotency_http::Backend;
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};
use tower::ServiceExt;

use crate::process;
use crate::valkey::Frozen;

/// The length of the lease of a server with `renew`.
const LEASE: Duration = Duration::from_secs(30);
const ORDER: &str = r#"{"order_id":"o-1","amount":4200}"#;

/// Serves until the process gets a SIGTERM.
///
/// # Errors
///
/// If there is no port, or the server fails.
pub async fn serve(backend: Backend) -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    server::serve(listener, backend, server::stop_signal()).await
}

/// A process that [`serve`]s. It is killed when this value is dropped.
pub struct ServerProcess {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl ServerProcess {
    /// Starts this program in the role `server`, with further variables of the environment.
    ///
    /// # Errors
    ///
    /// If it does not listen.
    pub async fn start(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BoxError> {
        let mut command = Command::from(process::server()?);
        command.envs(variables).kill_on_drop(true);
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let mut server = Self {
            process,
            lines: BufReader::new(output).lines(),
            address: String::new(),
        };
        let line = server.line("listening on ").await?;
        server.address = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(server)
    }

    /// Waits until the process has written a line with this text.
    ///
    /// # Errors
    ///
    /// If it ends before.
    pub async fn line(&mut self, text: &str) -> Result<String, BoxError> {
        while let Some(line) = self.lines.next_line().await? {
            if line.contains(text) {
                return Ok(line);
            }
        }
        Err(format!("the process has ended before `{text}`").into())
    }

    /// Sends a payment whose gateway takes this time, and waits until its handler has begun. Returns the client's connection, and the token
    /// of the charge.
    ///
    /// # Errors
    ///
    /// If the handler does not begin.
    pub async fn pay(
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
        let line = self.line("charging the card").await?;
        let token = line.rsplit("token=").next().unwrap_or_default();
        Ok((client, token.to_owned()))
    }

    /// Sends a SIGTERM.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn terminate(&self) -> Result<(), BoxError> {
        let process = self
            .process
            .id()
            .ok_or("the process has ended")?
            .to_string();
        let sent = StdCommand::new("kill")
            .args(["-s", "TERM", &process])
            .status()?;
        sent.success()
            .then_some(())
            .ok_or_else(|| "no signal was sent".into())
    }

    /// Waits for the end of the process. Returns true if it ended without an error.
    ///
    /// # Errors
    ///
    /// If it cannot be waited for.
    pub async fn ends_well(&mut self) -> Result<bool, BoxError> {
        Ok(self.process.wait().await?.success())
    }

    /// Kills the process in a payment, and sends the payment to another server over the same records, as a client does that follows
    /// `Retry-After`.
    ///
    /// # Panics
    ///
    /// If the response does not come within one and a half leases, or is not that of one charge.
    ///
    /// # Errors
    ///
    /// If the test has a fault.
    pub async fn is_killed_in_a_payment(mut self, records: Arc<dyn Store>) -> Result<(), BoxError> {
        let (mut client, token) = self.pay("k-1", 3_600).await?;
        self.process.kill().await?;
        let mut received = Vec::new();
        let broken = client.read_to_end(&mut received).await;
        assert!(broken.is_err() || received.is_empty(), "{received:?}");

        let next = NextServer::start(records)?;
        let (mut waited, mut refusals) = (Duration::ZERO, 0);
        let response = loop {
            let response = next.pay("k-1").await?;
            if response.status() != StatusCode::CONFLICT {
                break response;
            }
            let wait = response.headers()["retry-after"].to_str()?.parse()?;
            let wait = Duration::from_secs(wait);
            next.clock.advance(wait);
            waited += wait;
            refusals += 1;
        };
        assert!(
            refusals > 0,
            "the claim was free before its lease had expired"
        );
        assert!(
            waited <= LEASE * 3 / 2,
            "{waited:?} after {refusals} refusals"
        );
        // The gateway gets the token of the run that was killed.
        let paid = format!(r#"{{"payment_id":"pay-{}","amount":4200}}"#, &token[..8]);
        assert_eq!(
            (response.status(), response.body()),
            (StatusCode::CREATED, &paid)
        );
        assert!(is_replay(&next.pay("k-1").await?));
        Ok(())
    }

    /// Stops the process in a payment until its lease has expired and another server has taken the payment.
    ///
    /// # Panics
    ///
    /// If its client does not get the response of the other server.
    ///
    /// # Errors
    ///
    /// If the test has a fault.
    pub async fn stands_still_in_a_payment(
        mut self,
        records: Arc<dyn Store>,
    ) -> Result<(), BoxError> {
        let next = NextServer::start(records)?;
        let mut keys = (1..).map(|number| format!("k-{number}"));
        let (mut client, frozen, key) = loop {
            let key = keys.next().unwrap_or_default();
            let (client, _) = self.pay(&key, 1).await?;
            let frozen = Frozen::new(self.process.id().ok_or("the process has ended")?);
            // On a busy machine it was not stopped before its handler had ended.
            if next.pay(&key).await?.status() == StatusCode::CONFLICT {
                break (client, frozen, key);
            }
        };
        next.clock.advance(LEASE * 3 / 2);
        let paid = next.pay(&key).await?;
        assert_eq!(paid.status(), StatusCode::CREATED);
        assert!(!is_replay(&paid));
        drop(frozen);
        let mut received = String::new();
        client.read_to_string(&mut received).await?;
        assert!(received.starts_with("HTTP/1.1 201 Created"), "{received}");
        assert!(received.contains("idempotent-replayed: true"), "{received}");
        assert!(received.ends_with(paid.body()), "{received}");
        Ok(())
    }
}

/// A server in the test, with a clock that begins now.
pub struct NextServer {
    app: Router,
    clock: ManualClock,
}

impl NextServer {
    /// Starts a server over these records.
    ///
    /// # Errors
    ///
    /// If a setting is wrong.
    pub fn start(records: Arc<dyn Store>) -> Result<Self, BoxError> {
        let clock = ManualClock::at(i64::try_from(process::now())?);
        let backend = Backend::new(records, Arc::new(clock.clone()), Arc::new(SystemRandom));
        let app = server::app(server::layer(backend)?);
        Ok(Self { app, clock })
    }

    /// Sends a payment, whose gateway takes no time.
    ///
    /// # Errors
    ///
    /// If the response cannot be read.
    pub async fn pay(&self, key: &str) -> Result<Response<String>, BoxError> {
        let request = Request::post("/payments")
            .header("authorization", "Bearer token-of-ann")
            .header("idempotency-key", key)
            .header("content-type", "application/json");
        let response = self.app.clone().oneshot(request.body(Body::from(ORDER))?);
        let (parts, body) = response.await?.into_parts();
        let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
        Ok(Response::from_parts(parts, body))
    }
}

/// Returns true if an earlier request had this response.
pub fn is_replay<B>(response: &Response<B>) -> bool {
    response.headers().contains_key("idempotent-replayed")
}

//! The function as an HTTP server, whose leases are renewed, and what starts, kills and asks such a process.

use std::convert::Infallible;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use idempotency_dynamodb::{DynamoDbStore, LeanClient};
use idempotency_http::{Backend, Call, HttpOperation, backend};
use idempotency_lambda::BoxError;
use idempotency_postgres::PostgresStore;
use idempotency_valkey::ValkeyStore;
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt, service_fn};

use super::bank::transfer;
use super::client::DeliveryResult;
use super::function::{Event, KEY_PREFIX, POSTGRES, TRANSFERS, VALKEY, work};
use super::lock;

/// How long a claim lasts without a renewal: the shortest lease that is renewed.
pub(super) const LEASE: Duration = Duration::from_secs(3);

/// The header with the number of the delivery.
const DELIVERY: &str = "x-delivery";

/// What the process writes before its port.
const LISTENS: &str = "the server listens on port ";

/// Serves requests until the process is killed.
pub(super) async fn serve() -> Result<(), BoxError> {
    let protects = HttpOperation::builder("soak")
        .key_prefix(KEY_PREFIX)
        .shared_by_all_callers()
        // A client changes how long its handler works from one try to the next.
        .without_fingerprint()
        .expires_after(Duration::from_secs(3_600))
        .lease(LEASE)
        .renew(true)
        .build()?;
    let layer = protects.layer(host().await?).run_to_end();
    let service = layer.layer(service_fn(respond));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{LISTENS}{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        let answer = move |request: Request<Incoming>| {
            let service = service.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = Full::new(body.collect().await?.to_bytes());
                let Ok(response) = service.oneshot(Request::from_parts(parts, body)).await;
                Ok::<_, hyper::Error>(response)
            }
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), hyper::service::service_fn(answer));
        tokio::spawn(connection);
    }
}

/// Returns the backend on the store that the variables name.
async fn host() -> Result<Backend, BoxError> {
    if let Ok(url) = std::env::var(VALKEY) {
        return Ok(backend(ValkeyStore::builder(url).build()?));
    }
    if let Ok(url) = std::env::var(POSTGRES) {
        // For transactions that stay open, and for the renewals beside them.
        let store = PostgresStore::builder().url(url).connections(24);
        return Ok(backend(store.build()?));
    }
    let client = LeanClient::from_env().await?;
    let store = DynamoDbStore::builder().lean_client(client);
    Ok(backend(store.table("idempotency").build()?))
}

async fn respond(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match handle(request).await {
        Ok(response) => (StatusCode::OK, response),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    Ok(response)
}

async fn handle(request: Request<Full<Bytes>>) -> Result<String, BoxError> {
    let (parts, body) = request.into_parts();
    let delivery = parts.headers.get(DELIVERY).ok_or("no delivery")?;
    let call = parts.extensions.get::<Call>().ok_or("no call")?;
    let id = call.key().map(|id| id.as_str().to_owned());
    let event: Event = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    let delivery = delivery.to_str()?.to_owned();
    let response = if std::env::var_os(TRANSFERS).is_some() {
        transfer(call, event, delivery, id).await?
    } else {
        work(event, delivery, id).await?
    };
    Ok(serde_json::to_string(&response)?)
}

/// A process that serves requests.
#[derive(Clone)]
pub(super) struct ServerProcess {
    address: SocketAddr,
    process: Arc<Mutex<Running>>,
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ServerProcess {
    /// Starts the process, and waits for its port.
    pub(super) async fn start(mut command: Command) -> Result<Self, BoxError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or("no output")?;
        let (listens, port) = tokio::sync::oneshot::channel::<u16>();
        let mut listens = Some(listens);
        // It also reads what follows: a full pipe would stop the process.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let port = line.split_once(LISTENS).map(|(_, port)| port.parse());
                if let Some(Ok(port)) = port
                    && let Some(listens) = listens.take()
                {
                    let _ = listens.send(port);
                }
            }
        });
        Ok(Self {
            process: Arc::new(Mutex::new(Running(process))),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port.await?)),
        })
    }

    pub(super) fn process_id(&self) -> u32 {
        lock(&self.process).0.id()
    }

    pub(super) fn is_alive(&self) -> bool {
        matches!(lock(&self.process).0.try_wait(), Ok(None))
    }

    pub(super) fn kill(&self) {
        let process = &mut lock(&self.process).0;
        let _ = process.kill();
        let _ = process.wait();
    }

    /// Sends an event. Its client waits this long.
    pub(super) async fn deliver(
        &self,
        event: &Event,
        request_id: &str,
        deadline: Duration,
    ) -> Result<DeliveryResult, BoxError> {
        let body = serde_json::to_string(event)?;
        let request = Request::post("/")
            .header("host", "soak")
            .header("idempotency-key", format!("\"{}\"", event.key))
            .header(DELIVERY, request_id)
            .body(Full::new(Bytes::from(body)))?;
        let error = |name: &str| DeliveryResult::Error(name.to_owned(), String::new());
        Ok(
            match tokio::time::timeout(deadline, self.exchange(request)).await {
                Err(_) => error("timed out"),
                Ok(Err(_)) if !self.is_alive() => DeliveryResult::Killed,
                Ok(Err(_)) => error("the connection failed"),
                Ok(Ok((StatusCode::OK, body))) => DeliveryResult::Response(body),
                Ok(Ok((status, body))) => {
                    let problem: serde_json::Value =
                        serde_json::from_str(&body).unwrap_or_default();
                    // The body is a problem, or the text of the handler's error.
                    let reason = match problem["type"].as_str() {
                        Some(name) => name.rsplit(['/', '#', ':']).next().unwrap_or_default(),
                        None => body.get(..60).unwrap_or(&body),
                    };
                    DeliveryResult::Error(format!("{} {reason}", status.as_u16()), body)
                }
            },
        )
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, String), BoxError> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request).await;
        let read = async {
            let (parts, body) = response?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok((parts.status, String::from_utf8_lossy(&body).into_owned()))
        };
        let read = read.await;
        connection.abort();
        read
    }
}

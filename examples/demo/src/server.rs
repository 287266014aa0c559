//! Two servers over one memory, on a clock that is moved: what a client meets after one of them is killed in its handler. A server is a
//! runtime of its own, which ends with all its tasks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use idempotency_core::future::BoxFuture;
use idempotency_core::store::{SendLog, Store, StoreLimits, StoreReply, StoreRequest, Write};
use idempotency_http::{Backend, MemoryStore};
use idempotency_testkit::{ManualClock, SeededRandom};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tower::ServiceExt;

/// How long the handler has run when its server is killed, in steps of half a second.
const STEPS_UNTIL_KILL: u32 = 25;
const STEP: Duration = Duration::from_millis(500);
/// How long after the kill the client sends its request again.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(15_100);

/// What was observed of one request: the columns of its row.
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) action: &'static str,
    pub(crate) requests: String,
    pub(crate) response: String,
}

/// Sends a request to a server that is killed, and three times to the next server.
pub(crate) fn play() -> Result<[Seen; 4]> {
    let (memory, clock) = (Arc::new(Memory::default()), ManualClock::at(0));
    let start = |seed| Server::start(&memory, &clock, seed);
    let first = start(1)?;
    first
        .runtime
        .spawn(first.app.clone().oneshot(payment(3_600)?));
    for _ in 0..STEPS_UNTIL_KILL {
        first.runtime.block_on(async {
            for _ in 0..100 {
                yield_now().await;
            }
        });
        clock.advance(STEP);
    }
    drop(first);
    let killed = memory.seen("ran, killed", "none".to_owned());

    clock.advance(CLIENT_TIMEOUT);
    let next = start(2)?;
    let response = next.send()?;
    let wait = response.headers().get("retry-after");
    let wait = wait.context("the retry got no Retry-After")?.to_str()?;
    let refused = format!("{}, Retry-After: {wait}", response.status().as_u16());
    let refused = memory.seen("refused", refused);

    clock.advance(Duration::from_secs(wait.parse()?));
    let first_response = next.send()?;
    let ran = memory.seen("ran", summary(&first_response)?);
    let replay = next.send()?;
    let is_same = replay.body() == first_response.body();
    ensure!(is_same && replay.headers().contains_key("idempotent-replayed"));
    Ok([
        killed,
        refused,
        ran,
        memory.seen("stored response", summary(&replay)?),
    ])
}

/// Returns a payment whose gateway takes this many seconds.
fn payment(seconds: u32) -> Result<Request<Body>> {
    let request = Request::post("/payments")
        .header("authorization", "Bearer token-of-ann")
        .header("idempotency-key", "o-1005")
        .header("content-type", "application/json")
        .header("gateway-seconds", seconds);
    Ok(request.body(Body::from(r#"{"order_id":"o-1005","amount":4200}"#))?)
}

fn summary(response: &Response<Value>) -> Result<String> {
    let id = response.body()["payment_id"].as_str();
    let id = id.with_context(|| format!("no payment: {}", response.body()))?;
    Ok(format!("{} {id}", response.status().as_u16()))
}

struct Server {
    runtime: Runtime,
    app: Router,
}

impl Server {
    fn start(memory: &Arc<Memory>, clock: &ManualClock, seed: u64) -> Result<Self> {
        let random = Arc::new(SeededRandom::new(seed));
        let backend = Backend::new(Arc::clone(memory) as _, Arc::new(clock.clone()), random);
        Ok(Self {
            runtime: Builder::new_current_thread().enable_time().build()?,
            app: server::app(server::layer(backend)?),
        })
    }

    fn send(&self) -> Result<Response<Value>> {
        let request = payment(0)?;
        self.runtime.block_on(async {
            let response = self.app.clone().oneshot(request).await?;
            let (parts, body) = response.into_parts();
            let body = serde_json::from_slice(&to_bytes(body, usize::MAX).await?)?;
            Ok(Response::from_parts(parts, body))
        })
    }
}

/// A store in memory that notes the writes of a request.
#[derive(Default)]
struct Memory {
    records: MemoryStore,
    noted: Mutex<(String, Vec<String>)>,
}

impl Memory {
    /// Returns what was observed of the request since the last one.
    fn seen(&self, action: &'static str, response: String) -> Seen {
        let (key, requests) = std::mem::take(&mut *self.noted());
        Seen {
            key,
            action,
            requests: requests.join(" "),
            response,
        }
    }

    fn noted(&self) -> MutexGuard<'_, (String, Vec<String>)> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Memory {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let write = request.record().map(|it| match it.write {
            Write::Put(_) => (it.id.to_string(), "Put"),
            _ => (it.id.to_string(), "Update"),
        });
        Box::pin(async move {
            let reply = self.records.send(request, log).await;
            if let Some((id, name)) = write {
                let is_applied = matches!(reply, StoreReply::Applied { .. });
                let mark = if is_applied { "" } else { "✗" };
                let digest = id.rsplit('#').next().unwrap_or_default();
                let mut noted = self.noted();
                noted.0 = digest.chars().take(8).collect();
                noted.1.push(format!("{name}{mark}"));
            }
            reply
        })
    }

    fn limits(&self) -> StoreLimits {
        self.records.limits()
    }

    fn name(&self) -> String {
        self.records.name()
    }
}

//! The proxy between the port and the database: notes each request and applies the faults.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::time::sleep;

use super::fault::Kind;
use super::faults::Faults;
use super::injected::Injected;
use super::request::{Request, error_response};
use crate::wire::{self, HangUp};

pub(super) struct Proxy {
    database: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    log: Mutex<Log>,
    pub(super) faults: Faults,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    /// How many requests were cleared. Added to an index, it gives the request's number, which stays valid.
    cleared: usize,
}

impl Proxy {
    pub(super) fn new(database: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            database,
            client: Client::builder(TokioExecutor::new()).build_http(),
            log: Mutex::default(),
            faults: Faults::default(),
        })
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.log().requests.clone()
    }

    pub(super) fn clear_requests(&self) {
        let mut log = self.log();
        log.cleared += log.requests.len();
        log.requests.clear();
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: wire::Request,
    ) -> Result<wire::Response, HangUp> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
        let request = Request::read(&parts, &body);
        let fault = self.faults.apply_to(&request);
        let number = self.note(request);
        // In its own task: a request that has arrived is processed even if its sender is killed meanwhile.
        let reply = tokio::spawn(async move {
            match fault {
                None => self.apply(number, parts, body).await,
                Some((kind, injected)) => {
                    self.apply_with_fault(number, parts, body, kind, injected)
                        .await
                }
            }
        });
        reply.await.unwrap_or(Err(HangUp))
    }

    async fn apply_with_fault(
        self: Arc<Self>,
        number: usize,
        parts: Parts,
        body: Bytes,
        kind: Kind,
        injected: Injected,
    ) -> Result<wire::Response, HangUp> {
        // Counted when the fault begins. If the request is applied first, that is after the application.
        match kind {
            Kind::DropRequest => {
                let _processing = injected.processing();
                Err(HangUp)
            }
            Kind::DropReply => {
                let _ = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                Err(HangUp)
            }
            Kind::LateArrival => {
                let processing = injected.processing();
                tokio::spawn(async move {
                    injected.released().await;
                    let _ = self.apply(number, parts, body).await;
                    drop(processing);
                });
                Err(HangUp)
            }
            Kind::Hold => {
                let _processing = injected.processing();
                injected.released().await;
                self.apply(number, parts, body).await
            }
            Kind::HoldReply => {
                let reply = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                injected.released().await;
                reply
            }
            Kind::ArriveAfter(delay) => {
                let processing = injected.processing();
                tokio::spawn(async move {
                    sleep(delay).await;
                    let _ = self.apply(number, parts, body).await;
                    drop(processing);
                });
                Err(HangUp)
            }
            Kind::Delay(delay) => {
                let _processing = injected.processing();
                sleep(delay).await;
                self.apply(number, parts, body).await
            }
            Kind::DelayReply(delay) => {
                let reply = self.apply(number, parts, body).await;
                let _processing = injected.processing();
                sleep(delay).await;
                reply
            }
            Kind::Respond {
                status,
                error,
                message,
                applied,
            } => {
                if applied {
                    let _ = self.apply(number, parts, body).await;
                }
                let _processing = injected.processing();
                Ok(error_response(status, &error, &message))
            }
        }
    }

    /// Forwards the request unchanged to the database.
    async fn apply(
        &self,
        number: usize,
        parts: Parts,
        body: Bytes,
    ) -> Result<wire::Response, HangUp> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri: Uri = format!("http://{}{path}", self.database)
            .parse()
            .map_err(|_| HangUp)?;
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers;
        let reply = self.client.request(request).await.map_err(|_| HangUp)?;
        let (parts, body) = reply.into_parts();
        let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
        self.note_response(number, parts.status.as_u16());
        Ok(wire::Response::from_parts(parts, Full::new(body)))
    }

    fn note(&self, request: Request) -> usize {
        let mut log = self.log();
        log.requests.push(request);
        log.cleared + log.requests.len() - 1
    }

    fn note_response(&self, number: usize, status: u16) {
        let mut log = self.log();
        let index = number.checked_sub(log.cleared);
        if let Some(request) = index.and_then(|index| log.requests.get_mut(index)) {
            request.status = Some(status);
            request.responded_at = Some(SystemTime::now());
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! A provider: an HTTP server on loopback that notes what it did, and whose requests pass the gate of their process.
//!
//! It runs on the runtime of the process that asks it, so that virtual time does not pass while a request is on its way.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use http_body_util::BodyExt;
use idempotency_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::gate::{FaultKind, Service};
use super::process::{Process, RequestFate};
use crate::lock::lock;
use crate::wire::{self, HangUp};

/// A service that the function calls over HTTP, such as a payment provider.
///
/// [`World::url`](super::World::url) is its address. Each request that changes something is an effect, counted under its method
/// and path. `GET`, `HEAD` and `OPTIONS` change nothing, a reply of 400 or above says that nothing was changed, and a `PUT` or
/// `DELETE` that was applied before changes nothing more.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::retry_safety::Provider;
/// use serde_json::json;
///
/// let bank = Provider::new(|request| (201, json!({ "payment_id": format!("pay-{}", request.number) })))
///     .honours("idempotency-key");
/// # let _ = bank;
/// ```
#[derive(Clone)]
pub struct Provider {
    reply: Arc<dyn Fn(&ProviderRequest) -> Reply + Send + Sync>,
    token_header: Option<String>,
}

/// A request that arrived at a [`Provider`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, without `?`.
    pub query: String,
    /// The headers, with names in lower case. One that is not text is left out.
    headers: Vec<(String, String)>,
    /// The body. One that is not JSON is a string.
    pub body: Value,
    /// The number of this effect in its scenario, from 1. A provider can make its ids of it.
    pub number: usize,
}

/// A reply of a [`Provider`]: status and body.
type Reply = (u16, Value);

impl Provider {
    /// Returns a provider that makes its replies, a status and a JSON body, with `reply`. `Null` is no body.
    pub fn new(reply: impl Fn(&ProviderRequest) -> (u16, Value) + Send + Sync + 'static) -> Self {
        Self {
            reply: Arc::new(reply),
            token_header: None,
        }
    }

    /// Lets the provider honour this header, as payment providers do: a request with the value of an earlier one is not applied
    /// again, and gets the reply of the first. With another path or body it gets the status 422.
    #[must_use]
    pub fn honours(mut self, header: &str) -> Self {
        self.token_header = Some(header.to_ascii_lowercase());
        self
    }
}

impl ProviderRequest {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let same = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(same)
            .map(|(_, value)| value.as_str())
    }

    /// Returns what a report calls the effect of this request.
    pub(super) fn label(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns true if both ask for the same.
    fn asks_the_same(&self, other: &Self) -> bool {
        self.method == other.method
            && self.path == other.path
            && self.query == other.query
            && self.body == other.body
    }
}

/// The address of the provider, which is the same in all scenarios of a check.
pub(super) struct Listener {
    socket: std::net::TcpListener,
    pub(super) address: SocketAddr,
}

impl Listener {
    pub(super) fn bind() -> io::Result<Self> {
        let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Returns another handle of the socket.
    pub(super) fn clone_socket(&self) -> io::Result<std::net::TcpListener> {
        self.socket.try_clone()
    }

    /// Returns the connections that were opened and not accepted yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = std::net::TcpStream> {
        std::iter::from_fn(|| Some(self.socket.accept().ok()?.0))
    }
}

/// The provider in one scenario, with what it did.
pub(super) struct Http {
    pub(super) provider: Provider,
    pub(super) listener: Arc<Listener>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// The requests that changed something.
    applied: Vec<ProviderRequest>,
    /// For each token the first request and its reply.
    tokens: HashMap<String, (ProviderRequest, Reply)>,
}

impl Http {
    pub(super) fn new(provider: Provider, listener: Arc<Listener>) -> Self {
        Self {
            provider,
            listener,
            log: Mutex::default(),
        }
    }

    /// Returns the requests that changed something.
    pub(super) fn applied(&self) -> Vec<ProviderRequest> {
        self.log().applied.clone()
    }

    /// Applies a request.
    fn apply(&self, mut request: ProviderRequest) -> Reply {
        let mut log = self.log();
        let header = self.provider.token_header.as_deref();
        let token = header
            .and_then(|header| request.header(header))
            .map(str::to_owned);
        if let Some((first, reply)) = token.as_ref().and_then(|token| log.tokens.get(token)) {
            if first.asks_the_same(&request) {
                return reply.clone();
            }
            let title = "this token was used for another request";
            return (422, json!({ "title": title }));
        }
        request.number = log.applied.len() + 1;
        let reply = (self.provider.reply)(&request);
        if reply.0 >= 400 {
            return reply;
        }
        let changes = match request.method.as_str() {
            "GET" | "HEAD" | "OPTIONS" => false,
            "PUT" | "DELETE" => !log
                .applied
                .iter()
                .any(|known| known.asks_the_same(&request)),
            _ => true,
        };
        if changes {
            log.applied.push(request.clone());
        }
        if let Some(token) = token {
            log.tokens.insert(token, (request, reply.clone()));
        }
        reply
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        lock(&self.log)
    }
}

/// Serves the provider on the runtime of this process, if the check has one.
pub(super) fn serve(process: &Arc<Process>) {
    let Some(listener) = process.shared.listener() else {
        return;
    };
    // Those of a process that has ended.
    listener.waiting().for_each(drop);
    let socket = listener.clone_socket();
    if let Ok(Ok(listener)) = socket.map(TcpListener::from_std) {
        tokio::spawn(wire::serve(listener, handler(process)));
    }
}

/// Accepts what this process has connected, before it stands still: another process would accept it and close it at its own end.
pub(super) fn take_connections(process: &Arc<Process>) {
    let listener = process.shared.listener();
    for stream in listener.into_iter().flat_map(Listener::waiting) {
        let stream = stream.set_nonblocking(true).map(|()| stream);
        if let Ok(Ok(stream)) = stream.map(TcpStream::from_std) {
            wire::serve_connection(stream, handler(process));
        }
    }
}

fn handler(
    process: &Arc<Process>,
) -> impl Fn(wire::Request) -> BoxFuture<'static, Result<wire::Response, HangUp>> + Clone + Send + 'static
{
    let process = Arc::clone(process);
    move |request| Box::pin(handle(Arc::clone(&process), request))
}

async fn handle(process: Arc<Process>, request: wire::Request) -> Result<wire::Response, HangUp> {
    process.touch();
    let request = read(request).await?;
    let Some(http) = &process.shared.http else {
        return Err(HangUp);
    };
    let label = request.label();
    let refuses = |fault| fault == Some(FaultKind::Refused);
    let passed = process.pass(Service::Provider, label, refuses, |_| http.apply(request));
    match passed.await {
        RequestFate::Refused => Ok(wire::json(503, "application/json", String::new())),
        RequestFate::Lost => Err(HangUp),
        RequestFate::Done((status, Value::Null)) => {
            Ok(wire::json(status, "application/json", String::new()))
        }
        RequestFate::Done((status, body)) => {
            Ok(wire::json(status, "application/json", body.to_string()))
        }
    }
}

async fn read(request: wire::Request) -> Result<ProviderRequest, HangUp> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
    let headers = parts.headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    Ok(ProviderRequest {
        method: parts.method.as_str().to_owned(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
        body: serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into()),
        number: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(provider: Provider) -> Http {
        Http::new(provider, Arc::new(Listener::bind().unwrap()))
    }

    fn request(method: &str, body: Value, token: Option<&str>) -> ProviderRequest {
        let token = token.map(|token| ("idempotency-key".to_owned(), token.to_owned()));
        ProviderRequest {
            method: method.to_owned(),
            path: "/charges".to_owned(),
            query: String::new(),
            headers: token.into_iter().collect(),
            body,
            number: 0,
        }
    }

    fn numbered() -> Provider {
        Provider::new(|request| (201, json!(request.number)))
    }

    #[test]
    fn a_token_that_is_honoured_is_applied_once_and_another_request_with_it_is_refused() {
        let http = http(numbered().honours("Idempotency-Key"));
        let first = http.apply(request("POST", json!(1), Some("a")));
        assert_eq!(http.apply(request("POST", json!(1), Some("a"))), first);
        assert_eq!(http.apply(request("POST", json!(2), Some("a"))).0, 422);
        assert_eq!(http.applied().len(), 1);
        http.apply(request("POST", json!(1), Some("b")));
        http.apply(request("POST", json!(1), None));
        assert_eq!(http.applied().len(), 3);
    }

    #[test]
    fn a_token_that_is_not_honoured_changes_nothing() {
        let http = http(numbered());
        http.apply(request("POST", json!(1), Some("a")));
        http.apply(request("POST", json!(1), Some("a")));
        assert_eq!(http.applied().len(), 2);
    }

    #[test]
    fn a_put_that_was_applied_before_is_no_further_effect_and_a_get_is_none() {
        let http = http(numbered());
        for body in [1, 1, 2] {
            http.apply(request("PUT", json!(body), None));
        }
        http.apply(request("GET", Value::Null, None));
        assert_eq!(http.applied().len(), 2);
    }

    #[test]
    fn a_reply_that_refuses_is_no_effect_and_is_not_kept_for_its_token() {
        let declines_once = Mutex::new(true);
        let http = http(
            Provider::new(move |_| {
                let declined = std::mem::replace(&mut *declines_once.lock().unwrap(), false);
                (if declined { 402 } else { 201 }, Value::Null)
            })
            .honours("idempotency-key"),
        );
        assert_eq!(http.apply(request("POST", json!(1), Some("a"))).0, 402);
        assert!(http.applied().is_empty());
        assert_eq!(http.apply(request("POST", json!(1), Some("a"))).0, 201);
        assert_eq!(http.applied().len(), 1);
    }
}

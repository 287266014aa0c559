//! A payment provider: an HTTP server that charges a card once for each `Idempotency-Key`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use idempotency_lambda::BoxError;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the provider did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyTo {
    /// It charged the card.
    Charge,
    /// It had seen the key, and returned the first payment.
    Duplicate,
}

/// A running provider. It ends with the runtime of the test.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    state: Mutex<State>,
    /// The number of charges.
    charged: watch::Sender<usize>,
    holds: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// The body and the payment of each key.
    payments: HashMap<String, (Value, String)>,
    /// The keys of the charges, in order.
    charges: Vec<String>,
    requests: Vec<(String, ReplyTo)>,
    loses_reply: bool,
}

impl Provider {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let provider = Self(Arc::new(Inner {
            address: listener.local_addr()?,
            state: Mutex::default(),
            charged: watch::Sender::new(0),
            holds: watch::Sender::new(false),
        }));
        let serving = provider.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let provider = serving.clone();
                let service = service_fn(move |request| provider.clone().charge(request));
                tokio::spawn(async move {
                    // A lost reply closes the connection, which is an error here.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(provider)
    }

    /// Returns the host and port.
    pub(crate) fn address(&self) -> String {
        self.0.address.to_string()
    }

    /// Charges and then holds the replies. The receiver sees each charge.
    pub(crate) fn hold_replies(&self) -> watch::Receiver<usize> {
        self.0.holds.send_replace(true);
        self.0.charged.subscribe()
    }

    /// Sends the replies that were held, and holds no more.
    pub(crate) fn reply(&self) {
        self.0.holds.send_replace(false);
    }

    /// Closes the connection of the next request in place of a reply, after it has charged.
    pub(crate) fn lose_the_next_reply(&self) {
        self.state().loses_reply = true;
    }

    /// Returns the key of each charge, in order.
    pub(crate) fn charges(&self) -> Vec<String> {
        self.state().charges.clone()
    }

    /// Returns the key of each request and what the provider did, in order.
    pub(crate) fn requests(&self) -> Vec<(String, ReplyTo)> {
        self.state().requests.clone()
    }

    async fn charge(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, BoxError> {
        let key = request.headers().get("idempotency-key");
        let key = key.ok_or("no key")?.to_str()?.to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        let (status, response) = self.charge_once(key, serde_json::from_slice(&body)?);
        if std::mem::take(&mut self.state().loses_reply) {
            return Err("the reply is lost".into());
        }
        self.0.holds.subscribe().wait_for(|holds| !holds).await?;
        let mut response = Response::new(Full::new(Bytes::from(response.to_string())));
        *response.status_mut() = status;
        Ok(response)
    }

    /// Charges, unless the key was seen before. Another body under the key of a charge is refused.
    fn charge_once(&self, key: String, body: Value) -> (StatusCode, Value) {
        let mut state = self.state();
        if let Some((first, payment_id)) = state.payments.get(&key).cloned() {
            state.requests.push((key, ReplyTo::Duplicate));
            if first != body {
                let error = json!({ "error": "the key belongs to another charge" });
                return (StatusCode::UNPROCESSABLE_ENTITY, error);
            }
            return (StatusCode::CREATED, json!({ "payment_id": payment_id }));
        }
        state.charges.push(key.clone());
        state.requests.push((key.clone(), ReplyTo::Charge));
        let payment_id = format!("pay-{}", state.charges.len());
        state.payments.insert(key, (body, payment_id.clone()));
        self.0.charged.send_replace(state.charges.len());
        (StatusCode::CREATED, json!({ "payment_id": payment_id }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

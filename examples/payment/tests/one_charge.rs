//! A process that is killed beside its charge: the next run sends the same token, and the provider charges once.
//!
//! The function is a real process under the local Lambda: this test program, started again. The provider is an HTTP server.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionSpec, LocalLambda, Reply};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

const ROLE: &str = "PAYMENT_ROLE";

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    if std::env::var(ROLE).is_ok() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let Err(error) = runtime.block_on(payment::start()) {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    }
}

struct Shop {
    database: EmbeddedDynamoDb,
    lambda: LocalLambda,
    provider: Provider,
}

impl Shop {
    async fn start() -> Result<Self, BoxError> {
        let provider = Provider::start().await?;
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new("idempotency")).await?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["the_function", "--exact", "--nocapture"]);
        let spec = FunctionSpec::new("payment", command)
            .env(ROLE, "payment")
            .env("PAYMENT_PROVIDER", provider.address())
            .envs(database.environment())
            .env("IDEMPOTENCY_TABLE", "idempotency");
        let lambda = LocalLambda::start(spec).await?;
        Ok(Self {
            database,
            lambda,
            provider,
        })
    }

    /// Pays until the request is no longer refused: the claim of the killed process ends with its lease. The test cannot
    /// control the clock of a process.
    async fn pay(&self, order_id: &str, amount: u64) -> Result<Value, BoxError> {
        loop {
            let reply = self.lambda.invoke(request(order_id, amount)).await?;
            match status(&reply) {
                409 => {}
                201 => return body(&reply),
                other => panic!("{other}: {}", reply.payload),
            }
        }
    }
}

/// Returns the request of a user for an order.
fn request(order_id: &str, amount: u64) -> String {
    events::api_gateway_v2("POST", "/payments")
        .claim("iss", "https://id.example.com/")
        .claim("sub", "u-1")
        .json(&json!({ "order_id": order_id, "amount": amount, "currency": "EUR" }))
        .to_string()
}

fn status(reply: &Reply) -> u64 {
    reply.json().unwrap()["statusCode"].as_u64().unwrap()
}

fn body(reply: &Reply) -> Result<Value, BoxError> {
    let response = reply.json()?;
    Ok(serde_json::from_str(
        response["body"].as_str().unwrap_or_default(),
    )?)
}

#[tokio::test]
async fn a_kill_before_the_reply_to_the_charge_leads_to_one_charge() -> Result<(), BoxError> {
    let shop = Shop::start().await?;
    let mut charged = shop.provider.hold_replies();
    let killed = shop.lambda.start_process().await?;
    let pending = killed
        .invoke(request("o-1", 4_200))
        .deadline_in(Duration::from_secs(3))
        .start();
    // The card is charged, and the process does not know it.
    charged.changed().await?;
    killed.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    shop.provider.reply();
    let receipt = shop.pay("o-1", 4_200).await?;
    assert_eq!(receipt["payment_id"], "pay-1");
    let charges = shop.provider.charges();
    assert_eq!(charges.len(), 1, "{charges:?}");
    // Both runs sent the token, so the provider recognised the second one.
    let requests = shop.provider.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], (charges[0].clone(), ReplyTo::Charge));
    assert_eq!(requests[1], (charges[0].clone(), ReplyTo::Duplicate));
    Ok(())
}

#[tokio::test]
async fn a_kill_between_the_charge_and_the_completion_leads_to_one_charge() -> Result<(), BoxError>
{
    let shop = Shop::start().await?;
    // The completion never arrives at the table.
    let held = shop.database.inject(Fault::on("UpdateItem").hold());
    let killed = shop.lambda.start_process().await?;
    let pending = killed
        .invoke(request("o-1", 4_200))
        .deadline_in(Duration::from_secs(3))
        .start();
    held.reached().await;
    killed.kill().await;
    assert_eq!(pending.await.unwrap_err().error_type, "Runtime.ExitError");
    let receipt = shop.pay("o-1", 4_200).await?;
    assert_eq!(receipt["payment_id"], "pay-1");
    assert_eq!(shop.provider.charges().len(), 1);
    assert_eq!(shop.provider.requests().len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_lost_reply_of_the_provider_leads_to_one_charge() -> Result<(), BoxError> {
    let shop = Shop::start().await?;
    shop.provider.lose_the_next_reply();
    // The handler fails, so its key is free at once.
    let failed = shop.lambda.invoke(request("o-1", 4_200)).await;
    assert!(failed.is_err(), "{failed:?}");
    let receipt = shop.pay("o-1", 4_200).await?;
    assert_eq!(receipt["payment_id"], "pay-1");
    assert_eq!(shop.provider.charges().len(), 1);
    Ok(())
}

#[tokio::test]
async fn two_orders_are_two_charges_and_a_duplicate_asks_nothing_of_the_provider()
-> Result<(), BoxError> {
    let shop = Shop::start().await?;
    for (order_id, payment_id) in [("o-1", "pay-1"), ("o-2", "pay-2"), ("o-1", "pay-1")] {
        let receipt = shop.pay(order_id, 4_200).await?;
        assert_eq!(receipt["payment_id"], payment_id);
    }
    assert_eq!(shop.provider.charges().len(), 2);
    assert_eq!(shop.provider.requests().len(), 2);
    Ok(())
}

/// What the provider did with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyTo {
    /// It charged the card.
    Charge,
    /// It had seen the key, and returned the first payment.
    Duplicate,
}

/// A running provider. It ends with the runtime of the test.
#[derive(Clone)]
struct Provider(Arc<Inner>);

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
    async fn start() -> Result<Self, BoxError> {
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
    fn address(&self) -> String {
        self.0.address.to_string()
    }

    /// Charges and then holds the replies. The receiver sees each charge.
    fn hold_replies(&self) -> watch::Receiver<usize> {
        self.0.holds.send_replace(true);
        self.0.charged.subscribe()
    }

    /// Sends the replies that were held, and holds no more.
    fn reply(&self) {
        self.0.holds.send_replace(false);
    }

    /// Closes the connection of the next request in place of a reply, after it has charged.
    fn lose_the_next_reply(&self) {
        self.state().loses_reply = true;
    }

    /// Returns the key of each charge, in order.
    fn charges(&self) -> Vec<String> {
        self.state().charges.clone()
    }

    /// Returns the key of each request and what the provider did, in order.
    fn requests(&self) -> Vec<(String, ReplyTo)> {
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

//! Every way to start a function: a call inside knows its deadline and its tenant, or is refused. Each start is a real
//! process under the local Lambda: this test program, started again as [`the_function`].
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency_lambda::{
    BoxError, InvocationLayer, LambdaEvent, idempotent, in_current_invocation, init,
    without_invocation,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::lambda::{Function, FunctionProcess, InvokeError, LocalLambda, Reply};
use lambda_runtime::tower::{Layer, ServiceBuilder};
use lambda_runtime::{Runtime, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Barrier;

const ROLE: &str = "TESTS_ROLE";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Order {
    order_id: u32,
    amount: u64,
}

/// Knows nothing but its order. The response is the amount of the first call.
#[idempotent(payload = order, key = "order_id", key_prefix = "charge", shared_key_prefix = true)]
async fn charge(order: Order) -> Result<u64, BoxError> {
    Ok(order.amount)
}

async fn handler(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    charge(event.payload).await
}

/// Goes on when two invocations are in it.
async fn meeting(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    static BOTH: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
    BOTH.wait().await;
    handler(event).await
}

async fn spawning(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    tokio::spawn(charge(event.payload)).await?
}

async fn carrying(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    tokio::spawn(in_current_invocation(charge(event.payload))).await?
}

struct App;

#[idempotent(payload = event.payload, key = "order_id", key_prefix = "charge", shared_key_prefix = true)]
async fn with_state(_app: &App, event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    Ok(event.payload.amount)
}

fn order(request: &lambda_http::Request) -> Result<Order, BoxError> {
    Ok(serde_json::from_slice(request.body().as_ref())?)
}

async fn http(request: lambda_http::Request) -> Result<String, BoxError> {
    Ok(charge(order(&request)?).await?.to_string())
}

#[idempotent(payload = order(&request).ok(), key = "order_id", key_prefix = "charge", shared_key_prefix = true)]
async fn annotated_http(request: lambda_http::Request) -> Result<String, BoxError> {
    Ok(order(&request)?.amount.to_string())
}

/// What `main` would be.
async fn main_of(role: &str) -> Result<(), BoxError> {
    let layer = InvocationLayer::new();
    match role {
        "run" => return idempotency_lambda::run(handler).await,
        "run, spawning" => return idempotency_lambda::run(spawning).await,
        "run, carrying" => return idempotency_lambda::run(carrying).await,
        _ => init().await?,
    }
    match role {
        "lambda_runtime::run" => lambda_runtime::run(service_fn(handler)).await,
        "lambda_runtime::run, layer" => lambda_runtime::run(layer.layer(service_fn(handler))).await,
        "Runtime::layer" => Runtime::new(service_fn(handler)).layer(layer).run().await,
        "lambda_runtime::run, state" => {
            let app = &App;
            lambda_runtime::run(service_fn(move |event| with_state(app, event))).await
        }
        "run_concurrent" => lambda_runtime::run_concurrent(service_fn(handler)).await,
        "run_concurrent, layer" => {
            lambda_runtime::run_concurrent(layer.layer(service_fn(meeting))).await
        }
        "run_concurrent, service" => {
            lambda_runtime::run_concurrent(idempotency_lambda::service(meeting)).await
        }
        "lambda_http::run" => lambda_http::run(service_fn(http)).await,
        "lambda_http::run, layer" => {
            let service = ServiceBuilder::new().layer(layer).service_fn(http);
            lambda_http::run(service).await
        }
        "lambda_http::run, attribute" => lambda_http::run(service_fn(annotated_http)).await,
        "lambda_http::run_concurrent, layer" => {
            lambda_http::run_concurrent(layer.layer(service_fn(http))).await
        }
        "before the first invocation" => {
            let early = charge(Order {
                order_id: 1,
                amount: 1,
            })
            .await;
            eprintln!("early: {early:?}");
            let of_none = charge(Order {
                order_id: 2,
                amount: 2,
            });
            eprintln!("of none: {:?}", without_invocation(of_none).await);
            idempotency_lambda::run(handler).await
        }
        other => Err(format!("there is no role {other}").into()),
    }
}

/// In a process that the local Lambda started: the function. In the test run: nothing.
#[test]
fn the_function() {
    if let Ok(role) = std::env::var(ROLE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let Err(error) = runtime.block_on(main_of(&role)) {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    }
}

/// A function of one role with a table of its own.
struct Harness {
    role: &'static str,
    database: EmbeddedDynamoDb,
    // Ends the processes when it is dropped.
    _lambda: LocalLambda,
    process: FunctionProcess,
}

/// A claim as the table was asked for it.
#[derive(Debug, PartialEq)]
struct Claim {
    id: String,
    lease_ends: String,
}

impl Harness {
    async fn start(role: &'static str) -> Self {
        let database = EmbeddedDynamoDb::start().await.unwrap();
        let table = TableSpec::new("idempotency");
        database.create_table(table).await.unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["the_function", "--exact", "--nocapture"]);
        let mut function = Function::new("shop", command)
            .env(ROLE, role)
            .env("IDEMPOTENCY_TABLE", "idempotency")
            .envs(database.environment());
        if role.contains("concurrent") {
            function = function.concurrency(4);
        }
        let lambda = LocalLambda::start(function).await.unwrap();
        let process = lambda.start_process().await.unwrap();
        Self {
            role,
            database,
            _lambda: lambda,
            process,
        }
    }

    fn event(&self, amount: u64) -> String {
        let order = json!({ "order_id": 1, "amount": amount });
        if !self.role.starts_with("lambda_http") {
            return order.to_string();
        }
        let context = json!({ "http": { "method": "POST", "path": "/", "protocol": "HTTP/1.1", "sourceIp": "::1",
                                        "userAgent": "test" },
                              "accountId": "1", "apiId": "a", "stage": "$default", "requestId": "r", "timeEpoch": 0 });
        json!({ "version": "2.0", "routeKey": "POST /", "rawPath": "/", "rawQueryString": "", "requestContext": context,
                "headers": { "content-type": "application/json" }, "isBase64Encoded": false,
                "body": order.to_string() })
        .to_string()
    }

    fn response(&self, reply: Result<Reply, InvokeError>) -> u64 {
        let reply: Value = match reply {
            Ok(reply) => reply.json().unwrap(),
            Err(error) => panic!("{}: {error}", self.role),
        };
        match &reply["body"] {
            Value::String(body) => body.parse().unwrap(),
            _ => reply.as_u64().unwrap(),
        }
    }

    /// Every claim that the table was asked for.
    fn claims(&self) -> Vec<Claim> {
        let requests = self.database.requests().into_iter();
        let claims = requests.filter(|request| request.operation == "PutItem");
        claims
            .map(|request| Claim {
                id: request.key("id").unwrap().to_owned(),
                lease_ends: request.body["Item"]["in_progress_expiration"]["N"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            })
            .collect()
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Two tenants with one payload, one after the other: each has a key of its own, and its lease ends with its invocation.
async fn knows(role: &'static str) {
    let harness = Harness::start(role).await;
    let mut expected = Vec::new();
    for (tenant, amount, response) in [("blue", 1, 1), ("green", 2, 2), ("blue", 3, 1)] {
        let deadline = now() + 20_000 + amount;
        let event = harness.event(amount);
        let invocation = harness
            .process
            .invoke(event)
            .tenant(tenant)
            .deadline(deadline);
        assert_eq!(
            harness.response(invocation.await),
            response,
            "{role}: {tenant}"
        );
        expected.push((format!("charge#tenant={tenant}#"), deadline.to_string()));
    }
    let claims = harness.claims();
    assert_eq!(claims.len(), expected.len(), "{role}: {claims:?}");
    for (claim, (id, lease_ends)) in claims.iter().zip(expected) {
        assert!(claim.id.starts_with(&id), "{role}: {claim:?}");
        assert_eq!(claim.lease_ends, lease_ends, "{role}");
    }
}

/// Nothing is asked of the table, and the error says what to write.
async fn refuses(role: &'static str) {
    let harness = Harness::start(role).await;
    let invocation = harness.process.invoke(harness.event(1)).tenant("blue");
    let error = match invocation.await {
        Ok(reply) => panic!("{role}: {}", reply.payload),
        Err(error) => error.to_string(),
    };
    for remedy in [
        "InvocationLayer",
        "context = event.context",
        "in_current_invocation",
        "without_invocation",
    ] {
        assert!(error.contains(remedy), "{role}: {error}");
    }
    assert!(error.contains("the handler did not run"), "{role}: {error}");
    assert_eq!(harness.claims(), [], "{role}");
}

/// Two tenants with one payload at the same time, in one process.
async fn knows_both(role: &'static str) {
    let harness = Harness::start(role).await;
    let deadline = now() + 20_000;
    let start = |tenant: &str, amount| {
        let invocation = harness.process.invoke(harness.event(amount)).tenant(tenant);
        invocation.deadline(deadline + amount).start()
    };
    let (blue, green) = (start("blue", 1), start("green", 2));
    assert_eq!(harness.response(blue.await), 1, "{role}");
    assert_eq!(harness.response(green.await), 2, "{role}");
    let mut claims = harness.claims();
    claims.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(claims.len(), 2, "{role}: {claims:?}");
    for (claim, (tenant, amount)) in claims.iter().zip([("blue", 1), ("green", 2)]) {
        assert!(
            claim.id.contains(&format!("#tenant={tenant}#")),
            "{role}: {claim:?}"
        );
        assert_eq!(claim.lease_ends, (deadline + amount).to_string(), "{role}");
    }
}

#[tokio::test]
async fn our_own_start_knows() {
    knows("run").await;
}

#[tokio::test]
async fn a_handler_with_state_that_takes_the_event_knows_under_any_start() {
    knows("lambda_runtime::run, state").await;
}

#[tokio::test]
async fn lambda_runtime_knows_with_the_layer_and_refuses_without() {
    knows("lambda_runtime::run, layer").await;
    knows("Runtime::layer").await;
    refuses("lambda_runtime::run").await;
}

#[tokio::test]
async fn concurrent_invocations_know_their_own_with_the_layer_or_our_service_and_are_refused_without()
 {
    knows_both("run_concurrent, layer").await;
    knows_both("run_concurrent, service").await;
    refuses("run_concurrent").await;
}

#[tokio::test]
async fn lambda_http_knows_with_the_layer_or_a_parameter_and_refuses_without() {
    knows("lambda_http::run, layer").await;
    knows("lambda_http::run, attribute").await;
    knows("lambda_http::run_concurrent, layer").await;
    refuses("lambda_http::run").await;
}

#[tokio::test]
async fn a_spawned_task_knows_if_it_was_carried_and_is_refused_if_not() {
    knows("run, carrying").await;
    refuses("run, spawning").await;
}

#[tokio::test]
async fn a_call_before_the_first_invocation_is_refused_unless_it_is_declared_to_belong_to_none() {
    let before = now();
    let harness = Harness::start("before the first invocation").await;
    let early = harness.process.wait_for_line("early: ").await.unwrap();
    assert!(early.text.contains("without_invocation"), "{}", early.text);
    let of_none = harness.process.wait_for_line("of none: ").await.unwrap();
    assert!(of_none.text.contains("Ok(2)"), "{}", of_none.text);
    let [claim] = &harness.claims()[..] else {
        panic!("{:?}", harness.claims());
    };
    assert!(!claim.id.contains("#tenant="), "{claim:?}");
    let lease_ends: u64 = claim.lease_ends.parse().unwrap();
    let lease = Duration::from_secs(15 * 60);
    assert!(lease_ends >= before + u64::try_from(lease.as_millis()).unwrap());
    // The function itself serves events as ever.
    let invocation = harness.process.invoke(harness.event(7)).tenant("blue");
    assert_eq!(harness.response(invocation.await), 7);
}

#[tokio::test]
async fn the_deadline_that_cargo_lambda_watch_writes_is_an_invocation_with_the_configured_lease() {
    let before = now();
    let harness = Harness::start("lambda_runtime::run, layer").await;
    let invocation = harness.process.invoke(harness.event(1)).deadline(600_000);
    assert_eq!(
        harness.response(invocation.enforce_deadline(false).await),
        1
    );
    let lease_ends: u64 = harness.claims()[0].lease_ends.parse().unwrap();
    assert!(lease_ends >= before + 15 * 60 * 1_000, "{lease_ends}");
}

//! Every way to start a function: a nested call knows its deadline and tenant, or is refused.

use std::time::Duration;

use idempotency_lambda::{
    BoxError, InvocationLayer, LambdaEvent, Operation, idempotent, in_current_invocation, init,
    with_invocation,
};
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionProcess, InvokeError, LocalLambda, Reply};
use idempotency_tests::process::{self, Claim, now};
use lambda_runtime::tower::{Layer, ServiceBuilder};
use lambda_runtime::{Runtime, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Order {
    order_id: u32,
    amount: u64,
}

/// Knows only its order, so its invocation must come from its caller. Returns the amount of the first call.
#[idempotent(payload = order, key = "order_id", key_prefix = "charge", shared_key_prefix = true)]
async fn charge(order: Order) -> Result<u64, BoxError> {
    Ok(order.amount)
}

async fn handler(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    charge(event.payload).await
}

async fn spawning(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    tokio::spawn(charge(event.payload)).await?
}

async fn carrying(event: LambdaEvent<Order>) -> Result<u64, BoxError> {
    tokio::spawn(in_current_invocation(charge(event.payload))).await?
}

/// The whole event is the key.
#[idempotent(key_prefix = "scheduled")]
async fn scheduled(event: LambdaEvent<Value>) -> Result<u64, BoxError> {
    Ok(event.payload["amount"].as_u64().unwrap_or_default())
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

/// The `main` function of each role.
pub(crate) async fn serve(role: &str) -> Result<(), BoxError> {
    let layer = InvocationLayer::new();
    match role {
        "run" => return idempotency_lambda::run(handler).await,
        "run, spawning" => return idempotency_lambda::run(spawning).await,
        "run, carrying" => return idempotency_lambda::run(carrying).await,
        "run, logged" => {
            tracing_subscriber::fmt().with_ansi(false).init();
            return idempotency_lambda::run(handler).await;
        }
        "run, scheduled" => return idempotency_lambda::run(scheduled).await,
        "run, doubtful caller" => {
            let doubted = Operation::builder("doubted")
                .http()
                .caller_header("authorization");
            doubted.build()?;
            return idempotency_lambda::run(handler).await;
        }
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
            lambda_runtime::run_concurrent(layer.layer(service_fn(handler))).await
        }
        "run_concurrent, service" => {
            lambda_runtime::run_concurrent(idempotency_lambda::service(handler)).await
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
            eprintln!("of none: {:?}", with_invocation(None, of_none).await);
            idempotency_lambda::run(handler).await
        }
        other => Err(format!("there is no role {other}").into()),
    }
}

/// A function of one role with its own table.
struct Harness {
    role: &'static str,
    database: EmbeddedDynamoDb,
    // Kills the processes on drop.
    _lambda: LocalLambda,
    process: FunctionProcess,
}

impl Harness {
    async fn start(role: &'static str) -> Self {
        let concurrency = if role.contains("concurrent") { 4 } else { 1 };
        let started = process::start_with(format!("entry_points/{role}"), |function| {
            function.concurrency(concurrency)
        });
        let (database, lambda) = started.await.unwrap();
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
        let request = events::api_gateway_v2("POST", "/");
        request.json(&order).to_string()
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

    fn claims(&self) -> Vec<Claim> {
        process::claims(&self.database)
    }
}

/// Checks two tenants with one payload, one after the other: each has its own key, and its lease ends with its invocation.
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
        expected.push((format!("charge#tenant={tenant}#"), deadline));
    }
    let claims = harness.claims();
    assert_eq!(claims.len(), expected.len(), "{role}: {claims:?}");
    for (claim, (id, lease_ends)) in claims.iter().zip(expected) {
        assert!(claim.id.starts_with(&id), "{role}: {claim:?}");
        assert_eq!(claim.lease_ends, lease_ends, "{role}");
    }
}

/// Checks that the call is refused without a request, and that the error names the remedies. Returns the type of the error.
async fn refuses(role: &'static str) -> String {
    let harness = Harness::start(role).await;
    let invocation = harness.process.invoke(harness.event(1)).tenant("blue");
    let error = match invocation.await {
        Ok(reply) => panic!("{role}: {}", reply.payload),
        Err(error) => error,
    };
    let (error_type, error) = (error.error_type.clone(), error.to_string());
    for remedy in [
        "InvocationLayer",
        "context = event.context",
        "in_current_invocation",
        "with_invocation(None, ..)",
    ] {
        assert!(error.contains(remedy), "{role}: {error}");
    }
    assert!(error.contains("the handler did not run"), "{role}: {error}");
    assert_eq!(harness.claims(), [], "{role}");
    error_type
}

#[tokio::test]
async fn our_run_knows_the_invocation() {
    knows("run").await;
}

#[tokio::test]
async fn a_handler_with_state_that_takes_the_event_knows_its_invocation() {
    knows("lambda_runtime::run, state").await;
}

#[tokio::test]
async fn under_lambda_runtime_calls_need_the_layer() {
    knows("lambda_runtime::run, layer").await;
    knows("Runtime::layer").await;
    refuses("lambda_runtime::run").await;
}

#[tokio::test]
async fn under_run_concurrent_calls_need_the_layer_or_our_service() {
    knows("run_concurrent, layer").await;
    knows("run_concurrent, service").await;
    refuses("run_concurrent").await;
}

#[tokio::test]
async fn under_lambda_http_calls_need_the_layer_or_a_parameter() {
    knows("lambda_http::run, layer").await;
    knows("lambda_http::run, attribute").await;
    knows("lambda_http::run_concurrent, layer").await;
    refuses("lambda_http::run").await;
}

#[tokio::test]
async fn a_spawned_task_must_run_in_the_current_invocation() {
    knows("run, carrying").await;
    let error_type = refuses("run, spawning").await;
    assert_eq!(error_type, "IdempotencyUnknownInvocation");
}

#[tokio::test]
async fn a_call_before_the_first_invocation_is_refused_unless_it_is_marked_as_outside_of_invocations()
 {
    let before = now();
    let harness = Harness::start("before the first invocation").await;
    let early = harness.process.wait_for_line("early: ").await.unwrap();
    assert!(
        early.text.contains("with_invocation(None, ..)"),
        "{}",
        early.text
    );
    let of_none = harness.process.wait_for_line("of none: ").await.unwrap();
    assert!(of_none.text.contains("Ok(2)"), "{}", of_none.text);
    let [claim] = &harness.claims()[..] else {
        panic!("{:?}", harness.claims());
    };
    assert!(!claim.id.contains("#tenant="), "{claim:?}");
    let lease_ends = claim.lease_ends;
    let lease = Duration::from_secs(15 * 60);
    assert!(lease_ends >= before + u64::try_from(lease.as_millis()).unwrap());
    // The function still serves events.
    let invocation = harness.process.invoke(harness.event(7)).tenant("blue");
    assert_eq!(harness.response(invocation.await), 7);
}

#[tokio::test]
async fn an_event_that_does_not_fit_its_type_has_an_outcome_event_and_a_stable_name() {
    let harness = Harness::start("run, logged").await;
    for (event, place) in [
        (
            r#"{"order_id": "s3cr3t", "amount": 1}"#,
            "does not fit its type at `order_id`",
        ),
        ("s3cr3t", "is not JSON"),
    ] {
        let error = harness.process.invoke(event).await.unwrap_err();
        assert_eq!(error.error_type, "IdempotencyInvalidPayload");
        let text = error.to_string();
        assert!(
            text.contains(place) && text.contains("the handler did not run"),
            "{text}"
        );
        assert!(!text.contains("s3cr3t"), "{text}");
    }
    // The process goes on.
    assert_eq!(
        harness.response(harness.process.invoke(harness.event(1)).await),
        1
    );
    let log = harness.process.log();
    let outcomes = log
        .iter()
        .filter(|line| line.text.contains("IdempotencyInvalidPayload"));
    let refused = |text: &str| text.contains("WARN") && text.contains("outcome=\"refused\"");
    assert_eq!(
        outcomes.filter(|line| refused(&line.text)).count(),
        2,
        "{log:?}"
    );
    assert!(
        !log.iter().any(|line| line.text.contains("s3cr3t")),
        "{log:?}"
    );
}

#[tokio::test]
async fn a_caller_that_may_be_none_is_a_warning_also_without_a_subscriber() {
    let harness = Harness::start("run, doubtful caller").await;
    let warned =
        "`caller`: `headers.authorization` is another caller after the client's token is renewed";
    harness.process.wait_for_line(warned).await.unwrap();
}

#[tokio::test]
async fn a_whole_event_in_which_nothing_changes_is_a_warning_once() {
    for (event, warnings) in [
        (json!({ "job": "nightly" }), 1),
        (
            json!({ "job": "nightly", "time": "2026-11-26T00:00:00Z" }),
            0,
        ),
    ] {
        let harness = Harness::start("run, scheduled").await;
        for _ in 0..2 {
            assert_eq!(harness.response(harness.process.invoke(&event).await), 0);
        }
        let log = harness.process.log();
        let warned = |text: &str| text.contains("scheduled: the whole event is the key");
        assert_eq!(
            log.iter().filter(|line| warned(&line.text)).count(),
            warnings,
            "{log:?}"
        );
    }
}

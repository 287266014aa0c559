//! 64 invocations of two tenants in flight in one process, under `run_concurrent`, for each shape of function.

pub(crate) mod function;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionProcess, LocalLambda, Reply};
use idempotency_tests::process::{now, start_with};
use serde_json::{Value, json};

use function::{IN_FLIGHT, REPEATED, Receipt};

const TENANTS: [&str; 2] = ["blue", "green"];

/// One test at a time: the database of each has 256 requests at once.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

struct Function {
    database: EmbeddedDynamoDb,
    process: FunctionProcess,
    _lambda: LocalLambda,
    _alone: tokio::sync::MutexGuard<'static, ()>,
}

async fn start_as(role: &str) -> Result<Function, BoxError> {
    let alone = ALONE.lock().await;
    let (database, lambda) = start_with(format!("concurrent/{role}"), |function| {
        function
            // The machine of a test may be busy.
            .env("IDEMPOTENCY_STORE_TIMEOUT", "30s")
            .timeout(Duration::from_secs(120))
            .concurrency(IN_FLIGHT)
    })
    .await?;
    let process = lambda.start_process().await?;
    Ok(Function {
        database,
        process,
        _lambda: lambda,
        _alone: alone,
    })
}

/// One invocation: its tenant, its order, and its own deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    tenant: &'static str,
    order_id: u64,
    deadline: u64,
}

/// Returns 64 calls: 32 orders, each of both tenants, each with a deadline that no other call has.
fn calls() -> Vec<Call> {
    let base = now() + 90_000;
    let orders =
        (0..IN_FLIGHT as u64 / 2).flat_map(|order_id| TENANTS.map(|tenant| (order_id, tenant)));
    orders
        .enumerate()
        .map(|(index, (order_id, tenant))| Call {
            tenant,
            order_id,
            deadline: base + index as u64,
        })
        .collect()
}

/// Sends all calls at once, and returns their replies in the order of the calls.
async fn send(
    process: &FunctionProcess,
    calls: &[Call],
    event: impl Fn(Call) -> String,
) -> Result<Vec<Reply>, BoxError> {
    let started = calls.iter().map(|&call| {
        let invocation = process.invoke(event(call)).tenant(call.tenant);
        invocation.deadline(call.deadline).start()
    });
    let mut replies = Vec::new();
    for pending in started.collect::<Vec<_>>() {
        replies.push(pending.await?);
    }
    Ok(replies)
}

/// Checks that each call ran once, in its own invocation.
fn check(calls: &[Call], receipts: &[Receipt]) {
    for (call, receipt) in calls.iter().zip(receipts) {
        assert_eq!(
            (receipt.order_id, receipt.audited),
            (call.order_id, call.order_id)
        );
        let own = Some(i64::try_from(call.deadline).unwrap());
        assert_eq!(receipt.deadlines, [own, own], "{call:?}");
    }
    let runs: BTreeSet<usize> = receipts.iter().map(|receipt| receipt.run).collect();
    assert_eq!(runs, (1..=IN_FLIGHT).collect());
}

/// Returns the claims of the operation, by the tenant in their id.
fn claims(database: &EmbeddedDynamoDb, prefix: &str) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut claims = BTreeMap::new();
    for request in database.requests() {
        let id = request.key("id").unwrap_or_default();
        if request.operation == "PutItem" && id.contains(prefix) {
            let tenant = TENANTS
                .iter()
                .find(|tenant| id.contains(&format!("#tenant={tenant}#")));
            let ids: &mut BTreeSet<String> = claims.entry(*tenant.unwrap()).or_default();
            // The SDK sends a request again if the reply is late, as on a busy machine.
            let is_resent = request.attempt.is_some_and(|attempt| attempt > 1);
            assert!(
                ids.insert(id.to_owned()) || is_resent,
                "{id} was claimed twice: {request:?}"
            );
        }
    }
    claims
}

fn order(call: Call) -> String {
    json!({ "order_id": call.order_id }).to_string()
}

fn json(replies: &[Reply]) -> Vec<Value> {
    let replies = replies.iter();
    replies.map(|reply| reply.json().unwrap()).collect()
}

/// Sends 64 calls at once, and then 64 duplicates: each gets the receipt of its own order and tenant. Returns the responses of both.
async fn keeps_apart(
    role: &str,
    event: impl Fn(Call) -> String,
    receipts: impl Fn(&Function, &[Value]) -> Vec<Receipt>,
) -> Result<[Vec<Value>; 2], BoxError> {
    let function = start_as(role).await?;
    let first_calls = calls();
    let responses = json(&send(&function.process, &first_calls, &event).await?);
    let first = receipts(&function, &responses);
    check(&first_calls, &first);
    for prefix in [&*format!("concurrent.{role}"), "concurrent.audit"] {
        let claims = claims(&function.database, prefix);
        let counts: Vec<usize> = claims.values().map(BTreeSet::len).collect();
        assert_eq!(counts, [IN_FLIGHT / 2; 2], "{prefix}");
    }
    let again = json(&send(&function.process, &calls(), &event).await?);
    assert_eq!(receipts(&function, &again), first, "a duplicate ran");
    Ok([responses, again])
}

fn parsed<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<Receipt> {
    let receipts = texts.into_iter();
    receipts
        .map(|text| serde_json::from_str(text.as_ref()).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_layer_and_our_service_keep_64_invocations_apart() -> Result<(), BoxError> {
    let receipts = |_: &_, responses: &[_]| parsed(responses.iter().map(Value::to_string));
    keeps_apart("layer", order, receipts).await?;
    keeps_apart("service", order, receipts).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_invocations_with_eight_keys_one_of_each_key_runs() -> Result<(), BoxError> {
    let function = start_as("layer").await?;
    let mut calls = calls();
    for call in &mut calls {
        call.order_id = REPEATED + call.order_id % 4;
    }
    let replies = send(&function.process, &calls, order).await?;
    let receipts = parsed(replies.iter().map(|reply| &reply.payload));
    let mut of_key = BTreeMap::new();
    for (call, receipt) in calls.iter().zip(&receipts) {
        assert_eq!(receipt.order_id, call.order_id);
        let first = of_key
            .entry((call.tenant, call.order_id))
            .or_insert(receipt);
        assert_eq!(*first, receipt);
    }
    let runs: BTreeSet<usize> = of_key.values().map(|receipt| receipt.run).collect();
    assert_eq!((of_key.len(), runs), (8, (1..=8).collect()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_keep_64_invocations_apart() -> Result<(), BoxError> {
    let event = |call: Call| {
        let order = json!({ "order_id": call.order_id });
        events::sqs("orders").json(&order).to_string()
    };
    let receipts = |function: &Function, _: &[Value]| {
        let log = function.process.log();
        let lines = log.iter();
        let mut receipts = parsed(lines.filter_map(|line| line.text.strip_prefix("receipt ")));
        receipts.sort_by_key(|receipt| receipt.deadlines);
        receipts
    };
    for responses in keeps_apart("batch", event, receipts).await? {
        let is_done = |response: &Value| response["batchItemFailures"] == json!([]);
        assert!(responses.iter().all(is_done), "{responses:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn http_requests_keep_64_invocations_apart() -> Result<(), BoxError> {
    // Both tenants use the same keys, for the same client id.
    let event = |call: Call| {
        events::api_gateway_v2("POST", "/charges")
            .header("Idempotency-Key", format!("order-{}", call.order_id))
            .claim("sub", "u-1")
            .json(&json!({ "order_id": call.order_id }))
            .to_string()
    };
    let receipts = |_: &Function, responses: &[Value]| {
        let bodies = responses.iter();
        parsed(bodies.map(|response| response["body"].as_str().unwrap()))
    };
    let replayed = keeps_apart("http", event, receipts)
        .await?
        .map(|responses| {
            let header = |response: &&Value| response["headers"]["idempotent-replayed"] == "true";
            responses.iter().filter(header).count()
        });
    assert_eq!(replayed, [0, IN_FLIGHT]);
    Ok(())
}

//! How a call finds its invocation.
//!
//! Tenants, and the invocation of a nested call.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::record::Field;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Context, Deadline, Error, ErrorKind, HasContext, LambdaEvent, idempotent,
    in_current_invocation, service, time_left, with_backend, with_invocation,
};
use idempotency_tests::{Harness, START, keyed, operation, ours};
use lambda_http::http;
use lambda_runtime::Service;
use serde_json::{Value, json};

/// Returns a harness in a process that counts as a Lambda environment.
fn harness() -> Harness {
    assert!(idempotency_lambda::__private::assume_lambda());
    Harness::default()
}

fn context(tenant: &str, seconds: u64) -> Context {
    let mut context = Context::default();
    context.request_id = "r-1".to_owned();
    context.deadline = START as u64 + seconds * 1_000;
    context.tenant_id = Some(tenant.to_owned());
    context
}

fn event(tenant: &str) -> LambdaEvent<u32> {
    LambdaEvent::new(1, context(tenant, 20))
}

/// Returns the tenant in the key of the last claim, and the length of its lease in seconds.
fn claimed(harness: &Harness) -> (Option<String>, i64) {
    let (id, claim) = harness.puts().pop().unwrap();
    let Field::Value(lease) = claim.in_progress_expiration else {
        panic!("{id} has no lease");
    };
    let tenant = id.as_str().split("#tenant=").nth(1);
    let tenant = tenant.and_then(|rest| rest.split('#').next());
    (tenant.map(str::to_owned), (lease.get() - START) / 1_000)
}

fn blue(seconds: i64) -> (Option<String>, i64) {
    (Some("blue".to_owned()), seconds)
}

type Alias<T> = LambdaEvent<T>;

struct App;

struct Job {
    order: u32,
    lambda: Context,
}

impl HasContext for Job {
    fn context(&self) -> Option<&Context> {
        Some(&self.lambda)
    }
}

#[idempotent(payload = event.payload)]
async fn by_value(_app: &App, event: LambdaEvent<u32>) -> Result<u32, BoxError> {
    Ok(event.payload)
}

#[idempotent(payload = event.payload)]
async fn by_reference_and_alias(_app: &App, event: &Alias<u32>) -> Result<u32, BoxError> {
    Ok(event.payload)
}

#[idempotent(payload = order)]
async fn with_context(order: u32, _lambda: &Context) -> Result<u32, BoxError> {
    Ok(order)
}

#[idempotent(payload = payload)]
async fn destructured(LambdaEvent { payload, context }: LambdaEvent<u32>) -> Result<u32, BoxError> {
    drop(context);
    Ok(payload)
}

#[idempotent(payload = payload)]
async fn partly(_app: &App, LambdaEvent { payload, .. }: Alias<u32>) -> Result<u32, BoxError> {
    Ok(payload)
}

#[idempotent(payload = request.body())]
async fn http_request(request: http::Request<u32>) -> Result<u32, BoxError> {
    Ok(*request.body())
}

#[idempotent(payload = job.order)]
async fn own_type(job: Arc<Job>) -> Result<u32, BoxError> {
    Ok(job.order)
}

#[idempotent(payload = order, context = parts.1)]
async fn named(order: u32, parts: (u8, Context)) -> Result<u32, BoxError> {
    Ok(order + u32::from(parts.0))
}

#[idempotent(payload = order, context = context)]
async fn named_in_a_pattern(order: u32, (_, context): (u8, Context)) -> Result<u32, BoxError> {
    drop(context);
    Ok(order)
}

#[idempotent(payload = value, key_prefix = "generic")]
async fn generic<T: serde::Serialize>(value: T) -> Result<u32, BoxError> {
    drop(value);
    Ok(1)
}

#[idempotent(payload = order)]
async fn without(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

/// Gives every type a method `context`, which must not confuse the attribute.
mod traced {
    use super::{BoxError, LambdaEvent, idempotent};

    trait Traced {
        #[allow(dead_code)]
        fn context(&self) -> u8 {
            7
        }
    }

    impl<T> Traced for T {}

    #[idempotent(payload = event.payload)]
    pub(super) async fn traced(_app: u8, event: LambdaEvent<u32>) -> Result<u32, BoxError> {
        Ok(event.payload)
    }
}

#[tokio::test]
async fn the_attribute_finds_the_context_in_every_form_of_parameter() {
    let harness = harness();
    macro_rules! finds {
        ($($call:expr),+ $(,)?) => {$(
            let response = harness.within($call).await;
            assert_eq!(response.unwrap(), 1, stringify!($call));
            assert_eq!(claimed(&harness), blue(20), stringify!($call));
        )+};
    }
    let mut request = http::Request::new(1);
    request.extensions_mut().insert(context("blue", 20));
    let lambda = context("blue", 20);
    let job = Job {
        order: 1,
        lambda: lambda.clone(),
    };
    finds![
        by_value(&App, event("blue")),
        traced::traced(1, event("blue")),
        by_reference_and_alias(&App, &event("blue")),
        with_context(1, &lambda),
        destructured(event("blue")),
        partly(&App, event("blue")),
        http_request(request),
        own_type(Arc::new(job)),
        named(1, (0, lambda.clone())),
        named_in_a_pattern(1, (0, lambda.clone())),
        with_invocation(&lambda, generic(1)),
    ];
}

#[tokio::test]
async fn a_call_without_an_invocation_is_refused_before_any_request() {
    let harness = harness();
    let within = |call| harness.within(call);
    let refused = |result: Result<u32, BoxError>| {
        let error = result.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::UnknownInvocation);
        assert!(!ours(&error).handler_ran());
        error.to_string()
    };
    assert!(refused(within(without(1)).await).contains("in_current_invocation"));
    let by_hand = LambdaEvent::new(1, Context::default());
    refused(harness.within(by_value(&App, by_hand)).await);
    let request = http_request(http::Request::new(1));
    refused(harness.within(request).await);
    let backend = harness.backend.clone();
    let spawned = with_invocation(&context("blue", 20), async {
        tokio::spawn(with_backend(backend, without(1))).await
    });
    refused(spawned.await.unwrap());
    assert_eq!(harness.requests(), [0; 4]);
}

#[tokio::test]
async fn an_operation_with_only_a_deadline_is_refused_because_its_tenant_is_unknown() {
    let harness = harness();
    let charge = operation().build().unwrap();
    let end = harness.now().plus(Duration::from_secs(20));
    for deadline in [Deadline::Inherited, Deadline::At(end)] {
        let error = charge.identify(&1, deadline.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownInvocation);
        let inside = async { charge.identify(&1, deadline) };
        assert!(with_invocation(&context("blue", 20), inside).await.is_ok());
    }
    assert!(charge.identify(&1, &context("blue", 20)).is_ok());
}

#[tokio::test]
async fn work_outside_of_invocations_has_the_configured_lease_and_no_tenant() {
    let harness = harness();
    let call = harness.within(with_invocation(None, without(1)));
    assert_eq!(call.await.unwrap(), 1);
    assert_eq!(claimed(&harness), (None, 15 * 60));
}

#[tokio::test]
async fn a_task_in_the_current_invocation_knows_it() {
    let harness = harness();
    let task = harness.within(async {
        with_invocation(&context("blue", 20), async {
            tokio::spawn(in_current_invocation(without(1)))
                .await
                .unwrap()
        })
        .await
    });
    assert_eq!(task.await.unwrap(), 1);
    assert_eq!(claimed(&harness), blue(20));
}

#[idempotent(payload = event.payload)]
async fn outer(event: LambdaEvent<u32>, inner: Context) -> Result<u32, BoxError> {
    let explicit = with_context(1, &inner).await?;
    Ok(explicit + without(2).await?)
}

#[tokio::test]
async fn a_nested_call_prefers_its_own_context_and_does_not_change_its_callers() {
    let harness = harness();
    let call = outer(event("blue"), context("green", 7));
    let call = harness.within(call);
    assert_eq!(call.await.unwrap(), 3);
    let claims = harness.puts();
    let of = |tenant: &str, seconds: i64| {
        let lease = EpochMillis::new(START + seconds * 1_000);
        let marked = format!("#tenant={tenant}#");
        let of = claims.iter().filter(|(id, record)| {
            id.as_str().contains(&marked) && record.in_progress_expiration == Field::Value(lease)
        });
        of.count()
    };
    assert_eq!((of("blue", 20), of("green", 7)), (2, 1));
}

#[tokio::test]
async fn a_function_that_is_switched_off_needs_no_invocation() {
    assert!(idempotency_lambda::__private::assume_lambda());
    let variables = Variables::from_iter([("IDEMPOTENCY_DISABLED".to_owned(), "true".to_owned())]);
    let off = operation().variables(variables).build().unwrap();
    let call = off.identify(&1, Deadline::Inherited).unwrap();
    assert!(call.bypass().is_some());
    assert_eq!(call.key(), None);
}

#[tokio::test]
async fn the_time_left_is_read_from_the_clock_of_the_backend() {
    let harness = harness();
    let look = async || {
        let before = time_left();
        harness.clock.advance(Duration::from_secs(15));
        let later = time_left();
        harness.clock.advance(Duration::from_secs(15));
        (before, later, time_left())
    };
    let inside = async { with_invocation(&context("blue", 20), look()).await };
    let seen = harness.within(inside).await;
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(seen, (seconds(20), seconds(5), seconds(0)));
    let mut watch = context("blue", 20);
    watch.deadline = 600_000;
    let unknown = with_invocation(&watch, async { time_left() }).await;
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn an_identified_call_owns_its_identity_so_the_handler_can_take_the_payload_on_any_thread() {
    let harness = harness();
    let charge = keyed(|of| of);
    let event = LambdaEvent::new(serde_json::json!({ "order_id": 1 }), context("blue", 20));
    let call = charge.identify(&event.payload, &event.context).unwrap();
    assert!(call.bypass().is_none());
    let key = call.key().unwrap().clone();
    // The operation is not borrowed.
    drop(charge);
    let run = call.run(move || async move { Ok::<_, Error>(event.payload) });
    let task = tokio::spawn(harness.within(run));
    let outcome = task.await.unwrap().unwrap();
    assert_eq!(outcome.into_response()["order_id"], 1);
    assert!(harness.store.inner().record(&key).is_some());
    assert_eq!(claimed(&harness), blue(20));
}

fn context_of(tenant: &str) -> Context {
    let mut context = Context::default();
    context.deadline = START as u64 + 30_000;
    context.tenant_id = Some(tenant.to_owned());
    context
}

fn event_of(tenant: &str, amount: u32) -> LambdaEvent<Value> {
    LambdaEvent::new(
        json!({ "order_id": 1, "amount": amount }),
        context_of(tenant),
    )
}

#[idempotent(key = "order_id")]
async fn annotated(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

#[idempotent(payload = order_id, key_prefix = "inner")]
async fn inner(order_id: u32, amount: Value) -> Result<Value, BoxError> {
    Ok(amount)
}

/// A handler that is not annotated.
async fn handler(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    inner(1, event.payload["amount"].clone()).await
}

async fn spawning(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    let amount = event.payload["amount"].clone();
    if event.payload["amount"] == 1 {
        tokio::spawn(in_current_invocation(inner(1, amount))).await?
    } else {
        tokio::spawn(inner(1, amount)).await?
    }
}

#[tokio::test]
async fn two_tenants_with_the_same_payload_have_separate_records() {
    let harness = harness();
    let call = |tenant, amount| harness.within(annotated(event_of(tenant, amount)));
    assert_eq!(call("blue", 1).await.unwrap(), 1);
    assert_eq!(call("green", 2).await.unwrap(), 2);
    assert_eq!(call("blue", 3).await.unwrap(), 1);
    let (id, _) = &harness.puts()[0];
    assert!(id.as_str().contains("#tenant=blue#"), "{id}");
}

#[idempotent(key = "order_id", key_prefix = "cached", local_cache = 8)]
async fn cached(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

#[tokio::test]
async fn two_tenants_with_the_same_payload_have_separate_cache_entries() {
    let harness = harness();
    let call = |tenant, amount| harness.within(cached(event_of(tenant, amount)));
    assert_eq!(call("blue", 1).await.unwrap(), 1);
    assert_eq!(call("green", 2).await.unwrap(), 2);
    let asked = harness.requests();
    assert_eq!(call("blue", 3).await.unwrap(), 1);
    assert_eq!(
        harness.requests(),
        asked,
        "the response came from the cache"
    );
}

#[tokio::test]
async fn an_operation_takes_the_tenant_from_its_context() {
    let harness = harness();
    let charge = keyed(|of| of);
    let call = async |tenant: &str, amount: u32| {
        let order = json!({ "order_id": 1 });
        let context = context_of(tenant);
        let call = charge.run(
            &order,
            &context,
            || async move { Ok::<_, BoxError>(amount) },
        );
        harness.within(call).await.unwrap().into_response()
    };
    assert_eq!(call("blue", 1).await, 1);
    assert_eq!(call("green", 2).await, 2);
    assert_eq!(call("blue", 3).await, 1);
}

#[tokio::test]
async fn calls_within_a_handler_that_is_not_annotated_find_deadline_and_tenant() {
    let harness = harness();
    let mut function = service(handler);
    for (tenant, amount) in [("blue", 1), ("green", 2)] {
        let call = harness.within(async { function.call(event_of(tenant, amount)).await });
        assert!(call.await.is_ok());
    }
    for (id, record) in harness.puts() {
        assert!(id.as_str().starts_with("inner#tenant="), "{id}");
        let lease = Field::Value(EpochMillis::new(START + 30_000));
        assert_eq!(record.in_progress_expiration, lease);
    }
    assert_eq!(harness.store.inner().len(), 2);
}

#[tokio::test]
async fn a_spawned_call_outside_its_invocation_is_refused_because_its_tenant_is_unknown() {
    let harness = harness();
    let call = |amount| {
        harness.within(async move {
            let mut function = service(spawning);
            function.call(event_of("blue", amount)).await.map(drop)
        })
    };
    assert!(call(1).await.is_ok());
    let error = call(2).await.unwrap_err();
    assert_eq!(error.error_type, "IdempotencyUnknownInvocation");
    assert!(
        error.error_message.contains("in_current_invocation"),
        "{}",
        error.error_message
    );
}

//! How a call finds its invocation.
//!
//! Tenants, and the invocation of a nested call.

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::record::Field;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Call, Context, Deadline, Error, ErrorKind, HasContext, IdempotencyLayer, LambdaEvent,
    idempotent, in_current_invocation, time_left, with_backend, with_invocation,
};
use idempotency_tests::{Harness, START, keyed, operation, ours};
use lambda_http::http;
use lambda_runtime::service_fn;
use serde_json::{Value, json};
use tower::{Layer, ServiceExt};

use super::harness;

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

/// Returns the context that `cargo lambda watch` sends.
fn watch() -> Context {
    let mut context = Context::default();
    context.request_id = "r-1".to_owned();
    context.deadline = 600_000;
    context
}

#[tokio::test]
async fn outside_of_invocations_and_under_emulators_with_wrong_deadlines_a_call_has_the_configured_lease()
 {
    // Twice the time, in the year 2077.
    let mut far = watch();
    far.deadline = 2 * START as u64;
    for around in [None, Some(&watch()), Some(&far)] {
        let harness = harness();
        let call = harness.within(with_invocation(around, without(1)));
        assert_eq!(call.await.unwrap(), 1);
        assert_eq!(claimed(&harness), (None, 15 * 60));
    }
}

#[tokio::test]
async fn a_task_in_the_current_invocation_knows_it() {
    let harness = harness();
    let task = async { tokio::spawn(in_current_invocation(without(1))).await };
    let inside = harness.within(with_invocation(&context("blue", 20), task));
    assert_eq!(inside.await.unwrap().unwrap(), 1);
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
    // The deadline of a context that is passed still counts.
    let harness = harness();
    let own = context("blue", 20);
    let call = off.run(&1, &own, async |call: Call| {
        Ok::<_, BoxError>((call.time_left(), time_left()))
    });
    let seconds = Some(Duration::from_secs(20));
    let left = harness.within(call).await.unwrap().into_response();
    assert_eq!(left, (seconds, seconds));
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
    let unknown = with_invocation(&watch(), async { time_left() }).await;
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn an_identified_call_owns_its_identity_so_the_handler_can_take_the_payload_on_any_thread() {
    let harness = harness();
    let charge = keyed(|of| of);
    let event = LambdaEvent::new(json!({ "order_id": 1 }), context("blue", 20));
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

fn order(tenant: &str, amount: u32) -> LambdaEvent<Value> {
    let payload = json!({ "order_id": 1, "amount": amount });
    LambdaEvent::new(payload, context(tenant, 30))
}

#[idempotent(key = "order_id")]
async fn annotated(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

#[idempotent(key = "order_id", key_prefix = "cached", local_cache = 8)]
async fn cached(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload["amount"].clone())
}

async fn run(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    let LambdaEvent { payload, context } = &event;
    let charge = keyed(|of| of);
    let amount = async || Ok::<_, BoxError>(payload["amount"].clone());
    Ok(charge.run(payload, context, amount).await?.into_response())
}

async fn layered(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    let amount = service_fn(async |event: LambdaEvent<Value>| {
        Ok::<_, BoxError>(event.payload["amount"].clone())
    });
    let service = IdempotencyLayer::new(keyed(|of| of)).layer(amount);
    Ok(service.oneshot(event).await?)
}

#[tokio::test]
async fn two_tenants_with_the_same_payload_have_separate_records_and_cache_entries() {
    macro_rules! separates {
        ($($call:ident: $claims:literal),+ $(,)?) => {$(
            let harness = super::harness();
            for (tenant, amount, response) in [("blue", 1, 1), ("green", 2, 2), ("blue", 3, 1)] {
                let call = harness.within($call(order(tenant, amount)));
                assert_eq!(call.await.unwrap(), response, "{}, {tenant}", stringify!($call));
            }
            let claims = harness.puts();
            assert_eq!(claims.len(), $claims, stringify!($call));
            assert!(claims[0].0.as_str().contains("#tenant=blue#"), stringify!($call));
        )+};
    }
    // The third response comes from the cache, or is that of a refused claim.
    separates![annotated: 3, cached: 2, run: 3, layered: 3];
}

//! Annotated functions: deadlines, hooks, stores, and which responses are stored.
//!
//! The function `header` on the requests of each source: the raw events, and the events that `aws_lambda_events` writes.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::alb::AlbTargetGroupRequest;
use aws_lambda_events::event::apigw::{ApiGatewayProxyRequest, ApiGatewayV2httpRequest};
use aws_lambda_events::event::lambda_function_urls::LambdaFunctionUrlRequest;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::{CompiledOperation, Identity};
use idempotency_core::record::Field;
use idempotency_core::store::MemoryStore;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{
    BoxError, Context, Error, ErrorKind, KeyRequired, LambdaEvent, Operation, Payload, Raw, Replay,
    idempotent,
};
use idempotency_testkit::events::{self, AwsEvent};
use idempotency_tests::{Harness, START, keyed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::outcome_events::recorded;
use crate::{event, only_record};

#[idempotent(payload = order_id, key_prefix = "reserve")]
async fn reserve(order_id: u32) -> Result<u32, BoxError> {
    Ok(order_id)
}

#[idempotent(key = "order_id", key_prefix = "place")]
async fn place(event: LambdaEvent<Value>) -> Result<u32, BoxError> {
    let (first, second) = tokio::join!(
        reserve(1),
        idempotency_lambda::in_current_invocation(reserve(2))
    );
    Ok(first? + second?)
}

#[tokio::test]
async fn nested_calls_take_the_deadline_of_the_invocation() {
    let harness = Harness::default();
    let three = harness.within(place(event(json!({ "order_id": 1 })))).await;
    assert_eq!(three.unwrap(), 3);
    for (_, record) in harness.puts() {
        let lease = Field::Value(EpochMillis::new(START + 30_000));
        assert_eq!(record.in_progress_expiration, lease);
    }
    assert_eq!(harness.store.inner().len(), 3);
}

fn mark(mut response: Value, replay: &Replay) -> Value {
    response["replayed_until"] = json!(replay.expires_at().map(|end| end.get()));
    response
}

#[idempotent(key = "order_id", on_replay = mark, store_when = "paid")]
async fn with_hook(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["paid"] }))
}

#[tokio::test]
async fn a_hook_sees_only_replayed_responses() {
    let harness = Harness::default();
    let call = || harness.within(with_hook(event(json!({ "order_id": 1, "paid": true }))));
    assert_eq!(call().await.unwrap(), json!({ "paid": true }));
    let until = START / 1_000 + 3_600;
    assert_eq!(
        call().await.unwrap(),
        json!({ "paid": true, "replayed_until": until })
    );
}

#[tokio::test]
async fn a_response_that_is_not_stored_frees_the_key() {
    let harness = Harness::default();
    for _ in 0..2 {
        let event = event(json!({ "order_id": 1, "paid": false }));
        let response = harness.within(with_hook(event)).await.unwrap();
        assert_eq!(response, json!({ "paid": false }));
        // The mark of a run whose effects nothing reports.
        let mark = Field::Value("unreported: response not stored".to_owned());
        assert_eq!(only_record(&harness).1.failure, mark);
    }
}

#[derive(Serialize, Deserialize)]
struct Typed {
    amount: f64,
}

#[idempotent(key = "amount", key_prefix = "raw")]
async fn raw(event: LambdaEvent<Raw<Typed>>) -> Result<f64, BoxError> {
    Ok(event.payload.amount)
}

#[tokio::test]
async fn the_key_of_a_raw_event_is_taken_from_its_text() {
    let harness = Harness::default();
    let payload = serde_json::from_str(r#"{"amount": 10}"#).unwrap();
    let call = raw(LambdaEvent::new(payload, Context::default()));
    harness.within(call).await.unwrap();
    // md5 of `10`, not of `10.0`.
    assert_eq!(
        only_record(&harness).0.as_str(),
        "raw#d3d9446802a44259755d38e6d163e820"
    );
}

#[tokio::test]
async fn the_future_of_a_call_does_not_grow_with_what_its_handler_holds() {
    #[idempotent(payload = order, key_prefix = "small")]
    async fn small(order: u32) -> Result<u32, BoxError> {
        Ok(order)
    }
    #[idempotent(payload = order, key_prefix = "large")]
    async fn large(order: u32) -> Result<u32, BoxError> {
        let buffer = [0_u8; 16 * 1024];
        tokio::task::yield_now().await;
        Ok(order + u32::from(buffer[0]))
    }
    let harness = Harness::default();
    let call = harness.within(large(1));
    assert_eq!(size_of_val(&small(1)), size_of_val(&large(1)));
    assert!(size_of_val(&call) < 1_024, "{}", size_of_val(&call));
    assert_eq!(call.await.unwrap(), 1);
}

#[idempotent(payload = order, key_prefix = "own.store", store = OWN.with_borrow(Arc::clone))]
async fn with_own_store(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

thread_local! {
    static OWN: RefCell<Arc<MemoryStore>> = RefCell::default();
}

#[tokio::test]
async fn the_store_of_an_attribute_is_used_if_no_test_sets_a_backend() {
    with_own_store(1).await.unwrap();
    // The expression gives another store from now on.
    let first = OWN.take();
    for order in [1, 2] {
        with_own_store(order).await.unwrap();
    }
    assert_eq!((first.len(), OWN.take().len()), (1, 2));
}

#[tokio::test]
async fn a_replayed_float_equals_the_original_float() {
    let harness = Harness::default();
    let charge = keyed(|of| of);
    for number in 0..500_u32 {
        // Fractions with long expansions. An imprecise parser gets one in ten wrong.
        let response = f64::from(number).mul_add(1.000_000_7, 0.1) / 3.0;
        for _ in 0..2 {
            let payload = json!({ "order_id": number });
            let outcome = harness
                .call_with(&charge, payload, async |_| Ok(response))
                .await
                .unwrap();
            assert_eq!(outcome.into_response().to_bits(), response.to_bits());
        }
    }
}

#[test]
fn an_empty_expression_does_not_switch_protection_off() {
    let of = idempotency_tests::operation;
    for operation in [of().key(" "), of().validate(""), of().store_when("")] {
        let error = operation.build().unwrap_err();
        assert!(error.to_string().contains("leave it out"), "{error}");
    }
}

#[tokio::test]
async fn a_variable_that_an_operation_does_not_use_is_named_in_a_debug_line() {
    let set = ["IDEMPOTENCY_LEASE", "IDEMPOTENCY_EXPIRES_AFTER"];
    let variables = set.map(|name| (name.to_owned(), "1m".to_owned()));
    let lines = recorded(async {
        let operation = Operation::builder("overridden").key("order_id");
        let operation = operation.lease(Duration::from_secs(30));
        let operation = operation.variables(Variables::from_iter(variables));
        operation.build().unwrap();
    });
    let mut lines = lines.await;
    lines.retain(|line| line.contains("does not use"));
    let line = "DEBUG idempotency_lambda::process overridden does not use IDEMPOTENCY_LEASE: it sets `lease` itself:";
    assert_eq!(lines, [line]);
}

/// Returns a request with these values of a header from each source. A load balancer sends all values, or only the last one.
fn requests(name: &str, values: &[&str]) -> [AwsEvent; 5] {
    let path = "/payments";
    let sources = [
        events::api_gateway_v1("POST", path),
        events::api_gateway_v2("POST", path),
        events::function_url("POST", path),
        events::alb("POST", path).multi_value_headers(),
        events::alb("POST", path),
    ];
    sources.map(|event| {
        let event = event.body(r#"{"order_id":1}"#);
        let values = values.iter();
        values.fold(event, |event, value| event.header(name, *value))
    })
}

fn operation() -> CompiledOperation {
    let settings = Settings {
        key: Some("header(@, 'Idempotency-Key')".into()),
        key_required: Some(KeyRequired::All),
        key_prefix: Some("headers".into()),
        ..Settings::default()
    };
    CompiledOperation::new("headers", &settings, &Variables::default()).unwrap()
}

fn key_of(identity: Result<Identity, Error>) -> String {
    identity.unwrap().key().unwrap().as_str().to_owned()
}

/// Returns the keys of the raw event and of the event that the type writes.
fn keys<T: DeserializeOwned + Serialize>(event: &AwsEvent) -> [String; 2] {
    let raw = serde_json::from_str::<Raw<T>>(&event.to_string()).unwrap();
    let typed: T = event.parse().unwrap();
    let identities = [
        raw.identity(&operation(), None),
        typed.identity(&operation(), None),
    ];
    identities.map(key_of)
}

#[test]
fn a_header_gives_the_same_key_from_every_source_in_every_case_and_with_all_its_values() {
    for (name, values) in [
        ("Idempotency-Key", &["k-1"][..]),
        ("idempotency-key", &["k-1"]),
        ("IDEMPOTENCY-KEY", &["k-1"]),
        ("Idempotency-Key", &["k-1", "k-2"]),
    ] {
        let event = json!({ "headers": { "idempotency-key": values.join(",") } });
        let expected = key_of(operation().identify(&event.to_string(), None));
        let [v1, v2, url, lists, last] = requests(name, values);
        let mut keys = [
            keys::<ApiGatewayProxyRequest>(&v1),
            keys::<ApiGatewayV2httpRequest>(&v2),
            keys::<LambdaFunctionUrlRequest>(&url),
            keys::<AlbTargetGroupRequest>(&lists),
        ]
        .concat();
        if values.len() == 1 {
            keys.extend(self::keys::<AlbTargetGroupRequest>(&last));
        }
        assert!(keys.iter().all(|key| *key == expected), "{name} {keys:?}");
    }
}

#[test]
fn a_request_without_the_header_is_refused_if_the_key_is_required() {
    for event in requests("X-Other", &["k-1"]) {
        let error = operation().identify(&event.to_string(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyMissing);
    }
}

#[idempotent(
    key = "[header(@, 'Idempotency-Key'), powertools_json(body).order_id]",
    key_required = "all"
)]
async fn handler(event: LambdaEvent<Raw<ApiGatewayProxyRequest>>) -> Result<u32, BoxError> {
    Ok(u32::from(event.payload.body.is_some()))
}

#[tokio::test]
async fn the_attribute_takes_a_header_together_with_other_parts() {
    let harness = Harness::default();
    let call = |header: &str| {
        let [event, ..] = requests(header, &["k"]);
        let event = serde_json::from_str(&event.to_string()).unwrap();
        harness.within(handler(LambdaEvent::new(event, Default::default())))
    };
    assert_eq!(call("Idempotency-Key").await.unwrap(), 1);
    assert_eq!(harness.requests(), [1, 1, 0, 0]);
    assert_eq!(call("idempotency-key").await.unwrap(), 1);
    assert_eq!(harness.requests(), [2, 1, 0, 0], "the second is a replay");
    let error = call("Other").await.unwrap_err().to_string();
    let part = "`header(@, 'Idempotency-Key')` of the key";
    assert!(error.contains(part), "{error}");
}

#[test]
fn the_error_names_a_body_in_base64_as_the_cause() {
    let settings = Settings {
        key: Some("powertools_json(body).order_id".into()),
        ..Settings::default()
    };
    let operation = CompiledOperation::new("encoded", &settings, &Variables::default()).unwrap();
    // The base64 of `{"order_id":1}`, and of a text that is not JSON; then that text itself.
    for (body, is_encoded) in [
        ("eyJvcmRlcl9pZCI6MX0=", true),
        ("c2VjcmV0", true),
        ("secret", false),
    ] {
        let event = json!({ "body": body, "isBase64Encoded": is_encoded });
        let error = operation.identify_value(&event, None).unwrap_err();
        let error = error.to_string();
        let cause = "`powertools_json` failed: invalid JSON: expected a value at line 1, column 1";
        assert!(error.contains(cause), "{error}");
        let advice = "powertools_json(powertools_base64(";
        assert_eq!(error.contains(advice), is_encoded, "{error}");
        assert_eq!(error.contains("base64"), is_encoded, "{error}");
        assert!(!error.contains(body), "{error}");
    }
}

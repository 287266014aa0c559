//! Keys of several parts of which a payload lacks one: the attribute, the builder and the variable.

use std::sync::Arc;

use idempotency_core::config::Variables;
use idempotency_core::store::MemoryStore;
use idempotency_lambda::{
    BoxError, Deadline, ErrorKind, KeyRequired, LambdaEvent, Operation, idempotent,
};
use idempotency_tests::{Harness, ours};
use serde_json::{Value, json};

use crate::event;
use crate::outcome_events::recorded;

fn donation(amount: u32) -> LambdaEvent<Value> {
    event(json!({ "user_id": "u-secret", "order_id": null, "amount": amount }))
}

#[idempotent(key = "[user_id, order_id]", key_required = true)]
async fn charge_any(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["amount"] }))
}

#[idempotent(key = "[user_id, order_id]")]
async fn charge_all(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(json!({ "paid": event.payload["amount"] }))
}

#[idempotent(payload = (user, &order), key_required = "all", key_prefix = "partial.reserve")]
async fn reserve(user: Option<&str>, order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

const REQUIRED: bool = true;
const NOT_REQUIRED: bool = false;

#[idempotent(key = "order_id", key_required = REQUIRED)]
async fn required_by_a_constant(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "order_id", key_required = NOT_REQUIRED)]
async fn not_required_by_a_constant(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload)
}

#[idempotent(key = "[user_id, order_id]", key_required = KeyRequired::All)]
async fn all_by_a_constant(event: LambdaEvent<Value>) -> Result<Value, BoxError> {
    Ok(event.payload)
}

#[tokio::test]
async fn a_constant_for_key_required_is_a_bool_or_a_value_of_the_setting() {
    let harness = Harness::default();
    let within = |call| harness.within(call);
    let calls: [std::pin::Pin<Box<dyn Future<Output = _>>>; 2] = [
        Box::pin(required_by_a_constant(donation(1))),
        Box::pin(all_by_a_constant(donation(1))),
    ];
    for call in calls {
        let error = within(call).await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::KeyMissing);
    }
    let (run, log) = logged(&harness, not_required_by_a_constant(donation(1))).await;
    assert_eq!(run.unwrap()["amount"], 1);
    for said in ["`order_id`", "`key_required = true`", "WARN "] {
        assert!(log.contains(said), "{log}");
    }
}

#[tokio::test]
async fn by_default_every_part_of_the_key_is_required() {
    let harness = Harness::default();
    for _ in 0..2 {
        let call = charge_all(donation(10));
        let error = harness.within(call).await.unwrap_err();
        let error = ours(&error);
        assert_eq!(error.kind(), ErrorKind::KeyMissing);
        assert!(!error.handler_ran());
        let text = error.to_string();
        for said in [
            "`order_id` of the key `[user_id, order_id]`",
            "`order_id || 'none'`",
        ] {
            assert!(text.contains(said), "{text}");
        }
        assert!(!text.contains("u-secret"), "{text}");
    }
    assert_eq!(
        harness.requests(),
        [0; 4],
        "a refused call makes no request"
    );
    let whole = charge_all(event(json!({ "user_id": 1, "order_id": 2, "amount": 3 })));
    let paid = harness.within(whole).await;
    assert_eq!(paid.unwrap(), json!({ "paid": 3 }));
}

#[tokio::test]
async fn a_partial_key_can_be_a_key_as_in_python_and_each_call_logs_a_warning() {
    let harness = Harness::default();
    let (first, log) = logged(&harness, charge_any(donation(10))).await;
    assert_eq!(first.unwrap(), json!({ "paid": 10 }));
    assert!(log.starts_with("WARN "), "{log}");
    for said in [
        "`order_id` of the key `[user_id, order_id]`",
        "`key_required = \"all\"`",
    ] {
        assert!(log.contains(said), "{log}");
    }
    // The second donation of one user gets the receipt of the first.
    let (second, log) = logged(&harness, charge_any(donation(99))).await;
    assert_eq!(second.unwrap(), json!({ "paid": 10 }));
    assert!(log.starts_with("WARN "), "{log}");
    let whole = charge_any(event(json!({ "user_id": 1, "order_id": 2 })));
    let (_, log) = logged(&harness, whole).await;
    assert!(!log.starts_with("WARN "), "{log}");
}

#[tokio::test]
async fn each_element_of_a_payload_tuple_is_a_part_of_the_key() {
    let harness = Harness::default();
    let call = |user| harness.within(reserve(user, 7));
    let error = call(None).await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::KeyMissing);
    assert!(error.to_string().contains("`[0]` of the key"), "{error}");
    assert_eq!(call(Some("u-1")).await.unwrap(), 7);
    // The id is that of the whole payload: md5 of `["u-1", 7]`.
    let id =
        idempotency_core::record::RecordId::new("partial.reserve#834cc90e57ee9c4b7527d6349b98e4fa");
    assert!(harness.store.inner().record(&id).is_some());
}

#[tokio::test]
async fn the_builder_and_the_variable_require_every_part_too() {
    let required = Operation::builder("partial::builder")
        .key("body.[user_id, {order: order_id}]")
        .key_required(KeyRequired::All);
    let name = "IDEMPOTENCY_KEY_REQUIRED".to_owned();
    let variables = Variables::from_iter([(name, "ALL".to_owned())]);
    let by_variable = Operation::builder("partial::variable")
        .key("body.[user_id, {order: order_id}]")
        .variables(variables);
    for builder in [required, by_variable] {
        let operation = builder.store(Arc::new(MemoryStore::new())).build().unwrap();
        let call = async |payload: Value| {
            operation
                .run(&payload, Deadline::Inherited, || async {
                    Ok::<_, BoxError>(1)
                })
                .await
        };
        let lacking = json!({ "body": { "user_id": "u", "order_id": "" } });
        let error = call(lacking).await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::KeyMissing);
        assert!(error.to_string().contains("`order_id`"), "{error}");
        let whole = json!({ "body": { "user_id": "u", "order_id": 1 } });
        assert!(call(whole).await.is_ok());
    }
}

/// Runs a call. Returns its result, and its event as a line.
async fn logged<T>(harness: &Harness, call: impl Future<Output = T>) -> (T, String) {
    let mut result = None;
    let lines = recorded(async { result = Some(harness.within(call).await) }).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(!lines[0].contains("u-secret"), "{lines:#?}");
    (result.unwrap(), lines.concat())
}

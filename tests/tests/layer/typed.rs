//! A typed event becomes its key without a text: a part that no JSON text can have is not even looked at. A stored text is handed on as
//! it is.

use std::collections::BTreeMap;

use idempotency_lambda::{BoxError, IdempotencyLayer, LambdaEvent, idempotent, with_backend};
use idempotency_tests::operation;
use serde::Serialize;
use serde_json::value::RawValue;
use tower::{Layer, ServiceExt, service_fn};

use crate::{Runs, event, harness};

/// Its `prices` cannot be written as JSON: the key of a map is a pair.
#[derive(Clone, Serialize)]
struct Order {
    order_id: u32,
    prices: BTreeMap<(u8, u8), u8>,
}

fn order() -> LambdaEvent<Order> {
    let order = Order {
        order_id: 7,
        prices: BTreeMap::from([((1, 2), 3)]),
    };
    assert!(serde_json::to_string(&order).is_err());
    event(order)
}

#[idempotent(key = "order_id")]
async fn annotated(event: LambdaEvent<Order>) -> Result<u32, BoxError> {
    Ok(event.payload.order_id)
}

#[tokio::test]
async fn the_attribute_takes_the_key_from_the_value() {
    let harness = harness();
    for _ in 0..2 {
        let response = with_backend(harness.backend.clone(), annotated(order())).await;
        assert_eq!(response.unwrap(), 7);
    }
    assert_eq!(harness.store.inner().len(), 1);
}

#[tokio::test]
async fn the_layer_takes_the_key_from_the_value() {
    let (harness, runs) = (harness(), Runs::default());
    let place = operation().key("order_id").build().unwrap();
    let counted = runs.clone();
    let service = IdempotencyLayer::new(place).layer(service_fn(move |_: LambdaEvent<Order>| {
        let run = counted.next();
        async move { Ok::<_, BoxError>(run) }
    }));
    for _ in 0..2 {
        let call = service.clone().oneshot(order());
        assert_eq!(
            with_backend(harness.backend.clone(), call).await.unwrap(),
            1
        );
    }
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn the_layer_hands_on_a_stored_text_as_it_is() {
    const SENT: &str = r#"{"b" : 1.50,  "a":[ ],"a":"\u00e9"}"#;
    let harness = harness();
    let place = operation().key("@").build().unwrap();
    let service = IdempotencyLayer::new(place).layer(service_fn(async |_: LambdaEvent<u8>| {
        Ok::<_, BoxError>(RawValue::from_string(SENT.to_owned())?)
    }));
    for _ in 0..2 {
        let call = service.clone().oneshot(event(1));
        let response: Box<RawValue> = with_backend(harness.backend.clone(), call).await.unwrap();
        assert_eq!(response.get(), SENT);
    }
}

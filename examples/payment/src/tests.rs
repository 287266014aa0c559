use std::cell::RefCell;
use std::sync::Arc;

use idempotency_lambda::{Context, MemoryStore, backend_over, with_backend};
use idempotency_testkit::retry_safety::{Provider, World, retry_safety};
use serde_json::Value;

use super::*;

thread_local! {
    /// The address of the provider of a test. Each process of a check has a thread of its own.
    static PROVIDER: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the address of the provider of the running test.
pub(crate) fn provider() -> Option<String> {
    PROVIDER.with_borrow(Clone::clone)
}

/// Returns a request of `user` for order `o-1`; `None` is a request without an authorizer.
fn event(
    request_id: &str,
    user: Option<&str>,
    amount: u64,
    card: &str,
) -> LambdaEvent<ApiGatewayV2httpRequest> {
    let event = include_str!("../../events/payment.json");
    let mut event: Value = serde_json::from_str(event).unwrap();
    let body = json!({ "order_id": "o-1", "amount": amount, "currency": "EUR", "card": card });
    event["body"] = body.to_string().into();
    match user {
        Some(user) => event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = user.into(),
        None => event["requestContext"]["authorizer"] = Value::Null,
    }
    let mut context = Context::default();
    context.request_id = request_id.to_owned();
    LambdaEvent::new(serde_json::from_value(event).unwrap(), context)
}

/// Sends the event to the function and returns the status and the body of its response.
async fn send(event: LambdaEvent<ApiGatewayV2httpRequest>) -> (i64, Value) {
    let response = handler(event).await.unwrap();
    let body = match response.body {
        Some(Body::Text(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("the body is no text: {other:?}"),
    };
    (response.status_code, body)
}

async fn with_store<F: Future>(test: F) -> F::Output {
    with_backend(backend_over(Arc::new(MemoryStore::new())), test).await
}

#[tokio::test]
async fn a_retry_gets_the_first_receipt_and_another_amount_is_refused() {
    with_store(async {
        let first = send(event("r-1", Some("u-1"), 4_200, "good")).await;
        assert_eq!(first.1["payment_id"], "pay-r-1");
        assert_eq!(send(event("r-2", Some("u-1"), 4_200, "good")).await, first);
        let other = send(event("r-3", Some("u-1"), 9_900, "good")).await;
        assert_eq!(other.0, 422);
    })
    .await;
}

#[tokio::test]
async fn a_user_who_sends_the_order_of_another_user_does_not_get_that_users_receipt() {
    with_store(async {
        let of_first = send(event("r-1", Some("u-1"), 4_200, "good")).await;
        let of_second = send(event("r-2", Some("u-2"), 4_200, "good")).await;
        assert_ne!(of_first.1, of_second.1);
        // Another amount is not refused either: the two users have different keys.
        let other_amount = send(event("r-3", Some("u-3"), 9_900, "good")).await;
        assert_eq!(other_amount.0, 201);
    })
    .await;
}

#[tokio::test]
async fn a_request_without_an_authenticated_user_or_an_order_is_refused_before_the_handler() {
    with_store(async {
        let (status, body) = send(event("r-1", None, 4_200, "good")).await;
        assert_eq!(
            (status, &body["type"]),
            (403, &json!("urn:idempotency:caller-unknown"))
        );
        let mut donation = event("r-2", Some("u-1"), 4_200, "good");
        donation.payload.body = Some(r#"{"amount":4200,"currency":"EUR"}"#.to_owned());
        let (status, body) = send(donation).await;
        assert_eq!(
            (status, &body["type"]),
            (400, &json!("urn:idempotency:key-missing"))
        );
    })
    .await;
}

#[tokio::test]
async fn a_declined_card_leaves_the_key_free_for_a_retry() {
    with_store(async {
        let declined = send(event("r-1", Some("u-1"), 4_200, "declined_once")).await;
        assert_eq!(declined.0, 402);
        let retry = send(event("r-2", Some("u-1"), 4_200, "declined_once")).await;
        assert_eq!(retry.1["payment_id"], "pay-r-2");
    })
    .await;
}

#[tokio::test]
async fn an_order_is_charged_once_wherever_the_function_fails() {
    let payload = |user: &str, amount: u64| event("", Some(user), amount, "good").payload;
    let provider = Provider::new(|request| {
        let payment_id = format!("pay-{}", request.number);
        (201, json!({ "payment_id": payment_id }))
    });
    let report = retry_safety(payload("u-1", 4_200), async |world: World, payload| {
        let address = world.url().replace("http://", "");
        PROVIDER.set(Some(address));
        handler(LambdaEvent::new(payload, world.context())).await
    })
    .provider(provider.honours("idempotency-key"))
    .another(payload("u-2", 4_200))
    .changed(payload("u-1", 9_900))
    .run()
    .await;
    report.assert_safe();
}

//! Charges an order. A retry of the order gets the response of its first run.

use std::collections::HashMap;
#[cfg(not(test))]
use std::sync::Mutex;
use std::sync::PoisonError;

use idempotency_lambda::{BoxError, Call, LambdaEvent, Token, idempotent};
// In the check of `retry_safety` each lock is a point where faults happen.
#[cfg(test)]
use idempotency_testkit::retry_safety::Mutex;
use serde::{Deserialize, Serialize};

/// The event.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Order {
    /// The sender has authenticated this user.
    user_id: String,
    order_id: String,
    /// In the smallest unit of the currency.
    amount: u64,
}

/// The response, which duplicates get too.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Receipt {
    payment_id: String,
}

/// Charges an order. `expires_after` is longer than its sender retries.
#[idempotent(
    payload = event.payload,
    key_prefix = "{{ project_name }}",
    key = "[user_id, order_id]",
    validate = "amount",
    expires_after = "1d"
)]
async fn handler(
    provider: &Provider,
    event: LambdaEvent<Order>,
    call: Call,
) -> Result<Receipt, BoxError> {
    let token = call.token("charge");
    let payment_id = provider.charge(event.payload.amount, &token).await?;
    Ok(Receipt { payment_id })
}

/// A simulated payment provider: put a client of yours in its place. It knows a charge by its token, which is the same in every run
/// for an order: a run that is repeated after a crash gets the first payment.
#[derive(Debug, Default)]
struct Provider(Mutex<HashMap<String, String>>);

impl Provider {
    async fn charge(&self, _amount: u64, token: &Token) -> Result<String, BoxError> {
        let mut payments = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = format!("pay-{}", payments.len() + 1);
        let payment_id = payments.entry(token.to_string()).or_insert(next);
        Ok(payment_id.clone())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_ansi(false).init();
    let provider = &Provider::default();
    idempotency_lambda::run(move |event| handler(provider, event)).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use idempotency_lambda::{Context, MemoryStore, backend_over, with_backend};
    use idempotency_testkit::retry_safety::{World, retry_safety};

    use super::*;

    /// Returns the order of `events/order.json`, of this user and with this amount.
    fn order(user_id: &str, amount: u64) -> LambdaEvent<Order> {
        let mut order: Order = serde_json::from_str(include_str!("../events/order.json")).unwrap();
        (order.user_id, order.amount) = (user_id.to_owned(), amount);
        LambdaEvent::new(order, Context::default())
    }

    #[tokio::test]
    async fn a_retry_gets_the_first_receipt_and_another_amount_is_refused() {
        let provider = Provider::default();
        with_backend(backend_over(Arc::new(MemoryStore::new())), async {
            let first = handler(&provider, order("u-1", 4200)).await.unwrap();
            let retry = handler(&provider, order("u-1", 4200)).await.unwrap();
            assert_eq!(retry, first);
            let of_another_user = handler(&provider, order("u-2", 4200)).await.unwrap();
            assert_ne!(of_another_user, first);
            assert!(handler(&provider, order("u-1", 9900)).await.is_err());
        })
        .await;
    }

    #[tokio::test]
    async fn an_order_is_charged_once_wherever_the_function_fails() {
        let report = retry_safety(order("u-1", 4200), async |world: World, event| {
            handler(&world.fake::<Provider>(), event).await
        })
        .effect("payments", async |world| {
            world.fake::<Provider>().0.lock().unwrap().len()
        })
        .another(order("u-2", 4200))
        .changed(order("u-1", 9900))
        .run()
        .await;
        report.assert_safe();
    }
}

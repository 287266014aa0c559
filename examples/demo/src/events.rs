//! Events in the form that AWS sends, made with `idempotency_testkit::events`.

use idempotency_testkit::events::{self, KinesisBatch, KinesisRecord};
use serde_json::{Map, Value, json};

/// A request to API Gateway by an authenticated user, whose body is JSON.
#[derive(Clone)]
pub(crate) struct Request {
    path: &'static str,
    key: Option<&'static str>,
    user: &'static str,
    body: Map<String, Value>,
}

impl Request {
    /// Returns a request that pays 42.00 EUR for an order.
    pub(crate) fn payment(order_id: &str) -> Self {
        Self::to("/payments")
            .with("order_id", order_id)
            .with("amount", 4_200)
            .with("currency", "EUR")
    }

    /// Returns a request that pays 15.00 EUR back, with this `Idempotency-Key`.
    pub(crate) fn refund(key: &'static str) -> Self {
        let request = Self::to("/refunds")
            .with("payment_id", "pay-1001")
            .with("amount", 1_500);
        Self {
            key: Some(key),
            ..request
        }
    }

    fn to(path: &'static str) -> Self {
        Self {
            path,
            key: None,
            user: "u-1",
            body: Map::new(),
        }
    }

    /// Changes the authenticated user.
    pub(crate) fn by(self, user: &'static str) -> Self {
        Self { user, ..self }
    }

    /// Removes the header `Idempotency-Key`.
    pub(crate) fn without_key(self) -> Self {
        Self { key: None, ..self }
    }

    /// Sets a field of the body.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body.insert(field.to_owned(), value.into());
        self
    }

    /// Returns the event as JSON text.
    pub(crate) fn event(&self) -> String {
        let mut event = events::api_gateway_v2("POST", self.path);
        if let Some(key) = self.key {
            event = event.header("Idempotency-Key", format!("\"{key}\""));
        }
        let event = event.claim("iss", "https://id.example.com/");
        event.claim("sub", self.user).json(&self.body).to_string()
    }
}

/// Returns a batch of three messages from SQS, as it is delivered for the `nth` time, counted from 1. The third message repeats
/// the first.
pub(crate) fn orders(nth: u32) -> String {
    let order = |order_id: &str, sku: &str| json!({ "order_id": order_id, "user_id": "u-1", "items": [{ "sku": sku, "quantity": 2 }] });
    events::sqs("orders")
        .json(&order("o-1001", "tea-250"))
        .json(&order("o-1002", "cup-white"))
        .json(&order("o-1001", "tea-250"))
        .receive_count(nth)
        .to_string()
}

/// Returns records from Kinesis, each with its entry's id and account. The position of the first one in its shard is counted
/// from 1.
pub(crate) fn entries(position: u64, entries: &[(&str, &str)]) -> KinesisBatch {
    let records = entries.iter().map(|(entry_id, account)| {
        let entry = json!({ "entry_id": entry_id, "account": account, "amount": 5_000 });
        KinesisRecord::json(&entry).partition_key(*account)
    });
    events::kinesis("ledger")
        .records(records)
        .starting_at(position)
}

/// Returns an event from EventBridge for a paid order.
pub(crate) fn paid(order_id: &str) -> String {
    events::event_bridge("shop.orders", "OrderPaid")
        .detail(&json!({ "order_id": order_id, "user_id": "u-1" }))
        .to_string()
}

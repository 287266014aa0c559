//! Events in the form that AWS sends: those of `examples/events`, with the fields that a step changes.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

const PAYMENT: &str = include_str!("../events/payment.json");
const ORDERS: &str = include_str!("../events/orders.json");
const SHIPPING: &str = include_str!("../events/shipping.json");

/// A request to API Gateway, whose body is JSON in a string.
#[derive(Clone)]
pub(crate) struct Payment {
    event: Value,
    body: Map<String, Value>,
}

impl Payment {
    /// Returns a request that pays 42.00 EUR for an order.
    pub(crate) fn order(order_id: &str) -> Result<Self> {
        let event: Value = serde_json::from_str(PAYMENT)?;
        let body = event["body"]
            .as_str()
            .context("the payment event has no body")?;
        let body = serde_json::from_str(body)?;
        Ok(Self { event, body }.with("order_id", order_id))
    }

    /// Changes the authenticated user.
    pub(crate) fn by(mut self, user: &str) -> Self {
        self.event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = user.into();
        self
    }

    /// Sets a field of the body.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.body.insert(field.to_owned(), value.into());
        self
    }

    /// Returns the event as JSON text.
    pub(crate) fn event(mut self) -> String {
        self.event["body"] = Value::Object(self.body).to_string().into();
        self.event.to_string()
    }
}

/// Returns a batch of three messages from SQS. The third repeats the first.
pub(crate) fn orders() -> Result<Batch> {
    let event: Value = serde_json::from_str(ORDERS)?;
    let records = event["Records"]
        .as_array()
        .context("the orders event has no records")?;
    let messages = records.iter().map(|record| {
        let body = record["body"].as_str().unwrap_or_default();
        let body: Value = serde_json::from_str(body)?;
        Ok(Message {
            id: record["messageId"].as_str().unwrap_or_default().to_owned(),
            order_id: body["order_id"].as_str().unwrap_or_default().to_owned(),
        })
    });
    Ok(Batch {
        messages: messages.collect::<Result<_>>()?,
        event,
    })
}

/// A batch of messages.
pub(crate) struct Batch {
    pub(crate) messages: Vec<Message>,
    event: Value,
}

/// The parts of a message that the output shows.
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) order_id: String,
}

impl Batch {
    /// Returns the batch as SQS delivers it for the `nth` time, counted from 1.
    pub(crate) fn delivery(&self, nth: u32) -> String {
        let mut event = self.event.clone();
        for record in event["Records"].as_array_mut().into_iter().flatten() {
            record["attributes"]["ApproximateReceiveCount"] = json!(nth.to_string());
        }
        event.to_string()
    }
}

/// Returns an event from EventBridge for a paid order.
pub(crate) fn paid(order_id: &str) -> Result<String> {
    let mut event: Value = serde_json::from_str(SHIPPING)?;
    event["detail"]["order_id"] = order_id.into();
    Ok(event.to_string())
}

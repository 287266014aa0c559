//! An event of an EventBridge bus.

use serde::Serialize;
use serde_json::{Value, json};

use super::value::json_value;
use super::{ACCOUNT, REGION, TIME_OF_EVENT, ids};

/// Starts an event of an EventBridge bus, from its source and detail type.
///
/// The id is computed from source, detail type and detail: an event that is delivered again has the same id.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::event_bridge("shop.orders", "OrderPaid").detail(&json!({"order_id": "o-1"})).to_value();
/// assert_eq!(event["detail-type"], "OrderPaid");
/// assert_eq!(event["detail"]["order_id"], "o-1");
/// ```
pub fn event_bridge(source: impl Into<String>, detail_type: impl Into<String>) -> EventBridge {
    EventBridge {
        source: source.into(),
        detail_type: detail_type.into(),
        id: None,
        resources: Vec::new(),
        detail: json!({}),
        changes: Vec::new(),
    }
}

/// An event of an EventBridge bus. [`event_bridge`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct EventBridge {
    source: String,
    detail_type: String,
    id: Option<String>,
    resources: Vec<String>,
    detail: Value,
    changes: Vec<(String, Value)>,
}

event!(EventBridge);

impl EventBridge {
    /// Sets the detail.
    ///
    /// # Panics
    ///
    /// If the value cannot be written as JSON.
    pub fn detail<T: Serialize + ?Sized>(mut self, detail: &T) -> Self {
        self.detail = json_value(detail);
        self
    }

    /// Sets the id of the event.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds the ARN of a resource.
    pub fn resource(mut self, arn: impl Into<String>) -> Self {
        self.resources.push(arn.into());
        self
    }

    fn render(&self) -> Value {
        let detail = self.detail.to_string();
        let id = || ids::uuid(&[&self.source, &self.detail_type, &detail]);
        json!({
            "version": "0",
            "id": self.id.clone().unwrap_or_else(id),
            "detail-type": self.detail_type,
            "source": self.source,
            "account": ACCOUNT,
            "time": TIME_OF_EVENT,
            "region": REGION,
            "resources": self.resources,
            "detail": self.detail,
        })
    }
}

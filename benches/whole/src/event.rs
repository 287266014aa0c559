//! The events, and what a response to them must be.

use anyhow::bail;
use idempotency_testkit::events;
use serde_json::{Value, json};

use crate::contestants::{Contestant, EventKind};
use crate::samples::Setting;

const AMOUNT: u64 = 4_200;

/// What an event is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shape {
    pub kind: EventKind,
    /// The length of the event as text. The smallest order has about 120 bytes, the smallest HTTP event about 900.
    pub event_bytes: usize,
    /// The length of the receipt's text.
    pub receipt_bytes: usize,
}

impl Shape {
    /// Returns the shape of the events of a contestant under a setting.
    pub fn of(contestant: &Contestant, setting: &Setting) -> Self {
        Self {
            kind: contestant.event,
            event_bytes: setting.event_bytes,
            receipt_bytes: setting.receipt_bytes,
        }
    }
}

/// An event, and what the receipt in its response must have.
#[derive(Clone, Debug)]
pub struct Event {
    pub text: String,
    pub number: u32,
    order_id: String,
    kind: EventKind,
    receipt_bytes: usize,
}

/// Makes events with a new order each. All orders have ids of one length.
#[derive(Debug)]
pub struct Events {
    shape: Shape,
    items: Vec<Value>,
    /// Distinguishes the events of one process from those of another one.
    series: u32,
    next: u32,
}

impl Events {
    pub fn new(shape: Shape, series: u32) -> Self {
        let mut events = Self {
            shape,
            items: Vec::new(),
            series,
            next: 0,
        };
        loop {
            let missing = shape.event_bytes.saturating_sub(events.make(0).text.len());
            // An item takes about 70 bytes in an order, and less than 90 in an HTTP event.
            let items = events.items.len();
            if missing < 35 {
                return events;
            }
            let more = items..items + (missing / 90).max(1);
            events.items.extend(more.map(item));
        }
    }

    /// Returns the next event.
    pub fn next(&mut self) -> Event {
        self.next += 1;
        self.make(self.next)
    }

    pub fn take(&mut self, count: usize) -> Vec<Event> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Makes the event with this number: the same one each time.
    pub fn make(&self, number: u32) -> Event {
        let order_id = format!("o-{:06}-{number:09}", self.series);
        let order = json!({
            "user_id": "u-1",
            "order_id": order_id,
            "amount": AMOUNT,
            "currency": "EUR",
            "receipt_bytes": self.shape.receipt_bytes,
            "items": self.items,
        });
        let text = match self.shape.kind {
            EventKind::Order => order.to_string(),
            EventKind::Http => events::api_gateway_v2("POST", "/charges")
                .header("Idempotency-Key", &order_id)
                .header("Content-Type", "application/json")
                .claim("sub", "u-1")
                .json(&order)
                .to_string(),
        };
        Event {
            text,
            number,
            order_id,
            kind: self.shape.kind,
            receipt_bytes: self.shape.receipt_bytes,
        }
    }
}

fn item(number: usize) -> Value {
    json!({
        "sku": format!("sku-{number:06}"),
        "quantity": number % 3 + 1,
        "price": 9.5,
        "note": if number.is_multiple_of(4) { Value::Null } else { "gift \"wrapped\"".into() },
    })
}

impl Event {
    /// Checks the response to this event, and returns the id of its payment: another one for each run of the handler.
    pub fn payment_id(&self, response: &str) -> anyhow::Result<String> {
        let response: Value = serde_json::from_str(response)?;
        let receipt = match self.kind {
            EventKind::Order => response,
            EventKind::Http => {
                if response["statusCode"] != 200 {
                    bail!("the status is {}", response["statusCode"]);
                }
                serde_json::from_str(response["body"].as_str().unwrap_or_default())?
            }
        };
        let payment_id = receipt["payment_id"].as_str().unwrap_or_default();
        let text = receipt["text"].as_str().unwrap_or_default();
        let right = payment_id.starts_with(&format!("pay-{}-", self.order_id))
            && receipt["amount"] == AMOUNT
            && receipt["currency"] == "EUR"
            && text.len() == self.receipt_bytes;
        if !right {
            bail!("the response is not the receipt of {}", self.order_id);
        }
        Ok(payment_id.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(kind: EventKind, event_bytes: usize) -> Events {
        let shape = Shape {
            kind,
            event_bytes,
            receipt_bytes: 3,
        };
        Events::new(shape, 7)
    }

    fn receipt(event: &Event) -> String {
        json!({
            "payment_id": format!("pay-{}-9", event.order_id),
            "amount": AMOUNT,
            "currency": "EUR",
            "text": "abc",
        })
        .to_string()
    }

    #[test]
    fn an_event_is_as_long_as_it_should_be_to_half_an_item() {
        for bytes in [200, 4096, 65_536, 262_144] {
            let length = events(EventKind::Order, bytes).next().text.len();
            assert!(length.abs_diff(bytes) < 40, "{length} for {bytes}");
        }
    }

    #[test]
    fn events_of_one_series_differ_in_their_order_alone() {
        let mut events = events(EventKind::Order, 200);
        let (one, two) = (events.next(), events.next());
        assert_ne!(one.text, two.text);
        assert_eq!(one.text.replace("000000001", "000000002"), two.text);
        assert_eq!(events.make(1).text, one.text);
    }

    #[test]
    fn the_receipt_of_another_order_is_refused() {
        let mut events = events(EventKind::Order, 200);
        let (one, two) = (events.next(), events.next());
        let receipt = receipt(&one);
        assert!(one.payment_id(&receipt).unwrap().ends_with("-9"));
        assert!(two.payment_id(&receipt).is_err());
    }

    #[test]
    fn the_receipt_of_an_http_event_is_in_its_body() {
        let event = events(EventKind::Http, 4096).next();
        let body = receipt(&event);
        let response = |status: u16| json!({"statusCode": status, "body": body}).to_string();
        assert!(event.payment_id(&response(200)).is_ok());
        assert!(event.payment_id(&response(409)).is_err());
    }
}

//! The outcome event and the span as an interface (`docs/reference/events.md`): their exact fields for each call, and what they
//! never contain.
//!
//! A `tracing` layer that records every event as one line: level, target, message, then the fields in their order.

mod batch;
mod ends;
mod foreign;
mod observers;
mod spans;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use idempotency_lambda::{BoxError, Operation, OperationBuilder, Outcome};
use idempotency_tests::{Harness, keyed, operation};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The key of an order with the number 1.
const KEY: &str = "local.shop.charge#c4ca4238a0b923820dcc509a6f75849b";

fn builder() -> OperationBuilder {
    operation().key("order_id")
}

fn charge() -> Operation {
    keyed(|of| of)
}

fn order() -> Value {
    json!({ "order_id": 1, "card": "s3cr3t" })
}

/// Makes a call and returns its only event as a line, with `{key}` in place of the key.
async fn line_of<R>(call: impl Future<Output = Result<Outcome<R>, BoxError>>) -> String {
    let lines = recorded(async {
        // Other tests check the result.
        let _given = call.await;
    })
    .await;
    let [line] = &lines[..] else {
        panic!("a call emits one event, and not {lines:#?}");
    };
    let line = line.strip_suffix(' ').unwrap_or(line);
    assert!(!line.contains("s3cr3t"), "{line}");
    line.replace(KEY, "{key}")
}

/// As [`line_of`], for a call of [`order`] with the default handler.
async fn line_of_a_call(harness: &Harness, operation: &Operation) -> String {
    line_of(harness.call(operation, order())).await
}

/// Returns a line: the part that all events share, and the rest.
fn event(level: &str, rest: &str) -> String {
    format!("{level} idempotency idempotent call: operation=local.shop.charge {rest}")
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

/// Runs `calls` and returns all events as lines, also those of dependencies.
pub(crate) async fn recorded(calls: impl Future<Output = ()>) -> Vec<String> {
    let recorder = Recorder::default();
    let subscriber = tracing_subscriber::registry().with(recorder.clone());
    calls.with_subscriber(subscriber).await;
    recorder.0.lock().unwrap().clone()
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let of = event.metadata();
        let text = format!(
            "{} {} {}:{}",
            of.level(),
            of.target(),
            line.message,
            line.fields
        );
        self.0.lock().unwrap().push(text);
    }
}

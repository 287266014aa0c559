//! The outcome event and the span as an interface (`docs/reference/events.md`): their exact fields for each call, and what they
//! never contain.
//!
//! [`Recorder`], a `tracing` layer, writes every event as one line: level, target, message, then the fields in their order.

mod batch;
mod ends;
mod foreign;
mod observers;
mod spans;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, Once};

use idempotency_lambda::{BoxError, Operation, Outcome};
use idempotency_tests::{Harness, keyed};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The record id of order 1. The events have it as `key`.
const KEY: &str = "local.shop.charge#c4ca4238a0b923820dcc509a6f75849b";

fn charge() -> Operation {
    keyed(|of| of)
}

fn order() -> Value {
    json!({ "order_id": 1, "card": "s3cr3t" })
}

/// Begins a call whose handler does not end, and drops it.
async fn drop_a_call(harness: &Harness, payload: Value) {
    let charge = charge();
    let stuck = async |_| std::future::pending().await;
    let stuck = Box::pin(harness.call_with::<(), _>(&charge, payload, stuck));
    tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), () = std::future::ready(()) => {} }
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

/// Runs `calls` and returns all events as lines, also those of dependencies.
pub(crate) async fn recorded(calls: impl Future<Output = ()>) -> Vec<String> {
    let recorder = Recorder::default();
    within(recorder.clone(), calls).await;
    recorder.0.lock().unwrap().clone()
}

/// Runs `calls` under a subscriber with this layer.
async fn within<L>(layer: L, calls: impl Future<Output = ()>)
where
    L: Layer<Registry> + Send + Sync + 'static,
{
    // `tracing` switches an event off for the whole process if it is first reached without a subscriber. This global
    // subscriber enables every event and writes nothing.
    static ENABLE_EVENTS: Once = Once::new();
    ENABLE_EVENTS.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
    let subscriber = tracing_subscriber::registry().with(layer);
    calls.with_subscriber(subscriber).await;
}

/// The message and the fields of an event or a span.
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

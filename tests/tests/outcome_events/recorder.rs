//! A `tracing` layer that records every event as one line: level, target, message, then the fields in their order.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

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

//! The span of a call as an interface (`docs/reference/events.md`): its fields, and what is inside it.

use std::sync::{Arc, Mutex};

use idempotency_lambda::{LambdaEvent, idempotent};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::*;

/// Records each span when it closes, and each event with the names of the spans around it.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut line = Line::default();
        attributes.record(&mut line);
        context.span(id).unwrap().extensions_mut().insert(line);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<Line>().unwrap());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let around: Vec<_> = context
            .event_scope(event)
            .into_iter()
            .flatten()
            .map(|span| span.name())
            .collect();
        let line = format!("event {} in {around:?}", line.message);
        self.0.lock().unwrap().push(line);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let of = span.metadata();
        let fields = &span
            .extensions()
            .get::<Line>()
            .unwrap()
            .fields
            .replace(KEY, "{key}");
        let line = format!("{} {} {}:{fields}", of.level(), of.target(), of.name());
        self.0.lock().unwrap().push(line);
    }
}

/// Runs `calls` and returns the spans and events, each as one line.
async fn spans(calls: impl Future<Output = ()>) -> Vec<String> {
    let spans = Spans::default();
    within(spans.clone(), calls).await;
    spans.0.lock().unwrap().clone()
}

#[tokio::test]
async fn the_logs_of_the_handler_are_inside_the_span_and_the_outcome_event_is_not() {
    let harness = Harness::default();
    let charge = charge();
    let lines = spans(async {
        let call = harness.call_with(&charge, order(), async |_| {
            tracing::info!("charging");
            tokio::task::yield_now().await;
            tracing::info!("charged");
            harness.pass(40);
            Ok("s3cr3t response".to_owned())
        });
        call.await.unwrap();
    })
    .await;
    assert_eq!(
        lines,
        [
            "event charging in [\"idempotent call\"]",
            "event charged in [\"idempotent call\"]",
            "event idempotent call in []",
            "INFO idempotency idempotent call: operation=local.shop.charge key={key} outcome=executed handler_ran=true \
             handler=returned stored=true claim=completed store_requests=2 store_ms=0 handler_ms=40",
        ]
    );
}

#[tokio::test]
async fn every_end_of_a_call_is_recorded_in_its_span() {
    let harness = Harness::default();
    harness.call(&charge(), order()).await.unwrap();
    let required = keyed(|of| of.key_required(true));
    let lines = spans(async {
        harness.call(&charge(), order()).await.unwrap();
        harness.call(&required, json!({})).await.unwrap_err();
        drop_a_call(&harness, json!({ "order_id": 2 })).await;
    })
    .await;
    let mut lines: Vec<_> = lines
        .into_iter()
        .filter(|line| !line.starts_with("event"))
        .collect();
    let abandoned = lines.pop().unwrap();
    assert_eq!(
        lines,
        [
            "INFO idempotency idempotent call: operation=local.shop.charge key={key} outcome=replayed source=store \
             handler_ran=false store_requests=1 store_ms=0 handler_ms=0",
            "INFO idempotency idempotent call: operation=local.shop.charge outcome=refused handler_ran=false \
             error=IdempotencyKeyMissing store_requests=0 store_ms=0 handler_ms=0",
        ]
    );
    assert!(
        abandoned.contains("handler=started") && abandoned.contains("outcome=abandoned"),
        "{abandoned}"
    );
}

#[tokio::test]
async fn a_nested_call_has_its_span_inside_the_outer_one() {
    #[idempotent(key = "order_id", key_prefix = "outer-of-spans")]
    async fn outer(event: LambdaEvent<Value>) -> Result<usize, BoxError> {
        inner(event.payload).await
    }

    #[idempotent(payload = order, key = "order_id", key_prefix = "inner-of-spans")]
    async fn inner(order: Value) -> Result<usize, BoxError> {
        tracing::info!("inside");
        Ok(order.as_object().map_or(0, serde_json::Map::len))
    }

    let harness = Harness::default();
    let lines = spans(async {
        let event = LambdaEvent::new(order(), Default::default());
        let call = harness.within(outer(event));
        // A span that is entered in each poll does not prevent that the future moves to another thread.
        fn is_send<T: Send>(value: T) -> T {
            value
        }
        is_send(call).await.unwrap();
    })
    .await;
    let around = r#"["idempotent call", "idempotent call"]"#;
    assert_eq!(lines[0], format!("event inside in {around}"));
    assert_eq!(lines[1], r#"event idempotent call in ["idempotent call"]"#);
}

#[tokio::test]
async fn a_subscriber_that_does_not_want_the_span_still_gets_the_event() {
    use tracing_subscriber::filter::filter_fn;
    let harness = Harness::default();
    let spans = Spans::default();
    let no_spans = filter_fn(|of| of.is_event());
    within(spans.clone().with_filter(no_spans), async {
        harness.call(&charge(), order()).await.unwrap();
    })
    .await;
    let lines = spans.0.lock().unwrap().clone();
    assert_eq!(lines, ["event idempotent call in []"]);
}

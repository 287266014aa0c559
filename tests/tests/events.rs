//! What a `tracing` subscriber sees of each outcome, and what nobody may see.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::{Arc, Mutex};

use idempotency_lambda::BoxError;
use idempotency_tests::{Bench, operation};
use serde_json::json;
use tracing::instrument::WithSubscriber;

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn log_of(calls: impl Future<Output = ()>) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    calls.with_subscriber(subscriber).await;
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn each_outcome_is_an_event_with_its_operation_and_key_and_none_shows_payload_or_answer() {
    let bench = Bench::default();
    let charge = operation()
        .key("order_id")
        .validate("card")
        .build()
        .unwrap();
    let order = |id: u32| json!({ "order_id": id, "card": "s3cr3t" });
    let answer = async |_| Ok("s3cr3t answer".to_owned());
    let log = log_of(async {
        bench.call_with(&charge, order(1), answer).await.unwrap();
        bench.call_with(&charge, order(1), answer).await.unwrap();
        bench
            .call_with(&charge, json!({ "card": "s3cr3t" }), answer)
            .await
            .unwrap();
        bench
            .call_with(
                &charge,
                json!({ "order_id": 1, "card": "other s3cr3t" }),
                answer,
            )
            .await
            .unwrap_err();
        let fails = async |_| Err::<(), BoxError>("declined: s3cr3t".into());
        bench.call_with(&charge, order(2), fails).await.unwrap_err();
    })
    .await;
    for expected in [
        "outcome=\"executed\"",
        "outcome=\"replayed\"",
        "outcome=\"bypassed\"",
        "outcome=\"IdempotencyPayloadMismatch\"",
        "outcome=\"failed\"",
        "operation=\"local.shop.charge\"",
        "key=local.shop.charge#c4ca4238a0b923820dcc509a6f75849b",
    ] {
        assert!(log.contains(expected), "no {expected} in:\n{log}");
    }
    assert!(!log.contains("s3cr3t"), "{log}");
}

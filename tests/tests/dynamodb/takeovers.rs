//! A takeover is known: DynamoDB brings back the claim that a claim replaced.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_lambda::{BoxError, OnTimeout, observe};
use idempotency_tests::{Table, operation};
use serde_json::json;

#[tokio::test]
async fn a_claim_on_the_record_of_a_dropped_run_is_a_takeover_after_the_lease()
-> Result<(), BoxError> {
    let table = Table::start().await?;
    let charge = operation()
        .key("order_id")
        .key_prefix("takeovers")
        .on_timeout(OnTimeout::Rerun)
        .expires_after(Duration::from_secs(3_600))
        .build()?;
    let taken_over = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&taken_over);
    observe(move |call| {
        if call.operation() == "takeovers" {
            seen.lock().unwrap().push(call.taken_over());
        }
    });
    let order = json!({ "order_id": 7 });
    // The first run is dropped in its handler, as a timeout does it. Its claim stays.
    let (begun, begins) = tokio::sync::oneshot::channel();
    let stuck = table.call(&charge, &order, async || {
        let _ = begun.send(());
        std::future::pending::<Result<u8, BoxError>>().await
    });
    tokio::select! { biased; _ = stuck => unreachable!("it is stuck"), _ = begins => {} }
    table.clock.advance(Duration::from_secs(31));
    let again = table.call(&charge, &order, async || Ok(1)).await?;
    assert!(!again.is_replayed());
    // The window of the completed record ends. A claim on it is no takeover.
    table.clock.advance(Duration::from_secs(3_700));
    let later = table.call(&charge, &order, async || Ok(2)).await?;
    assert!(!later.is_replayed());
    assert_eq!(*taken_over.lock().unwrap(), [false, true, false]);
    Ok(())
}

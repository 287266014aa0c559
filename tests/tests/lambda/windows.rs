//! `Call::expires_after`: a handler chooses how long its response is kept, within the window of its operation.

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{
    BoxError, Call, Deadline, LambdaEvent, Lookup, OnInProgress, OnTimeout, Operation,
    OperationBuilder, OutcomeKind, Source, idempotent, with_backend,
};
use idempotency_testkit::events::{self, AwsRecord};
use idempotency_tests::End::{Ran, Replayed};
use idempotency_tests::{End, Harness, end, keyed};
use serde_json::{Value, json};

use crate::{event, let_others_run, order};

const MINUTE: Duration = Duration::from_secs(60);

/// Calls with a handler that asks for a minute, and returns this number.
async fn call(harness: &Harness, charge: &Operation, number: usize) -> End<usize> {
    let call = charge.run(&order(), Deadline::Inherited, async |call: Call| {
        call.expires_after(MINUTE)?;
        Ok::<_, BoxError>(number)
    });
    end(with_backend(harness.backend.clone(), call).await)
}

#[tokio::test]
async fn a_response_is_replayed_for_the_window_that_its_handler_chose() {
    type Set = fn(OperationBuilder) -> OperationBuilder;
    for set in [
        (|of| of) as Set,
        |of| of.local_cache(8),
        |of| of.lookup(Lookup::ReadFirst),
        |of| of.on_timeout(OnTimeout::Hold),
    ] {
        let (harness, charge) = (Harness::default(), keyed(set));
        assert_eq!(call(&harness, &charge, 1).await, Ran(1));
        // The window begins with the second of the completion, and ends with a second.
        harness.pass(60_000);
        assert_eq!(call(&harness, &charge, 2).await, Replayed(1));
        harness.pass(1_000);
        assert_eq!(call(&harness, &charge, 2).await, Ran(2));
    }
}

#[tokio::test]
async fn a_follower_in_the_process_gets_the_window_that_the_leader_chose() {
    let waits = keyed(|of| of.on_in_progress(OnInProgress::Wait));
    let harness = Harness::default();
    let run = async |number: usize| {
        let payload = order();
        let call = waits.run(&payload, Deadline::Inherited, async |call: Call| {
            call.expires_after(MINUTE)?;
            let_others_run(4).await;
            Ok::<_, BoxError>(number)
        });
        with_backend(harness.backend.clone(), call).await
    };
    let (leader, follower) = tokio::join!(run(1), run(2));
    assert_eq!(end(leader), Ran(1));
    let follower = follower.unwrap();
    let OutcomeKind::Replayed(replay) = follower.kind() else {
        panic!("{follower:?}");
    };
    assert_eq!(replay.source(), Source::ConcurrentCall);
    let minute = harness.now().plus(MINUTE).floor_to_seconds();
    assert_eq!(replay.expires_at(), Some(minute));
}

#[idempotent(key = "order_id", key_prefix = "windows.pay", expires_after = "7d")]
async fn pay(event: LambdaEvent<Value>, call: Call) -> Result<bool, BoxError> {
    let authorises_only = event.payload["authorises_only"] == true;
    if !authorises_only {
        call.expires_after(MINUTE)?;
    }
    Ok(authorises_only)
}

#[tokio::test]
async fn each_response_of_a_function_has_a_window_of_its_own() {
    let week = 7 * 24 * 60 * 60;
    for (authorises_only, seconds) in [(true, week), (false, 60)] {
        let harness = Harness::default();
        let order = json!({ "order_id": 1, "authorises_only": authorises_only });
        let paid = harness.within(pay(event(order)));
        assert_eq!(paid.await.unwrap(), authorises_only);
        let (_, record) = crate::only_record(&harness);
        let now = harness.now().floor_to_seconds().get();
        assert_eq!(record.expiration.value().unwrap().get() - now, seconds);
    }
}

#[tokio::test]
async fn each_response_of_a_batch_has_a_window_of_its_own() {
    let (harness, charge) = (Harness::default(), keyed(|of| of));
    let order = |id: u32| json!({ "order_id": id });
    let messages = [1, 2].map(|id| AwsRecord::json(&order(id)));
    let messages = events::sqs("orders").records(messages);
    let event = LambdaEvent::new(
        messages.parse::<SqsEvent>().unwrap(),
        event(json!({})).context,
    );
    let handler = async |order: Value, call: Call| {
        if order["order_id"] == 1 {
            call.expires_after(MINUTE)?;
        }
        Ok::<_, BoxError>(())
    };
    let batch = Batch::new(&charge);
    let response = harness.within(batch.run(event, handler)).await;
    assert!(response.unwrap().batch_item_failures.is_empty());
    let now = harness.now().floor_to_seconds().get();
    for (id, seconds) in [(1, 60), (2, 3_600)] {
        let end = harness.record(&charge, &json!(id)).expiration;
        assert_eq!(end.value().unwrap().get() - now, seconds);
    }
}

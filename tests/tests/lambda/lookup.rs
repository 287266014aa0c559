//! `Operation::lookup` and `Operation::evict`: the key of a run, the checks of the command.

use idempotency_lambda::ErrorKind::{AlreadyInProgress, KeyMissing, PayloadMismatch, Unresolved};
use idempotency_lambda::{
    Context, Deadline, Error, KeyState, OnTimeout, Operation, with_backend, with_invocation,
};
use idempotency_testkit::store::StoreFault::Hang;
use idempotency_testkit::store::StoreOperation::Read;
use idempotency_tests::End::{Ran, Refused, Replayed};
use idempotency_tests::{Harness, claim_of_another, keyed};
use serde::Serialize;
use serde_json::{Value, json};

use crate::outcome_events::recorded;
use crate::{order, order_of};

async fn lookup(
    harness: &Harness,
    charge: &Operation,
    order: Value,
) -> Result<KeyState<usize>, Error> {
    let deadline = harness.deadline_in(std::time::Duration::from_secs(30));
    let found = charge.lookup(&order, deadline);
    with_backend(harness.backend.clone(), found).await
}

async fn evict(harness: &Harness, charge: &Operation, order: Value) -> Result<bool, Error> {
    let evicted = charge.evict(&order, Deadline::Inherited);
    with_backend(harness.backend.clone(), evicted).await
}

#[tokio::test]
async fn a_key_is_looked_up_and_evicted_as_it_is_run() {
    let harness = Harness::default();
    let charge = keyed(|of| of.validate("amount").local_cache(8));
    assert_eq!(
        lookup(&harness, &charge, order()).await.unwrap(),
        KeyState::Free
    );
    assert_eq!(harness.end(&charge, order()).await, Ran(1));
    let KeyState::Completed(outcome) = lookup(&harness, &charge, order()).await.unwrap() else {
        panic!("its response is stored");
    };
    assert_eq!((*outcome.response(), outcome.is_replayed()), (1, true));
    let other = lookup(&harness, &charge, order_of(43)).await.unwrap();
    assert_eq!(other, KeyState::PayloadMismatch);
    let refused = evict(&harness, &charge, order_of(43)).await.unwrap_err();
    assert_eq!(refused.kind(), PayloadMismatch);
    // It is cached in two processes.
    let another = harness.another_process();
    let elsewhere = async || {
        let deadline = harness.deadline_in(std::time::Duration::from_secs(30));
        let call = harness.call_in(another.clone(), deadline, &charge, order(), async |run| {
            Ok(run)
        });
        idempotency_tests::end(call.await)
    };
    assert_eq!(elsewhere().await, Replayed(1));
    assert!(evict(&harness, &charge, order()).await.unwrap());
    assert!(!evict(&harness, &charge, order()).await.unwrap());
    assert_eq!(
        elsewhere().await,
        Replayed(1),
        "the cache of another process"
    );
    assert_eq!(harness.end(&charge, order()).await, Ran(2));
}

#[tokio::test]
async fn a_claim_that_runs_stays_and_one_that_is_held_is_for_an_operator() {
    let (harness, charge) = (
        Harness::default(),
        keyed(|of| of.on_timeout(OnTimeout::Hold)),
    );
    let mut claim = claim_of_another(1_000);
    claim.expiration = claim
        .expiration
        .value()
        .map(|end| idempotency_lambda::time::EpochSeconds::new(end.get() + 400_000_000))
        .into();
    harness.insert(&charge, &json!(7), claim);
    let state = lookup(&harness, &charge, order()).await.unwrap();
    let until = Some(harness.now().plus(std::time::Duration::from_secs(1)));
    assert_eq!(state, KeyState::InProgress { until });
    let refused = evict(&harness, &charge, order()).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.lease_end()),
        (AlreadyInProgress, until)
    );
    harness.pass(1_001);
    // The operation of a tool that leaves out `on_timeout`.
    let tool = keyed(|of| of);
    for operation in [&charge, &tool] {
        let state = lookup(&harness, operation, order()).await.unwrap();
        assert_eq!(state, KeyState::Held);
        let refused = evict(&harness, operation, order()).await.unwrap_err();
        assert_eq!(refused.kind(), Unresolved);
    }
    assert_eq!(harness.end(&charge, order()).await, Refused(Unresolved));
}

#[tokio::test]
async fn a_look_without_a_key_is_no_call_and_has_no_outcome_event() {
    let (harness, charge) = (Harness::default(), keyed(|of| of));
    for payload in [json!({}), Value::String("not an order".to_owned())] {
        let events = recorded(async {
            let found = lookup(&harness, &charge, payload.clone()).await;
            assert_eq!(found.unwrap_err().kind(), KeyMissing);
            let evicted = evict(&harness, &charge, payload.clone()).await;
            assert_eq!(evicted.unwrap_err().kind(), KeyMissing);
        });
        assert_eq!(events.await, [""; 0]);
        let events = recorded(async {
            let end = harness.end(&charge, payload.clone()).await;
            assert_eq!(end, Refused(KeyMissing));
        });
        assert_eq!(events.await.len(), 1);
    }
}

#[tokio::test]
async fn a_handler_cannot_evict_its_own_claim() {
    let (harness, charge) = (Harness::default(), keyed(|of| of));
    let own = async |_| {
        let refused = charge.evict(&order(), Deadline::Inherited).await;
        Ok(refused.unwrap_err().kind() == AlreadyInProgress)
    };
    assert_eq!(harness.end_with(&charge, order(), own).await, Ran(true));
}

#[tokio::test]
async fn a_typed_payload_and_its_tenant_have_the_key_of_a_run() {
    #[derive(Serialize)]
    struct Order {
        order_id: u64,
        amount: u64,
    }
    let (harness, charge) = (Harness::default(), keyed(|of| of.validate("amount")));
    let typed = Order {
        order_id: 7,
        amount: 42,
    };
    let mut tenant = Context::default();
    tenant.tenant_id = Some("blue".to_owned());
    let run = with_invocation(&tenant, harness.end(&charge, order()));
    assert_eq!(run.await, Ran(1));
    let find =
        |deadline: Deadline| with_backend(harness.backend.clone(), charge.lookup(&typed, deadline));
    let found: KeyState<usize> = find(Deadline::Inherited).await.unwrap();
    assert_eq!(found, KeyState::Free, "no tenant");
    let found = find((&tenant).into()).await.unwrap();
    assert!(matches!(found, KeyState::Completed(_)), "{found:?}");
}

#[tokio::test]
async fn a_store_that_hangs_ends_a_look_in_its_time() {
    let (harness, charge) = (Harness::advancing(), keyed(|of| of));
    harness.inject(Read, 1, Hang);
    let error = lookup(&harness, &charge, order()).await.unwrap_err();
    assert_eq!(error.kind(), idempotency_lambda::ErrorKind::StoreFailed);
    assert_eq!(harness.elapsed(), 3_000);
}

//! An order of three steps: reserve, charge, ship. The process dies at each request, before or after it is applied, and the order is
//! retried. On the embedded DynamoDB, through the AWS SDK.
//!
//! The rows are published in `docs/evidence/reliability.md`; the test compares them.

mod edges;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::clock::Clock;
use idempotency_lambda::{
    Backend, BoxError, Call, Deadline, DynamoDbStore, ErrorKind, OnTimeout, Operation, Outcome,
    Steps, with_backend,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_testkit::{ManualClock, SeededRandom};
use idempotency_tests::{START, operation, ours, store_on};
use serde_json::json;

use super::crash_matrix::QuickPauses;

const STEPS: [&str; 3] = ["reserve", "charge", "ship"];

/// The effects of all runs.
#[derive(Default)]
struct World {
    /// How often each effect happened.
    effects: Mutex<BTreeMap<&'static str, usize>>,
    /// The tokens that a provider has seen. It ignores a request whose token it knows.
    provider: Mutex<BTreeSet<String>>,
}

impl World {
    async fn effect(&self, name: &'static str, token: String) -> Result<String, BoxError> {
        *self.effects.lock().unwrap().entry(name).or_default() += 1;
        self.provider.lock().unwrap().insert(token);
        Ok(format!("{name} of one order"))
    }

    fn counts(&self) -> [usize; 3] {
        let effects = self.effects.lock().unwrap();
        STEPS.map(|name| effects.get(name).copied().unwrap_or_default())
    }
}

struct Shop {
    clock: ManualClock,
    store: Arc<FaultyStore<DynamoDbStore>>,
    world: World,
    place: Operation,
    processes: AtomicU64,
}

impl Shop {
    async fn new(database: &EmbeddedDynamoDb, table: &str, steps: Steps) -> Self {
        database.create_table(TableSpec::new(table)).await.unwrap();
        let store = store_on(database).table(table).build().unwrap();
        Self {
            clock: ManualClock::at(START),
            store: Arc::new(FaultyStore::new(store)),
            world: World::default(),
            place: operation().key("order_id").steps(steps).build().unwrap(),
            processes: AtomicU64::new(0),
        }
    }

    /// Returns a new process, which remembers nothing.
    fn process(&self) -> Backend {
        let seed = self.processes.fetch_add(1, Ordering::Relaxed);
        let clock = Arc::new(QuickPauses(self.clock.clone()));
        Backend::new(self.store.clone(), clock, Arc::new(SeededRandom::new(seed)))
    }

    /// Places the order in a new process, which remembers nothing. `after` runs after each step.
    async fn place<F>(&self, after: F) -> Result<Outcome<Vec<String>>, BoxError>
    where
        F: AsyncFn(&'static str) -> Result<(), BoxError>,
    {
        let process = self.process();
        let deadline = Deadline::At(self.clock.now().plus(Duration::from_secs(30)));
        let after = &after;
        let order = async move |call: Call| {
            let mut done = Vec::new();
            for name in STEPS {
                let step = call.named_step(name);
                let token = step.token().to_string();
                done.push(step.run(|| self.world.effect(name, token.clone())).await?);
                after(name).await?;
            }
            Ok::<_, BoxError>(done)
        };
        let placed = self.place.run(&json!({ "order_id": 1 }), deadline, order);
        with_backend(process, placed).await
    }

    async fn place_quietly(&self) -> Result<Outcome<Vec<String>>, BoxError> {
        self.place(async |_| Ok(())).await
    }

    /// Places the order in a process that dies at its request of this kind and number.
    async fn die(&self, (request, number): (StoreOperation, usize), fault: StoreFault) {
        self.store.inject(request, number, fault);
        tokio::select! {
            _ = self.place_quietly() => panic!("the process did not die at {request:?} {number}"),
            () = self.store.hung() => {}
        }
        self.clock.advance(Duration::from_secs(31));
    }

    /// Retries the order until its response is replayed, and checks that there is one response.
    async fn finish(&self) {
        let first = self.place_quietly().await.unwrap();
        let again = self.place_quietly().await.unwrap();
        assert!(again.is_replayed());
        assert_eq!(again.response(), first.response());
        assert_eq!(first.response().len(), STEPS.len());
        assert_eq!(self.world.provider.lock().unwrap().len(), STEPS.len());
    }

    fn requests(&self) -> Vec<StoreOperation> {
        let calls = self.store.calls();
        calls.iter().map(|call| call.operation()).collect()
    }
}

/// The requests of the first run.
const FIRST: [(&str, (StoreOperation, usize)); 5] = [
    ("claim", (StoreOperation::Put, 1)),
    ("record of `reserve`", (StoreOperation::Step, 1)),
    ("record of `charge`", (StoreOperation::Step, 2)),
    ("record of `ship`", (StoreOperation::Step, 3)),
    ("completion", (StoreOperation::Update, 1)),
];

/// The requests of a run that takes over after `reserve` was recorded.
const SECOND: [(&str, (StoreOperation, usize)); 6] = [
    ("refused claim", (StoreOperation::Put, 1)),
    ("takeover", (StoreOperation::Update, 1)),
    ("read of the steps", (StoreOperation::Read, 1)),
    ("second record of `charge`", (StoreOperation::Step, 1)),
    ("second record of `ship`", (StoreOperation::Step, 2)),
    ("second completion", (StoreOperation::Update, 2)),
];

#[tokio::test]
async fn an_order_killed_at_each_request_is_finished_with_one_response() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let mut rows = Vec::new();
    for (number, (name, request)) in FIRST.into_iter().chain(SECOND).enumerate() {
        for (when, fault) in [
            ("before", StoreFault::Hang),
            ("after", StoreFault::HangAfter),
        ] {
            let shop = Shop::new(&database, &format!("{number}-{when}"), Steps::Keep).await;
            if number >= FIRST.len() {
                shop.die(FIRST[1].1, StoreFault::HangAfter).await;
            }
            shop.die(request, fault).await;
            shop.finish().await;
            let [reserve, charge, ship] = shop.world.counts();
            rows.push(format!(
                "| {when} the {name} | {reserve} | {charge} | {ship} |"
            ));
            let recorded = request.0 != StoreOperation::Step || when == "after";
            assert!(
                !recorded || [reserve, charge, ship] == [1, 1, 1],
                "{rows:?}"
            );
        }
    }
    let published = include_str!("../../../docs/evidence/reliability.md");
    let all = rows.join("\n");
    assert!(
        rows.iter().all(|row| published.contains(row.as_str())),
        "docs/evidence/reliability.md does not say:\n{all}"
    );
}

#[tokio::test]
async fn each_record_of_a_step_survives_a_lost_reply() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for fault in [
        StoreFault::LoseReply,
        StoreFault::LoseRequest,
        StoreFault::Resend,
        StoreFault::Throttle,
    ] {
        for number in 1..=3 {
            let shop = Shop::new(&database, &format!("{fault:?}-{number}"), Steps::Keep).await;
            shop.store.inject(StoreOperation::Step, number, fault);
            shop.finish().await;
            assert_eq!(shop.world.counts(), [1, 1, 1], "{fault:?} {number}");
        }
    }
}

#[tokio::test]
async fn a_retry_after_a_failure_keeps_or_forgets_the_steps_by_policy() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for (steps, counts) in [(Steps::Keep, [1, 1, 1]), (Steps::Forget, [2, 2, 1])] {
        let shop = Shop::new(&database, &format!("{steps:?}"), steps).await;
        let failed = shop
            .place(async |name| match name {
                "charge" => Err("the warehouse is closed".into()),
                _ => Ok(()),
            })
            .await;
        assert_eq!(failed.unwrap_err().to_string(), "the warehouse is closed");
        // No lease has to expire: the failure frees the key.
        shop.clock.advance(Duration::from_millis(1));
        shop.finish().await;
        assert_eq!(shop.world.counts(), counts);
    }
}

#[tokio::test]
async fn a_slow_owner_records_nothing_and_gets_the_winners_response() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "slow", Steps::Keep).await;
    let outcome = shop
        .place(async |name| {
            if name == "charge" {
                shop.clock.advance(Duration::from_secs(31));
                let winner = shop.place_quietly().await?;
                assert!(!winner.is_replayed());
            }
            Ok(())
        })
        .await;
    // The step after the takeover does not start: the lease has expired by its own clock.
    let outcome = outcome.map_err(|error| ours(&error).kind());
    assert_eq!(outcome.unwrap_err(), ErrorKind::StepNoTimeLeft);
    assert_eq!(shop.world.counts(), [1, 1, 1]);
    assert!(shop.place_quietly().await.unwrap().is_replayed());
}

#[tokio::test]
async fn an_owner_that_was_taken_over_within_a_step_gets_the_winners_response() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "within", Steps::Keep).await;
    let outcome = {
        let clock = Arc::new(QuickPauses(shop.clock.clone()));
        let process = Backend::new(shop.store.clone(), clock, Arc::new(SeededRandom::new(99)));
        let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
        let order = async |call: Call| {
            let slow = call.step("reserve", || async {
                shop.clock.advance(Duration::from_secs(31));
                shop.place_quietly().await?;
                Ok::<_, BoxError>("reserve of the slow owner".to_owned())
            });
            let error = slow.await.unwrap_err();
            assert_eq!(ours(&error).kind(), ErrorKind::LostOwnership);
            // What the handler returns now is not used.
            Ok::<_, BoxError>(vec!["of the slow owner".to_owned()])
        };
        let placed = shop.place.run(&json!({ "order_id": 1 }), deadline, order);
        with_backend(process, placed).await.unwrap()
    };
    assert!(outcome.is_replayed());
    assert_eq!(outcome.response()[0], "reserve of one order");
    assert_eq!(shop.world.counts(), [1, 1, 1]);
}

#[tokio::test]
async fn the_end_of_the_window_forgets_the_steps() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    // The window begins at the end of the lease, and the run died a second before this.
    for (table, seconds, counts) in [
        ("in-the-window", 3_598, [1, 1, 1]),
        ("window", 3_601, [2, 2, 1]),
    ] {
        let shop = Shop::new(&database, table, Steps::Keep).await;
        shop.die(FIRST[2].1, StoreFault::HangAfter).await;
        shop.clock.advance(Duration::from_secs(seconds));
        shop.finish().await;
        assert_eq!(shop.world.counts(), counts, "{table}");
    }
}

#[tokio::test]
async fn under_hold_a_killed_run_waits_for_an_operator_and_a_failed_one_goes_on() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let mut shop = Shop::new(&database, "hold", Steps::Keep).await;
    let holds = operation().key("order_id").steps(Steps::Keep);
    shop.place = holds.on_timeout(OnTimeout::Hold).build().unwrap();
    let failed = shop
        .place(async |name| match name {
            "reserve" => Err("the bank is closed".into()),
            _ => Ok(()),
        })
        .await;
    assert!(failed.is_err());
    shop.clock.advance(Duration::from_millis(1));
    shop.die((StoreOperation::Step, 1), StoreFault::HangAfter)
        .await;
    let error = shop.place_quietly().await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::Unresolved);
    assert_eq!(shop.world.counts(), [1, 1, 0]);
}

#[tokio::test]
async fn each_path_sends_the_documented_requests() {
    use StoreOperation::{Delete, Put, Read, Step, Update};
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "requests", Steps::Keep).await;
    shop.place_quietly().await.unwrap();
    assert_eq!(shop.requests(), [Put, Step, Step, Step, Update]);
    let before = shop.requests().len();
    shop.place_quietly().await.unwrap();
    assert_eq!(shop.requests()[before..], [Put], "a duplicate");

    let shop = Shop::new(&database, "takeover", Steps::Keep).await;
    shop.die(FIRST[2].1, StoreFault::HangAfter).await;
    let before = shop.requests().len();
    shop.place_quietly().await.unwrap();
    assert_eq!(shop.requests()[before..], [Put, Update, Read, Step, Update]);

    let shop = Shop::new(&database, "failures", Steps::Keep).await;
    let fails = |at: &'static str| {
        shop.place(async move |name| if name == at { Err("no".into()) } else { Ok(()) })
    };
    assert!(fails("charge").await.is_err());
    assert_eq!(shop.requests(), [Put, Step, Step, Update]);

    let shop = Shop::new(&database, "early", Steps::Keep).await;
    let early = async |_: Call| Err::<Vec<String>, BoxError>("no".into());
    let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
    let process = Backend::new(
        shop.store.clone(),
        Arc::new(QuickPauses(shop.clock.clone())),
        Arc::new(SeededRandom::new(7)),
    );
    let failed = shop.place.run(&json!({ "order_id": 1 }), deadline, early);
    assert!(with_backend(process, failed).await.is_err());
    assert_eq!(shop.requests(), [Put, Delete], "no step was recorded");
}

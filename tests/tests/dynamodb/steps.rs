//! An order of three steps: reserve, charge, ship. The process dies at each request, before or after it is applied, and the order is
//! retried. On the embedded DynamoDB.
//!
//! The rows are in `crashes.md`; the test compares them.
//!
//! Steps at their limits: takeovers whose replies are lost, results that do not fit, large responses beside them, other payloads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_core::store::Write;
use idempotency_lambda::{BoxError, Call, ErrorKind, OnTimeout, Operation, Outcome, Steps};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::{StoreFault, StoreOperation};
use idempotency_tests::{NotedRequest, NotingStore, operation, ours, store_on};
use serde_json::{Value, json};

use super::{Processes, Request, assert_published, deaths};

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
    processes: Processes,
    world: World,
    place: Operation,
}

fn order() -> Value {
    json!({ "order_id": 1 })
}

fn closed<R>() -> Result<R, BoxError> {
    Err("the bank is closed".into())
}

impl Shop {
    async fn new(database: &EmbeddedDynamoDb, table: &str, steps: Steps) -> Self {
        Self {
            processes: Processes::on(database, table).await,
            world: World::default(),
            place: operation().key("order_id").steps(steps).build().unwrap(),
        }
    }

    /// Places the order in a new process, which remembers nothing. `after` runs after each step.
    async fn place<F>(&self, after: F) -> Result<Outcome<Vec<String>>, BoxError>
    where
        F: AsyncFn(&'static str) -> Result<(), BoxError>,
    {
        let steps = async |call: Call| {
            let mut done = Vec::new();
            for name in STEPS {
                let step = call.named_step(name);
                let token = step.token().to_string();
                done.push(step.run(|| self.world.effect(name, token.clone())).await?);
                after(name).await?;
            }
            Ok(done)
        };
        self.processes.call(&self.place, &order(), steps).await
    }

    async fn place_quietly(&self) -> Result<Outcome<Vec<String>>, BoxError> {
        self.place(async |_| Ok(())).await
    }

    /// Places the order, which fails after this step.
    async fn fail_after(&self, step: &str) {
        let failed = self.place(async |name| if name == step { closed() } else { Ok(()) });
        assert_eq!(failed.await.unwrap_err().to_string(), "the bank is closed");
        // No lease has to expire: the failure frees the key.
        self.processes.clock.advance(Duration::from_millis(1));
    }

    /// Places the order in a process that dies at this request.
    async fn die(&self, request: Request, fault: StoreFault) {
        let call = self.place_quietly();
        self.processes.die(call, request, fault).await;
    }

    fn inject(&self, request: StoreOperation, number: usize, fault: StoreFault) {
        self.processes.store.inject(request, number, fault);
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
        let noted = self.processes.store.noted().into_iter();
        noted
            .map(|request| match request {
                NotedRequest::Read(..) => StoreOperation::Read,
                NotedRequest::Transact(_) => StoreOperation::Transact,
                NotedRequest::Write(_, Write::Put(_), _) => StoreOperation::Put,
                NotedRequest::Write(_, Write::Update(_), _) => StoreOperation::Update,
                NotedRequest::Write(_, Write::Delete, _) => StoreOperation::Delete,
                NotedRequest::Write(_, Write::Step { .. }, _) => StoreOperation::Step,
            })
            .collect()
    }
}

/// The requests of the first run.
const FIRST: [(&str, Request); 5] = [
    ("claim", (StoreOperation::Put, 1)),
    ("record of `reserve`", (StoreOperation::Step, 1)),
    ("record of `charge`", (StoreOperation::Step, 2)),
    ("record of `ship`", (StoreOperation::Step, 3)),
    ("completion", (StoreOperation::Update, 1)),
];

/// The requests of a run that takes over after `reserve` was recorded.
const SECOND: [(&str, Request); 6] = [
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
    for (death, table, (request, fault, is_second)) in deaths("steps", &FIRST, &SECOND) {
        let shop = Shop::new(&database, &table, Steps::Keep).await;
        if is_second {
            shop.die(FIRST[1].1, StoreFault::HangAfter).await;
        }
        shop.die(request, fault).await;
        shop.finish().await;
        let [reserve, charge, ship] = shop.world.counts();
        rows.push(format!("| {death} | {reserve} | {charge} | {ship} |"));
        let recorded = request.0 != StoreOperation::Step || fault == StoreFault::HangAfter;
        assert!(!recorded || shop.world.counts() == [1; 3], "{rows:?}");
    }
    assert_published(&rows);
}

#[tokio::test]
async fn each_record_of_a_step_survives_a_lost_reply() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    use StoreFault::{LoseReply, LoseRequest, Resend, Throttle};
    for fault in [LoseReply, LoseRequest, Resend, Throttle] {
        for number in 1..=3 {
            let shop = Shop::new(&database, &format!("{fault:?}-{number}"), Steps::Keep).await;
            shop.inject(StoreOperation::Step, number, fault);
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
        shop.fail_after("charge").await;
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
                shop.processes.pass(31);
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
    let steps = async |call: Call| {
        let slow = call.step("reserve", || async {
            shop.processes.pass(31);
            shop.place_quietly().await?;
            Ok::<_, BoxError>("reserve of the slow owner".to_owned())
        });
        let error = slow.await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::LostOwnership);
        // What the handler returns now is not used.
        Ok(vec!["of the slow owner".to_owned()])
    };
    let outcome = shop.processes.call(&shop.place, &order(), steps).await;
    let outcome = outcome.unwrap();
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
        shop.processes.pass(seconds);
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
    shop.fail_after("reserve").await;
    let record = (StoreOperation::Step, 1);
    shop.die(record, StoreFault::HangAfter).await;
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
    shop.fail_after("charge").await;
    assert_eq!(shop.requests(), [Put, Step, Step, Update]);

    let shop = Shop::new(&database, "early", Steps::Keep).await;
    let early = async |_: Call| closed::<Vec<String>>();
    let failed = shop.processes.call(&shop.place, &order(), early).await;
    assert!(failed.is_err());
    assert_eq!(shop.requests(), [Put, Delete], "no step was recorded");
}

/// Returns a shop whose first run died after `reserve` and `charge` were recorded.
async fn killed_after_charge(database: &EmbeddedDynamoDb, table: &str) -> Shop {
    let shop = Shop::new(database, table, Steps::Keep).await;
    let record = (StoreOperation::Step, 2);
    shop.die(record, StoreFault::HangAfter).await;
    shop
}

#[tokio::test]
async fn a_takeover_survives_each_fault_of_its_requests() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    use StoreFault::{LoseReply, LoseRequest, Resend};
    for fault in [LoseReply, LoseRequest, Resend] {
        let shop = killed_after_charge(&database, &format!("{fault:?}")).await;
        shop.inject(StoreOperation::Update, 1, fault);
        shop.finish().await;
        assert_eq!(shop.world.counts(), [1, 1, 1], "{fault:?}");
    }
    // If the read is lost too, the call ends, and releases what it may have taken over. The steps stay.
    for fault in [LoseReply, LoseRequest] {
        let shop = killed_after_charge(&database, &format!("read-{fault:?}")).await;
        shop.inject(StoreOperation::Update, 1, fault);
        shop.inject(StoreOperation::Read, 1, LoseRequest);
        let error = shop.place_quietly().await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
        shop.processes.pass(31);
        shop.finish().await;
        assert_eq!(shop.world.counts(), [1, 1, 1], "{fault:?}");
    }
}

#[tokio::test]
async fn steps_of_another_payload_are_not_used() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    // Without `validate` the whole payload is validated.
    for (number, validate) in [Some("amount"), None].into_iter().enumerate() {
        for steps in [Steps::Keep, Steps::Forget] {
            let table = format!("payloads-{number}-{steps:?}");
            let mut shop = Shop::new(&database, &table, steps).await;
            let mut place = operation().key("order_id").steps(steps);
            if let Some(validate) = validate {
                place = place.validate(validate);
            }
            shop.place = place.build().unwrap();
            keeps_another_payload_out(&shop, steps).await;
        }
    }
}

/// Checks that a run which is killed after its first step, and under `keep` one that fails there, keeps another payload out.
async fn keeps_another_payload_out(shop: &Shop, steps: Steps) {
    let place = async |amount: u32| {
        let steps = async |call: Call| {
            let reserved = call.step("reserve", || shop.world.effect("reserve", "t".to_owned()));
            reserved.await?;
            closed::<Vec<String>>()
        };
        let payload = json!({ "order_id": 1, "amount": amount });
        let placed = shop.processes.call(&shop.place, &payload, steps).await;
        placed.unwrap_err()
    };
    let step = (StoreOperation::Step, 1);
    let killed = shop.processes.die(place(1), step, StoreFault::HangAfter);
    killed.await;
    assert_eq!(ours(&place(2).await).kind(), ErrorKind::PayloadMismatch);
    assert_eq!(place(1).await.to_string(), "the bank is closed");
    assert_eq!(shop.world.counts(), [1, 0, 0], "it is recorded");
    shop.processes.clock.advance(Duration::from_millis(1));
    if steps == Steps::Keep {
        assert_eq!(ours(&place(2).await).kind(), ErrorKind::PayloadMismatch);
        // The window of the steps ends: another payload begins a new run.
        shop.processes.pass(3_602);
    }
    assert_eq!(place(2).await.to_string(), "the bank is closed");
    assert_eq!(shop.world.counts(), [2, 0, 0]);
}

#[tokio::test]
async fn a_record_that_steps_fill_is_taken_over_without_its_event() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("full")).await.unwrap();
    let table = store_on(&database).table("full");
    let store = table.unencrypted_events(true).build().unwrap();
    let mut shop = Shop::new(&database, "unused", Steps::Keep).await;
    shop.processes.store = Arc::new(NotingStore::new(store));
    let place = operation().key("order_id").validate("order_id");
    let place = place.store_event("all").steps(Steps::Keep);
    shop.place = place.build().unwrap();
    let place = async |note: String, fails: bool| {
        let steps = async |call: Call| {
            let result = async { Ok::<_, BoxError>(noise(480_000)) };
            let full: String = call.step("reserve", || result).await?;
            if fails { closed() } else { Ok(full.len()) }
        };
        let payload = json!({ "order_id": 1, "note": note });
        shop.processes.call(&shop.place, &payload, steps).await
    };
    let failed = place("short".to_owned(), true).await;
    assert_eq!(failed.unwrap_err().to_string(), "the bank is closed");
    shop.processes.clock.advance(Duration::from_millis(1));
    let outcome = place(noise(60_000), false).await.unwrap();
    assert_eq!(outcome.response(), &480_000);
}

/// Returns a text that zstd cannot make much smaller.
fn noise(bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let text: String = (0..bytes).map(|_| random.char(' '..'z')).collect();
    text.replace(['"', '\\'], "x")
}

#[tokio::test]
async fn results_share_the_record_and_a_response_of_any_size_completes_it() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "large", Steps::Keep).await;
    let large = async |call: Call| {
        let result = async |bytes| Ok::<_, BoxError>(noise(bytes));
        let first: String = call.step("a", || result(300_000)).await?;
        let second = call.step("b", || result(300_000)).await.unwrap_err();
        assert_eq!(ours(&second).kind(), ErrorKind::StepNotRecorded);
        assert!(second.to_string().contains("too large"), "{second}");
        let compressed: String = call
            .step("c", || async { Ok::<_, BoxError>("c".repeat(1_000_000)) })
            .await?;
        assert_eq!((first.len(), compressed.len()), (300_000, 1_000_000));
        // All results of a key have 6,291,556 bytes at most, however small they are when compressed.
        let longest = call.step("d", || async { Ok::<_, BoxError>("d".repeat(5_000_000)) });
        let refused = longest.await.unwrap_err();
        assert_eq!(ours(&refused).kind(), ErrorKind::StepNotRecorded);
        Ok(vec![noise(1_500_000)])
    };
    let outcome = shop.processes.call(&shop.place, &order(), large).await;
    let outcome = outcome.unwrap();
    let again = shop.place_quietly().await.unwrap();
    assert!(again.is_replayed());
    assert_eq!(again.response(), outcome.response());
}

#[tokio::test]
async fn results_that_were_compressed_are_those_of_the_next_run() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "compressed", Steps::Keep).await;
    let long = "long ".repeat(20_000);
    for is_first in [true, false] {
        let steps = async |call: Call| {
            let result = call.step("reserve", || async {
                assert!(is_first, "it is recorded");
                Ok::<_, BoxError>(long.clone())
            });
            let result: String = result.await?;
            assert!(result == long);
            if is_first { closed() } else { Ok(()) }
        };
        let ended = shop.processes.call(&shop.place, &order(), steps).await;
        assert_eq!(ended.is_err(), is_first);
        shop.processes.clock.advance(Duration::from_millis(1));
    }
}

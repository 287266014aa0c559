//! An order of three steps whose last one is refused: reserve, charge, and no parcel. Its steps are undone. The process dies at each
//! request, before or after it is applied, and the order is retried. On the embedded DynamoDB.
//!
//! The rows are in `crashes.md`; the test compares them.

use std::sync::{Arc, Mutex};

use idempotency_core::protocol::Undoing;
use idempotency_core::record::{Field, Record, Status};
use idempotency_core::store::StoreReply;
use idempotency_lambda::{BoxError, Call, ErrorKind, OnTimeout, Operation, Outcome, Steps, Token};
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::store::{StoreExt, StoreFault, StoreOperation};
use idempotency_tests::{operation, ours};
use serde_json::{Value, json};

use super::{Processes, Request, assert_published, deaths};

const EFFECTS: [&str; 4] = ["reserve", "charge", "refund", "release"];

/// The effects of all runs, with their tokens. A provider ignores a request whose token it knows.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<(&'static str, String)>>>);

impl World {
    fn effect(&self, name: &'static str, token: &Token) {
        let mut effects = self.0.lock().unwrap();
        effects.push((name, token.to_string()));
    }

    fn names(&self) -> Vec<&'static str> {
        let effects = self.0.lock().unwrap();
        effects.iter().map(|(name, _)| *name).collect()
    }

    fn counts(&self) -> [usize; 4] {
        let names = self.names();
        EFFECTS.map(|name| names.iter().filter(|it| **it == name).count())
    }

    /// Returns true if a provider has accepted each effect once.
    fn is_undone(&self) -> bool {
        let mut effects = self.0.lock().unwrap().clone();
        effects.sort();
        effects.dedup();
        effects.len() == EFFECTS.len()
    }
}

/// What happens in a run.
#[derive(Clone, Copy, Default)]
struct Conduct {
    /// The undo of this step fails.
    fails: Option<&'static str>,
    /// The handler does not ask for this step.
    forgets: Option<&'static str>,
}

struct Shop {
    processes: Processes,
    world: World,
    place: Operation,
}

fn order() -> Value {
    json!({ "order_id": 1 })
}

impl Shop {
    async fn new(database: &EmbeddedDynamoDb, table: &str, on_timeout: OnTimeout) -> Self {
        let place = operation().key("order_id").steps(Steps::Keep);
        Self {
            processes: Processes::on(database, table).await,
            world: World::default(),
            place: place.on_timeout(on_timeout).build().unwrap(),
        }
    }

    async fn place(&self, conduct: Conduct) -> Result<Outcome<Value>, BoxError> {
        let steps = async |call: Call| {
            for (name, undo) in [("reserve", "release"), ("charge", "refund")] {
                if conduct.forgets == Some(name) {
                    continue;
                }
                let (step, world) = (call.named_step(name), self.world.clone());
                let token = step.token();
                let step = step.undo(move |result: String, token| {
                    assert_eq!(result, name);
                    let failed = conduct.fails == Some(name);
                    if !failed {
                        world.effect(undo, &token);
                    }
                    std::future::ready(if failed { Err(std::fmt::Error) } else { Ok(()) })
                });
                let effect = || async {
                    self.world.effect(name, &token);
                    Ok::<_, BoxError>(name.to_owned())
                };
                step.run(effect).await?;
            }
            let refused = || async { Ok::<_, BoxError>(None::<String>) };
            match call.step("ship", refused).await? {
                None => Ok(call.undo(json!({ "refused": "no courier" }))),
                Some(parcel) => Ok(json!({ "parcel": parcel })),
            }
        };
        self.processes.call(&self.place, &order(), steps).await
    }

    async fn place_quietly(&self) -> Result<Outcome<Value>, BoxError> {
        self.place(Conduct::default()).await
    }

    async fn die(&self, request: Request, fault: StoreFault) {
        let call = self.place_quietly();
        self.processes.die(call, request, fault).await;
    }

    /// Retries the order until its response is replayed, and checks that everything is undone and that there is one response.
    async fn finish(&self) {
        let refused = json!({ "refused": "no courier" });
        assert_eq!(*self.place_quietly().await.unwrap().response(), refused);
        let again = self.place_quietly().await.unwrap();
        assert!(again.is_replayed());
        assert_eq!(*again.response(), refused);
        assert!(self.world.is_undone(), "{:?}", self.world.names());
        let names = self.world.names();
        let first = names.iter().position(|name| *name == "refund").unwrap();
        let goes_back = |name: &&str| matches!(*name, "refund" | "release");
        assert!(names[first..].iter().all(goes_back), "{names:?}");
        let undoing = self.undoing().await;
        assert_eq!((undoing.left.len(), undoing.undone.len()), (0, 2));
    }

    async fn record(&self) -> Record {
        let noted = self.processes.store.noted();
        let id = noted[0].id().unwrap();
        match self.processes.store.inner().get(id).await {
            StoreReply::Found { record, .. } => record.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn undoing(&self) -> Undoing {
        Undoing::of(&self.record().await).unwrap()
    }
}

/// The requests of the first run.
const FIRST: [(&str, Request); 7] = [
    ("claim", (StoreOperation::Put, 1)),
    ("record of `reserve`", (StoreOperation::Step, 1)),
    ("record of `charge`", (StoreOperation::Step, 2)),
    ("record of `ship`", (StoreOperation::Step, 3)),
    ("decision", (StoreOperation::Update, 1)),
    ("record of the refund", (StoreOperation::Update, 2)),
    ("completion", (StoreOperation::Update, 3)),
];

/// The requests of a run that takes over after the decision.
const SECOND: [(&str, Request); 5] = [
    ("refused claim", (StoreOperation::Put, 1)),
    ("takeover", (StoreOperation::Update, 1)),
    ("read of what is decided", (StoreOperation::Read, 1)),
    ("second record of the refund", (StoreOperation::Update, 2)),
    ("second completion", (StoreOperation::Update, 3)),
];

#[tokio::test]
async fn an_order_killed_at_each_request_of_its_undoing_is_undone_with_one_response() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let mut rows = Vec::new();
    for (death, table, (request, fault, is_second)) in deaths("undo", &FIRST, &SECOND) {
        let shop = Shop::new(&database, &table, OnTimeout::Rerun).await;
        if is_second {
            shop.die(FIRST[4].1, StoreFault::HangAfter).await;
        }
        shop.die(request, fault).await;
        shop.finish().await;
        let [reserve, charge, refund, release] = shop.world.counts();
        rows.push(format!(
            "| {death} | {reserve} | {charge} | {refund} | {release} |"
        ));
    }
    assert_published(&rows);
}

#[tokio::test]
async fn each_write_of_an_undoing_survives_a_lost_reply() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    use StoreFault::{LoseReply, LoseRequest, Resend, Throttle};
    for fault in [LoseReply, LoseRequest, Resend, Throttle] {
        for number in 1..=3 {
            let table = format!("undo-{fault:?}-{number}");
            let shop = Shop::new(&database, &table, OnTimeout::Rerun).await;
            shop.processes
                .store
                .inject(StoreOperation::Update, number, fault);
            shop.finish().await;
            assert_eq!(shop.world.counts(), [1; 4], "{fault:?} {number}");
        }
    }
}

#[tokio::test]
async fn a_failed_undo_is_tried_by_three_runs_and_then_waits_for_an_operator() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        let table = format!("undo-fails-{on_timeout:?}");
        let shop = Shop::new(&database, &table, on_timeout).await;
        let fails = Conduct {
            fails: Some("reserve"),
            ..Conduct::default()
        };
        for failures in 1..=3 {
            let error = shop.place(fails).await.unwrap_err();
            assert_eq!(ours(&error).kind(), ErrorKind::StepNotUndone);
            shop.processes
                .clock
                .advance(std::time::Duration::from_millis(1));
            let undoing = shop.undoing().await;
            assert_eq!(undoing.undone, ["charge"], "what is undone stays undone");
            assert_eq!((undoing.failures, undoing.held), (failures, failures == 3));
        }
        let error = shop.place_quietly().await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::Unresolved);
        assert_eq!(shop.world.counts(), [1, 1, 1, 0]);
        let record = shop.record().await;
        assert_eq!(record.status, Field::Value(Status::Undoing));
        let failure = record.failure.value().unwrap();
        assert_eq!(failure, "the undo of `reserve` failed: core::fmt::Error");
    }
}

#[tokio::test]
async fn under_hold_a_run_that_was_killed_while_it_undid_waits_for_an_operator() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "undo-held", OnTimeout::Hold).await;
    shop.die(FIRST[5].1, StoreFault::Hang).await;
    let error = shop.place_quietly().await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::Unresolved);
    assert_eq!(shop.world.counts(), [1, 1, 1, 0]);
}

#[tokio::test]
async fn an_undoing_outlives_the_window_and_no_run_without_its_steps_goes_forward() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let mut shop = Shop::new(&database, "undo-late", OnTimeout::Rerun).await;
    shop.die(FIRST[4].1, StoreFault::HangAfter).await;
    shop.processes.pass(90 * 24 * 3_600);
    // A version of the code that does not ask for a step, and one without steps.
    let forgets = Conduct {
        forgets: Some("charge"),
        ..Conduct::default()
    };
    let text = shop.place(forgets).await.unwrap_err().to_string();
    assert!(text.contains("without an undo: `charge`"), "{text}");
    let with_steps = std::mem::replace(
        &mut shop.place,
        operation().key("order_id").build().unwrap(),
    );
    shop.processes.pass(31);
    let error = shop.place_quietly().await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::Unresolved);
    shop.place = with_steps;
    shop.finish().await;
    assert_eq!(shop.world.counts(), [1; 4]);
}

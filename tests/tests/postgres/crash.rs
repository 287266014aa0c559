//! A server that is killed in the middle of writes: what was acknowledged stays, and no key has two owners.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idempotency_core::protocol::condition::claimable;
use idempotency_core::protocol::condition::held_by;
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Data, Field, OwnerToken, Record, RecordId, Status};
use idempotency_core::store::{
    Change, Consistency, SendLog, Store, StoreReply, StoreRequest, Write,
};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_postgres::{MIGRATION, PostgresStore};

use idempotency_tests::postgres::{Server, empty_database, execute, store, url};

const WORKERS: u8 = 6;
const KEYS: usize = 400;
const KILLS: usize = 5;

/// What a worker knows of its claims and completions.
#[derive(Default)]
struct Seen {
    /// The keys that it claimed, or may have claimed.
    claimed: BTreeMap<usize, bool>,
    /// The keys that it completed, or may have completed.
    completed: BTreeMap<usize, bool>,
}

/// Claims each key, and completes those that it got. Goes on while the server is away.
async fn work(store: Arc<PostgresStore>, number: u8, done: Arc<AtomicUsize>) -> Seen {
    let owner = OwnerToken::from_bytes([number; 16]);
    let now = EpochMillis::new(1_700_000_000_500);
    let put = Write::Put(Record {
        expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(now.get() + 60_000)),
        status: Field::Value(Status::InProgress),
        owner: Field::Value(owner.clone()),
        ..Record::default()
    });
    let set = Record {
        status: Field::Value(Status::Completed),
        data: Field::Value(Data::new(number.to_string())),
        ..Record::default()
    };
    let update = Write::Update(Change {
        set,
        remove: Vec::new(),
    });
    let (claimable, fence) = (claimable(now, OnTimeout::Rerun), held_by(&owner));
    let mut seen = Seen::default();
    for key in 0..KEYS {
        let id = RecordId::new(format!("pay#{key}"));
        let claim = StoreRequest::write(&id, &put, &claimable);
        if let Some(confirmed) = confirmed(store.send(claim, &SendLog::new()).await) {
            seen.claimed.insert(key, confirmed);
        }
        done.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if !seen.claimed.contains_key(&key) {
            continue;
        }
        let complete = StoreRequest::write(&id, &update, &fence);
        if let Some(confirmed) = confirmed(store.send(complete, &SendLog::new()).await) {
            seen.completed.insert(key, confirmed);
        }
    }
    seen
}

/// Returns true if the write was applied, and false if it may have been. `None`: it was not.
fn confirmed(reply: StoreReply) -> Option<bool> {
    match reply {
        StoreReply::Applied { .. } => Some(true),
        StoreReply::Failed {
            maybe_applied: true,
            ..
        } => Some(false),
        StoreReply::Failed { .. } | StoreReply::ConditionFailed { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_kill_and_no_key_has_two_owners() {
    let mut server = Server::start(&["max_connections=50"]);
    let url = url(
        server.address(),
        "postgres",
        &empty_database(server.address()).await,
    );
    execute(&url, MIGRATION).await;
    let done = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (1..=WORKERS)
        .map(|number| {
            let store = Arc::new(store(&url, 1));
            (number, tokio::spawn(work(store, number, Arc::clone(&done))))
        })
        .collect();
    let all = KEYS * usize::from(WORKERS);
    for kill in 1..=KILLS {
        let reached = all * kill / (KILLS + 1);
        while done.load(Ordering::Relaxed) < reached {
            tokio::task::yield_now().await;
        }
        server.kill();
        server.restart(&["max_connections=50"]);
    }
    let reader = store(&url, 1);
    let mut seen = Vec::new();
    for (number, worker) in workers {
        seen.push((number, worker.await.unwrap()));
    }
    let mut records = 0;
    for key in 0..KEYS {
        let id = RecordId::new(format!("pay#{key}"));
        let read = StoreRequest::Read(&id, Consistency::Strong);
        let StoreReply::Found { record, .. } = reader.send(read, &SendLog::new()).await else {
            panic!("the record cannot be read");
        };
        let sure: Vec<_> = seen
            .iter()
            .filter(|(_, seen)| seen.claimed.get(&key) == Some(&true))
            .collect();
        assert!(sure.len() <= 1, "two workers claimed {key}");
        let Some(record) = record else {
            assert!(
                sure.is_empty(),
                "the claim of {key} was acknowledged and is gone"
            );
            continue;
        };
        records += 1;
        let holder = record.owner.value().unwrap();
        let (number, of_holder) = seen
            .iter()
            .find(|(number, _)| *holder == OwnerToken::from_bytes([*number; 16]))
            .unwrap();
        assert!(
            of_holder.claimed.contains_key(&key),
            "{key} has an owner that never claimed it"
        );
        assert!(
            sure.iter().all(|(other, _)| other == number),
            "{key} was acknowledged to another worker"
        );
        match of_holder.completed.get(&key) {
            Some(true) => assert_eq!(
                record.data,
                Field::Value(Data::new(number.to_string())),
                "the response of {key} is gone"
            ),
            Some(false) => {}
            None => assert!(
                !record.data.exists(),
                "{key} has a response that was refused"
            ),
        }
        let completed = seen
            .iter()
            .filter(|(_, seen)| seen.completed.get(&key) == Some(&true));
        assert!(completed.count() <= 1, "{key} has two responses");
    }
    assert!(
        records > KEYS / 2,
        "{records} records: the server was away for too long"
    );
}

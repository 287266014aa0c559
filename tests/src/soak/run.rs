//! One run of one side: the deliveries, then a sweep without faults.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::Request;
use tokio::task::JoinSet;

use super::bank::Transfer;
use super::client::{Delivery, DeliveryResult, Invoker};
use super::database::{Applied, Database};
use super::faults::{Faults, InjectedFault};
use super::function::{RunStart, micros};
use super::processes::{Processes, Side};
use super::{Plan, lock};

/// How long a key may stay in progress after the faults have ended: more than the longest deadline.
const CALM: Duration = Duration::from_secs(20);

/// Everything that happened in a run.
pub struct Played {
    /// When the first delivery was made, in microseconds since the epoch.
    pub(super) began_us: u64,
    /// How long deliveries were made, without the sweep.
    pub(super) time: Duration,
    pub(super) deliveries: Vec<Delivery>,
    /// The deliveries of the sweep: each key once more, without faults.
    pub(super) swept: Vec<Delivery>,
    /// The keys that got no response in the sweep.
    pub(super) stuck: Vec<String>,
    pub(super) runs: Vec<RunStart>,
    /// The requests to DynamoDB.
    pub(super) requests: Vec<Request>,
    /// The number of requests to the store.
    pub(super) received: usize,
    pub(super) writes: Vec<Applied>,
    /// The transfers of money that were applied.
    pub(super) transfers: Vec<Transfer>,
    pub(super) struck: Vec<InjectedFault>,
    /// What happened to processes and to the store besides these faults of requests.
    pub(super) troubles: Vec<InjectedFault>,
    /// When a process was frozen, in microseconds since the epoch.
    pub(super) frozen: Vec<RangeInclusive<u64>>,
}

impl Played {
    /// Returns the number of transfers of money that were applied.
    pub fn transfers(&self) -> usize {
        self.transfers.len()
    }

    /// Returns the number of renewals that were applied.
    pub fn renewals(&self) -> usize {
        self.writes.iter().filter(|write| write.renews).count()
    }
}

/// Plays the plan on one side.
///
/// # Errors
///
/// If the processes or the database do not start, or if an account does not have what the transfers left in it.
pub async fn run(side: &Side, plan: &Plan) -> Result<Played, BoxError> {
    let database = Arc::new(Database::start(plan.store).await?);
    let processes = Processes::start(side, plan, &database).await?;
    let (faults, troubles) = (Faults::default(), Faults::default());
    database.strike(&faults, plan.seed, plan.faults);
    let invoker = Invoker {
        processes: Arc::clone(&processes),
        deliveries: Arc::default(),
        deadlines: plan.deadlines.clone(),
        overruns: plan.overruns,
        server: plan.server,
    };

    let (began, began_us) = (Instant::now(), micros(SystemTime::now()));
    let mut trouble = JoinSet::new();
    if let Some(every) = plan.kill_every {
        let (processes, seed, noted) = (Arc::clone(&processes), plan.seed, troubles.clone());
        trouble.spawn(async move { processes.kill(every, seed, &noted).await });
    }
    if let Some(every) = plan.stop_every {
        let (processes, seed, noted) = (Arc::clone(&processes), plan.seed, troubles.clone());
        trouble.spawn(async move { processes.stop(every, seed, &noted).await });
    }
    if let Some(every) = plan.trouble_every {
        let (database, seed, noted) = (Arc::clone(&database), plan.seed, troubles.clone());
        trouble.spawn(async move {
            if let Err(error) = database.trouble(every, seed, &noted).await {
                eprintln!("the server was left alone: {error}");
            }
        });
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..plan.clients {
        let (invoker, next, plan) = (invoker.clone(), Arc::clone(&next), plan.clone());
        clients.spawn(async move {
            while began.elapsed() < plan.time {
                let key = next.fetch_add(1, Ordering::Relaxed);
                if key >= plan.keys {
                    break;
                }
                invoker.serve(plan.seed, key).await?;
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let time = began.elapsed();
    trouble.shutdown().await;
    database.calm()?;
    let deliveries = std::mem::take(&mut *lock(&invoker.deliveries));

    let stuck = sweep(&invoker, &deliveries).await?;
    let swept = std::mem::take(&mut *lock(&invoker.deliveries));
    Ok(Played {
        began_us,
        time,
        stuck,
        swept,
        deliveries,
        runs: runs(plan)?,
        requests: database.requests(),
        received: database.received(),
        writes: database.writes().await?,
        transfers: database.transfers().await?,
        struck: faults.all(),
        troubles: troubles.all(),
        frozen: processes.frozen(),
    })
}

/// Delivers every key once more, and returns the keys that get no response.
async fn sweep(invoker: &Invoker, deliveries: &[Delivery]) -> Result<Vec<String>, BoxError> {
    let keys = deliveries.iter().map(|delivery| delivery.key.clone());
    let keys = Arc::new(Mutex::new(keys.collect::<BTreeSet<_>>()));
    let until = Instant::now() + CALM;
    let mut sweepers = JoinSet::new();
    for _ in 0..4 {
        let (invoker, keys) = (invoker.clone(), Arc::clone(&keys));
        sweepers.spawn(async move {
            let mut stuck = Vec::new();
            loop {
                let Some(key) = lock(&keys).pop_first() else {
                    return Ok::<_, BoxError>(stuck);
                };
                let ended = invoker.sweep(&key, until).await?;
                if !matches!(ended, DeliveryResult::Response(_)) {
                    stuck.push(key);
                }
            }
        });
    }
    let mut stuck = Vec::new();
    while let Some(sweeper) = sweepers.join_next().await {
        stuck.extend(sweeper??);
    }
    Ok(stuck)
}

/// Returns the runs that the processes recorded.
fn runs(plan: &Plan) -> Result<Vec<RunStart>, BoxError> {
    let mut runs = Vec::new();
    for file in std::fs::read_dir(&plan.folder)? {
        for line in std::fs::read_to_string(file?.path())?.lines() {
            runs.push(serde_json::from_str(line)?);
        }
    }
    Ok(runs)
}

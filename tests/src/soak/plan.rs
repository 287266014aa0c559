//! How much is delivered, and how much goes wrong.

use std::path::PathBuf;
use std::time::Duration;

/// The bounds of one run, and its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all choices follow from.
    pub seed: u64,
    /// How many keys are delivered at most.
    pub keys: u64,
    /// No delivery of a new key begins after this time.
    pub time: Duration,
    /// How many clients deliver at the same time, each a key of its own.
    pub clients: u64,
    /// How many processes of each slowness.
    pub processes: usize,
    /// How many events one process takes at a time; more than one meet there. Python takes one.
    pub events: usize,
    /// The functions' timeouts; each key has one of them.
    pub deadlines: Vec<Duration>,
    /// How many of 1,000 deliveries run beyond their deadline, in a process that nobody kills for it: a late owner.
    pub overruns: u64,
    /// How many of 1,000 requests to DynamoDB go wrong.
    pub faults: u64,
    /// How often a process is killed, on average; `None` is never.
    pub kill_every: Option<Duration>,
    /// How often a process is stopped for a while, on average; `None` is never.
    pub stop_every: Option<Duration>,
    /// Where the processes note their runs: an empty folder of this run's own.
    pub folder: PathBuf,
}

impl Plan {
    /// A run of a minute, with everything that can go wrong.
    pub fn new(seed: u64, folder: PathBuf) -> Self {
        Self {
            seed,
            keys: u64::MAX,
            time: Duration::from_secs(60),
            clients: 12,
            processes: 2,
            events: 1,
            deadlines: [1, 2, 3, 10].map(Duration::from_secs).to_vec(),
            overruns: 8,
            faults: 100,
            kill_every: Some(Duration::from_secs(4)),
            stop_every: Some(Duration::from_secs(4)),
            folder,
        }
    }
}

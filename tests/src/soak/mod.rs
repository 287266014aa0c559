//! The soak: real function processes on one table, while processes die and requests to the table go wrong.
//!
//! Clients deliver events to processes that run at different speeds. Processes are killed and frozen at random moments.
//! One request in ten to DynamoDB is throttled, fails, is lost or is late (`faults`). A server of Valkey or PostgreSQL dies, freezes and is cut
//! off. On PostgreSQL the handler can move money in the transaction of its response (`bank`). The soak records what each caller received and which handlers ran, and [`check`] compares that with the promises. All choices follow from a
//! seed; the order in which real processes run does not.
//!
//! The function is written in Rust (`function`), or in Python with the library whose records we share
//! (`tests/interop/soak.py`). The one in Rust is a function on Lambda, or a server that renews its leases (`server`).

mod bank;
mod check;
mod client;
mod database;
mod faults;
mod function;
mod processes;
mod report;
mod run;
mod server;

pub use check::check;
pub use database::SoakStore;
pub use function::{ROLE, serve};
pub use processes::Side;
pub use report::Report;
pub use run::{Played, run};

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all choices.
    pub seed: u64,
    /// The largest number of keys.
    pub keys: u64,
    /// No new key is delivered after this time.
    pub time: Duration,
    /// How many keys are delivered at the same time.
    pub clients: u64,
    /// The number of processes of each slowness.
    pub processes: usize,
    /// How many events one process takes at a time. Python takes one.
    pub events: usize,
    /// The possible timeouts of the function. Each key has one of them.
    pub deadlines: Vec<Duration>,
    /// How many of 1,000 deliveries overrun their deadline in a process that is not killed for it (a late owner).
    pub overruns: u64,
    /// How many of 1,000 requests to DynamoDB get a fault.
    pub faults: u64,
    /// The mean time between two kills of a process; `None` for no kills.
    pub kill_every: Option<Duration>,
    /// The mean time between two pauses (SIGSTOP) of a process; `None` for no pauses.
    pub stop_every: Option<Duration>,
    /// The mean time between two troubles of a server of Valkey or PostgreSQL: a restart, a freeze, cut connections; `None` for none.
    pub trouble_every: Option<Duration>,
    /// The store of the function.
    pub store: SoakStore,
    /// True for a function that is an HTTP server with renewed leases, and not on Lambda.
    pub server: bool,
    /// The folder in which the processes record their runs. It must be empty.
    pub folder: PathBuf,
}

impl Plan {
    /// Returns the parameters of a run of one minute with every kind of fault.
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
            trouble_every: Some(Duration::from_secs(4)),
            store: SoakStore::DynamoDb,
            server: false,
            folder,
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

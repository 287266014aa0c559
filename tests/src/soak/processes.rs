//! The processes of one side: slow and quick ones. They are killed, stopped and replaced.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, LocalLambda};
use tokio::sync::Notify;

use super::faults::Chance;
use super::function::{FOLDER, ROLE, SLOWNESS};
use super::{Plan, lock};

/// The factors by which the processes are slower.
const SLOWNESSES: [u64; 3] = [1, 2, 5];

/// Which function is run: the one in Rust, or the one in Python.
pub struct Side {
    /// The name in reports.
    pub name: &'static str,
    /// Returns the command of a process.
    pub command: Box<dyn Fn() -> Command + Send + Sync>,
    /// True for our function. Broken promises of the other side are counted, but do not fail the soak.
    pub ours: bool,
}

/// All processes, idle and busy.
pub(super) struct Processes {
    lambdas: Vec<LocalLambda>,
    events: usize,
    /// One entry for each event that can be taken.
    idle: Mutex<VecDeque<Process>>,
    returned: Notify,
    living: Mutex<Vec<FunctionProcess>>,
}

/// A slot for one event in a process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) environment: FunctionProcess,
    lambda: usize,
    last: bool,
}

impl Processes {
    pub(super) async fn start(
        side: &Side,
        plan: &Plan,
        database: &EmbeddedDynamoDb,
    ) -> Result<Arc<Self>, BoxError> {
        let mut lambdas = Vec::new();
        for slowness in SLOWNESSES {
            let function = FunctionSpec::new("soak", (side.command)())
                .envs(database.environment())
                .env("IDEMPOTENCY_TABLE", "idempotency")
                .env("NO_PROXY", "127.0.0.1")
                .env("AWS_EC2_METADATA_DISABLED", "true")
                .concurrency(plan.events)
                .env(ROLE, "yes")
                .env(FOLDER, &plan.folder)
                .env(SLOWNESS, slowness.to_string());
            lambdas.push(LocalLambda::start(function).await?);
        }
        let processes = Arc::new(Self {
            lambdas,
            idle: Mutex::default(),
            events: plan.events,
            returned: Notify::new(),
            living: Mutex::default(),
        });
        for _ in 0..plan.processes {
            for lambda in 0..SLOWNESSES.len() {
                processes.add(lambda).await?;
            }
        }
        Ok(processes)
    }

    async fn add(&self, lambda: usize) -> Result<(), BoxError> {
        let environment = self.lambdas[lambda].start_process().await?;
        environment.ready().await?;
        lock(&self.living).push(environment.clone());
        // Only the last slot replaces a dead process, so that it is replaced once.
        for place in 1..=self.events {
            self.give_back(Process {
                environment: environment.clone(),
                lambda,
                last: place == self.events,
            });
        }
        Ok(())
    }

    /// Waits for an idle process.
    pub(super) async fn take(self: &Arc<Self>) -> Process {
        loop {
            let mut returned = std::pin::pin!(self.returned.notified());
            // Before the look: a process that is given back in between wakes this wait.
            returned.as_mut().enable();
            let process = lock(&self.idle).pop_front();
            match process {
                Some(process) if process.environment.is_alive() => return process,
                Some(process) => self.replace(process),
                None => returned.as_mut().await,
            }
        }
    }

    /// Returns a process after its event. A dead one is replaced.
    pub(super) fn done(self: &Arc<Self>, process: Process) {
        if process.environment.is_alive() {
            self.give_back(process);
        } else {
            self.replace(process);
        }
    }

    fn give_back(&self, process: Process) {
        lock(&self.idle).push_back(process);
        self.returned.notify_one();
    }

    fn replace(self: &Arc<Self>, process: Process) {
        if !process.last {
            return;
        }
        lock(&self.living).retain(FunctionProcess::is_alive);
        let processes = Arc::clone(self);
        tokio::spawn(async move {
            // A process may be killed while it starts.
            while let Err(error) = processes.add(process.lambda).await {
                eprintln!("a process did not start: {error}");
            }
        });
    }

    /// Kills processes at random moments until the task is aborted.
    pub(super) async fn kill(&self, every: Duration, seed: u64) {
        let mut chance = Chance::of(seed, "kill");
        loop {
            if let Some(environment) = self.chosen(every, &mut chance).await {
                environment.kill().await;
            }
        }
    }

    /// Stops processes for a while at random moments until the task is aborted.
    pub(super) async fn stop(&self, every: Duration, seed: u64) {
        let mut chance = Chance::of(seed, "stop");
        loop {
            let environment = self.chosen(every, &mut chance).await;
            if let Some(process_id) = environment.and_then(|chosen| chosen.process_id()) {
                let stopped = Stopped::new(process_id);
                tokio::time::sleep(chance.spread(50, 2_000)).await;
                drop(stopped);
            }
        }
    }

    /// Waits about this long. Returns a random process, if it is alive.
    async fn chosen(&self, every: Duration, chance: &mut Chance) -> Option<FunctionProcess> {
        let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(every / 2 + chance.below(every));
        tokio::time::sleep(pause).await;
        let living = lock(&self.living);
        let chosen = usize::try_from(chance.below(living.len() as u64)).ok()?;
        let chosen = living.get(chosen)?;
        chosen.is_alive().then(|| chosen.clone())
    }
}

/// A process that is stopped until this value is dropped.
struct Stopped(u32);

impl Stopped {
    fn new(process_id: u32) -> Self {
        signal("-STOP", process_id);
        Self(process_id)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

/// Sends a signal. It fails if the process has just ended; that does not matter.
fn signal(signal: &str, process_id: u32) {
    let _ = Command::new("kill")
        .args([signal, &process_id.to_string()])
        .stderr(std::process::Stdio::null())
        .status();
}

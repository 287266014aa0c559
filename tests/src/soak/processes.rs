//! The processes of one side: slow and quick ones. They are killed, frozen and replaced.

use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use idempotency_lambda::BoxError;
use idempotency_testkit::lambda::{FunctionProcess, FunctionSpec, LocalLambda};
use tokio::sync::Notify;

use super::client::DeliveryResult;
use super::database::Database;
use super::faults::{Chance, Faults};
use super::function::{Event, FOLDER, ROLE, SERVER, SLOWNESS, micros};
use super::server::ServerProcess;
use super::{Plan, lock};
use crate::valkey::Frozen;

/// The factors by which the processes are slower.
const SLOWNESSES: [u64; 3] = [1, 2, 5];

/// Which function is run: the one in Rust, or the one in Python.
pub struct Side {
    /// The name in reports.
    pub name: &'static str,
    /// Returns the command of a process.
    pub command: Arc<dyn Fn() -> Command + Send + Sync>,
    /// True for our function. Broken promises of the other side are counted, but do not fail the soak.
    pub ours: bool,
}

impl Side {
    /// Returns our function in a process of this test program: its test `soak::the_function`.
    ///
    /// # Errors
    ///
    /// If the path of this program is not known.
    pub fn of_this_program() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self {
            name: "ours",
            command: Arc::new(move || {
                let mut command = Command::new(&program);
                command.args(["soak::the_function", "--exact", "--nocapture"]);
                command
            }),
            ours: true,
        })
    }
}

/// All processes, idle and busy.
pub(super) struct Processes {
    /// What starts the processes of each slowness.
    starters: Vec<Starter>,
    events: usize,
    /// One entry for each event that can be taken.
    idle: Mutex<VecDeque<Process>>,
    returned: Notify,
    living: Mutex<Vec<Environment>>,
    /// When a process was frozen, in microseconds since the epoch.
    frozen: Mutex<Vec<RangeInclusive<u64>>>,
}

/// What starts a process.
enum Starter {
    Lambda(LocalLambda),
    Server(Box<dyn Fn() -> Command + Send + Sync>),
}

/// A process: of the local Lambda, or a server.
#[derive(Clone)]
pub(super) enum Environment {
    Lambda(FunctionProcess),
    Server(ServerProcess),
}

impl Environment {
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Lambda(process) => process.is_alive(),
            Self::Server(process) => process.is_alive(),
        }
    }

    async fn kill(&self) {
        match self {
            Self::Lambda(process) => process.kill().await,
            Self::Server(process) => process.kill(),
        }
    }

    fn process_id(&self) -> Option<u32> {
        match self {
            Self::Lambda(process) => process.process_id(),
            Self::Server(process) => Some(process.process_id()),
        }
    }

    /// Delivers an event. If it `overruns`, a function survives its deadline, which makes it a late owner. Lambda would kill it.
    pub(super) async fn deliver(
        &self,
        event: &Event,
        request_id: &str,
        deadline: Duration,
        overruns: bool,
    ) -> Result<DeliveryResult, BoxError> {
        let process = match self {
            Self::Server(process) => return process.deliver(event, request_id, deadline).await,
            Self::Lambda(process) => process,
        };
        let pending = process
            .invoke(serde_json::to_string(event)?)
            .deadline_in(deadline)
            .enforce_deadline(!overruns)
            .request_id(request_id)
            .start();
        Ok(match pending.await {
            Ok(reply) => DeliveryResult::Response(reply.payload),
            Err(error) => match error.error_type.as_str() {
                "Sandbox.Timedout" => DeliveryResult::Error("timed out".into(), String::new()),
                "Runtime.ExitError" => DeliveryResult::Killed,
                "Runtime.InvalidEntrypoint" | "InvalidRequestContentException" => {
                    return Err(error.into());
                }
                _ => DeliveryResult::Error(error.error_type, error.error_message),
            },
        })
    }
}

/// A slot for one event in a process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) environment: Environment,
    starter: usize,
    /// True for the last slot of its process. This slot alone replaces a dead process, so that it is replaced once.
    last: bool,
}

impl Processes {
    pub(super) async fn start(
        side: &Side,
        plan: &Plan,
        database: &Database,
    ) -> Result<Arc<Self>, BoxError> {
        let mut starters = Vec::new();
        for slowness in SLOWNESSES {
            let (slowness, folder) = (slowness.to_string(), plan.folder.clone());
            let (command, variables) = (Arc::clone(&side.command), database.environment());
            starters.push(if plan.server {
                Starter::Server(Box::new(move || {
                    let mut command = command();
                    command.envs(variables.clone()).env(SERVER, "yes");
                    command
                        .env(ROLE, "yes")
                        .env(FOLDER, &folder)
                        .env(SLOWNESS, &slowness);
                    command
                }))
            } else {
                let function = FunctionSpec::new("soak", command())
                    .envs(variables)
                    .concurrency(plan.events)
                    .env(ROLE, "yes")
                    .env(FOLDER, &folder)
                    .env(SLOWNESS, slowness);
                Starter::Lambda(LocalLambda::start(function).await?)
            });
        }
        let processes = Arc::new(Self {
            starters,
            idle: Mutex::default(),
            events: plan.events,
            returned: Notify::new(),
            living: Mutex::default(),
            frozen: Mutex::default(),
        });
        for _ in 0..plan.processes {
            for starter in 0..SLOWNESSES.len() {
                processes.add(starter).await?;
            }
        }
        Ok(processes)
    }

    async fn add(&self, starter: usize) -> Result<(), BoxError> {
        let environment = match &self.starters[starter] {
            Starter::Server(command) => Environment::Server(ServerProcess::start(command()).await?),
            Starter::Lambda(lambda) => {
                let process = lambda.start_process().await?;
                process.ready().await?;
                Environment::Lambda(process)
            }
        };
        lock(&self.living).push(environment.clone());
        for place in 1..=self.events {
            self.give_back(Process {
                environment: environment.clone(),
                starter,
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
        lock(&self.living).retain(Environment::is_alive);
        let processes = Arc::clone(self);
        tokio::spawn(async move {
            // A process may be killed while it starts.
            while let Err(error) = processes.add(process.starter).await {
                eprintln!("a process did not start: {error}");
            }
        });
    }

    /// Kills processes at random moments until the task is aborted.
    pub(super) async fn kill(&self, every: Duration, seed: u64, troubles: &Faults) {
        let mut chance = Chance::of(seed, "kill");
        loop {
            if let Some(environment) = self.chosen(every, &mut chance).await {
                troubles.note("process killed");
                environment.kill().await;
            }
        }
    }

    /// Stops processes for a while at random moments until the task is aborted.
    pub(super) async fn stop(&self, every: Duration, seed: u64, troubles: &Faults) {
        // A server is frozen also for longer than its leases.
        let is_server = matches!(self.starters[..], [Starter::Server(_), ..]);
        let longest_ms = if is_server { 6_000 } else { 2_000 };
        let mut chance = Chance::of(seed, "stop");
        loop {
            let environment = self.chosen(every, &mut chance).await;
            if let Some(process_id) = environment.and_then(|chosen| chosen.process_id()) {
                troubles.note("process frozen");
                let pause = chance.spread(50, longest_ms);
                let (begin, frozen) = (SystemTime::now(), Frozen::new(process_id));
                lock(&self.frozen).push(micros(begin)..=micros(begin + pause));
                tokio::time::sleep(pause).await;
                drop(frozen);
            }
        }
    }

    /// Returns when processes were frozen.
    pub(super) fn frozen(&self) -> Vec<RangeInclusive<u64>> {
        lock(&self.frozen).clone()
    }

    /// Waits about this long. Returns a random process, if it is alive.
    async fn chosen(&self, every: Duration, chance: &mut Chance) -> Option<Environment> {
        chance.pause(every).await;
        let living = lock(&self.living);
        let chosen = usize::try_from(chance.below(living.len() as u64)).ok()?;
        let chosen = living.get(chosen)?;
        chosen.is_alive().then(|| chosen.clone())
    }
}

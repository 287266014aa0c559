//! The process of a contestant, and what the operating system knows of it.

use std::time::{Duration, Instant};

use idempotency_testkit::lambda::{FunctionProcess, InvokeError, LocalLambda, Pending, Reply};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::contestants::Contestant;
use crate::failure::{Failure, fail};
use crate::samples::Setting;
use crate::server::Server;
use crate::share::{self, Share};

/// How long a process may take to become idle.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a process that has its CPU must be idle.
const PAUSE: Duration = Duration::from_millis(1);

pub struct Process {
    /// Serves the process; it ends with this value.
    _lambda: LocalLambda,
    process: FunctionProcess,
    name: String,
    /// When the operating system was asked to start it.
    pub started: Instant,
    id: u32,
    clock: ClockId,
    share: Option<Share>,
}

impl Process {
    /// Starts a process that takes this many events at a time. Returns at once; it is not ready then.
    pub async fn start(
        contestant: &Contestant,
        server: &Server,
        setting: &Setting,
    ) -> Result<Self, Failure> {
        let share = setting.is_small().then(Share::new).transpose()?;
        let variables = server.environment();
        let function = contestant.function(&variables, setting.in_flight, share.as_ref());
        let lambda = LocalLambda::start(function).await?;
        let started = Instant::now();
        let process = lambda.start_process().await?;
        let Some(id) = process.process_id() else {
            return fail(format!("`{}` ended at once", contestant.name));
        };
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(id)?))?;
        Ok(Self {
            _lambda: lambda,
            process,
            name: contestant.name.clone(),
            started,
            id,
            clock,
            share,
        })
    }

    /// Waits for the first poll for an event.
    pub async fn ready(&self) -> Result<(), Failure> {
        let ready = self.process.ready().await;
        ready.map_err(|error| Failure(format!("`{}` does not start: {error}", self.name)))
    }

    /// Sends an event. Give its reply to [`response`](Self::response).
    pub fn send(&self, event: &str) -> Pending {
        self.process.invoke(event).start()
    }

    /// Returns the payload of a reply.
    pub fn response(&self, reply: Result<Reply, InvokeError>) -> Result<String, Failure> {
        match reply {
            Ok(reply) => Ok(reply.payload),
            Err(error) => {
                let log: Vec<_> = self
                    .process
                    .log()
                    .into_iter()
                    .map(|line| line.text)
                    .collect();
                let log = log[log.len().saturating_sub(20)..].join("\n");
                fail(format!("`{}` failed: {error}\n{log}", self.name))
            }
        }
    }

    /// Returns the CPU time of all threads of the process since its start, to the nanosecond.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        Ok(Duration::from(self.clock.now()?))
    }

    /// Waits until the process uses no CPU time for a millisecond: until it has finished what it does after a response. A process
    /// with a share of a core can have to wait for a period before it continues.
    pub async fn settle(&self) -> Result<(), Failure> {
        let pause = self.share.as_ref().map_or(PAUSE, |_| share::PERIOD + PAUSE);
        let began = Instant::now();
        let mut before = self.cpu()?;
        while began.elapsed() < SETTLE {
            tokio::time::sleep(pause).await;
            let now = self.cpu()?;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Returns the largest memory of the process so far (`VmHWM`), in KiB.
    pub fn peak_memory(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.ok_or_else(|| Failure("there is no VmHWM".to_owned()))
    }

    pub async fn end(self) {
        self.process.kill().await;
    }
}

//! The process of a contestant, and what the operating system measures of it.
//!
//! A process can have the share of a core that Lambda gives a function with 128 MB.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use idempotency_testkit::lambda::{FunctionProcess, InvokeError, LocalLambda, Reply};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::contestants::Contestant;
use crate::samples::Setting;
use crate::server::Server;

/// The longest wait for a process to become idle. Then the measurement goes on.
const SETTLE: Duration = Duration::from_millis(500);

/// How long a process must use no CPU time, so that it counts as idle.
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
    /// Starts a process that takes `setting.in_flight` events at a time. Returns at once: [`ready`](Self::ready) waits for it.
    pub async fn start(
        contestant: &Contestant,
        server: &Server,
        setting: &Setting,
    ) -> anyhow::Result<Self> {
        let share = setting.is_small().then(Share::new).transpose()?;
        let variables = server.environment();
        let function = contestant.function(&variables, setting.in_flight, share.as_ref());
        let lambda = LocalLambda::start(function).await?;
        let started = Instant::now();
        let process = lambda.start_process().await?;
        let Some(id) = process.process_id() else {
            bail!("`{}` ended at once", contestant.name);
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
    pub async fn ready(&self) -> anyhow::Result<()> {
        let ready = self.process.ready().await;
        ready.with_context(|| format!("`{}` does not start", self.name))
    }

    /// Sends an event. Give its reply to [`response`](Self::response).
    pub fn send(&self, event: &str) -> impl Future<Output = Result<Reply, InvokeError>> + use<> {
        self.process.invoke(event).start()
    }

    /// Returns the payload of a reply.
    pub fn response(&self, reply: Result<Reply, InvokeError>) -> anyhow::Result<String> {
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
                bail!("`{}` failed: {error}\n{log}", self.name)
            }
        }
    }

    /// Returns the CPU time of all threads of the process since its start, to the nanosecond.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(Duration::from(self.clock.now()?))
    }

    /// Waits until the process has finished what it does after a response: it then uses no CPU time for a millisecond. A process
    /// with a share of a core may have to wait one period before it continues, so the wait is a period longer.
    pub async fn settle(&self) -> anyhow::Result<()> {
        let pause = self.share.as_ref().map_or(PAUSE, |_| PERIOD + PAUSE);
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
    pub fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.context("there is no VmHWM")
    }

    pub async fn end(self) {
        self.process.kill().await;
    }
}

/// How long the operating system waits before it gives a group its time again.
pub const PERIOD: Duration = Duration::from_millis(20);

/// The CPU time that a group gets in each period: on Lambda a function has a whole core at 1,769 MB.
const QUOTA: Duration = Duration::from_micros(20_000 * 128 / 1769);

/// A control group whose processes share a fourteenth of one core. It ends with this value, after its processes.
pub struct Share(PathBuf);

impl Share {
    /// Makes a group.
    ///
    /// # Errors
    /// If the machine has no controller of CPU time for this user.
    pub fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("idempotency-{}-{number}", std::process::id());
        let (quota, period) = (QUOTA.as_micros(), PERIOD.as_micros());
        // Control groups of version 1 have a folder for each controller, those of version 2 one folder for all.
        let version_1 = PathBuf::from("/sys/fs/cgroup/cpu");
        let settings = if version_1.exists() {
            vec![
                ("cpu.cfs_period_us", period.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ]
        } else {
            vec![("cpu.max", format!("{quota} {period}"))]
        };
        let parent = if version_1.exists() {
            version_1
        } else {
            PathBuf::from("/sys/fs/cgroup")
        };
        let group = Self(parent.join(name));
        let made = std::fs::create_dir(&group.0).and_then(|()| {
            settings
                .iter()
                .try_for_each(|(file, text)| std::fs::write(group.0.join(file), text))
        });
        made.with_context(|| {
            format!(
                "a process cannot have a share of a core (run as root on Linux): {}",
                group.0.display()
            )
        })?;
        Ok(group)
    }

    /// Returns the command that enters the group and becomes the program.
    pub fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let group = self.0.join("cgroup.procs");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(group).arg(program);
        command
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A group with a process that has not ended yet stays, and takes nothing.
        let _ = std::fs::remove_dir(&self.0);
    }
}

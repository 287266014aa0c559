//! The share of a core that Lambda gives a function with 128 MB.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::failure::Failure;

/// How long the operating system waits before it gives a group its time again.
pub const PERIOD: Duration = Duration::from_millis(20);

/// The time of a period: a function has a whole core at 1,769 MB.
const QUOTA: Duration = Duration::from_micros(20_000 * 128 / 1769);

/// A control group whose processes share a fourteenth of one core. It ends with this value, after its processes.
pub struct Share(PathBuf);

impl Share {
    /// Makes a group.
    ///
    /// # Errors
    /// If the machine has no controller of CPU time for this user.
    pub fn new() -> Result<Self, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("idempotency-{}-{number}", std::process::id());
        let (quota, period) = (QUOTA.as_micros(), PERIOD.as_micros());
        // Version 1 has a folder for each controller, version 2 one for all.
        let first = PathBuf::from("/sys/fs/cgroup/cpu");
        let settings = if first.exists() {
            vec![
                ("cpu.cfs_period_us", period.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ]
        } else {
            vec![("cpu.max", format!("{quota} {period}"))]
        };
        let parent = if first.exists() {
            first
        } else {
            PathBuf::from("/sys/fs/cgroup")
        };
        let group = Self(parent.join(name));
        let made = std::fs::create_dir(&group.0).and_then(|()| {
            settings
                .iter()
                .try_for_each(|(file, text)| std::fs::write(group.0.join(file), text))
        });
        made.map_err(|error| {
            Failure(format!(
                "a process cannot have a share of a core: {}: {error}; run as root on Linux",
                group.0.display()
            ))
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

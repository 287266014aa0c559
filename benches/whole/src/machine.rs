//! The machine and the versions, which the results name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// The machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    processor: String,
    cores: usize,
    memory_mib: u64,
    system: String,
    /// The load average of the last minute, before and after the run. If it is above the number of cores, times mean little.
    load_before: String,
    load_after: String,
}

impl Machine {
    pub fn new() -> Self {
        let line = |file: &str, name: &str| {
            let text = read(file);
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value
                .map(|(_, value)| value.trim().to_owned())
                .unwrap_or_default()
        };
        let memory = line("/proc/meminfo", "MemTotal");
        let memory: Option<u64> = memory.trim_end_matches(" kB").parse().ok();
        Self {
            processor: line("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory.unwrap_or_default() / 1024,
            system: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
            load_before: load(),
            load_after: String::new(),
        }
    }

    pub fn read_load_after(&mut self) {
        self.load_after = load();
    }
}

fn load() -> String {
    read("/proc/loadavg")
        .split(' ')
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Returns the versions of the compiler, of this framework, and of the libraries that both sides use.
pub fn versions(benches: &Path) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    versions.insert("rustc".to_owned(), output("rustc", &["--version"]));
    let lock = std::fs::read_to_string(benches.join("Cargo.lock")).unwrap_or_default();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        let (Some(name), Some(version)) = (field("name = "), field("version = ")) else {
            continue;
        };
        let shown = [
            "aws-config",
            "aws-sdk-dynamodb",
            "lambda_runtime",
            "idempotency-lambda",
            "tokio",
        ];
        if shown.contains(&name.as_str()) {
            versions.insert(name, version);
        }
    }
    versions
}

/// Returns the time as `2026-11-22T07:00:00Z`.
pub fn now() -> String {
    output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

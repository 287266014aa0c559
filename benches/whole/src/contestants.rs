//! Which commands are measured: `benches/contestants.json`, and `.tools/peers/contestants.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use idempotency_testkit::lambda::FunctionSpec;
use serde::{Deserialize, Serialize};

use crate::process::Share;

/// The placeholders of the files, and the directories that replace them, relative to `benches`.
const PLACES: [(&str, &str); 2] = [("{benches}", ""), ("{target}", "../target/benches")];

/// A command that serves events of Lambda, and what is known of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contestant {
    /// The name, in the arguments and in the results.
    pub name: String,
    /// What a reader of the table sees.
    pub label: String,
    pub language: String,
    pub kind: Kind,
    pub event: EventKind,
    /// The group. The hand-written contestants of a group are what its other members are compared with.
    pub group: String,
    /// The program and its arguments.
    #[serde(skip_serializing)]
    pub command: Vec<String>,
    /// Further variables. The runner sets those of Lambda, of the database, and `IDEMPOTENCY_TABLE`.
    #[serde(default, skip_serializing)]
    pub env: BTreeMap<String, String>,
    /// The working directory; that of the runner if it is not set.
    #[serde(default, skip_serializing)]
    pub directory: Option<String>,
    /// True if a duplicate in the same process sends no request.
    #[serde(default)]
    pub cached: bool,
    /// Versions that the results name, such as that of `CPython`.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The parts of the benchmark that it takes part in.
    #[serde(skip_serializing)]
    pub parts: Vec<Part>,
}

/// What a contestant is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Written by hand on the SDK: a baseline.
    ByHand,
    /// This framework.
    Ours,
    /// This framework with a setting that is not the default. It has no targets.
    Variant,
    /// A framework of another language.
    Peer,
    /// The work without idempotency: no database.
    Bare,
}

/// The form of the events.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// An order as JSON.
    Order,
    /// A request of API Gateway (payload 2.0) with the order in its body.
    Http,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Calls of a process that has started.
    Warm,
    /// The start of a process, and its first event.
    Cold,
    /// Events and responses of growing size.
    Sizes,
    /// A growing local cache.
    Cache,
    /// Several invocations in flight in one process.
    InFlight,
    /// The same, while the database sends one response of a hundred late.
    Slow,
    /// The start and the calls of a function with 128 MB: a fourteenth of a core.
    Small,
    /// Events of 1 MB.
    Large,
}

/// Reads the files. The second one is there if `benches/peers/setup.sh` has installed the other languages.
pub fn read(benches: &Path) -> anyhow::Result<Vec<Contestant>> {
    let mut all = read_file(benches, &benches.join("contestants.json"))?;
    let peers = benches.join("../.tools/peers/contestants.json");
    if peers.exists() {
        all.extend(read_file(benches, &peers)?);
    }
    let mut names: Vec<_> = all.iter().map(|contestant| &contestant.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("`{}` is there twice", twice[0]);
    }
    Ok(all)
}

/// Reads a file, and puts the checkout's directories into its paths.
fn read_file(benches: &Path, file: &Path) -> anyhow::Result<Vec<Contestant>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut all: Vec<Contestant> =
        serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    for contestant in &mut all {
        let env = contestant.env.values_mut();
        let texts = contestant.command.iter_mut().chain(env);
        for text in texts.chain(contestant.directory.as_mut()) {
            for (place, directory) in PLACES {
                let absolute = benches.join(directory);
                *text = text.replace(place, &absolute.to_string_lossy());
            }
        }
        if contestant.command.is_empty() {
            bail!("`{}` has no command", contestant.name);
        }
    }
    Ok(all)
}

impl Contestant {
    pub fn takes_part(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Returns the program's file, if the command names one with its directory.
    pub fn program(&self) -> Option<PathBuf> {
        let program = PathBuf::from(&self.command[0]);
        (program.components().count() > 1).then_some(program)
    }

    /// Returns the function that the local Lambda starts. With a `share` it has 128 MB and that share of a core, else 1,024 MB.
    pub fn function(
        &self,
        environment: &[(String, String)],
        concurrency: usize,
        share: Option<&Share>,
    ) -> FunctionSpec {
        let mut command = share.map_or_else(
            || Command::new(&self.command[0]),
            |share| share.enter(&self.command[0]),
        );
        command.args(&self.command[1..]);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        FunctionSpec::new("charge", command)
            .env(
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
                share.map_or("1024", |_| "128"),
            )
            .env("IDEMPOTENCY_TABLE", crate::server::TABLE)
            .envs(environment.to_vec())
            .envs(self.env.clone())
            .concurrency(concurrency)
    }
}

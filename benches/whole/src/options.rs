//! The arguments of the runner.

use std::path::PathBuf;

use anyhow::bail;

use crate::contestants::Part;
use crate::report::name;
use crate::samples::Setting;

pub const USAGE: &str = "\
usage: whole [--quick] [--only NAME,..] [--parts PART,..] [--servers SERVER,..] [--sizes BYTES,..] [--seed N] [--rounds N] --output FILE
Measures the contestants of benches/contestants.json in alternation and writes the results as JSON.
  --quick      few calls: shows that everything works, and proves nothing
  --only       these contestants alone
  --parts      these parts alone: warm, cold, sizes, cache, in-flight, slow, small, large
  --servers    these databases alone: embedded, stub, stub-tls
  --sizes      these sizes of events alone, such as 200,4096,65536
  --seed       the order of the contestants in the rounds
  --rounds     rounds for each process
  --output     where the results go";

pub struct Options {
    pub quick: bool,
    pub only: Option<Vec<String>>,
    parts: Option<Vec<String>>,
    servers: Option<Vec<String>>,
    sizes: Option<Vec<String>>,
    pub seed: u64,
    pub output: PathBuf,
    /// Processes of each contestant, one after the other.
    generations: usize,
    /// Rounds for each process.
    pub rounds: usize,
    /// Calls in a block. Each round has two blocks of fresh calls and two of duplicates.
    pub calls: usize,
    /// Calls before the first round.
    warm_up: usize,
    /// Starts of each contestant.
    starts: usize,
    /// Records in the larger cache.
    pub many_records: usize,
}

impl Options {
    /// Reads the arguments; `None` if help was asked for.
    pub fn read(mut args: impl Iterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            quick: false,
            only: None,
            parts: None,
            servers: None,
            sizes: None,
            seed: 1,
            output: PathBuf::new(),
            generations: 4,
            rounds: 10,
            calls: 25,
            warm_up: 300,
            starts: 30,
            many_records: 100_000,
        };
        while let Some(arg) = args.next() {
            if matches!(arg.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            if arg == "--quick" {
                options.quick = true;
                options.generations = 1;
                (options.rounds, options.calls, options.warm_up) = (3, 10, 20);
                (options.starts, options.many_records) = (3, 1000);
                continue;
            }
            let Some(value) = args.next() else {
                bail!("`{arg}` is not known, or needs a value\n{USAGE}");
            };
            let list = || Some(value.split(',').map(str::to_owned).collect());
            match arg.as_str() {
                "--only" => options.only = list(),
                "--parts" => options.parts = list(),
                "--servers" => options.servers = list(),
                "--sizes" => options.sizes = list(),
                "--seed" => options.seed = value.parse()?,
                "--rounds" => options.rounds = value.parse()?,
                "--output" => options.output = value.into(),
                _ => bail!("`{arg}` is not known\n{USAGE}"),
            }
        }
        if options.output.as_os_str().is_empty() {
            bail!("`--output` is missing\n{USAGE}");
        }
        Ok(Some(options))
    }

    /// Returns how many processes of each contestant are measured, one after the other.
    pub fn generations(&self, setting: &Setting) -> usize {
        if has_slow_calls(setting) {
            1
        } else {
            self.generations
        }
    }

    /// Returns the number of calls before the first round.
    pub fn warm_up(&self, setting: &Setting) -> usize {
        if has_slow_calls(setting) {
            self.warm_up / 3
        } else {
            self.warm_up
        }
    }

    /// Returns the number of starts of each contestant.
    pub fn starts(&self, setting: &Setting) -> usize {
        if has_slow_calls(setting) {
            self.starts.div_ceil(3)
        } else {
            self.starts
        }
    }

    /// Returns true if the options choose this setting.
    pub fn wants(&self, setting: &Setting) -> bool {
        let has = |list: &Option<Vec<String>>, name: &str| {
            list.as_ref()
                .is_none_or(|list| list.iter().any(|chosen| chosen == name))
        };
        has(&self.parts, &name(setting.part))
            && has(&self.servers, &name(setting.server))
            && has(&self.sizes, &setting.event_bytes.to_string())
    }
}

/// Returns true if a call takes tens of milliseconds. The runner then makes fewer calls.
fn has_slow_calls(setting: &Setting) -> bool {
    matches!(setting.part, Part::Small | Part::Large)
}

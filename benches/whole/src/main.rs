//! Measures whole functions in alternation: written by hand, with this framework, and in other languages. `benches/README.md`
//! says how to run it and what its results mean.

mod block;
mod contestants;
mod event;
mod machine;
mod measure;
mod options;
mod process;
mod report;
mod samples;
mod server;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use machine::Machine;
use options::{Options, USAGE};
use report::{Entry, Results};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("whole: {failure:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let Some(options) = Options::read(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let benches = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let mut contestants = contestants::read(&benches)?;
    if let Some(only) = &options.only {
        if let Some(unknown) = only
            .iter()
            .find(|name| !contestants.iter().any(|known| known.name == **name))
        {
            bail!("there is no contestant `{unknown}`");
        }
        contestants.retain(|contestant| only.contains(&contestant.name));
    }
    measure::check_programs(&contestants)?;

    let mut machine = Machine::new();
    let date = machine::now();
    let samples = measure::all(&options, &contestants).await?;
    machine.read_load_after();
    let results = Results {
        schema: 3,
        date,
        quick: options.quick,
        seed: options.seed,
        machine,
        versions: machine::versions(&benches),
        contestants: contestants.iter().map(Entry::of).collect(),
        measures: samples.lines(&contestants),
    };
    let text = serde_json::to_string_pretty(&results)? + "\n";
    std::fs::write(&options.output, text).with_context(|| options.output.display().to_string())
}

//! Shows each promise of the framework at work: real function processes, events in AWS's form, and what each event cost.
//!
//! `scenes.rs` sends the events, `scenes.txt` says what each does, and `stage.rs` compares that with what is observed. `server.rs` is the
//! scene beside Lambda.

mod scenes;
mod server;
mod stage;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
usage: cargo run [-- --metrics FILE]   FILE gets the lines that the functions wrote for CloudWatch
Sends events to the example functions and checks each result; the exit code is 1 if a result is not as promised.";

/// Names the example function that a process runs. The processes of the functions are this program, started again.
const FUNCTION: &str = "DEMO_FUNCTION";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match std::env::var(FUNCTION) {
        Ok(name) => serve(&name).await,
        Err(_) => demo().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs an example function until Lambda ends the process.
async fn serve(name: &str) -> Result<()> {
    tracing_subscriber::fmt().with_ansi(false).init();
    match name {
        "payment" => payment::start().await,
        "orders" => orders::start().await,
        "shipping" => shipping::start().await,
        "ledger" => ledger::start().await,
        "http-api" => http_api::start().await,
        _ => bail!("there is no function `{name}`"),
    }
    .map_err(|error| anyhow::anyhow!(error))
}

/// Runs the demo as the arguments ask.
async fn demo() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => scenes::run(None).await,
        ["--metrics", file] => scenes::run(Some(file)).await,
        ["-h" | "--help"] => {
            println!("{HELP}");
            Ok(())
        }
        ["--metrics"] => bail!("`--metrics` needs a file\n{HELP}"),
        _ => bail!("unknown argument `{}`\n{HELP}", arguments.join(" ")),
    }
}

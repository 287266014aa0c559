//! Shows each promise of the framework at work: real function processes, events in AWS's form, and what each event cost.
//!
//! | file | what it holds |
//! |---|---|
//! | `functions.rs` | the example functions: this program, started again |
//! | `events.rs` | the events, in AWS's form |
//! | `harness.rs` | the embedded DynamoDB, the local Lambda and the functions' processes; sends events |
//! | `observation.rs` | what was observed of one event |
//! | `response.rs` | the parts of a function's response that the output shows |
//! | `expectation.rs` | what is expected of one event, and the error if it differs |
//! | `metrics.rs` | the metrics that the functions wrote for CloudWatch |
//! | `timeline.rs` | the printed output |
//! | `scenario/` | the steps, in order |

mod events;
mod expectation;
mod functions;
mod harness;
mod metrics;
mod observation;
mod response;
mod scenario;
mod timeline;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
usage: cargo run [-- --metrics FILE]   FILE gets the lines that the functions wrote for CloudWatch
Sends events to the example functions and checks each result; the exit code is 1 if a result is not as promised.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match functions::Role::of_this_process() {
        Some(role) => role.serve().await,
        None => demo().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the demo as the arguments ask.
async fn demo() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => scenario::run(None).await,
        ["--metrics", file] => scenario::run(Some(Path::new(file))).await,
        ["-h" | "--help"] => {
            println!("{HELP}");
            Ok(())
        }
        ["--metrics"] => Err(anyhow::anyhow!("`--metrics` needs a file\n{HELP}")),
        _ => {
            let unknown = arguments.join(" ");
            Err(anyhow::anyhow!("unknown argument `{unknown}`\n{HELP}"))
        }
    }
}

//! Every promise at work: real function processes, the events that AWS sends, and what each one cost.
//!
//! | file | what it is |
//! |---|---|
//! | `functions.rs` | the example functions: this program, started again |
//! | `events.rs` | the events of `examples/events`, with other fields |
//! | `stage.rs` | DynamoDB, Lambda and the functions' processes; sends events and observes |
//! | `seen.rs` | what was observed of one event |
//! | `promise.rs` | what was promised, and the error if something else was seen |
//! | `timeline.rs` | how it is printed |
//! | `scenario/` | the story, step by step |

mod events;
mod functions;
mod promise;
mod scenario;
mod seen;
mod stage;
mod timeline;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo run
Sends events to the example functions and shows what is promised at work; exit code 1 if a promise is broken.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match functions::Role::of_this_process() {
        Some(role) => role.serve().await,
        None => match std::env::args().nth(1).as_deref() {
            None => scenario::play().await,
            Some("-h" | "--help") => {
                println!("{HELP}");
                Ok(())
            }
            Some(other) => Err(anyhow::anyhow!("`{other}` is not known here\n{HELP}")),
        },
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

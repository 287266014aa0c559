//! Runs the program of a function under the local Lambda, with one event after another.
//!
//! ```console
//! cargo run -q -p idempotency-testkit --example invoke -- --timeout 3 target/debug/payment examples/events/payment.json
//! ```

use idempotency_testkit::lambda::{FunctionSpec, LocalLambda, LogLine};
use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "\
usage: cargo run -q -p idempotency-testkit --example invoke -- [--timeout SECONDS] PROGRAM EVENT..
Starts PROGRAM as a function with this timeout (30 s), sends it the event of each file, and prints what it logs and returns.
It gets IDEMPOTENCY_* and AWS_ENDPOINT_URL_DYNAMODB of your environment, and no credentials.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => invoke(&options).await,
        Ok(None) => {
            println!("{USAGE}");
            Ok(true)
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("invoke: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sends the events in their order. Returns true if each got a response.
async fn invoke(options: &Options) -> Result<bool, Box<dyn Error>> {
    let name = options.program.file_stem().unwrap_or_default();
    let variables = std::env::vars().filter(|(name, _)| {
        name.starts_with("IDEMPOTENCY_") || name == "AWS_ENDPOINT_URL_DYNAMODB"
    });
    let function = FunctionSpec::new(name.to_string_lossy(), Command::new(&options.program))
        .timeout(options.timeout)
        .envs(variables);
    let lambda = LocalLambda::start(function).await?;
    let mut responded = true;
    for file in &options.events {
        let event = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let (log, outcome) = match lambda.invoke(event).await {
            Ok(reply) => (reply.log, reply.payload),
            Err(error) => {
                responded = false;
                let message = match error.error_type.as_str() {
                    // As Lambda says it.
                    "Sandbox.Timedout" => {
                        let seconds = options.timeout.as_secs_f32();
                        format!("Task timed out after {seconds:.2} seconds")
                    }
                    _ => error.error_message,
                };
                (error.log, format!("{}: {message}", error.error_type))
            }
        };
        print(&log, &outcome);
    }
    Ok(responded)
}

fn print(log: &[LogLine], outcome: &str) {
    for line in log {
        println!("  {}", line.text);
    }
    println!("{outcome}");
}

struct Options {
    timeout: Duration,
    program: PathBuf,
    events: Vec<String>,
}

impl Options {
    /// Parses the arguments; `None` if help is requested.
    fn read(args: impl Iterator<Item = String>) -> Result<Option<Self>, Box<dyn Error>> {
        let mut args = args.peekable();
        let mut timeout = 30;
        match args.peek().map(String::as_str) {
            Some("-h" | "--help") => return Ok(None),
            Some("--timeout") => {
                let seconds = args.nth(1).unwrap_or_default();
                timeout = seconds.parse().map_err(|_| {
                    format!("`--timeout {seconds}` is no time: write whole seconds\n{USAGE}")
                })?;
            }
            _ => {}
        }
        let program = args.next().ok_or(USAGE)?;
        let events: Vec<String> = args.collect();
        if events.is_empty() {
            return Err(format!("name the file of an event\n{USAGE}").into());
        }
        Ok(Some(Self {
            timeout: Duration::from_secs(timeout),
            program: program.into(),
            events,
        }))
    }
}

//! The soak of our function and of one with Powertools for Python. `tests/scripts/soak.sh` starts it.
//!
//! The two take turns, so that both run under the same load of the machine.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_tests::Folder;
use idempotency_tests::soak::{Plan, ROLE, Report, Side, SoakStore, check, run, serve};

const HANDLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop/soak.py");

#[tokio::main]
async fn main() -> ExitCode {
    let ended = if std::env::var_os(ROLE).is_some() {
        serve().await.map(|()| true)
    } else {
        soak().await
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns true if our function broke no promise.
async fn soak() -> Result<bool, BoxError> {
    let seed: u64 = number("SOAK_SEED", 1)?;
    let seconds: u64 = number("SOAK_SECONDS", 15)?;
    let rounds: u64 = number("SOAK_ROUNDS", 4)?;
    let faults: u64 = number("SOAK_FAULTS", 100)?;
    let events: u64 = number("SOAK_EVENTS", 1)?;
    let overruns: u64 = number("SOAK_OVERRUNS", 8)?;
    let wanted: usize = number("SOAK_DELIVERIES", 0)?.try_into()?;
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|it| it == value);
    let transfers: usize = number("SOAK_TRANSFERS", 0)?.try_into()?;
    let store = match std::env::var("SOAK_STORE").as_deref() {
        Ok("valkey") => SoakStore::Valkey,
        Ok("postgres") => SoakStore::Postgres {
            transfers: transfers > 0,
        },
        _ => SoakStore::DynamoDb,
    };
    let server = is("SOAK_HOST", "server") || store != SoakStore::DynamoDb;
    let sides = sides(server)?;
    let mut reports: Vec<Report> = vec![Report::default(); sides.len()];
    let mut held = true;
    for round in seed.. {
        let ours = &reports[0];
        let enough = ours.deliveries >= wanted && ours.transfers >= transfers;
        if round >= seed + rounds && enough {
            break;
        }
        for (side, report) in sides.iter().zip(&mut reports) {
            let folder = Folder::new("soak")?;
            let plan = Plan {
                time: Duration::from_secs(seconds),
                faults,
                overruns,
                events: usize::try_from(events)?,
                store,
                server,
                ..Plan::new(round, folder.path().to_owned())
            };
            let history = run(side, &plan).await?;
            report.add(&history, plan.time);
            let broken = check(&history, side.ours);
            println!(
                "{}, seed {round}: {:.1} responses a second so far, {} promises broken",
                side.name,
                report.throughput(),
                broken.len()
            );
            for (key, broken) in broken.iter().take(10) {
                println!("  {key}: {broken}");
            }
            held &= broken.is_empty() || !side.ours;
        }
    }
    for (side, report) in sides.iter().zip(&reports) {
        println!("\n{}\n{report}", side.name);
        if std::env::var_os("SOAK_EXPLAIN").is_some() {
            for explained in report.explained() {
                println!("{explained}");
            }
        }
    }
    if let [ours, other] = &reports[..] {
        let ratio = ours.throughput() / other.throughput();
        println!("throughput of ours to Python's: {ratio:.2}");
    }
    Ok(held)
}

/// Returns our side, and Python's if the variable `PYTHON` names an interpreter with the library. It has no server.
fn sides(server: bool) -> Result<Vec<Side>, BoxError> {
    let program = std::env::current_exe()?;
    let mut sides = vec![Side {
        name: "ours",
        command: Arc::new(move || {
            let mut command = Command::new(&program);
            // These are settings of the function.
            let settings = std::env::vars().filter(|(name, _)| name.starts_with("IDEMPOTENCY_"));
            command.envs(settings);
            command
        }),
        ours: true,
    }];
    if let Ok(python) = std::env::var("PYTHON")
        && !server
    {
        sides.push(Side {
            name: "Powertools for Python",
            command: Arc::new(move || {
                let mut command = Command::new(&python);
                command.arg(HANDLER);
                command
            }),
            ours: false,
        });
    }
    Ok(sides)
}

fn number(variable: &str, default: u64) -> Result<u64, BoxError> {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .map_err(|_| format!("{variable} is `{text}`: write a number").into()),
        Err(_) => Ok(default),
    }
}

//! Functions under AWS's own Lambda emulator and under the local Lambda of the testkit: each event gets the same answer from both.
//!
//! ```text
//! cargo run -p idempotency-tests --features servers --example emulator -- <path of aws-lambda-rie> <folder with the examples' programs>
//! ```
//!
//! The emulator has the code of Lambda's own runtime interface: a real deadline, and a real kill at the timeout. `tests/scripts/emulator.sh`
//! builds it.

mod cases;
mod function;
mod host;

use std::path::{Path, PathBuf};
use std::process::Command;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};

use cases::{Case, Program};
use host::Host;

const TABLE: &str = "idempotency";

/// The variable that makes this program the function of the cases.
const IS_FUNCTION: &str = "EMULATOR_FUNCTION";

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    if std::env::var_os(IS_FUNCTION).is_some() {
        return function::serve().await;
    }
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(emulator), Some(programs)) = (arguments.next(), arguments.next()) else {
        return Err(
            "write the path of aws-lambda-rie and the folder with the examples' programs".into(),
        );
    };
    let hosts = [Host::Local, Host::Emulator(emulator)];
    let mut differing = 0;
    for case in cases::all() {
        let expected: Vec<_> = case.events.iter().map(|(_, answer)| *answer).collect();
        for host in &hosts {
            let (answers, records) = play(&case, host, &programs).await?;
            let agrees = answers == expected && records == case.records;
            let verdict = if agrees { "ok" } else { "DIFFERS" };
            println!(
                "{verdict:8} {host:9} {}: {answers:?}, {records} records",
                case.name
            );
            if !agrees {
                differing += 1;
                println!("         expected: {expected:?}, {} records", case.records);
            }
        }
    }
    match differing {
        0 => Ok(()),
        _ => Err(format!("{differing} differ").into()),
    }
}

/// Sends the events of a case to its function, which has a table of its own. Returns the answers, and the number of records.
async fn play(case: &Case, host: &Host, programs: &Path) -> Result<(Vec<String>, usize), BoxError> {
    let database = EmbeddedDynamoDb::start().await?;
    database.create_table(TableSpec::new(TABLE)).await?;
    let program = match case.program {
        Program::This => std::env::current_exe()?,
        Program::Example(name) => programs.join(name),
    };
    let mut function = Command::new(program);
    function
        .envs(database.environment())
        .env("IDEMPOTENCY_TABLE", TABLE)
        .envs(case.variables.iter().copied())
        .env(IS_FUNCTION, "");
    let running = host.start(function).await?;
    let (mut answers, mut seen) = (Vec::new(), Vec::new());
    for (event, _) in &case.events {
        answers.push(cases::named(&running.invoke(event).await?, &mut seen));
    }
    let items = database.items(TABLE).await?;
    let records = items.iter().filter(|item| item.contains_key("status"));
    Ok((answers, records.count()))
}

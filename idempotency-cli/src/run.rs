//! From the arguments to a command.

use std::io::Write;

use idempotency_core::config::Variables;

use crate::arguments::{Arguments, Command, StoreArguments, TableCommand};
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::{json, key, record, table};

/// Does what the arguments say, on the standard streams. `variables` are the environment's.
///
/// ```
/// use clap::Parser;
/// use idempotency_cli::{arguments::Arguments, exit::Exit};
/// let arguments = Arguments::parse_from(["idempotency", "get", "shop#42b7"]);
/// assert_eq!(idempotency_cli::run(&arguments, Vec::new()), Exit::Usage, "no table is named");
/// ```
#[must_use]
pub fn run(arguments: &Arguments, variables: Vec<(String, String)>) -> Exit {
    let (result, as_json) = match &arguments.command {
        Command::Key(arguments) => {
            let variables = variables.into_iter().collect();
            (key::run(arguments, &variables), arguments.json)
        }
        Command::Get(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::get(arguments, &connection).await
            }),
            arguments.store.json,
        ),
        Command::Evict(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::evict(arguments, &connection).await
            }),
            arguments.store.json,
        ),
        Command::Table(TableCommand::Create(store)) => (
            on_store(store, variables, async |connection| {
                table::create(store.json, &connection).await
            }),
            store.json,
        ),
        Command::Table(TableCommand::Check(store)) => (
            on_store(store, variables, async |connection| {
                table::check(store.json, &connection).await
            }),
            store.json,
        ),
    };
    result.unwrap_or_else(|failure| {
        tell(&failure, as_json);
        failure.exit
    })
}

/// Runs a command that needs the table.
fn on_store(
    arguments: &StoreArguments,
    mut variables: Vec<(String, String)>,
    command: impl AsyncFnOnce(Connection) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(table) = &arguments.table {
        // Of two values the last one counts.
        variables.push(("IDEMPOTENCY_TABLE".to_owned(), table.clone()));
    }
    let variables: Variables = variables.into_iter().collect();
    for unknown in variables.unknown() {
        eprintln!("warning: {unknown}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the runtime does not start", &error))?;
    runtime.block_on(async { command(Connection::open(&variables).await?).await })
}

fn tell(failure: &Failure, as_json: bool) {
    if failure.message.is_empty() {
        return;
    }
    let told = as_json
        && json::write(
            &mut std::io::stdout().lock(),
            &json::error(&failure.message),
        )
        .is_ok();
    if !told {
        // There is nobody left to tell if this fails as well.
        let _ = writeln!(std::io::stderr(), "error: {}", failure.message);
    }
}

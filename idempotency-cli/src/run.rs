//! Runs the command that the arguments name.

use std::io::Write;

use idempotency_core::config::Variables;
use idempotency_dynamodb::TableConfig;

use crate::arguments::{Arguments, Command, StoreArguments, TableCommand};
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::{cost, json, key, plan, record, table};

/// A variable that only functions read. It causes no warning if it is set.
const FUNCTIONS_STORE: &str = "IDEMPOTENCY_STORE";

/// Runs the command on the standard streams. `variables` are the environment variables.
#[must_use]
pub(crate) fn run(arguments: &Arguments, variables: Vec<(String, String)>) -> Exit {
    let (result, as_json) = match &arguments.command {
        Command::Key(arguments) => {
            let variables = variables.into_iter().collect();
            (key::print_key(arguments, &variables), arguments.json)
        }
        Command::Cost(arguments) => (cost::print_cost(arguments), arguments.json),
        Command::Get(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::get(arguments, &connection).await
            }),
            arguments.store.json,
        ),
        Command::Replay(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::replay(arguments, &connection).await
            }),
            arguments.store.json,
        ),
        Command::Resolve(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::resolve(arguments, &connection).await
            }),
            arguments.store.json,
        ),
        Command::List(arguments) => (
            on_store(&arguments.store, variables, async |connection| {
                record::list(arguments, &connection).await
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
        Command::Plan(arguments) => (plan::print_plan(arguments), arguments.json),
    };
    result.unwrap_or_else(|failure| {
        report(&failure, as_json);
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
        // The last value of a variable counts.
        variables.push(("IDEMPOTENCY_TABLE".to_owned(), table.clone()));
    }
    let variables: Variables = variables.into_iter().collect();
    let others = [&[FUNCTIONS_STORE], TableConfig::VARIABLES].concat();
    for unknown in variables.unknown(&others) {
        eprintln!("warning: {unknown}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the async runtime cannot be started", &error))?;
    runtime.block_on(async { command(Connection::open(&variables).await?).await })
}

/// Prints an error: with `--json` to standard output, otherwise to standard error.
fn report(failure: &Failure, as_json: bool) {
    if failure.message.is_empty() {
        return;
    }
    let reported = as_json
        && json::write(
            &mut std::io::stdout().lock(),
            &json::error(&failure.message),
        )
        .is_ok();
    if !reported {
        // If this fails as well, there is no output left.
        let _ = writeln!(std::io::stderr(), "error: {}", failure.message);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_command_on_a_record_without_a_table_is_wrong_usage() {
        let arguments = Arguments::parse_from(["idempotency", "get", &format!("shop#{:032}", 7)]);
        assert_eq!(run(&arguments, Vec::new()), Exit::Usage);
    }
}

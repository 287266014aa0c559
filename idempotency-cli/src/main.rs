//! The command `idempotency`: prints the key of an event, shows, lists, resolves, evicts or expires records, creates or checks the
//! table.
//!
//! The README says how to use it. The crate is a program and has no library.
//!
//! | module | what it holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `exit` | exit codes, and the errors that lead to them |
//! | `key` | `idempotency key`: one event, or one a line |
//! | `record` | `idempotency get`, `list`, `replay`, `resolve` and `evict` |
//! | `lambda` | invokes a function, for `replay` |
//! | `expire` | `idempotency expire` |
//! | `table` | `idempotency table create` and `check` |
//! | `template` | `idempotency table template` |
//! | `cost` | `idempotency cost` |
//! | `plan` | `idempotency plan` |
//! | `connection` | the store, from the environment variables; of a table its client and the endpoints |
//! | `operator`, `clock` | the clock, and the confirmation |
//! | `terminal` | colours, progress, and texts of other programs, without what controls a terminal |
//! | `help`, `shell` | what `--help` says beside the options; completion and man pages |
//! | `json`, `time` | JSON output, and times in a form for people |

mod arguments;
mod clock;
mod connection;
mod cost;
mod exit;
mod expire;
mod help;
mod json;
mod key;
mod lambda;
mod operator;
mod plan;
mod record;
mod shell;
mod table;
mod template;
mod terminal;
mod time;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ColorChoice;
use idempotency_core::config::{HostVariables, Variables};
use idempotency_lambda::stores;

use crate::arguments::{Arguments, Command, GlobalArguments, TableCommand, chosen_color};
use crate::connection::{Connection, DYNAMODB};
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    match chosen_color(std::env::args_os()) {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    match arguments::parse(std::env::args_os()) {
        Ok(arguments) => perform(&arguments, std::env::vars_os().collect()).into(),
        Err(error) => match error.to_string().strip_prefix("error: ") {
            // It quotes an argument, such as a key of another program.
            Some(text) => {
                terminal::error(text);
                Exit::Usage.into()
            }
            // Help, also where a command is missing: then its exit code is that of wrong usage.
            None => error.exit(),
        },
    }
}

/// Returns the variables as a function reads them.
fn of_a_function(variables: Vec<(OsString, OsString)>) -> Variables {
    Variables::from_iter(variables).on(HostVariables::LAMBDA)
}

/// Runs the command on the standard streams, and prints its error. `variables` are the environment variables.
fn perform(arguments: &Arguments, variables: Vec<(OsString, OsString)>) -> Exit {
    let Arguments { command, global } = arguments;
    let result = match without_effect(command, global) {
        Some(message) => Err(Failure::new(Exit::Usage, message)),
        None => run(command, global, variables),
    };
    result.unwrap_or_else(|failure| {
        report(&failure, global.json);
        failure.exit
    })
}

fn run(
    command: &Command,
    global: &GlobalArguments,
    variables: Vec<(OsString, OsString)>,
) -> Result<Exit, Failure> {
    let json = global.json;
    match command {
        Command::Completions { shell } => shell::print_completions(*shell),
        Command::Man { folder } => shell::write_man_pages(folder),
        Command::Key(it) => key::print_key(it, json, &of_a_function(variables)),
        Command::Cost(it) => about_dynamodb(variables, |_| cost::print_cost(it, json)),
        Command::Plan(it) => about_dynamodb(variables, |_| plan::print_plan(it, json)),
        Command::Get(it) => on_store(it, global, variables, record::get),
        Command::Replay(it) => on_store(it, global, variables, record::replay),
        Command::Resolve(it) => on_store(it, global, variables, record::resolve),
        Command::List(it) => on_store(it, global, variables, record::list),
        Command::Evict(it) => on_store(it, global, variables, record::evict),
        Command::Expire(it) => on_store(it, global, variables, expire::expire),
        Command::Table(TableCommand::Create) => on_store(&(), global, variables, async |(), on| {
            table::create(on).await
        }),
        Command::Table(TableCommand::Check(it)) => on_store(it, global, variables, table::check),
        Command::Table(TableCommand::Template(it)) => {
            let print = |variables| template::print_template(it, global.table.clone(), variables);
            match it.is_migration() {
                true => print(variables),
                false => about_dynamodb(variables, print),
            }
        }
    }
}

/// Returns what is said of a global option that has no effect on this command.
fn without_effect(command: &Command, global: &GlobalArguments) -> Option<&'static str> {
    match command {
        Command::Key(_)
        | Command::Cost(_)
        | Command::Plan(_)
        | Command::Completions { .. }
        | Command::Man { .. }
            if global.table.is_some() =>
        {
            Some("this command reads no table: leave out `--table`")
        }
        Command::Table(TableCommand::Template(_))
        | Command::Completions { .. }
        | Command::Man { .. }
            if global.json =>
        {
            Some("this command has an output of its own: leave out `--json`")
        }
        _ => None,
    }
}

/// Runs a command that is about DynamoDB alone. Warns if the variables name another kind of store.
fn about_dynamodb(
    variables: Vec<(OsString, OsString)>,
    command: impl FnOnce(Vec<(OsString, OsString)>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let known: Variables = variables.iter().cloned().collect();
    let kind = known.value("IDEMPOTENCY_STORE");
    if let Some(other) = kind.filter(|kind| *kind != DYNAMODB) {
        terminal::warn(format_args!(
            "this command is about DynamoDB alone, and IDEMPOTENCY_STORE is `{other}`"
        ));
    }
    command(variables)
}

/// Runs a command that needs the store. An error says where the store is.
fn on_store<A>(
    arguments: &A,
    global: &GlobalArguments,
    mut variables: Vec<(OsString, OsString)>,
    command: impl AsyncFnOnce(&A, &Connection) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    if let Some(table) = &global.table {
        // The last value of a variable counts.
        variables.push(("IDEMPOTENCY_TABLE".into(), table.into()));
        variables.push(("IDEMPOTENCY_STORE".into(), DYNAMODB.into()));
    }
    let variables = of_a_function(variables);
    let of_stores: Vec<_> = stores::variables().collect();
    for unknown in variables.unknown(&of_stores) {
        terminal::warn(unknown);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the async runtime cannot be started", &error))?;
    runtime.block_on(async {
        let connection = Connection::open(global, &variables).await?;
        match command(arguments, &connection).await {
            // A refusal is about the record that the operator sees.
            Err(failure) if failure.exit != Exit::Refused => Err(Failure {
                place: connection.place().await,
                ..failure
            }),
            ended => ended,
        }
    })
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
        let message = failure.message.trim_end_matches('\n');
        terminal::error(&format!("{message}\n{}", failure.place));
    }
}

//! The command `idempotency`: prints the key of an event, shows, lists, resolves or evicts records, creates or checks the
//! table.
//!
//! The README says how to use it. The crate is a program and has no library.
//!
//! | module | what it holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `exit` | exit codes, and the errors that lead to them |
//! | `run` | calls the command that the arguments name |
//! | `key` | `idempotency key`: one event, or one a line |
//! | `record` | `idempotency get`, `list`, `replay`, `resolve` and `evict` |
//! | `lambda` | invokes a function, for `replay` |
//! | `table` | `idempotency table create` and `check` |
//! | `cost` | `idempotency cost` |
//! | `plan` | `idempotency plan` |
//! | `connection` | the table and the client that the environment variables describe |
//! | `endpoint` | where DynamoDB and Lambda are |
//! | `json`, `time` | JSON output, and times in a form for people |

mod arguments;
mod connection;
mod cost;
mod endpoint;
mod exit;
mod json;
mod key;
mod lambda;
mod plan;
mod record;
mod run;
mod table;
mod time;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // `std::env::vars` panics on names and values that are not Unicode. Ours are Unicode.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    run::run(&arguments::Arguments::parse(), variables).into()
}

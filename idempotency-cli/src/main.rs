//! The command `idempotency`.

use std::process::ExitCode;

use clap::Parser;
use idempotency_cli::arguments::Arguments;

fn main() -> ExitCode {
    // `vars` would panic on a name or value that is not Unicode; such a one cannot be ours.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    idempotency_cli::run(&Arguments::parse(), variables).into()
}

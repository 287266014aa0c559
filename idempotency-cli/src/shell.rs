//! `idempotency completions` and `idempotency man`: the command line, for a shell and for `man`.
//!
//! A script has the whole command line. The one that asks this command at each key is not stable in clap, and a key has nothing to ask
//! for: a store is not read to complete a line.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::exit::{Exit, Failure};

pub(crate) fn print_completions(shell: Shell) -> Result<Exit, Failure> {
    // Into memory, because `generate` panics if it cannot write.
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "idempotency", &mut script);
    let mut output = io::stdout().lock();
    let written = output.write_all(&script).and_then(|()| output.flush());
    written.map_err(Failure::output)?;
    Ok(Exit::Done)
}

pub(crate) fn write_man_pages(folder: &Path) -> Result<Exit, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let created = fs::create_dir_all(folder);
    let written = created.and_then(|()| write_pages(&command, folder));
    let shown = folder.display();
    let failed = |error| Failure::io(&format!("`{shown}` cannot be written"), &error);
    written.map_err(failed)?;
    Ok(Exit::Done)
}

/// Writes the page of a command and those of its subcommands, each with the version that only the whole command has.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands() {
        write_pages(subcommand, folder)?;
    }
    let page = Man::new(command.clone());
    let page = page.source(concat!("idempotency ", env!("CARGO_PKG_VERSION")));
    page.generate_to(folder).map(drop)
}

//! `idempotency completions` and `idempotency man`: the command line, for a shell and for `man`.
//!
//! A script has the whole command line. The one that asks this command at each key is not stable in clap, and a key has nothing to ask
//! for: a store is not read to complete a line.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

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
    let created = fs::create_dir_all(folder);
    let written = created.and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    let shown = folder.display();
    let failed = |error| Failure::io(&format!("`{shown}` cannot be written"), &error);
    written.map_err(failed)?;
    Ok(Exit::Done)
}

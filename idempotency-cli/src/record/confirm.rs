//! The question before a record is changed, or a table is read.

use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};

use crate::connection::Connection;
use crate::exit::{Exit, Failure};

/// Asks the question below `shown` and the table that it is about, unless `yes` is set.
///
/// # Errors
///
/// If the reply is not yes, or if the input is no terminal. `refused` is the text of a reply that is not yes.
pub(super) async fn confirm(
    yes: bool,
    shown: &impl fmt::Display,
    question: &str,
    refused: &str,
    connection: &Connection,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let place = connection.place().await;
    // Not on standard output, which a program may read.
    let shown = format!("{shown}{:<12} {place}\n", "table");
    let written = io::stderr().write_all(shown.as_bytes());
    written.map_err(Failure::output)?;
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        let message =
            "cannot ask for confirmation, because the input is not a terminal: add `--yes`";
        return Err(Failure::new(Exit::Refused, message));
    }
    let question = format!("\n{question} [y/N] ");
    if confirmed(stdin.lock(), io::stderr(), &question).map_err(Failure::output)? {
        return Ok(());
    }
    Err(Failure::new(Exit::Refused, refused))
}

/// Asks the question. Returns true if the reply is yes.
fn confirmed(mut input: impl BufRead, mut output: impl Write, question: &str) -> io::Result<bool> {
    output.write_all(question.as_bytes())?;
    output.flush()?;
    let mut reply = String::new();
    input.read_line(&mut reply)?;
    Ok(matches!(reply.trim().to_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_confirms() {
        for (typed, yes) in [
            ("y\n", true),
            ("YES\n", true),
            ("\n", false),
            ("", false),
            ("yep", false),
        ] {
            let mut asked = Vec::new();
            assert_eq!(
                confirmed(typed.as_bytes(), &mut asked, "sure? ").unwrap(),
                yes,
                "{typed}"
            );
            assert_eq!(asked, b"sure? ");
        }
    }
}

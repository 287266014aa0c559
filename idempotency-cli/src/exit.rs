//! Exit codes, and the errors that lead to them.

use std::fmt;
use std::io;
use std::process::ExitCode;

use idempotency_core::config::ConfigurationError;

/// The exit codes, for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed, `table check` found something wrong, or a plan does not hold
  2  wrong usage or configuration
  3  there is no such record
  4  not read, not evicted, not resolved or not replayed: a claim or a record
     that it is not for, one that changed, or it was not confirmed
  5  the event has no key
  6  the function was invoked, and returned an error
  130  `list` or `expire` was interrupted";

/// The exit code of the command: [`HELP`] says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    NoRecord = 3,
    Refused = 4,
    NoKey = 5,
    FunctionError = 6,
    /// What a shell makes of a program that Ctrl-C ended.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of the command, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Empty if the output was closed, or has the error already.
    pub(crate) message: String,
    /// Where the command was at work, in lines for people. Empty if it was nowhere.
    pub(crate) place: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            message: message.to_string(),
            place: String::new(),
        }
    }

    /// Returns the failure of a read or write. Without a message if the reader of the output, such as `head`, has ended.
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Failed, "");
        }
        Self::new(Exit::Failed, format_args!("{what}: {error}"))
    }

    /// Returns the failure of a write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        Self::io("the output cannot be written", &error)
    }
}

impl From<ConfigurationError> for Failure {
    fn from(error: ConfigurationError) -> Self {
        Self::new(Exit::Usage, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_exit_code() {
        for (exit, line) in [
            (Exit::Done, "  0  done"),
            (Exit::Failed, "  1  failed"),
            (Exit::Usage, "  2  wrong usage"),
            (Exit::NoRecord, "  3  there is no such record"),
            (Exit::Refused, "  4  not read"),
            (Exit::NoKey, "  5  the event has no key"),
            (Exit::FunctionError, "  6  the function was invoked"),
            (
                Exit::Interrupted,
                "  130  `list` or `expire` was interrupted",
            ),
        ] {
            assert!(line.starts_with(&format!("  {}  ", exit as u8)));
            assert!(HELP.contains(&format!("\n{line}")), "{line}");
        }
    }
}

//! The printed output: a block for each step and a line for each event, in 100 columns.

use std::io::{self, IsTerminal, Write};

use crate::observation::{Action, Observation};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Prints to standard output, with colours on a terminal.
pub(crate) struct Timeline {
    colours: bool,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: io::stdout().is_terminal() && !unwanted,
        }
    }

    /// Prints a step's title and the function that it uses.
    pub(crate) fn step(&self, number: usize, title: &str, function: &str) -> io::Result<()> {
        let title = format!("{number}  {title}");
        let gap = 99_usize.saturating_sub(title.chars().count() + function.chars().count());
        self.line(&format!(
            "\n{}{}{}",
            self.coloured(BOLD, &title),
            " ".repeat(gap),
            self.coloured(DIM, function)
        ))
    }

    /// Prints the names of the columns.
    pub(crate) fn columns(&self) -> io::Result<()> {
        let names = row("", "sent", "key", "function", "DynamoDB", "response");
        self.line(&self.coloured(DIM, names.join(" ").trim_end()))
    }

    /// Prints an event, or one message of a batch, and what was observed of it.
    pub(crate) fn event(&self, number: &str, sent: &str, observed: &Observation) -> io::Result<()> {
        let action = observed.action.to_string();
        let key = observed.key().unwrap_or("-");
        let requests = observed.requests();
        let [number, sent, key, action, requests, response] =
            row(number, sent, key, &action, &requests, &observed.response);
        let action = self.coloured(colour(observed.action), &action);
        let number = self.coloured(DIM, &number);
        let key = self.coloured(DIM, &key);
        self.line(&format!(
            "{number} {sent} {key} {action} {requests} {response}"
        ))
    }

    /// Prints the line of a batch; the lines of its messages follow.
    pub(crate) fn batch(&self, number: &str, sent: &str, response: &str) -> io::Result<()> {
        let [number, sent, key, action, requests, response] =
            row(number, sent, "", "", "", response);
        let number = self.coloured(DIM, &number);
        self.line(&format!(
            "{number} {sent} {key} {action} {requests} {response}"
        ))
    }

    /// Prints a remark on the line above.
    pub(crate) fn note(&self, text: &str) -> io::Result<()> {
        self.line(&format!("   {}", self.coloured(DIM, text)))
    }

    pub(crate) fn title(&self, text: &str) -> io::Result<()> {
        self.line(&self.coloured(BOLD, text))
    }

    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    fn coloured(&self, colour: &str, text: &str) -> String {
        if self.colours {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

/// Pads the columns of a line. With the widest response, an `errorType`, a line has 100 characters.
fn row(
    number: &str,
    sent: &str,
    key: &str,
    action: &str,
    requests: &str,
    response: &str,
) -> [String; 6] {
    [
        format!("{number:>2}"),
        format!("{sent:<31}"),
        format!("{key:<8}"),
        format!("{action:<15}"),
        format!("{requests:<11}"),
        response.to_owned(),
    ]
}

fn colour(action: Action) -> &'static str {
    match action {
        Action::Ran => GREEN,
        Action::Replayed | Action::Cached | Action::Shared => CYAN,
        Action::Refused | Action::Unprotected | Action::NotStarted => YELLOW,
        Action::Failed | Action::Killed => RED,
    }
}

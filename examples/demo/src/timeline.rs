//! How the story is printed: a block for each step, a line for each event, in 100 columns.

use std::io::{self, IsTerminal, Write};

use crate::seen::{Did, Seen};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const CYAN: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Prints to standard output, in colours where a person looks at it.
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

    /// A step's title, with the function it is about.
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

    /// The names of the columns.
    pub(crate) fn columns(&self) -> io::Result<()> {
        let names = row("", "sent", "key", "function", "DynamoDB", "answer");
        self.line(&self.coloured(DIM, names.join(" ").trim_end()))
    }

    /// An event, or a message of one, and what became of it.
    pub(crate) fn event(&self, number: &str, sent: &str, seen: &Seen) -> io::Result<()> {
        let did = seen.did.to_string();
        let key = seen.key().unwrap_or("-");
        let calls = seen.calls();
        let [number, sent, key, did, calls, told] =
            row(number, sent, key, &did, &calls, &seen.told);
        let did = self.coloured(colour(seen.did), &did);
        let number = self.coloured(DIM, &number);
        let key = self.coloured(DIM, &key);
        self.line(&format!("{number} {sent} {key} {did} {calls} {told}"))
    }

    /// The head of a batch, whose messages follow.
    pub(crate) fn batch(&self, number: &str, sent: &str, told: &str) -> io::Result<()> {
        let [number, sent, key, did, calls, told] = row(number, sent, "", "", "", told);
        let number = self.coloured(DIM, &number);
        self.line(&format!("{number} {sent} {key} {did} {calls} {told}"))
    }

    /// A remark on what stands above.
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

/// The columns of a line: with the widest answer, an `errorType`, 100 characters.
fn row(number: &str, sent: &str, key: &str, did: &str, calls: &str, told: &str) -> [String; 6] {
    [
        format!("{number:>2}"),
        format!("{sent:<31}"),
        format!("{key:<8}"),
        format!("{did:<13}"),
        format!("{calls:<11}"),
        told.to_owned(),
    ]
}

fn colour(did: Did) -> &'static str {
    match did {
        Did::Ran => GREEN,
        Did::Replayed | Did::Cached => CYAN,
        Did::Refused | Did::Unprotected => YELLOW,
        Did::Failed | Did::Killed => RED,
    }
}

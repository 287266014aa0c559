//! The operator's terminal: colours, a line of progress, and the texts of other programs, whose hidden characters are shown as the
//! escapes of JSON.
//!
//! A record, an error of AWS or a key can have characters that move the cursor, forge a line or reverse the order of letters.
//! JSON output is ASCII and needs none of this.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use terminal_size::terminal_size_of;
use tokio::time::interval;

pub(crate) use idempotency_expression::{is_hidden, visible};

/// Returns lines of this program in which texts of others stand: only their line breaks stay.
fn lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

/// Returns JSON text in one line. It is the same value: white space stands between its tokens alone.
pub(crate) fn json_line(text: &str) -> String {
    visible(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// Returns a text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", visible(text).replace('\'', r"'\''"))
}

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// Lines for a terminal. Of what other programs wrote, each must be in one line: no character that controls a terminal stays in it.
#[derive(Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// Returns lines in one style.
    pub(crate) fn styled(style: Style, text: &str) -> Self {
        Self(format!("{style}{}{style:#}", lines(text)))
    }

    /// Adds lines, or a part of a line.
    pub(crate) fn with(mut self, more: impl Into<Self>) -> Self {
        self.0.push_str(&more.into().0);
        self
    }

    /// Writes the lines to standard output. Their styles stay if it shows colours.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut output = anstream::stdout().lock();
        output.write_all(self.0.as_bytes())?;
        output.flush()
    }

    /// Writes the lines to standard error.
    pub(crate) fn print_error(&self) {
        // If this fails, there is no output left.
        let _ = anstream::stderr().write_all(self.0.as_bytes());
    }
}

impl<T: fmt::Display> From<T> for Lines {
    fn from(text: T) -> Self {
        Self(lines(&text.to_string()))
    }
}

/// Prints an error, whose last line break may be missing.
pub(crate) fn error(text: &str) {
    let text = text.trim_end_matches('\n');
    let error = Lines::styled(BAD.bold(), "error:");
    error.with(format_args!(" {text}\n")).print_error();
}

/// Prints a warning in one line.
pub(crate) fn warn(text: impl fmt::Display) {
    let warning = Lines::styled(DOUBTFUL.bold(), "warning:");
    let text = text.to_string();
    let text = visible(&text);
    warning.with(format_args!(" {text}\n")).print_error();
}

/// A line on the operator's terminal that is written anew while something goes on. Without a terminal it does nothing.
pub(crate) struct Progress {
    /// How many characters fit into the line. 0 if it is not shown.
    width: usize,
    shown: usize,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let stderr = io::stderr();
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let width = terminal_size_of(&stderr).map_or(80, |(width, _)| usize::from(width.0));
        Self {
            // In the last column a terminal would begin another line.
            width: match stderr.is_terminal() && !is_dumb {
                true => width.saturating_sub(1),
                false => 0,
            },
            shown: 0,
        }
    }

    /// Waits for `work`. Shows `text` once a second meanwhile, and then removes the line.
    pub(crate) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        text: impl Fn() -> String,
    ) -> T {
        let (mut work, mut seconds) = (pin!(work), interval(Duration::from_secs(1)));
        let result = loop {
            tokio::select! {
                biased;
                result = &mut work => break result,
                // The first one is at once.
                _ = seconds.tick() => self.show(&text()),
            }
        };
        self.show("");
        result
    }

    /// Shows this text instead of the last one; an empty one removes the line.
    fn show(&mut self, text: &str) {
        let mut stderr = io::stderr().lock();
        let written = stderr.write_all(self.next(text).as_bytes());
        let _ = written.and_then(|()| stderr.flush());
    }

    fn next(&mut self, text: &str) -> String {
        let text: String = text.chars().take(self.width).collect();
        match std::mem::replace(&mut self.shown, text.len()) {
            0 => text,
            shown if text.is_empty() => format!("\r{text:<shown$}\r"),
            shown => format!("\r{text:<shown$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn json_stays_the_same_value_in_one_line() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{202e}\u{200b}\u{2028}\u{e0041}\u{7f}\r\n", "b": [1, "é"] });
        let text = format!("{value:#}");
        let shown = json_line(&text);
        assert!(!shown.contains(is_hidden), "{shown:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn a_line_of_progress_covers_the_last_one_and_fits_into_the_terminal() {
        let mut progress = Progress { width: 8, shown: 0 };
        let texts = ["reading it all", "read", ""].map(|text| progress.next(text));
        assert_eq!(texts, ["reading ", "\rread    ", "\r    \r"]);
        let mut nowhere = Progress { width: 0, shown: 0 };
        assert_eq!(nowhere.next("reading") + &nowhere.next(""), "");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_goes_on_while_a_request_is_slow() {
        let begin = Instant::now();
        let (end, work) = oneshot::channel();
        let (end, shown) = (Cell::new(Some(end)), RefCell::new(Vec::new()));
        let text = || {
            let seconds = begin.elapsed().as_secs();
            shown.borrow_mut().push(seconds);
            if seconds == 2 {
                end.take().unwrap().send(()).unwrap();
            }
            String::new()
        };
        let mut nowhere = Progress { width: 0, shown: 0 };
        nowhere.during(work, text).await.unwrap();
        assert_eq!(shown.into_inner(), [0, 1, 2]);
    }

    #[test]
    fn a_style_of_another_program_is_no_style() {
        let lines = Lines::from("a\u{1b}[32m\n").with(Lines::styled(GOOD, "\u{1b}[31m\n"));
        let expected = "a\\u001b[32m\n\u{1b}[32m\\u001b[31m\n\u{1b}[0m";
        assert_eq!(lines.0, expected);
    }

    #[test]
    fn only_a_line_break_of_ours_stays_and_a_word_stays_one_word() {
        assert_eq!(lines("a\u{1b}\r\nb\u{2028}\n"), "a\\u001b\\r\nb\\u2028\n");
        assert_eq!(word("it's\n"), r"'it'\''s\n'");
    }
}

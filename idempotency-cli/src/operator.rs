//! The operator: the clock of the machine, the terminal at which a question is answered, and Ctrl-C.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use idempotency_core::time::EpochMillis;

use crate::clock::StoreClock;

/// Waits for Ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // This system has no such signal.
        std::future::pending().await
    }
}

/// The operator of this command. Tests have their own.
pub(crate) trait Operator {
    /// Returns the current time.
    fn now(&self) -> EpochMillis;

    /// Asks a question, and returns the line that was typed. `None` if the input is not a terminal: the question is then not asked.
    fn ask(&self, question: &str) -> io::Result<Option<String>>;
}

/// The clock, the input and the error output of this process.
#[derive(Default)]
pub(crate) struct ThisProcess(pub(crate) StoreClock);

impl Operator for ThisProcess {
    fn now(&self) -> EpochMillis {
        self.0.now()
    }

    fn ask(&self, question: &str) -> io::Result<Option<String>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let mut output = io::stderr();
        output.write_all(question.as_bytes())?;
        output.flush()?;
        line(stdin.lock()).map(Some)
    }
}

/// Returns the line that was typed. A byte that is not UTF-8 is no reason to fail: the line is not a yes.
fn line(mut input: impl BufRead) -> io::Result<String> {
    let mut typed = Vec::new();
    input.read_until(b'\n', &mut typed)?;
    Ok(String::from_utf8_lossy(&typed).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_one_line_also_if_it_is_not_utf_8() {
        let mut terminal = b"yes\n\xff\n".as_slice();
        let replies = [(); 3].map(|()| line(&mut terminal).unwrap());
        assert_eq!(replies, ["yes\n", "\u{fffd}\n", ""]);
    }
}

//! The lines that a process writes.

use std::fmt;
#[cfg(unix)]
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

use crate::lock::lock;

/// A line that the process wrote to its standard output or standard error, without its line ending.
///
/// `Debug` omits the text, because a function may log its payload.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct LogLine {
    /// The text. Bytes that are not UTF-8 are replaced.
    pub text: String,
}

impl fmt::Debug for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLine").finish_non_exhaustive()
    }
}

/// The stream that a line is written to.
#[derive(Clone, Copy)]
pub(super) enum LogSource {
    Stdout,
    Stderr,
}

/// Everything that one process has written so far.
pub(super) struct Log {
    lines: Mutex<Lines>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Lines {
    complete: Vec<LogLine>,
    stdout: Input,
    stderr: Input,
    /// The index after the last line that [`Log::wait_for`] returned.
    cursor: usize,
    closed: bool,
}

#[derive(Default)]
struct Input {
    partial: Vec<u8>,
    /// A second, non-blocking handle of the pipe.
    #[cfg(unix)]
    tap: Option<std::fs::File>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            lines: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Keeps a second handle of a pipe, for [`Log::drain`].
    #[cfg(unix)]
    pub(super) fn tap(&self, source: LogSource, pipe: impl std::os::fd::AsFd) -> io::Result<()> {
        let tap = pipe.as_fd().try_clone_to_owned()?;
        self.lines().input(source).tap = Some(tap.into());
        Ok(())
    }

    /// Reads a pipe to its end.
    pub(super) async fn follow(&self, source: LogSource, mut pipe: impl AsyncRead + Unpin) {
        let mut buffer = [0; 4096];
        std::future::poll_fn(|cx| {
            loop {
                let mut read = ReadBuf::new(&mut buffer);
                // Read and append under one lock: otherwise `drain` could append later bytes first.
                let mut lines = self.lines();
                if ready!(Pin::new(&mut pipe).poll_read(cx, &mut read)).is_err()
                    || read.filled().is_empty()
                {
                    return Poll::Ready(());
                }
                lines.append(source, read.filled());
                drop(lines);
                self.changed.send_replace(());
            }
        })
        .await;
    }

    /// Reads what is in the pipes now. The process writes its lines before it responds, but the response arrives on another
    /// connection and can be received first.
    pub(super) fn drain(&self) {
        #[cfg(unix)]
        {
            let mut lines = self.lines();
            for source in [LogSource::Stdout, LogSource::Stderr] {
                let Some(mut tap) = lines.input(source).tap.take() else {
                    continue;
                };
                let mut buffer = [0; 4096];
                loop {
                    match io::Read::read(&mut tap, &mut buffer) {
                        Ok(0) => break,
                        Ok(length) => lines.append(source, &buffer[..length]),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                lines.input(source).tap = Some(tap);
            }
            drop(lines);
            self.changed.send_replace(());
        }
    }

    /// Ends the log after the process has ended. A last line without a line ending counts.
    pub(super) fn close(&self) {
        self.drain();
        let mut lines = self.lines();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            if !lines.input(source).partial.is_empty() {
                lines.append(source, b"\n");
            }
            #[cfg(unix)]
            lines.input(source).tap.take();
        }
        lines.closed = true;
        drop(lines);
        self.changed.send_replace(());
    }

    pub(super) fn len(&self) -> usize {
        self.lines().complete.len()
    }

    pub(super) fn since(&self, first: usize) -> Vec<LogLine> {
        self.lines().complete.iter().skip(first).cloned().collect()
    }

    /// Returns the next line that contains the text, after the line returned before; `None` if the log ends without one.
    pub(super) async fn wait_for(&self, text: &str) -> Option<LogLine> {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let mut lines = self.lines();
                let rest = lines.complete.iter().enumerate().skip(lines.cursor);
                let found = rest
                    .into_iter()
                    .find(|(_, line)| line.text.contains(text))
                    .map(|(index, line)| (index, line.clone()));
                if let Some((index, line)) = found {
                    lines.cursor = index + 1;
                    return Some(line);
                }
                if lines.closed {
                    return None;
                }
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        lock(&self.lines)
    }
}

impl Lines {
    fn input(&mut self, source: LogSource) -> &mut Input {
        match source {
            LogSource::Stdout => &mut self.stdout,
            LogSource::Stderr => &mut self.stderr,
        }
    }

    fn append(&mut self, source: LogSource, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let partial = &mut self.input(source).partial;
            partial.extend_from_slice(part);
            let Some(line) = partial.strip_suffix(b"\n") else {
                continue;
            };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let text = String::from_utf8_lossy(line).into_owned();
            partial.clear();
            self.complete.push(LogLine { text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_assembled_from_its_parts() {
        let log = Log::new();
        log.lines().append(LogSource::Stdout, b"one\ntw");
        log.lines().append(LogSource::Stderr, b"other\r\n");
        log.lines().append(LogSource::Stdout, b"o\nlast");
        log.close();
        let texts: Vec<_> = log.since(0).into_iter().map(|line| line.text).collect();
        assert_eq!(texts, ["one", "other", "two", "last"]);
    }

    #[tokio::test]
    async fn each_wait_continues_after_the_line_found_before() {
        let log = Log::new();
        log.lines().append(LogSource::Stdout, b"a 1\nb\na 2\n");
        log.close();
        for (text, expected) in [("a", Some("a 1")), ("a", Some("a 2")), ("b", None)] {
            let found = log.wait_for(text).await.map(|line| line.text);
            assert_eq!(found.as_deref(), expected);
        }
    }
}

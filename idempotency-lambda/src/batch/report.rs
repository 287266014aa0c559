//! What a batch logs: each record that is returned, and one summary.
//!
//! The outcome event of each call has the rest. Nothing here shows a body. The text of a handler's own error, which may quote
//! the body, is shown under `log_errors` alone.

use idempotency_core::event::milliseconds;

use super::reserve::Reserve;
use super::verdict::{Done, Verdict, Why};
use crate::metrics;

/// The target of these events.
const TARGET: &str = "idempotency::batch";

/// Counts how the records of a batch ended.
#[derive(Debug, Default)]
pub(super) struct Report<'a> {
    source: &'static str,
    operation: &'a str,
    records: usize,
    done: usize,
    duplicates: usize,
    undecodable: usize,
    /// Returned for another reason than those of `not_started`. The undecodable records are among them.
    failed: usize,
    /// Returned without a run: no time, or behind another record.
    not_started: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(source: &'static str, operation: &'a str, records: usize) -> Self {
        Self {
            source,
            operation,
            records,
            ..Self::default()
        }
    }

    /// Counts a record, and logs it if an operator may need the reason.
    pub(super) fn record(&mut self, identifier: &str, verdict: &Verdict) {
        macro_rules! log {
            ($level:ident, $($fields:tt)+) => {
                tracing::$level!(
                    target: TARGET,
                    event_source = self.source,
                    operation = self.operation,
                    record = identifier,
                    $($fields)+
                )
            };
        }
        match verdict {
            Verdict::Done(done) => {
                self.done += 1;
                self.duplicates += usize::from(*done == Done::Duplicate);
                if let Done::Despite(kind) = done {
                    log!(
                        warn,
                        error = kind.name(),
                        "record acknowledged: its work is done, although its call ended in an error"
                    );
                }
            }
            Verdict::Returned(why @ (Why::NoTime | Why::Behind)) => {
                self.not_started += 1;
                log!(debug, reason = why.name(), "record returned without a run");
            }
            Verdict::Returned(why) => {
                self.failed += 1;
                self.undecodable += usize::from(*why == Why::Undecodable);
                log!(
                    warn,
                    reason = why.name(),
                    error = why.error(),
                    cause = why.chain(),
                    "record returned"
                );
            }
        }
    }

    /// Logs that the time is too short for the first record. If this is so in each invocation, no record ever runs.
    pub(super) fn too_late(&self, reserve: &Reserve) {
        let (left, kept) = reserve.times();
        tracing::warn!(
            target: TARGET,
            event_source = self.source,
            operation = self.operation,
            left_ms = left.map(milliseconds),
            reserve_ms = milliseconds(kept),
            "no record can start: the time that is left is not longer than the reserve"
        );
    }

    /// Logs and counts the summary.
    pub(super) fn end(self) {
        for (name, records) in [
            ("Undecodable", self.undecodable),
            ("Unprocessed", self.not_started),
        ] {
            metrics::count(self.operation, name, records as u64);
        }
        macro_rules! emit {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
                    $level,
                    event_source = self.source,
                    operation = self.operation,
                    records = self.records,
                    done = self.done,
                    duplicates = self.duplicates,
                    failed = self.failed,
                    undecodable = self.undecodable,
                    not_started = self.not_started,
                    "batch"
                )
            };
        }
        if self.done == self.records {
            emit!(tracing::Level::DEBUG);
        } else {
            emit!(tracing::Level::WARN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_record_counts_once() {
        let mut report = Report::new("aws:sqs", "charge", 8);
        for verdict in [
            Verdict::Done(Done::Responded),
            Verdict::Done(Done::Unstored),
            Verdict::Done(Done::Duplicate),
            Verdict::Returned(Why::Panicked),
            Verdict::Returned(Why::Duplicate),
            Verdict::Returned(Why::Undecodable),
            Verdict::Returned(Why::NoTime),
            Verdict::Returned(Why::Behind),
        ] {
            report.record("m-1", &verdict);
        }
        let ended = (report.done, report.duplicates, report.failed);
        assert_eq!(ended, (3, 1, 3));
        assert_eq!((report.undecodable, report.not_started), (1, 2));
    }
}

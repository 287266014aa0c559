//! What a check found.

use std::fmt;

use super::fault::FaultKind;
use super::text;

/// The verdict on one case: a fault at a point.
///
/// The order is that of a report: the worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SafetyVerdict {
    /// Each effect happened once, and all responses are equal.
    Ok,
    /// The run did not come to this point again, so the fault was not played.
    NotReached,
    /// The key waits for an operator, as `on_timeout = "hold"` asks. No effect happened twice.
    Held,
    /// No delivery got a final response.
    Stuck,
    /// Two responses of one key differ.
    ResponsesDiffer,
    /// An effect happened less often than in a faultless run, and the sender has a final response.
    EffectLost,
    /// An effect happened more often than in a faultless run.
    EffectTwice,
}

impl SafetyVerdict {
    /// Returns true if a function with this verdict can be retried: no effect is lost, none happens twice, and every sender gets
    /// the same response in the end.
    #[must_use]
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Ok | Self::NotReached | Self::Held)
    }
}

/// Writes the words of the table.
impl fmt::Display for SafetyVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::NotReached => "not reached",
            Self::Held => "held",
            Self::Stuck => "stuck",
            Self::ResponsesDiffer => "responses differ",
            Self::EffectLost => "effect lost",
            Self::EffectTwice => "effect twice",
        })
    }
}

/// One case, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The number of the point in a report, from 1; 0 for a case without a fault.
    pub number: usize,
    /// The point, such as `POST /charges` or `await 1 after PutItem idempotency`.
    pub point: String,
    /// What happened there. `None` for a case without a fault, such as a second delivery.
    pub fault: Option<FaultKind>,
    /// The verdict.
    pub verdict: SafetyVerdict,
    /// What was found, as sentences.
    pub findings: Vec<String>,
    /// How each delivery ended for its sender, in the order in which they started.
    pub deliveries: Vec<String>,
}

impl Row {
    /// Returns the name of the case, such as `POST /charges, crash after`.
    #[must_use]
    pub fn case(&self) -> String {
        match self.fault {
            Some(fault) => format!("{} {}, {fault}", self.number, self.point),
            None => self.point.clone(),
        }
    }
}

/// What a check found: a verdict for each case. `Display` writes it as a table.
///
/// # Examples
///
/// ```
/// # use idempotency_testkit::retry_safety::SafetyReport;
/// fn check(report: &SafetyReport) {
///     for row in report.unsafe_rows() {
///         println!("{}: {}", row.case(), row.verdict);
///     }
///     report.assert_safe();
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a report does nothing by itself: call `assert_safe`"]
pub struct SafetyReport {
    pub(super) rows: Vec<Row>,
    /// Why the check could not run.
    pub(super) failure: Option<String>,
    /// What a reader must know beside the table.
    pub(super) notes: Vec<String>,
}

impl SafetyReport {
    pub(super) fn failed(why: impl fmt::Display) -> Self {
        Self {
            rows: Vec::new(),
            failure: Some(why.to_string()),
            notes: Vec::new(),
        }
    }

    /// Returns all cases, in the order of the run.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the cases that are not safe, the worst first.
    #[must_use]
    pub fn unsafe_rows(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .filter(|row| !row.verdict.is_safe())
            .collect();
        // The sort keeps the order of the run among equal verdicts.
        rows.sort_by_key(|row| std::cmp::Reverse(row.verdict));
        rows
    }

    /// Returns the cases with this verdict.
    #[must_use]
    pub fn with(&self, verdict: SafetyVerdict) -> Vec<&Row> {
        self.rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .collect()
    }

    /// Returns true if the check ran and every case is safe. A held key is safe: the framework refuses to guess.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.failure.is_none() && self.rows.iter().all(|row| row.verdict.is_safe())
    }

    /// Returns why the check could not run, if it could not.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Ends the test unless every case is safe. The message is the report, with the case to fix first.
    ///
    /// # Panics
    ///
    /// If a case is not safe, or if the check could not run.
    #[track_caller]
    pub fn assert_safe(&self) {
        assert!(
            self.is_safe(),
            "the function is not safe to retry\n\n{self}"
        );
    }
}

impl fmt::Display for SafetyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write(self, f)
    }
}

//! What a record says about the decision of an operator.

use serde::Deserialize;
use serde_json::json;

use super::Undecided;
use crate::time::EpochMillis;

/// The longest text that names who decided, in bytes. Each duplicate of the key pays for it.
const LONGEST_NAME: usize = 128;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1_024;

/// The trace of a decision: what was decided, by whom, why and when. A record has it in its attribute `decision`.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::decision::{Trace, Verdict};
/// let text = r#"{"at":1700000000000,"by":"ana","decided":"rerun","reason":"no charge at the provider"}"#;
/// let trace = Trace::from_json(text).unwrap();
/// assert_eq!((trace.verdict, trace.by.as_str()), (Verdict::Rerun, "ana"));
/// assert_eq!(trace.to_json(), text);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trace {
    /// What was decided.
    pub verdict: Verdict,
    /// Who decided.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When, by the operator's clock.
    pub at: EpochMillis,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The run had its effect, and duplicates get the response that the operator gave.
    Completed,
    /// The next call runs the handler.
    Rerun,
}

impl Verdict {
    /// Returns the text that a record holds.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Rerun => "rerun",
        }
    }
}

/// The members of the JSON text.
#[derive(Deserialize)]
struct Stored {
    at: i64,
    by: String,
    decided: String,
    reason: String,
}

impl Trace {
    /// Returns the text that a record holds. The members are in alphabetical order.
    pub fn to_json(&self) -> String {
        let stored = json!({
            "at": self.at.get(),
            "by": self.by,
            "decided": self.verdict.as_str(),
            "reason": self.reason,
        });
        stored.to_string()
    }

    /// Returns the trace in the text of a record, or `None` if the text is not one.
    pub fn from_json(text: &str) -> Option<Self> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        let all = [Verdict::Completed, Verdict::Rerun];
        let mut all = all.into_iter();
        Some(Self {
            verdict: all.find(|verdict| verdict.as_str() == stored.decided)?,
            by: stored.by,
            reason: stored.reason,
            at: EpochMillis::new(stored.at),
        })
    }

    /// Checks that the trace says who and why, in texts that a terminal can show.
    pub(super) fn check(&self) -> Result<(), Undecided> {
        let wrong = |text: &str, longest: usize| {
            text.trim().is_empty() || text.len() > longest || text.contains(char::is_control)
        };
        if wrong(&self.by, LONGEST_NAME) {
            return Err(Undecided::By(LONGEST_NAME));
        }
        if wrong(&self.reason, LONGEST_REASON) {
            return Err(Undecided::Reason(LONGEST_REASON));
        }
        Ok(())
    }
}

//! An operator's decision about a key whose run did not report how it ended: the write, and when it may be applied.
//!
//! The write is applied only to the record that the operator saw, so a run that took the key over in the meantime is not
//! overwritten. It removes the owner's token. So the fence refuses the completion, the release and the recorded failure of a late
//! owner, as after a takeover.

use std::fmt;

use serde::Deserialize;
use serde_json::json;

use super::condition::{Condition, claimable, unchanged};
use super::effect::{Change, Write};
use super::policy::OnTimeout;
use super::requests::{HELD_FOR, LONGEST_BESIDE_AN_EVENT};
use crate::record::{Attribute, Data, Field, Record, Status};
use crate::time::{EpochMillis, EpochSeconds};
use crate::typed;

/// The recorded failure of a claim that an operator freed. It is what frees a key under `hold`.
pub const FREED: &str = "ResolvedByOperator";

/// The longest text that names who decided, in bytes. Each duplicate of the key reads it.
const LONGEST_NAME: usize = 128;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1_024;

/// What an operator decides about a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// How the run is treated from now on.
    pub ending: Ending,
    /// Who decided: a name, an address, a ticket.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// How a run without a known end is treated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It had its effect: duplicates get this response.
    Completed {
        /// The response, as the function stores it.
        response: Data,
        /// When the window ends. `None` keeps the end that the claim has; under `hold` this is ten years after its lease.
        expiration: Option<EpochSeconds>,
    },
    /// It had no effect: the next call runs the handler.
    Rerun,
}

/// The write of a decision, and its condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecisionWrite {
    /// The write.
    pub write: Write,
    /// When it may be applied: the record is still the one that the operator saw.
    pub condition: Condition,
    /// The trace that the write leaves in the record, as JSON text.
    pub trace: String,
}

impl Decision {
    /// Returns the write that records this decision about `read`, the record that the operator saw.
    ///
    /// `live` allows a claim whose lease still runs by the operator's clock: a run may then have its effect after the decision.
    ///
    /// # Errors
    ///
    /// If there is nothing to decide about this record, or if the decision is incomplete. Nothing is written.
    pub fn about(
        &self,
        read: &Record,
        now: EpochMillis,
        live: bool,
    ) -> Result<DecisionWrite, DecisionError> {
        match read.status.value() {
            Some(Status::InProgress) => {}
            Some(Status::Completed) => return Err(DecisionError::Completed),
            Some(Status::Other(_)) | None => return Err(DecisionError::Unreadable),
        }
        let free = |on_timeout| claimable(now, on_timeout).holds(Some(read));
        if !free(OnTimeout::Rerun) && !live {
            return Err(DecisionError::Live);
        }
        let verdict = match self.ending {
            Ending::Completed { .. } => Verdict::Completed,
            Ending::Rerun => Verdict::Rerun,
        };
        let trace = Trace {
            verdict,
            by: self.by.clone(),
            reason: self.reason.clone(),
            at: now,
        };
        trace.check()?;
        let trace = trace.to_json();
        let decision = Field::Value(trace.clone());
        let change = match &self.ending {
            Ending::Completed {
                response,
                expiration,
            } => {
                if !response.is_json() {
                    return Err(DecisionError::NotJson);
                }
                let window = expiration.as_ref().or(read.expiration.value());
                // An end in this second would be expired before a duplicate comes.
                let open = window.filter(|end| **end > now.floor_to_seconds());
                let mut remove = vec![Attribute::Owner, Attribute::Failure];
                if response.as_str().len() > LONGEST_BESIDE_AN_EVENT {
                    remove.push(Attribute::Event);
                }
                // As after a completion, no later run needs the steps. A step is added only to an existing map, so none can follow.
                if read.steps.exists() {
                    remove.push(Attribute::Steps);
                }
                Change {
                    set: Record {
                        expiration: Field::Value(*open.ok_or(DecisionError::WindowExpired)?),
                        status: Field::Value(Status::Completed),
                        data: Field::Value(response.clone()),
                        decision,
                        ..Record::default()
                    },
                    remove,
                }
            }
            Ending::Rerun if free(OnTimeout::Rerun) && free(OnTimeout::Hold) => {
                return Err(DecisionError::Free);
            }
            Ending::Rerun => Change {
                set: Record {
                    in_progress_expiration: expired_lease(read, now),
                    failure: Field::Value(FREED.to_owned()),
                    decision,
                    ..Record::default()
                },
                remove: vec![Attribute::Owner],
            },
        };
        Ok(DecisionWrite {
            write: Write::Update(change),
            condition: unchanged(read),
            trace,
        })
    }
}

impl DecisionWrite {
    /// Returns true if the record has this decision: an earlier send of the write was applied.
    pub fn is_in(&self, record: &Record) -> bool {
        record.decision.value() == Some(&self.trace)
    }
}

/// Returns true if the record is a claim that was made under `hold` and waits for an operator: its lease has expired, and its run
/// reported no failure.
///
/// Returns false for a claim made under `rerun` whose operation is under `hold` by now: the record does not show that it is held.
pub fn is_held(record: &Record, now: EpochMillis) -> bool {
    let free = |on_timeout| claimable(now, on_timeout).holds(Some(record));
    let ends = record.in_progress_expiration.value();
    let ends = ends.zip(record.expiration.value());
    let is_kept = ends.is_some_and(|(lease, kept)| *kept >= lease.ceil_to_seconds().plus(HELD_FOR));
    record.status.value() == Some(&Status::InProgress)
        && free(OnTimeout::Rerun)
        && !free(OnTimeout::Hold)
        && is_kept
}

/// Returns the lease end to set in a freed claim, because Python and calls under `rerun` look at it. An expired lease stays as it is.
fn expired_lease(read: &Record, now: EpochMillis) -> Field<EpochMillis> {
    match read.in_progress_expiration.value() {
        Some(end) if *end < now => Field::Absent,
        _ => Field::Value(EpochMillis::new(now.get().saturating_sub(1))),
    }
}

/// The trace of a decision: what was decided, by whom, why and when. A record has it in its attribute `decision`.
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
struct StoredTrace {
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
        let stored: StoredTrace = typed::read(text).ok()?;
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
    fn check(&self) -> Result<(), DecisionError> {
        let wrong = |text: &str, longest: usize| {
            text.trim().is_empty() || text.len() > longest || text.contains(char::is_control)
        };
        if wrong(&self.by, LONGEST_NAME) {
            return Err(DecisionError::By(LONGEST_NAME));
        }
        if wrong(&self.reason, LONGEST_REASON) {
            return Err(DecisionError::Reason(LONGEST_REASON));
        }
        Ok(())
    }
}

/// Why a decision about a record is refused. Nothing was written.
///
/// Its text follows the name of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecisionError {
    /// The lease of the claim still runs.
    Live,
    /// The record is completed.
    Completed,
    /// The key is free already: the next call runs the handler under every policy.
    Free,
    /// The window of the response has expired, or its end cannot be read.
    WindowExpired,
    /// The response is not JSON.
    NotJson,
    /// The status cannot be understood.
    Unreadable,
    /// It does not say who decided, in at most this many bytes and without control characters.
    By(usize),
    /// It does not say why, in at most this many bytes and without control characters.
    Reason(usize),
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str(
                "is a live claim: a run may still be going, and may have its effect after the decision; wait until its lease \
                 ends",
            ),
            Self::Completed => f.write_str(
                "is completed, so there is nothing to decide: duplicates get its response; evict it if the handler must run \
                 again",
            ),
            Self::Free => {
                f.write_str("is free already: the next call runs the handler under every policy")
            }
            Self::WindowExpired => f.write_str(
                "has a window that has expired or that cannot be read, so the response would never be replayed: say how long \
                 to keep it",
            ),
            Self::NotJson => f.write_str("cannot be completed, because the response is not JSON"),
            Self::Unreadable => f.write_str(
                "cannot be decided, because its status is missing or unknown: evict it",
            ),
            Self::By(longest) => write!(
                f,
                "cannot be decided without a name of who decides, of at most {longest} bytes and without control characters"
            ),
            Self::Reason(longest) => write!(
                f,
                "cannot be decided without a reason, of at most {longest} bytes and without control characters"
            ),
        }
    }
}

impl std::error::Error for DecisionError {}

#[cfg(test)]
mod tests {
    use super::super::condition::held_by;
    use super::super::tests::script::{data, number, record, show_changes};
    use super::super::tests::{NOW, call, me, now_plus_seconds};
    use super::super::{RecordState, classify};
    use super::*;
    use crate::example::ready;
    use crate::example::shared::check_each;
    use crate::record::RecordId;
    use crate::store::{MemoryStore, SendLog, Store, StoreReply, StoreRequest};

    fn decision(ending: Ending) -> Decision {
        Decision {
            ending,
            by: "ana".to_owned(),
            reason: "seen at the provider".to_owned(),
        }
    }

    fn responds(text: &str, expiration: Option<EpochSeconds>) -> Ending {
        let response = data(text);
        Ending::Completed {
            response,
            expiration,
        }
    }

    /// Returns a claim whose lease ended one millisecond ago, as a call under `hold` makes it.
    fn held() -> Record {
        record("held").unwrap()
    }

    /// Returns the record after the decision, of a store that has `stored`. `None` if the write was refused.
    fn after(decided: &DecisionWrite, stored: Record) -> Option<Record> {
        let (store, id) = (MemoryStore::new(), RecordId::new("charge#1"));
        store.insert(id.clone(), stored);
        let request = StoreRequest::write(&id, &decided.write, &decided.condition);
        let applied = ready(store.send(request, &SendLog::new()));
        matches!(applied, StoreReply::Applied { .. }).then(|| store.record(&id))?
    }

    /// Returns the ending that a row describes, and whether it allows a live claim.
    fn ending(text: &str) -> (Ending, bool) {
        let (text, response) = text.split_once("responds ").unwrap_or((text, ""));
        let (mut is_live, mut expiration) = (false, None);
        for word in text.split_whitespace() {
            match word.strip_prefix("until=") {
                Some(time) => expiration = Some(now_plus_seconds(number(time))),
                None if word == "frees" => return (Ending::Rerun, is_live),
                None => is_live |= word == "live",
            }
        }
        (responds(response, expiration), is_live)
    }

    #[test]
    fn a_decision_ends_the_claim_that_was_read_or_is_refused_with_the_reason() {
        check_each(include_str!("tests/decision.txt"), |row| {
            let (text, ending) = row.split_once(", ").expect("a record and an ending");
            let (read, (ending, is_live)) = (record(text).unwrap(), self::ending(ending));
            let decided = match decision(ending.clone()).about(&read, NOW, is_live) {
                Ok(decided) => decided,
                Err(why) => return format!("{why:?}"),
            };
            let found = after(&decided, read.clone()).unwrap();
            assert!(decided.is_in(&found) && !decided.is_in(&read));
            assert!(!decided.condition.holds(None));
            // A late owner can write nothing.
            assert_eq!(held_by(&me()).holds(Some(&read)), read.owner.exists());
            assert!(!held_by(&me()).holds(Some(&found)) && !found.owner.exists());
            let verdict = match ending {
                Ending::Completed { .. } => {
                    assert_eq!(classify(&found, NOW, &call()), RecordState::Replay);
                    Verdict::Completed
                }
                Ending::Rerun => {
                    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
                        assert!(claimable(NOW, on_timeout).holds(Some(&found)));
                    }
                    Verdict::Rerun
                }
            };
            let changes = show_changes(&found, &read).join(" ");
            changes.replace(&decided.trace, verdict.as_str())
        });
    }

    #[test]
    fn a_decision_leaves_this_trace() {
        let trace = |ending| decision(ending).about(&held(), NOW, false).unwrap().trace;
        assert_eq!(
            trace(responds("1", None)),
            r#"{"at":1700000000500,"by":"ana","decided":"completed","reason":"seen at the provider"}"#
        );
        assert_eq!(
            trace(Ending::Rerun),
            r#"{"at":1700000000500,"by":"ana","decided":"rerun","reason":"seen at the provider"}"#
        );
    }

    #[test]
    fn only_the_record_that_was_shown_is_decided() {
        for ending in [responds("1", None), Ending::Rerun] {
            let decided = decision(ending).about(&held(), NOW, false).unwrap();
            assert!(after(&decided, held()).is_some());
            for changed in ["done", "mine", "held[owner=-]", "held[failure=Timeout]"] {
                assert_eq!(after(&decided, record(changed).unwrap()), None, "{changed}");
            }
        }
    }

    #[test]
    fn a_decision_says_who_and_why() {
        let about = |by: &str, reason: &str| {
            let decision = Decision {
                ending: Ending::Rerun,
                by: by.to_owned(),
                reason: reason.to_owned(),
            };
            decision.about(&held(), NOW, false).map(|_| ())
        };
        assert_eq!(about(&"n".repeat(128), &"w".repeat(1_024)), Ok(()));
        for by in ["", "  ", "a\nb", "\u{1b}[2J", &"n".repeat(129)] {
            assert_eq!(about(by, "why"), Err(DecisionError::By(128)), "{by:?}");
        }
        for reason in ["", "\t", "a\u{0}b", &"w".repeat(1_025)] {
            let refused = about("ana", reason);
            assert_eq!(refused, Err(DecisionError::Reason(1_024)), "{reason:?}");
        }
        let text = DecisionError::Reason(1_024).to_string();
        assert!(text.contains("a reason, of at most 1024 bytes"), "{text}");
    }

    #[test]
    fn a_trace_reads_back_and_other_texts_are_none() {
        for verdict in [Verdict::Completed, Verdict::Rerun] {
            let trace = Trace {
                verdict,
                by: "\"ana\" é".to_owned(),
                reason: "{}\\".to_owned(),
                at: NOW,
            };
            assert_eq!(Trace::from_json(&trace.to_json()), Some(trace));
        }
        for text in [
            "",
            "{}",
            "[]",
            r#"{"at":1,"by":"a","decided":"later","reason":"b"}"#,
        ] {
            assert_eq!(Trace::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn the_response_is_not_in_the_debug_output_of_a_decision() {
        let decision = decision(responds("\"s3cr3t\"", None));
        let decided = decision.about(&held(), NOW, false).unwrap();
        assert!(!format!("{decision:?}{decided:?}").contains("s3cr3t"));
    }

    #[test]
    fn only_a_claim_under_hold_without_an_end_is_held() {
        check_each(include_str!("tests/held.txt"), |text| {
            is_held(&record(text).unwrap(), NOW).to_string()
        });
    }
}

//! An operator's decision about a key whose run did not report how it ended: the write, and when it may be applied.
//!
//! The write is applied only to the record that the operator saw, so a run that took the key over in the meantime is not
//! overwritten. It removes the owner's token. So the fence refuses the completion, the release and the recorded failure of a late
//! owner, as after a takeover.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use super::CallTerms;
use super::classify::{RecordState, classify, response_of, same_payload};
use super::condition::{Condition, claimable, unchanged};
use super::effect::{Change, Write};
use super::policy::OnTimeout;
use super::requests::HELD_FOR;
use super::store_limits::StoreLimits;
use super::undo::Undoing;
use crate::error::ErrorKind;
use crate::key::HashAlgorithm;
use crate::record::{Attribute, Data, Field, Record, Status};
use crate::time::{EpochMillis, EpochSeconds};
use crate::typed;

/// The recorded failure of a claim that an operator freed. It is what frees a key under `hold`.
pub const FREED: &str = "ResolvedByOperator";

/// The longest text that names who decided, in bytes. Each duplicate of the key reads it.
const LONGEST_NAME: usize = 128;

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1_024;

/// How many earlier decisions a trace keeps.
const MOST_REPLACED: usize = 3;

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
    /// `limits` are those of the record's store. `live` allows a claim whose lease still runs by the operator's clock: a run may then have its effect after the decision.
    ///
    /// # Errors
    ///
    /// If there is nothing to decide about this record, or if the decision is incomplete. Nothing is written.
    pub fn about(
        &self,
        read: &Record,
        now: EpochMillis,
        live: bool,
        limits: StoreLimits,
    ) -> Result<DecisionWrite, DecisionError> {
        let replaces = is_decided(read);
        let free = |on_timeout| claimable(now, on_timeout).holds(Some(read));
        let undoing = Undoing::of(read);
        let may_run = match read.status.value() {
            Some(Status::Undoing) if undoing.is_none() => return Err(DecisionError::Unreadable),
            Some(Status::InProgress | Status::Undoing) => is_live(read, now),
            // A decision that `live` allowed left the lease as it was.
            Some(Status::Completed) if replaces => {
                self.ending == Ending::Rerun && expired_lease(read, now).exists()
            }
            Some(Status::Completed) => return Err(DecisionError::Completed),
            Some(Status::Other(_)) | None => return Err(DecisionError::Unreadable),
        };
        if may_run && !live {
            return Err(DecisionError::Live);
        }
        let verdict = match self.ending {
            Ending::Completed { .. } => Verdict::Completed,
            Ending::Rerun => Verdict::Rerun,
        };
        let response_sha256 = match &self.ending {
            Ending::Completed { response, .. } => Some(digest(response)),
            Ending::Rerun => None,
        };
        let earlier = trace_of(read);
        let trace = Trace {
            verdict,
            by: self.by.clone(),
            reason: self.reason.clone(),
            at: now,
            replaced: earlier.map(Trace::with_its_own).unwrap_or_default(),
            response_sha256,
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
                if !limits.fits_beside_event(response) {
                    remove.push(Attribute::Event);
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
            Ending::Rerun if undoing.is_some() && !replaces && !has_readable_response(read) => {
                return Err(DecisionError::Unreadable);
            }
            Ending::Rerun if undoing.as_ref().is_some_and(|it| goes_on(read, it)) => {
                return Err(DecisionError::Free);
            }
            // Steps that are undone must not count as done: the next run goes on undoing. A response that an operator gave stays the
            // final one, but not its window: the key must not be forgotten.
            Ending::Rerun if undoing.is_some() => Change {
                set: Record {
                    expiration: replaces
                        .then(|| now.ceil_to_seconds().plus(HELD_FOR))
                        .into(),
                    status: replaces.then_some(Status::Undoing).into(),
                    in_progress_expiration: expired_lease(read, now),
                    failure: Field::Value(FREED.to_owned()),
                    decision,
                    undo: undoing.map(|it| it.released().to_json()).into(),
                    ..Record::default()
                },
                remove: vec![Attribute::Owner],
            },
            Ending::Rerun => Change {
                set: Record {
                    // The response that is replaced goes, and the key is a claim again.
                    status: replaces.then_some(Status::InProgress).into(),
                    in_progress_expiration: expired_lease(read, now),
                    failure: Field::Value(FREED.to_owned()),
                    decision,
                    ..Record::default()
                },
                remove: match replaces {
                    true => vec![Attribute::Owner, Attribute::Data],
                    false => vec![Attribute::Owner],
                },
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

/// Returns true if the response of this record is the one that its decision gave, so that another decision can replace it.
///
/// Returns false if another program has replaced the response since then: a library in another language completes a record
/// without a fence.
pub fn is_decided(record: &Record) -> bool {
    let digest = record.data.value().map(digest);
    let given = trace_of(record).and_then(|trace| trace.response_sha256);
    record.status.value() == Some(&Status::Completed) && digest.is_some() && digest == given
}

/// Returns true if the next call goes on with this undoing, under every policy.
fn goes_on(read: &Record, undoing: &Undoing) -> bool {
    read.is_undoing() && !undoing.held && read.failure.exists()
}

/// Returns true if the final response of a record whose steps are being undone can be read, or if it has none.
fn has_readable_response(record: &Record) -> bool {
    !matches!(response_of(record), RecordState::Corrupt(_))
}

fn trace_of(record: &Record) -> Option<Trace> {
    Trace::from_json(record.decision.value()?)
}

fn digest(response: &Data) -> String {
    HashAlgorithm::Sha256.hex(response.as_str())
}

/// Returns true if the record is a claim whose run may still be going: its lease runs, or cannot be read.
pub fn is_live(record: &Record, now: EpochMillis) -> bool {
    match record.status.value() {
        Some(Status::InProgress) => !claimable(now, OnTimeout::Rerun).holds(Some(record)),
        Some(Status::Undoing) => expired_lease(record, now).exists(),
        _ => false,
    }
}

/// Returns the condition under which an operator deletes `read`, the record that the operator saw: it is still that record. `None` if its
/// run may still be going.
///
/// `live` allows a claim whose lease still runs by the operator's clock: a second run can then overlap with the first.
pub fn evictable(read: &Record, now: EpochMillis, live: bool) -> Option<Condition> {
    (live || !is_live(read, now)).then(|| unchanged(read))
}

/// Returns the condition under which the code of a user deletes `read`, the record of `call`. No question is asked, so a held claim stays.
///
/// # Errors
///
/// The kind of the error. Nothing is deleted.
pub(crate) fn evictable_by_code(
    read: &Record,
    now: EpochMillis,
    call: &CallTerms,
) -> Result<Condition, ErrorKind> {
    match looked_at(read, now, call) {
        RecordState::PayloadMismatch => Err(ErrorKind::PayloadMismatch),
        RecordState::Unresolved => Err(ErrorKind::Unresolved),
        RecordState::InProgress => Err(ErrorKind::AlreadyInProgress),
        _ => evictable(read, now, false).ok_or(ErrorKind::AlreadyInProgress),
    }
}

/// Returns what the record means to code that looks at the key of `call`: as [`classify`] does, but a held claim is held under `rerun` too.
///
/// The operation that looks may have another `on_timeout` than the function that claims.
pub(crate) fn looked_at(record: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    match is_held(record, now) {
        true if same_payload(record, call) => RecordState::Unresolved,
        true => RecordState::PayloadMismatch,
        false => match classify(record, now, call) {
            // The next run only undoes, so the key is not free.
            RecordState::Resumable if record.is_undoing() => RecordState::InProgress,
            state => state,
        },
    }
}

/// Why a record was not deleted whose delete was refused by its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotEvicted {
    /// There is no record.
    Missing,
    /// It is no longer the record that was read.
    Changed,
    /// It is another record. An earlier send of the delete may have deleted the one that was read.
    MaybeEvicted,
}

/// Returns what a refused delete shows. `existing` is the record that is there now, and `maybe_applied` is true if an earlier send of the
/// delete may have been applied.
///
/// # Errors
///
/// If the record that was read is not known to be deleted.
pub fn evicted(existing: Option<&Record>, maybe_applied: bool) -> Result<(), NotEvicted> {
    match (existing, maybe_applied) {
        // The earlier send most likely deleted it.
        (None, true) => Ok(()),
        (None, false) => Err(NotEvicted::Missing),
        (Some(_), true) => Err(NotEvicted::MaybeEvicted),
        (Some(_), false) => Err(NotEvicted::Changed),
    }
}

/// Returns true if the record is a claim that was made under `hold` and waits for an operator: its lease has expired, and its run
/// reported no failure. So does a key whose steps could not be undone.
///
/// Returns false for a claim made under `rerun` whose operation is under `hold` by now, and for a key whose run was killed while it undid
/// steps: the record does not show that it is held.
pub fn is_held(record: &Record, now: EpochMillis) -> bool {
    if record.is_undoing() {
        let held = Undoing::of(record).is_none_or(|undoing| undoing.held);
        let held = held || !has_readable_response(record);
        return held && !expired_lease(record, now).exists();
    }
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
    /// The decisions that it replaces, the last one first: at most three. Each has none of its own.
    pub replaced: Vec<Trace>,
    /// The SHA-256 of the response that it gave, in hex. Decisions that are replaced have none.
    pub response_sha256: Option<String>,
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
    #[serde(default)]
    replaced: Vec<StoredTrace>,
    response_sha256: Option<String>,
}

impl Trace {
    /// Returns the text that a record holds. The members are in alphabetical order, without those that are empty.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    fn to_value(&self) -> Value {
        let mut stored = json!({
            "at": self.at.get(),
            "by": self.by,
            "decided": self.verdict.as_str(),
            "reason": self.reason,
        });
        if !self.replaced.is_empty() {
            stored["replaced"] = self.replaced.iter().map(Self::to_value).collect();
        }
        if let Some(digest) = &self.response_sha256 {
            stored["response_sha256"] = digest.as_str().into();
        }
        stored
    }

    /// Returns the trace in the text of a record, or `None` if the text is not one.
    pub fn from_json(text: &str) -> Option<Self> {
        typed::read(text).ok().and_then(Self::of_stored)
    }

    fn of_stored(stored: StoredTrace) -> Option<Self> {
        let all = [Verdict::Completed, Verdict::Rerun];
        let mut all = all.into_iter();
        let replaced = stored.replaced.into_iter().map(Self::of_stored);
        Some(Self {
            verdict: all.find(|verdict| verdict.as_str() == stored.decided)?,
            by: stored.by,
            reason: stored.reason,
            at: EpochMillis::new(stored.at),
            replaced: replaced.collect::<Option<_>>()?,
            response_sha256: stored.response_sha256,
        })
    }

    /// Returns this trace and those that it replaces, the last one first.
    fn with_its_own(mut self) -> Vec<Self> {
        let older = std::mem::take(&mut self.replaced);
        self.response_sha256 = None;
        let all = std::iter::once(self).chain(older);
        all.take(MOST_REPLACED).collect()
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
    /// The lease still runs.
    Live,
    /// The record is completed, and its response is not known to be that of a decision.
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
                "has a lease that still runs or cannot be read: a run may still be going, and may have its effect after the \
                 decision; wait until its lease ends",
            ),
            Self::Completed => f.write_str(
                "is completed, and not known to be by a decision, so there is nothing to decide: evict it if the handler must run again",
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
                "cannot be decided, because its status, its undoing or its final response cannot be read: evict it; if only the \
                 response cannot be read, it can be completed with another",
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
    use super::super::condition::{held_by, undone_by};
    use super::super::policy::Steps;
    use super::super::tests::script::{data, number, record, show_changes};
    use super::super::tests::{LIMITS, NOW, call, me, now_plus, now_plus_seconds};
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
            let mut read = record(text).unwrap();
            let ending = ending
                .split_once(" then ")
                .map_or(ending, |(first, ending)| {
                    let first = decision(self::ending(first).0).about(&read, NOW, false, LIMITS);
                    read = after(&first.unwrap(), read.clone()).unwrap();
                    ending
                });
            let (ending, is_live) = self::ending(ending);
            let decided = match decision(ending.clone()).about(&read, NOW, is_live, LIMITS) {
                Ok(decided) => decided,
                Err(why) => return format!("{why:?}"),
            };
            let found = after(&decided, read.clone()).unwrap();
            assert!(decided.is_in(&found) && !decided.is_in(&read));
            assert!(!decided.condition.holds(None));
            // A late owner can write nothing.
            let undoing = read.is_undoing();
            let fence = match undoing {
                true => undone_by(&me(), None),
                false => held_by(&me()),
            };
            assert_eq!(fence.holds(Some(&read)), read.owner.exists());
            assert!(!fence.holds(Some(&found)) && !found.owner.exists());
            let verdict = match ending {
                Ending::Completed { .. } => {
                    assert_eq!(classify(&found, NOW, &call()), RecordState::Replay);
                    Verdict::Completed
                }
                Ending::Rerun => {
                    let undoing = found.is_undoing();
                    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
                        let mut call = call();
                        (call.policy.on_timeout, call.policy.steps) = (on_timeout, Steps::Keep);
                        let next = classify(&found, NOW, &call);
                        assert!(next == RecordState::Resumable || !undoing, "{next:?}");
                        assert_eq!(claimable(NOW, on_timeout).holds(Some(&found)), !undoing);
                        // No window that an operator chose lets a later run go forward.
                        let later = claimable(now_plus(86_400_000), on_timeout);
                        assert!(!undoing || !later.holds(Some(&found)));
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
        let trace = |ending| {
            decision(ending)
                .about(&held(), NOW, false, LIMITS)
                .unwrap()
                .trace
        };
        assert_eq!(
            trace(responds("1", None)),
            r#"{"at":1700000000500,"by":"ana","decided":"completed","reason":"seen at the provider","response_sha256":"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"}"#
        );
        let rerun =
            r#"{"at":1700000000500,"by":"ana","decided":"rerun","reason":"seen at the provider"}"#;
        assert_eq!(trace(Ending::Rerun), rerun);
        let freed = decision(Ending::Rerun)
            .about(&held(), NOW, false, LIMITS)
            .unwrap();
        let freed = after(&freed, held()).unwrap();
        let completed = decision(responds("2", None)).about(&freed, NOW, false, LIMITS);
        assert_eq!(
            completed.unwrap().trace,
            format!(
                r#"{{"at":1700000000500,"by":"ana","decided":"completed","reason":"seen at the provider","replaced":[{rerun}],"response_sha256":"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"}}"#
            )
        );
    }

    #[test]
    fn a_decision_replaces_an_earlier_one_and_names_the_last_three() {
        let mut record = held();
        for (number, ending) in [
            responds("{\"not\":\"a text\"}", None),
            responds("\"a text\"", None),
            Ending::Rerun,
            responds("\"a text\"", None),
            responds("\"paid\"", None),
        ]
        .into_iter()
        .enumerate()
        {
            let is_completed = matches!(ending, Ending::Completed { .. });
            let decided = decision(ending).about(&record, NOW, false, LIMITS).unwrap();
            let trace = Trace::from_json(&decided.trace).unwrap();
            assert_eq!(trace.replaced.len(), number.min(MOST_REPLACED));
            assert!(trace.replaced.iter().all(|it| it.replaced.is_empty()));
            let after = after(&decided, record.clone()).unwrap();
            assert_eq!(is_decided(&after), is_completed);
            assert_eq!(after.data.exists(), is_completed);
            // Another operator saw the record before this decision.
            assert!(!decided.condition.holds(Some(&after)));
            record = after;
        }
        let replaced = trace_of(&record).unwrap().replaced;
        let verdicts: Vec<_> = replaced.iter().map(|it| it.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Completed, Verdict::Rerun, Verdict::Completed]
        );
        assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
    }

    #[test]
    fn a_response_that_no_decision_is_known_to_have_given_is_not_replaced() {
        let decided = decision(responds("1", None)).about(&held(), NOW, false, LIMITS);
        let decided = after(&decided.unwrap(), held()).unwrap();
        // Python completes its record without a fence, and keeps the trace.
        let overwritten = Record {
            data: Field::Value(data("2")),
            ..decided.clone()
        };
        let unreadable = Record {
            data: Field::Unreadable,
            ..decided.clone()
        };
        // A trace that does not name the response.
        let old = r#"{"at":1700000000500,"by":"ana","decided":"completed","reason":"paid"}"#;
        assert_eq!(Trace::from_json(old).unwrap().verdict, Verdict::Completed);
        let old = Record {
            decision: Field::Value(old.to_owned()),
            ..decided.clone()
        };
        assert!(is_decided(&decided));
        for record in [overwritten, unreadable, old] {
            for ending in [responds("3", None), Ending::Rerun] {
                let refused = decision(ending).about(&record, NOW, true, LIMITS);
                assert_eq!(refused, Err(DecisionError::Completed));
            }
        }
    }

    #[test]
    fn a_key_is_not_freed_while_the_lease_of_its_claim_runs_also_after_a_decision() {
        let live = record("mine[lease=60000]").unwrap();
        let decided = decision(responds("1", None)).about(&live, NOW, true, LIMITS);
        let decided = after(&decided.unwrap(), live).unwrap();
        let about = |ending, live| decision(ending).about(&decided, NOW, live, LIMITS);
        assert_eq!(about(Ending::Rerun, false), Err(DecisionError::Live));
        let freed = after(&about(Ending::Rerun, true).unwrap(), decided.clone()).unwrap();
        assert!(claimable(NOW, OnTimeout::Rerun).holds(Some(&freed)));
        assert!(about(responds("2", None), false).is_ok());
    }

    #[test]
    fn only_the_record_that_was_shown_is_decided() {
        for ending in [responds("1", None), Ending::Rerun] {
            let decided = decision(ending).about(&held(), NOW, false, LIMITS).unwrap();
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
            decision.about(&held(), NOW, false, LIMITS).map(|_| ())
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
                replaced: Vec::new(),
                response_sha256: None,
            };
            assert_eq!(Trace::from_json(&trace.to_json()), Some(trace.clone()));
            let again = Trace {
                replaced: vec![trace.clone(), trace.clone()],
                response_sha256: Some("00".to_owned()),
                ..trace
            };
            assert_eq!(Trace::from_json(&again.to_json()), Some(again));
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
    fn a_record_is_evicted_if_its_run_has_ended_and_it_has_not_changed() {
        check_each(include_str!("tests/evicted.txt"), |row| {
            let (row, live) = match row.strip_suffix(", live") {
                Some(row) => (row, true),
                None => (row, false),
            };
            let (read, found) = row.split_once(" then ").unwrap_or((row, row));
            match evictable(&record(read).unwrap(), NOW, live) {
                Some(condition) if condition.holds(record(found).as_ref()) => "deleted",
                Some(_) => "changed",
                None => "live",
            }
            .to_owned()
        });
    }

    #[test]
    fn a_refused_delete_shows_whether_the_record_is_gone() {
        let record = held();
        for (existing, maybe_applied, shown) in [
            (None, true, Ok(())),
            (None, false, Err(NotEvicted::Missing)),
            (Some(&record), true, Err(NotEvicted::MaybeEvicted)),
            (Some(&record), false, Err(NotEvicted::Changed)),
        ] {
            assert_eq!(evicted(existing, maybe_applied), shown);
        }
    }

    #[test]
    fn the_response_is_not_in_the_debug_output_of_a_decision() {
        let decision = decision(responds("\"s3cr3t\"", None));
        let decided = decision.about(&held(), NOW, false, LIMITS).unwrap();
        assert!(!format!("{decision:?}{decided:?}").contains("s3cr3t"));
    }

    #[test]
    fn only_a_claim_under_hold_without_an_end_is_held() {
        check_each(include_str!("tests/held.txt"), |text| {
            is_held(&record(text).unwrap(), NOW).to_string()
        });
    }
}

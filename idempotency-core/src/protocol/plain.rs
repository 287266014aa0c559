//! The staged writes of a handler that ran unprotected: one transaction without a record.
//!
//! There is no claim, so nothing fences it. Its token alone prevents that a repeated send is applied again.

use std::ops::ControlFlow;
use std::time::Duration;

use super::effect::{Resend, WriteErrorKind, WriteResult};
use super::end::{Commits, StagedEnd};
use super::limits::{MAX_COMPLETIONS, REPLY_RESERVE, backoff, time_limit};
use super::store_limits::StoreLimits;
use crate::time::EpochMillis;

/// How long before its end the store's memory of a token is not trusted: a send can be on its way. The first send has at least this long.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

/// A transaction without a record, while it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainTransaction {
    first_until: EpochMillis,
    again_until: EpochMillis,
    commits: Commits,
    tries: u8,
    conflicts: u8,
    maybe_applied: bool,
}

impl PlainTransaction {
    /// Begins a transaction whose invocation ends at `deadline`, in a store with these limits. The first send comes at once. One that
    /// commits once has no other.
    pub fn begin(
        now: EpochMillis,
        deadline: EpochMillis,
        limits: StoreLimits,
        commits: Commits,
    ) -> Self {
        let is_known = limits.token.saturating_sub(ON_ITS_WAY);
        Self {
            // A store can repeat a request itself, so its memory bounds the first send too.
            first_until: deadline.min(now.plus(is_known.max(ON_ITS_WAY))),
            again_until: deadline.min(now.plus(is_known)),
            commits,
            tries: 0,
            conflicts: 0,
            maybe_applied: false,
        }
    }

    /// Returns the end of a transaction that was refused. An earlier send that may have been applied makes its end unknown.
    fn refused(&self, maybe_applied: bool) -> StagedEnd {
        if self.maybe_applied || maybe_applied {
            StagedEnd::Unknown
        } else {
            StagedEnd::Rejected
        }
    }
}

impl Resend for PlainTransaction {
    type End = StagedEnd;

    fn time_limit(&self, now: EpochMillis) -> Duration {
        let until = match (self.tries, self.conflicts) {
            (0, 0) => self.first_until,
            _ => self.again_until,
        };
        time_limit(now, until)
    }

    fn step(&mut self, now: EpochMillis, result: WriteResult) -> ControlFlow<StagedEnd, Duration> {
        let (maybe_applied, kind) = match result {
            WriteResult::Applied { .. } => return ControlFlow::Break(StagedEnd::Applied),
            WriteResult::Rejected { maybe_applied }
            | WriteResult::ConditionFailed { maybe_applied, .. } => {
                (maybe_applied, WriteErrorKind::Permanent)
            }
            WriteResult::Failed {
                maybe_applied,
                kind,
            } => (maybe_applied, kind),
        };
        let again = match kind {
            WriteErrorKind::Permanent | WriteErrorKind::TooLarge => {
                return ControlFlow::Break(self.refused(maybe_applied));
            }
            _ if self.commits == Commits::Once => {
                return ControlFlow::Break(match maybe_applied {
                    true => StagedEnd::Unknown,
                    false => StagedEnd::Dropped,
                });
            }
            WriteErrorKind::Conflict | WriteErrorKind::Credentials => {
                self.conflicts = self.conflicts.saturating_add(1);
                Some(backoff(self.conflicts))
            }
            WriteErrorKind::Transient | WriteErrorKind::Refused => {
                self.tries += 1;
                (self.tries < MAX_COMPLETIONS).then(|| backoff(self.tries))
            }
        };
        self.maybe_applied |= maybe_applied;
        match again {
            Some(pause) if now.until(self.again_until) > pause + REPLY_RESERVE => {
                ControlFlow::Continue(pause)
            }
            _ if kind == WriteErrorKind::Credentials => ControlFlow::Break(self.refused(false)),
            _ => ControlFlow::Break(StagedEnd::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::effect::Replaced;
    use super::super::tests::script::{play_replies, time};
    use super::super::tests::{LIMITS, NOW, now_plus};
    use super::*;
    use crate::example::shared::check_rows;

    #[test]
    fn every_short_sequence_of_replies_ends_in_what_its_sends_did() {
        let mut replies = vec![
            WriteResult::APPLIED,
            WriteResult::Applied {
                replaced: Replaced::Unknown,
                maybe_again: true,
            },
        ];
        for maybe_applied in [false, true] {
            replies.extend([
                WriteResult::Rejected { maybe_applied },
                WriteResult::ConditionFailed {
                    existing: None,
                    maybe_applied,
                },
            ]);
            let kinds = [
                WriteErrorKind::Transient,
                WriteErrorKind::Conflict,
                WriteErrorKind::Refused,
                WriteErrorKind::Permanent,
                WriteErrorKind::TooLarge,
            ];
            replies.extend(kinds.map(|kind| WriteResult::Failed {
                maybe_applied,
                kind,
            }));
        }
        let begun = PlainTransaction::begin(NOW, now_plus(30_000), LIMITS, Commits::Again);
        let mut open = vec![(begun, false)];
        for _ in 0..4 {
            for (before, was_lost) in std::mem::take(&mut open) {
                for reply in &replies {
                    let mut after = before.clone();
                    let (is_applied, lost) = match reply {
                        WriteResult::Applied { .. } => (true, false),
                        WriteResult::Rejected { maybe_applied }
                        | WriteResult::ConditionFailed { maybe_applied, .. }
                        | WriteResult::Failed { maybe_applied, .. } => (false, *maybe_applied),
                    };
                    let lost = lost || was_lost;
                    match after.step(NOW, reply.clone()) {
                        ControlFlow::Break(StagedEnd::Applied) => assert!(is_applied),
                        ControlFlow::Break(StagedEnd::Rejected) => assert!(!lost),
                        ControlFlow::Break(end) => {
                            assert_eq!(end, StagedEnd::Unknown);
                            let tries = after.tries == MAX_COMPLETIONS;
                            assert!(!is_applied && (lost || tries), "{reply:?}");
                        }
                        ControlFlow::Continue(_) => {
                            assert!(!is_applied);
                            open.push((after, lost));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_transaction_is_sent_again_while_it_may_be_applied_once() {
        check_rows(include_str!("tests/plain.txt"), |row| {
            let (until, script) = row.split_once(" | ").expect("a time and a script");
            let (until, commits) = match until.strip_suffix(" once") {
                Some(until) => (until, Commits::Once),
                None => (until, Commits::Again),
            };
            let (until, token) = until.split_once(" token=").unwrap_or((until, "600000"));
            let token = Duration::from_millis(token.parse().expect("a duration"));
            let limits = StoreLimits { token, ..LIMITS };
            let mut transaction = PlainTransaction::begin(NOW, time(until), limits, commits);
            play_replies(script, &mut transaction)
        });
    }
}

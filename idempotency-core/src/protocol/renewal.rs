//! The renewals of one run: when they are sent, and until when the lease is known to last. It is a state machine beside the attempt's.
//!
//! A renewal is sent while the handler runs. It may arrive at any later time, also after the end of the run, so its condition alone makes
//! it harmless: it finds no claim of its owner, a lease that was ended, or one that lasts as long already.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::CallTerms;
use super::classify::{is_claim_by, is_expired};
use super::condition::Condition;
use super::effect::{Write, WriteResult};
use super::limits::backoff_up_to;
use super::requests;
use crate::record::Record;
use crate::time::EpochMillis;

/// The renewals of one run.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{Attempt, Input, Lease, WriteResult};
/// use idempotency_core::time::EpochMillis;
/// # use std::{ops::ControlFlow, time::Duration};
/// # let mut call = idempotency_core::example::call();
/// call.lease = Lease::Renewed { length: Duration::from_secs(30), at_most: Duration::from_secs(3_600) };
/// let at = |seconds: i64| EpochMillis::new(seconds * 1_000);
/// let attempt = Attempt::begin(call).0.step(at(0), Input::Local(None)).0;
/// let attempt = attempt.step(at(0), Input::Written(WriteResult::APPLIED)).0;
/// let mut renewal = attempt.renewal().unwrap();
/// assert_eq!(renewal.pause(at(0)).at_least, Duration::from_millis(7_500));
/// renewal.send(at(10));
/// assert!(matches!(renewal.written(at(10), WriteResult::APPLIED), ControlFlow::Continue(_)));
/// assert_eq!(renewal.lease_end(), at(40));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Renewal {
    call: Arc<CallTerms>,
    length: Duration,
    /// No lease of the run lasts longer.
    ceiling: EpochMillis,
    claimed_at: EpochMillis,
    /// True if the record says that the steps of the key are being undone.
    undoing: bool,
    /// Until when the lease is known to last.
    confirmed: EpochMillis,
    /// Until when the lease lasts if the last request was applied.
    sent: EpochMillis,
    /// The number of requests since the last one that was confirmed.
    failures: u8,
}

/// How long to pause before the next renewal: for `at_least`, and a random time between zero and `jitter` more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RenewalPause {
    /// The shortest pause.
    pub at_least: Duration,
    /// How much longer it may be.
    pub jitter: Duration,
}

/// Why a run sends no further renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewalEnd {
    /// The claim is gone: another call has it, or the key is completed or free.
    ClaimGone,
    /// The run has had its claim for as long as the setting allows. The lease ends by itself.
    AtMost,
}

impl Renewal {
    /// Begins the renewals of a claim that was made at `claimed_at` and lasts until `lease_end`. `undoing` is true if the record says that
    /// the steps of the key are being undone.
    pub(super) fn begin(
        call: &Arc<CallTerms>,
        (length, at_most): (Duration, Duration),
        claimed_at: EpochMillis,
        lease_end: EpochMillis,
        undoing: bool,
    ) -> Self {
        Self {
            call: Arc::clone(call),
            length,
            ceiling: claimed_at.plus(at_most),
            claimed_at,
            undoing,
            confirmed: lease_end,
            sent: lease_end,
            failures: 0,
        }
    }

    /// Returns until when the lease is known to last. After that the claim may be gone.
    pub fn lease_end(&self) -> EpochMillis {
        self.confirmed
    }

    /// Returns how long the lease lasts after the last request, which was sent at this time. `None` if that request confirmed nothing.
    pub fn confirmed_for(&self, sent_at: EpochMillis) -> Option<Duration> {
        // If the clock was set back, the time until the end is longer.
        let length = sent_at.until(self.confirmed).min(self.length);
        (self.failures == 0).then_some(length)
    }

    /// Returns the pause before the next renewal. It ends when a quarter to a third of the lease has passed, so that two thirds are left for
    /// further tries.
    pub fn pause(&self, now: EpochMillis) -> RenewalPause {
        let quarter = self.length / 4;
        let left = now.until(self.confirmed);
        // If the clock was set back, more than the length is left.
        let at_least = left.saturating_sub(quarter * 3).min(quarter);
        RenewalPause {
            at_least,
            jitter: (self.length / 12).min(left),
        }
    }

    /// Sends a renewal at the time `now`: returns its write and its condition.
    pub fn send(&mut self, now: EpochMillis) -> (Write, Condition) {
        self.sent = now.plus(self.length).min(self.ceiling);
        requests::renew(&self.call, now, self.sent, self.claimed_at, self.undoing)
    }

    /// Returns how long a renewal may take that is sent at the time `now`. It ends while at least half of the rest of the lease is left
    /// for the next one.
    pub fn time_limit(&self, now: EpochMillis) -> Duration {
        let limit = self.length / 6;
        match now.until(self.confirmed) {
            Duration::ZERO => limit,
            left => limit.min(left / 2),
        }
    }

    /// Takes the result of the last renewal. Returns the pause before the next one, or why there is none. If it was refused and brought no
    /// record back, the pause is `None`: the record must be read, consistently, and [`read`](Self::read) takes the result.
    ///
    /// An expired lease is renewed too: if no other call has claimed the key, it cannot be claimed after that.
    pub fn written(
        &mut self,
        now: EpochMillis,
        result: WriteResult,
    ) -> ControlFlow<RenewalEnd, Option<RenewalPause>> {
        let next = match result {
            WriteResult::Applied { .. } => self.confirmed(now, self.sent),
            WriteResult::ConditionFailed { existing: None, .. } => {
                self.failures = self.failures.saturating_add(1);
                return ControlFlow::Continue(None);
            }
            WriteResult::ConditionFailed { existing, .. } => self.found(now, existing.as_ref()),
            WriteResult::Rejected { .. } => self.not_confirmed(now, false),
            WriteResult::Failed { kind, .. } => self.not_confirmed(now, kind.may_pass()),
        };
        next.map_continue(Some)
    }

    /// Takes the result of the read after a renewal that was refused: the record, if there is one, or `None` if the read failed. Returns the
    /// pause before the next renewal, or why there is none.
    pub fn read(
        &mut self,
        now: EpochMillis,
        found: Option<Option<Record>>,
    ) -> ControlFlow<RenewalEnd, RenewalPause> {
        match found {
            Some(existing) => self.found(now, existing.as_ref()),
            None => self.not_confirmed(now, true),
        }
    }

    /// Handles the record that refused the last renewal.
    fn found(
        &mut self,
        now: EpochMillis,
        existing: Option<&Record>,
    ) -> ControlFlow<RenewalEnd, RenewalPause> {
        let Some(claim) = existing.filter(|it| is_claim_by(it, &self.call.owner)) else {
            self.failures = self.failures.saturating_add(1);
            return ControlFlow::Break(RenewalEnd::ClaimGone);
        };
        match claim.in_progress_expiration.value() {
            // An earlier send of it was applied, or the clock was set back.
            Some(end) if *end >= self.sent => self.confirmed(now, *end),
            _ => self.not_confirmed(now, true),
        }
    }

    fn confirmed(
        &mut self,
        now: EpochMillis,
        end: EpochMillis,
    ) -> ControlFlow<RenewalEnd, RenewalPause> {
        self.confirmed = self.confirmed.max(end);
        self.failures = 0;
        self.next(now, self.pause(now))
    }

    /// Handles a renewal that confirmed nothing. `may_pass` is true if the next one may soon be applied.
    fn not_confirmed(
        &mut self,
        now: EpochMillis,
        may_pass: bool,
    ) -> ControlFlow<RenewalEnd, RenewalPause> {
        self.failures = self.failures.saturating_add(1);
        let longest = self.length / 12;
        // After the end of the lease there is no hurry, and each further try is a load for a store that is in trouble.
        let hurries = may_pass && !is_expired(self.confirmed, now);
        let pause = match hurries {
            true => RenewalPause {
                at_least: Duration::ZERO,
                jitter: backoff_up_to(self.failures, longest),
            },
            false => RenewalPause {
                at_least: self.length / 4,
                jitter: longest,
            },
        };
        self.next(now, pause)
    }

    fn next(&self, now: EpochMillis, pause: RenewalPause) -> ControlFlow<RenewalEnd, RenewalPause> {
        if self.confirmed >= self.ceiling || is_expired(self.ceiling, now) {
            return ControlFlow::Break(RenewalEnd::AtMost);
        }
        ControlFlow::Continue(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::script::{play, record, reply, show_write, time};
    use super::super::tests::{NOW, call, now_plus};
    use super::super::{Attempt, Input, Lease};
    use super::*;
    use crate::example::shared::check_rows;

    /// Returns the renewals of a claim that was made at [`NOW`] for 30 s, at most for 100 s.
    fn begin() -> Renewal {
        let lease = (Duration::from_secs(30), Duration::from_secs(100));
        Renewal::begin(&Arc::new(call()), lease, NOW, now_plus(30_000), false)
    }

    #[test]
    fn a_lease_is_renewed_until_the_claim_is_gone_or_has_lasted_for_long_enough() {
        check_rows(include_str!("tests/renewal.txt"), |script| {
            let (mut renewal, mut now) = (begin(), NOW);
            let shown = |pause: RenewalPause| {
                let [at_least, jitter] = [pause.at_least, pause.jitter].map(|it| it.as_millis());
                format!("pause {at_least}+{jitter}")
            };
            play(script, |text| match text {
                "begin" => shown(renewal.pause(now)),
                "send" => {
                    let (write, condition) = renewal.send(now);
                    show_write(&write, &condition, now)
                }
                "limit?" => renewal.time_limit(now).as_millis().to_string(),
                "end?" => (renewal.lease_end().get() - NOW.get()).to_string(),
                _ => match text.strip_prefix('@') {
                    Some(at) => {
                        now = time(at);
                        String::new()
                    }
                    None => {
                        let next = match text.strip_prefix("read ") {
                            Some("fails") => renewal.read(now, None).map_continue(Some),
                            Some(found) => {
                                renewal.read(now, Some(record(found))).map_continue(Some)
                            }
                            None => renewal.written(now, reply(text)),
                        };
                        match next {
                            ControlFlow::Continue(Some(pause)) => shown(pause),
                            ControlFlow::Continue(None) => "read".to_owned(),
                            ControlFlow::Break(end) => format!("{end:?}"),
                        }
                    }
                },
            })
        });
    }

    #[test]
    fn a_late_renewal_finds_its_condition_only_in_a_running_claim_of_its_owner() {
        let (_, condition) = begin().send(now_plus(10_000));
        for (text, holds) in [
            ("mine", true),
            ("mine[lease=-2]", true),
            ("mine[lease=39999]", true),
            // It would shorten the lease.
            ("mine[lease=40000]", false),
            ("mine[lease=50000]", false),
            // The lease was ended, and the claim is kept for an operator.
            ("mine[lease=-1]", false),
            ("mine[lease=-]", false),
            ("mine[owner=-]", false),
            ("mine[status=completed]", false),
            ("done[owner=me]", false),
            ("other", false),
            ("none", false),
        ] {
            let record = record(text);
            assert_eq!(condition.holds(record.as_ref()), holds, "{text}");
        }
    }

    #[test]
    fn a_renewal_while_steps_are_undone_keeps_the_record_for_years_and_finds_no_other_status() {
        let undoing = true;
        let mut renewal = Renewal { undoing, ..begin() };
        let (write, condition) = renewal.send(now_plus(10_000));
        let shown = show_write(&write, &condition, NOW);
        assert!(
            shown.starts_with("update expiration=315360041 lease=40000 if "),
            "{shown}"
        );
        for (text, holds) in [
            ("undoing[owner=me lease=30000]", true),
            ("undoing[owner=me lease=40000]", false),
            ("undoing[owner=me lease=-1]", false),
            ("undoing[owner=- lease=30000]", false),
            ("undoing[lease=30000]", false),
            ("mine", false),
            ("done[owner=me]", false),
        ] {
            let record = record(text);
            assert_eq!(condition.holds(record.as_ref()), holds, "{text}");
        }
    }

    #[test]
    fn a_confirmed_renewal_moves_the_lease_of_the_attempt_and_an_earlier_one_does_not() {
        let mut call = call();
        let (length, at_most) = (Duration::from_secs(30), Duration::from_secs(100));
        (call.deadline, call.lease) = (None, Lease::Renewed { length, at_most });
        let attempt = Attempt::begin(call).0.step(NOW, Input::Local(None)).0;
        let mut attempt = attempt.step(NOW, Input::Written(WriteResult::APPLIED)).0;
        let found = attempt.renewal().unwrap();
        let call = Arc::clone(&found.call);
        assert_eq!(found, Renewal { call, ..begin() });
        for (end, lease_end) in [(40_000, 40_000), (35_000, 40_000)] {
            attempt.renewed(now_plus(end));
            assert_eq!(attempt.lease_end(), Some(now_plus(lease_end)));
        }
    }
}

//! Classifies a record that prevents a claim.

use super::CallTerms;
use super::condition::{claimable, replaceable, takeover};
use super::policy::OnTimeout;
use crate::record::{Field, OwnerToken, Record, Status};
use crate::time::EpochMillis;

/// What a record means to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordState {
    /// It is this call's own claim, and its lease runs.
    OwnClaim,
    /// It is this call's own claim, its lease has expired, and the policy lets no other call claim it.
    OwnClaimExpired,
    /// It can be claimed.
    Claimable,
    /// It can be taken over. It has steps, which the takeover keeps.
    Resumable,
    /// It belongs to another payload.
    PayloadMismatch,
    /// It holds the response.
    Replay,
    /// It is completed, but its response could not be stored.
    ResponseUnavailable,
    /// Its run ended without a completion, and the policy allows no second run.
    Unresolved,
    /// Another call is in progress.
    InProgress,
    /// It cannot be understood. Holds what is wrong with it.
    Corrupt(&'static str),
}

/// Returns what the record means to `call`, whose claim it prevents. The order of the rules is part of the protocol.
///
/// The same rules apply to records of the local cache.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::{RecordState, classify};
/// # use idempotency_core::{record::*, time::*};
/// # let call = idempotency_core::example::call();
/// # let lease_end = EpochMillis::new(30_000);
/// # let claim = Record { status: Field::Value(Status::InProgress), in_progress_expiration: Field::Value(lease_end),
/// #     expiration: Field::Value(EpochSeconds::new(3_600)), ..Record::default() };
/// // Another call's claim, whose lease ends at 30 s.
/// assert_eq!(classify(&claim, EpochMillis::new(30_000), &call), RecordState::InProgress);
/// assert_eq!(classify(&claim, EpochMillis::new(30_001), &call), RecordState::Claimable);
/// ```
pub fn classify(existing: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    let hold = call.policy.on_timeout == OnTimeout::Hold;
    if is_claim_of(existing, call) {
        match lease(existing, now) {
            Lease::Running => return RecordState::OwnClaim,
            // Under `hold` no other call frees the key. This call knows that it did not run, so it must release its claim.
            Lease::Expired if hold => return RecordState::OwnClaimExpired,
            Lease::Expired | Lease::Unknown => {}
        }
    }
    if claimable(now, call.policy.on_timeout).holds(Some(existing)) {
        return claimable_state(existing, now, call);
    }
    if !same_payload(existing, call) {
        return RecordState::PayloadMismatch;
    }
    match existing.status.value() {
        Some(Status::Completed) => response_of(existing),
        Some(Status::InProgress) => match lease(existing, now) {
            // Under `rerun` it would be claimable, so this is `hold`.
            Lease::Expired => RecordState::Unresolved,
            Lease::Running => RecordState::InProgress,
            Lease::Unknown => {
                RecordState::Corrupt("it is in progress, but its lease cannot be read")
            }
        },
        Some(Status::Other(_)) => RecordState::Corrupt("its status is unknown"),
        None => RecordState::Corrupt("it has no status"),
    }
}

/// Returns what a record means that can be claimed. Steps belong to a payload, so another payload cannot take them over.
fn claimable_state(existing: &Record, now: EpochMillis, call: &CallTerms) -> RecordState {
    let on_timeout = call.policy.on_timeout;
    if !call.policy.steps.are_on() || replaceable(now, on_timeout).holds(Some(existing)) {
        return RecordState::Claimable;
    }
    if !same_payload(existing, call) {
        return RecordState::PayloadMismatch;
    }
    if existing.steps == Field::Unreadable {
        return RecordState::Corrupt(UNREADABLE_STEPS);
    }
    match takeover(existing, None, on_timeout) {
        Some(_) => RecordState::Resumable,
        None => RecordState::Corrupt("it has steps, but its owner or its lease cannot be read"),
    }
}

/// Returns true if the record is a claim made with this call's token.
pub(super) fn is_claim_of(existing: &Record, call: &CallTerms) -> bool {
    is_claim_by(existing, &call.owner)
}

/// Returns true if the record is a claim made with this token.
pub(super) fn is_claim_by(existing: &Record, owner: &OwnerToken) -> bool {
    existing.owner.value() == Some(owner) && existing.status.value() == Some(&Status::InProgress)
}

/// Returns true if the record belongs to this call's payload, or if the operation does not validate payloads.
pub(super) fn same_payload(existing: &Record, call: &CallTerms) -> bool {
    call.validation
        .as_ref()
        .is_none_or(|mine| existing.validation.value() == Some(mine))
}

/// The defect of a record whose data the store cannot read. The store can say more.
pub(crate) const UNREADABLE_DATA: &str = "its data is of an unknown type";

/// The defect of a record whose steps cannot be read.
const UNREADABLE_STEPS: &str = "the results of its steps cannot be read";

/// Returns what the data of a completed record means.
pub(super) fn response_of(existing: &Record) -> RecordState {
    match &existing.data {
        Field::Value(data) if data.is_json() => RecordState::Replay,
        Field::Value(_) => RecordState::Corrupt("its data is not JSON"),
        Field::Unreadable => RecordState::Corrupt(UNREADABLE_DATA),
        Field::Absent => RecordState::ResponseUnavailable,
    }
}

/// Returns true if a lease has expired. The comparison is strict, like every comparison here: the last millisecond belongs to
/// the lease.
pub(super) fn is_expired(lease_end: EpochMillis, now: EpochMillis) -> bool {
    lease_end < now
}

enum Lease {
    Running,
    Expired,
    Unknown,
}

/// Returns the state of a claim's lease. A claim by another language may have no lease; its `expiration` is used instead.
fn lease(existing: &Record, now: EpochMillis) -> Lease {
    let expired = match (&existing.in_progress_expiration, &existing.expiration) {
        (Field::Value(end), _) => is_expired(*end, now),
        (Field::Absent, Field::Value(end)) => *end < now.floor_to_seconds(),
        _ => return Lease::Unknown,
    };
    if expired {
        Lease::Expired
    } else {
        Lease::Running
    }
}

/// What records mean, policy by policy.
#[cfg(test)]
mod tests {
    use super::super::fixtures::{NOW, another, call, claim_of, completed, me, now_plus, seconds};
    use super::*;

    fn hold(mut call: CallTerms) -> CallTerms {
        call.policy.on_timeout = OnTimeout::Hold;
        call
    }

    #[test]
    fn a_claim_with_the_own_token_is_the_own_claim() {
        assert_eq!(
            classify(&claim_of(me(), now_plus(1)), NOW, &call()),
            RecordState::OwnClaim
        );
    }

    #[test]
    fn a_lease_runs_at_its_last_millisecond_and_has_expired_one_later() {
        let claim = claim_of(another(), NOW);
        assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
        assert_eq!(
            classify(&claim, now_plus(1), &call()),
            RecordState::Claimable
        );
    }

    #[test]
    fn the_own_claim_with_an_expired_lease_is_claimable_and_under_hold_must_be_released() {
        let claim = claim_of(me(), now_plus(-1));
        assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::OwnClaimExpired
        );
    }

    #[test]
    fn a_response_is_replayed_through_the_last_second_of_its_window() {
        let mut record = completed("1");
        record.expiration = Field::Value(seconds(0));
        assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
        record.expiration = Field::Value(seconds(-1));
        assert_eq!(classify(&record, NOW, &call()), RecordState::Claimable);
    }

    #[test]
    fn the_end_of_a_short_window_does_not_free_a_live_claim() {
        let mut claim = claim_of(another(), now_plus(5_000));
        claim.expiration = Field::Value(seconds(-1));
        assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
    }

    #[test]
    fn another_payload_is_detected_while_the_first_call_is_in_progress() {
        let mut call = call();
        call.validation = Some("mine".to_owned());
        let mut claim = claim_of(another(), now_plus(5_000));
        claim.validation = Field::Value("theirs".to_owned());
        assert_eq!(classify(&claim, NOW, &call), RecordState::PayloadMismatch);
        claim.validation = Field::Absent;
        assert_eq!(classify(&claim, NOW, &call), RecordState::PayloadMismatch);
        claim.validation = Field::Value("mine".to_owned());
        assert_eq!(classify(&claim, NOW, &call), RecordState::InProgress);
    }

    #[test]
    fn a_record_with_a_validation_digest_is_replayed_if_the_operation_does_not_validate() {
        let mut record = completed("1");
        record.validation = Field::Value("theirs".to_owned());
        assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
    }

    #[test]
    fn every_json_value_is_replayed_including_falsy_ones() {
        for data in ["0", "false", "\"\"", "[]", "{}", "null"] {
            assert_eq!(
                classify(&completed(data), NOW, &call()),
                RecordState::Replay,
                "{data}"
            );
        }
    }

    #[test]
    fn data_that_is_not_json_is_a_corrupt_record() {
        for data in ["", "{", "NaN", "1 2"] {
            let judged = classify(&completed(data), NOW, &call());
            assert_eq!(
                judged,
                RecordState::Corrupt("its data is not JSON"),
                "{data}"
            );
        }
    }

    #[test]
    fn a_completed_record_without_data_has_no_response() {
        let mut record = completed("1");
        record.data = Field::Absent;
        assert_eq!(
            classify(&record, NOW, &call()),
            RecordState::ResponseUnavailable
        );
    }

    #[test]
    fn an_unknown_status_is_corrupt_until_its_window_ends() {
        let mut record = completed("1");
        record.status = Field::Value(Status::Other("EXPIRED".to_owned()));
        assert_eq!(
            classify(&record, NOW, &call()),
            RecordState::Corrupt("its status is unknown")
        );
        record.expiration = Field::Value(seconds(-1));
        assert_eq!(classify(&record, NOW, &call()), RecordState::Claimable);
    }

    #[test]
    fn under_hold_an_expired_claim_is_unresolved() {
        let claim = claim_of(another(), now_plus(-1));
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::Unresolved
        );
    }

    #[test]
    fn under_hold_neither_the_window_nor_a_missing_lease_frees_a_claim() {
        let mut claim = claim_of(another(), now_plus(-10_000));
        claim.expiration = Field::Value(seconds(-5));
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::Unresolved
        );
        claim.in_progress_expiration = Field::Absent;
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::Unresolved
        );
    }

    #[test]
    fn under_hold_a_claim_without_a_lease_is_live_through_the_last_second_of_its_window() {
        let mut claim = claim_of(another(), NOW);
        claim.in_progress_expiration = Field::Absent;
        claim.expiration = Field::Value(seconds(0));
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::InProgress
        );
        claim.expiration = Field::Value(seconds(-1));
        assert_eq!(
            classify(&claim, NOW, &hold(call())),
            RecordState::Unresolved
        );
    }

    #[test]
    fn a_recorded_failure_frees_its_claim_under_both_policies() {
        let mut claim = claim_of(another(), now_plus(-1));
        claim.owner = Field::Absent;
        claim.failure = Field::Value("Timeout".to_owned());
        assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
        assert_eq!(classify(&claim, NOW, &hold(call())), RecordState::Claimable);
    }

    #[test]
    fn a_claim_of_another_language_without_a_lease_is_live_until_its_window_ends() {
        let mut claim = claim_of(another(), NOW);
        claim.owner = Field::Absent;
        claim.in_progress_expiration = Field::Absent;
        claim.expiration = Field::Value(seconds(0));
        assert_eq!(classify(&claim, NOW, &call()), RecordState::InProgress);
        claim.expiration = Field::Value(seconds(-1));
        assert_eq!(classify(&claim, NOW, &call()), RecordState::Claimable);
    }

    #[test]
    fn a_claim_whose_lease_cannot_be_read_is_corrupt() {
        let mut claim = claim_of(another(), NOW);
        claim.in_progress_expiration = Field::Unreadable;
        assert_eq!(
            classify(&claim, NOW, &call()),
            RecordState::Corrupt("it is in progress, but its lease cannot be read")
        );
    }

    #[test]
    fn the_own_token_on_a_record_that_python_completed_does_not_make_it_the_own_claim() {
        let mut record = completed("1");
        record.owner = Field::Value(me());
        assert_eq!(classify(&record, NOW, &call()), RecordState::Replay);
    }
}

//! The meaning of a record: `classify`, the condition of claims and a simple version of the rules agree on every record.

use std::time::Duration;

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::CallTerms;
use idempotency_core::protocol::condition::{Condition, Operand, claimable, held_by};
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::protocol::{RecordState, classify};
use idempotency_core::record::{Attribute, Field, Record, RecordId, Status};
use idempotency_core::time::EpochMillis;
use proptest::prelude::*;

use crate::cases;
use crate::strategies::{NOW, attribute, operand, owner, record};

fn on_timeout() -> impl Strategy<Value = OnTimeout> {
    prop_oneof![Just(OnTimeout::Rerun), Just(OnTimeout::Hold)]
}

fn call(owner: OwnerToken, validation: Option<String>, on_timeout: OnTimeout) -> CallTerms {
    let mut policy = Policy::default();
    policy.on_timeout = on_timeout;
    policy.expires_after = Duration::from_secs(60);
    CallTerms {
        id: RecordId::new("shop#1"),
        owner,
        validation,
        deadline: None,
        operation: None,
        event: None,
        policy,
    }
}

fn in_progress(record: &Record) -> bool {
    record.status == Field::Value(Status::InProgress)
}

/// Returns true if the record may be claimed. It states the rules again and shares no code with the code under test.
fn may_be_claimed(record: &Record, now: i64, on_timeout: OnTimeout) -> bool {
    let expired = record
        .expiration
        .value()
        .is_some_and(|end| end.get() < now.div_euclid(1_000));
    let lease_expired = record
        .in_progress_expiration
        .value()
        .is_some_and(|end| end.get() < now);
    let no_lease = record.in_progress_expiration == Field::Absent;
    match on_timeout {
        OnTimeout::Rerun if in_progress(record) => lease_expired || (expired && no_lease),
        OnTimeout::Hold if in_progress(record) => record.failure.exists(),
        _ => expired,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_record_can_be_claimed_exactly_when_the_rules_say_so(record in record(), on_timeout in on_timeout()) {
        let condition = claimable(EpochMillis::new(NOW), on_timeout);
        prop_assert_eq!(condition.holds(Some(&record)), may_be_claimed(&record, NOW, on_timeout));
        prop_assert!(condition.holds(None));
    }

    #[test]
    fn the_classification_and_the_condition_of_claims_agree(
        record in record(),
        mine in owner(),
        validation in prop::option::of("[ab]"),
        on_timeout in on_timeout(),
    ) {
        let now = EpochMillis::new(NOW);
        let state = classify(&record, now, &call(mine.clone(), validation.clone(), on_timeout));
        let own = held_by(&mine).holds(Some(&record));
        let claimable = claimable(now, on_timeout).holds(Some(&record));
        match state {
            RecordState::OwnClaim | RecordState::OwnClaimExpired => prop_assert!(own),
            RecordState::Claimable => prop_assert!(claimable),
            _ => prop_assert!(!claimable, "{:?}", state),
        }
        if state == RecordState::OwnClaim {
            let expired = record.in_progress_expiration.value().is_some_and(|end| *end < now);
            prop_assert!(!expired, "an expired lease does not protect a claim");
        }
        if state == RecordState::Replay {
            prop_assert_eq!(record.status, Field::Value(Status::Completed));
            prop_assert!(validation.is_none() || record.validation == validation.into());
        }
    }

    #[test]
    fn another_calls_claim_is_never_classified_as_our_own(record in record(), on_timeout in on_timeout()) {
        let stranger = OwnerToken::from_bytes([9; 16]);
        let state = classify(&record, EpochMillis::new(NOW), &call(stranger, None, on_timeout));
        let claimable = claimable(EpochMillis::new(NOW), on_timeout).holds(Some(&record));
        prop_assert_eq!(state == RecordState::Claimable, claimable);
        prop_assert!(!matches!(state, RecordState::OwnClaim | RecordState::OwnClaimExpired));
    }

    #[test]
    fn an_operand_of_the_wrong_unit_or_type_never_compares(
        record in record(),
        attribute in attribute(),
        operand in operand(),
    ) {
        let fits = matches!(
            (attribute, &operand),
            (Attribute::Expiration, Operand::Seconds(_)) | (Attribute::InProgressExpiration, Operand::Millis(_))
        ) || (!matches!(attribute, Attribute::Expiration | Attribute::InProgressExpiration)
            && matches!(operand, Operand::Text(_)));
        let holds = |condition: Condition| condition.holds(Some(&record));
        let equals = holds(Condition::Equals(attribute, operand.clone()));
        let below = holds(Condition::Below(attribute, operand.clone()));
        let differs = holds(Condition::Differs(attribute, operand));
        prop_assert_eq!(differs, !equals);
        prop_assert!(!(equals && below));
        prop_assert!(fits || !(equals || below));
    }
}

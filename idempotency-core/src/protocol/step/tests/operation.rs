//! The operation that a record names.

use super::*;
use crate::record::Attribute;

const PATH: &str = "shop::charge";

fn named() -> CallTerms {
    CallTerms {
        operation: Some(PATH.to_owned()),
        ..call()
    }
}

fn put(effect: Effect) -> Record {
    let Effect::Write(Write::Put(record), _) = effect else {
        panic!("{effect:?} puts no record");
    };
    record
}

#[test]
fn a_claim_names_its_operation_if_the_call_has_one() {
    let path = Field::Value(PATH.to_owned());
    assert_eq!(put(play(named(), [MISS])).operation, path);
    assert_eq!(put(play(call(), [MISS])).operation, Field::Absent);
}

#[test]
fn a_record_names_at_most_128_bytes_of_a_path_and_no_part_of_a_character() {
    let recorded = |path: String| {
        let call = CallTerms {
            operation: Some(path),
            ..call()
        };
        put(play(call, [MISS])).operation
    };
    let whole = |path: &str| Field::Value(path.to_owned());
    assert_eq!(recorded("a".repeat(129)), whole(&"a".repeat(128)));
    assert_eq!(recorded("a".repeat(128)), whole(&"a".repeat(128)));
    // The 64th of these characters would end at byte 129.
    let path = format!("a{}", "é".repeat(64));
    assert_eq!(recorded(path), whole(&format!("a{}", "é".repeat(63))));
}

#[test]
fn a_completion_keeps_the_name_that_its_claim_wrote_and_confirms_a_record_with_it() {
    let Effect::Write(Write::Update(change), _) = play(named(), [MISS, APPLIED, returned()]) else {
        panic!("a completion is an update");
    };
    assert_eq!(change.set.operation, Field::Absent);
    assert!(!change.remove.contains(&Attribute::Operation));
    let confirmed = Record {
        operation: Field::Value(PATH.to_owned()),
        ..change.set
    };
    assert_eq!(
        play(named(), [MISS, APPLIED, returned(), APPLIED]),
        Effect::Finish(CallEnd::stored(confirmed))
    );
}

#[test]
fn an_evicted_claim_is_restored_with_its_name() {
    let gone = [
        MISS,
        APPLIED,
        returned(),
        CONDITION_FAILED_WITHOUT_RECORD,
        Input::Read(None),
    ];
    assert_eq!(
        put(play(named(), gone)).operation,
        Field::Value(PATH.to_owned())
    );
}

#[test]
fn a_response_is_replayed_for_any_name_in_its_record() {
    let other = Field::Value("shop::refund".to_owned());
    for operation in [Field::Absent, Field::Unreadable, other] {
        let record = Record {
            operation,
            ..completed("42")
        };
        let replay = CallEnd::replayed(record.clone(), Source::Store);
        assert_eq!(
            play(named(), [MISS, condition_failed(record)]),
            Effect::Finish(replay)
        );
    }
}

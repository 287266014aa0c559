use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::CompiledOperation;

use super::*;

/// Returns the identity of a payload with this key and this validated part.
fn identity(key: &str, amount: u32) -> Identity {
    let settings = Settings {
        key: Some("key".into()),
        validate: Some("amount".into()),
        ..Settings::default()
    };
    let operation = CompiledOperation::new("shop", &settings, &Variables::default()).unwrap();
    let payload = format!(r#"{{"key": {key}, "amount": {amount}}}"#);
    operation.identify(&payload, None).unwrap()
}

#[test]
fn a_record_with_the_key_of_a_running_one_waits_and_shares_its_end() {
    for done in [true, false] {
        let mut duplicates = Duplicates::default();
        let one = identity("1", 10);
        assert_eq!(duplicates.meet(0, &one, "first"), Meet::Run("first"));
        assert_eq!(duplicates.meet(1, &one, "second"), Meet::Wait);
        assert_eq!(duplicates.meet(2, &one, "third"), Meet::Wait);
        let ended = duplicates.end(0, done);
        assert_eq!(ended, [(1, Meet::Share(done)), (2, Meet::Share(done))]);
        assert_eq!(duplicates.meet(3, &one, "fourth"), Meet::Share(done));
    }
}

#[test]
fn records_with_other_keys_run_beside_each_other() {
    let mut duplicates = Duplicates::default();
    assert_eq!(duplicates.meet(0, &identity("1", 10), ()), Meet::Run(()));
    assert_eq!(duplicates.meet(1, &identity("2", 10), ()), Meet::Run(()));
    assert!(duplicates.end(0, true).is_empty());
}

#[test]
fn a_record_with_another_validated_part_gets_a_call_of_its_own_after_the_first() {
    let mut duplicates = Duplicates::default();
    let (one, other) = (identity("1", 10), identity("1", 99));
    assert_eq!(duplicates.meet(0, &one, 0), Meet::Run(0));
    assert_eq!(duplicates.meet(1, &other, 1), Meet::Wait);
    assert_eq!(duplicates.meet(2, &other, 2), Meet::Wait);
    assert_eq!(duplicates.meet(3, &one, 3), Meet::Wait);
    assert_eq!(
        duplicates.end(0, true),
        [(1, Meet::Run(1)), (3, Meet::Share(true))]
    );
    assert_eq!(duplicates.end(1, false), [(2, Meet::Share(false))]);
    assert_eq!(duplicates.meet(4, &one, 4), Meet::Share(true));
    assert_eq!(duplicates.meet(5, &other, 5), Meet::Share(false));
}

#[test]
fn records_without_a_key_all_run() {
    let mut duplicates = Duplicates::default();
    let none = identity("null", 10);
    assert!(none.bypass().is_some());
    assert_eq!(duplicates.meet(0, &none, ()), Meet::Run(()));
    assert_eq!(duplicates.meet(1, &none, ()), Meet::Run(()));
    assert!(duplicates.end(0, false).is_empty());
}

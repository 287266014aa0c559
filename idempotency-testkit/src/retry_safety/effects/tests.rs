use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

/// Returns a world with one item `a-1` in the table `accounts`.
fn world(item: Value) -> Snapshot {
    let items = BTreeMap::from([("a-1".to_owned(), item)]);
    Snapshot {
        items: BTreeMap::from([("accounts".to_owned(), items)]),
        ..Snapshot::default()
    }
}

/// Returns how the item differs if a faultless run makes `expected` of `before`.
fn kinds(before: Value, expected: Value, actual: Value) -> Vec<Kind> {
    let expectation = Expectation {
        before: world(before.clone()),
        after: world(expected.clone()),
        again: world(expected),
        earlier: vec![world(before).items],
        responses: (None, None),
    };
    let differences = expectation.compare(&world(actual));
    differences
        .into_iter()
        .map(|difference| difference.kind)
        .collect()
}

fn balance(amount: i64) -> Value {
    json!({ "balance": { "N": amount.to_string() } })
}

#[test]
fn a_number_that_changed_further_is_twice_and_one_that_changed_less_is_lost() {
    assert_eq!(kinds(balance(100), balance(90), balance(90)), []);
    assert_eq!(kinds(balance(100), balance(90), balance(80)), [Kind::Twice]);
    assert_eq!(kinds(balance(100), balance(90), balance(100)), [Kind::Lost]);
    assert_eq!(
        kinds(balance(0), balance(1_000), balance(1_005)),
        [Kind::Twice]
    );
    assert_eq!(kinds(balance(5), balance(5), balance(6)), [Kind::Twice]);
}

#[test]
fn a_state_that_a_faultless_run_leaves_again_is_a_lost_update() {
    let status = |status: &str| json!({ "status": { "S": status } });
    assert_eq!(
        kinds(status("new"), status("paid"), status("new")),
        [Kind::Lost]
    );
    assert_eq!(
        kinds(status("new"), status("paid"), json!({})),
        [Kind::Lost]
    );
    // No faultless run has this text: an id or a time of the run that wrote it.
    assert_eq!(kinds(status("new"), status("id-1"), status("id-2")), []);
}

#[test]
fn what_differs_between_faultless_runs_is_not_compared() {
    let at = |time: &str| json!({ "at": { "N": time }, "id": { "S": time } });
    let expectation = Expectation {
        before: world(json!({})),
        after: world(at("1")),
        again: world(at("2")),
        earlier: Vec::new(),
        responses: (None, None),
    };
    assert_eq!(expectation.compare(&world(at("3"))), []);
    // Faultless runs in the same second have the same time.
    assert_eq!(kinds(json!({}), at("1800000000"), at("1800000031")), []);
}

#[test]
fn a_longer_list_is_twice_and_members_of_maps_are_compared() {
    let list = |length: usize| json!({ "lines": { "L": vec![json!({ "N": "1" }); length] } });
    assert_eq!(kinds(list(0), list(1), list(2)), [Kind::Twice]);
    assert_eq!(kinds(list(0), list(1), list(0)), [Kind::Lost]);
    let map = |amount: i64| json!({ "totals": { "M": balance(amount) } });
    assert_eq!(kinds(map(0), map(1), map(2)), [Kind::Twice]);
}

#[test]
fn items_and_counts_are_compared_with_what_was_there_before() {
    let mut expectation = Expectation {
        before: Snapshot::default(),
        after: world(json!({})),
        again: world(json!({})),
        earlier: Vec::new(),
        responses: (None, None),
    };
    expectation.before.counts.insert("charges".to_owned(), 2);
    expectation.after.counts.insert("charges".to_owned(), 3);
    let with_charges = |charges: i64| {
        let mut world = world(json!({}));
        world.counts.insert("charges".to_owned(), charges);
        world
    };
    assert_eq!(expectation.compare(&with_charges(3)), []);
    let twice = &expectation.compare(&with_charges(4))[0];
    assert_eq!(
        (twice.kind, twice.text.as_str()),
        (Kind::Twice, "`charges` is 4 instead of 3")
    );
    assert_eq!(expectation.compare(&with_charges(2))[0].kind, Kind::Lost);

    let mut more = with_charges(3);
    let accounts = more.items.get_mut("accounts").unwrap();
    accounts.insert("a-2".to_owned(), json!({}));
    assert_eq!(expectation.compare(&more)[0].kind, Kind::Twice);
    more.items.clear();
    assert_eq!(expectation.compare(&more)[0].kind, Kind::Lost);
}

#[test]
fn a_value_of_the_run_that_the_response_and_an_item_share_must_agree() {
    let item = |receipt: &str| world(json!({ "receipt": { "S": receipt }, "by": { "S": "shop" } }));
    let response = |receipt: &str| json!({ "done": { "receipt": receipt, "by": "shop" } });
    let expectation = Expectation {
        before: world(json!({})),
        after: item("r-1"),
        again: item("r-2"),
        earlier: Vec::new(),
        responses: (Some(response("r-1")), Some(response("r-2"))),
    };
    assert_eq!(
        expectation.disagreement(&item("r-3"), &response("r-3")),
        None
    );
    assert_eq!(
        expectation
            .disagreement(&item("r-3"), &response("r-4"))
            .as_deref(),
        Some(
            "the response has `r-4` at `/done/receipt`, but `receipt` of `a-1` in the table `accounts` is `r-3`"
        )
    );
    // The same in each faultless run: not a value of the run.
    let other = world(json!({ "receipt": { "S": "r-3" }, "by": { "S": "bank" } }));
    assert_eq!(expectation.disagreement(&other, &response("r-3")), None);
}

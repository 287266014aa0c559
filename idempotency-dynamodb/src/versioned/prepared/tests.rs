use aws_sdk_dynamodb::types::AttributeValue;

use super::*;
use crate::versioned;

const READ: Token = [1; 16];
const OTHER: Token = [2; 16];

/// Returns an update of version 5, with the token that it will write.
fn update(expected: &Version) -> (PreparedWrite, Token) {
    let key = [("id", AttributeValue::S("a".to_owned()))];
    let update = versioned::update("accounts", key, expected).expression("REMOVE hold");
    let prepared = update.prepare().unwrap();
    let (_, token) = prepared.made.unwrap();
    (prepared, token)
}

/// Returns an item of this version, whose tokens are given from the newest to the oldest.
fn item(number: u64, tokens: &[Token]) -> Item {
    let layout = Layout::default();
    let mut item = Item::new();
    for (age, token) in tokens.iter().enumerate().rev() {
        item.extend(layout.attributes(number - age as u64, *token));
    }
    item
}

/// Returns what a refusal says, with `maybe_applied` for a conflict.
fn meaning(refusal: VersionedRefusal) -> (&'static str, bool) {
    match refusal {
        VersionedRefusal::Applied(written) => ("applied", written.by_earlier_send()),
        VersionedRefusal::Error(VersionedError::Conflict(conflict)) => {
            ("conflict", conflict.maybe_applied())
        }
        VersionedRefusal::Error(VersionedError::ConditionFailed(_)) => ("condition", false),
        VersionedRefusal::Error(_) => ("other", false),
    }
}

#[test]
fn a_write_finds_its_token_behind_up_to_three_later_writes() {
    let (update, own) = update(&Version::new(5, Some(READ)));
    let later = [OTHER; 4];
    for count in 0..4 {
        let mut tokens = later[..count].to_vec();
        tokens.push(own);
        let item = item(6 + count as u64, &tokens);
        assert_eq!(meaning(update.refusal(Some(item), true)), ("applied", true));
    }
    let overwritten = item(10, &later);
    assert_eq!(
        meaning(update.refusal(Some(overwritten), true)),
        ("conflict", true)
    );
}

#[test]
fn the_tokens_of_the_item_show_that_a_write_was_not_applied() {
    let (update, _) = update(&Version::new(5, Some(READ)));
    let mut tokens = vec![OTHER, READ];
    for number in 6..9 {
        let item = item(number, &tokens);
        assert_eq!(
            meaning(update.refusal(Some(item), true)),
            ("conflict", false)
        );
        tokens.insert(0, OTHER);
    }
}

#[test]
fn an_item_that_was_created_again_leaves_open_what_happened_to_the_earlier_one() {
    let (update, _) = update(&Version::new(5, Some(READ)));
    for (number, tokens) in [(5, [OTHER; 2]), (6, [OTHER; 2]), (2, [OTHER; 2])] {
        let current = || Some(item(number, &tokens));
        assert_eq!(meaning(update.refusal(current(), true)), ("conflict", true));
        assert_eq!(
            meaning(update.refusal(current(), false)),
            ("conflict", false)
        );
    }
    assert_eq!(meaning(update.refusal(None, true)), ("conflict", true));
    assert_eq!(meaning(update.refusal(None, false)), ("conflict", false));
}

#[test]
fn a_condition_of_the_caller_failed_if_the_version_is_the_expected_one() {
    let current = || Some(item(5, &[READ]));
    for expected in [Version::new(5, Some(READ)), Version::from_number(5)] {
        let (update, _) = update(&expected);
        assert_eq!(
            meaning(update.refusal(current(), true)),
            ("condition", false)
        );
    }
}

#[test]
fn an_item_whose_version_is_no_number_is_a_conflict_without_a_version() {
    let (update, _) = update(&Version::NONE);
    let foreign = Item::from([("version".to_owned(), AttributeValue::S("v1".to_owned()))]);
    let VersionedRefusal::Error(VersionedError::Conflict(conflict)) =
        update.refusal(Some(foreign), false)
    else {
        panic!("a conflict is expected");
    };
    assert_eq!(conflict.version(), None);
    assert!(conflict.into_current().is_some());
}

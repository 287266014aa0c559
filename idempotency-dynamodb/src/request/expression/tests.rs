//! Checks the rendered expressions, and that every placeholder is declared and used.

use std::collections::BTreeSet;

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Data, Field, Record, Status};
use idempotency_core::store::Change;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::*;
use crate::item;

/// Returns the values, after a check that exactly the used placeholders are declared and that no two have the same name.
fn checked<'a>(expressions: &Expressions<'a>) -> Vec<(String, Value<'a>)> {
    let texts = [
        expressions.update().unwrap_or_default(),
        expressions.condition(),
    ];
    let tokens: BTreeSet<&str> = texts
        .iter()
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || "#:_".contains(c))))
        .filter(|token| token.starts_with(['#', ':']))
        .collect();
    let names = expressions.names();
    let placeholders = names.iter().map(|(placeholder, _)| placeholder.as_str());
    let values = expressions.values();
    let declared: Vec<_> = placeholders
        .chain(values.map(|(placeholder, _)| placeholder))
        .collect();
    assert_eq!(tokens, declared.iter().copied().collect(), "in {texts:?}");
    assert_eq!(tokens.len(), declared.len(), "in {declared:?}");
    let distinct: BTreeSet<_> = names.iter().map(|(_, name)| name).collect();
    assert_eq!(distinct.len(), names.len());
    assert!(texts.iter().all(|text| !text.contains("((")), "{texts:?}");
    let values = expressions.values();
    values
        .map(|(placeholder, value)| (placeholder.to_owned(), value))
        .collect()
}

/// Returns the condition with the names of the attributes in place of their placeholders.
fn named(expressions: &Expressions<'_>, text: &str) -> String {
    expressions
        .names()
        .iter()
        .fold(text.to_owned(), |text, (placeholder, name)| {
            text.replace(placeholder, name)
        })
}

fn of(condition: &Condition) -> Expressions<'_> {
    Shapes::default().condition(&AttributeNames::default(), condition)
}

/// Returns a condition with the names of the attributes in place of their placeholders.
fn rendered(condition: &Condition) -> String {
    let expressions = of(condition);
    checked(&expressions);
    assert_eq!(expressions.update(), None);
    named(&expressions, expressions.condition())
}

#[test]
fn a_claim_under_rerun_renders_the_condition_of_the_protocol() {
    let condition = claimable(EpochMillis::new(1_700_000_000_999), OnTimeout::Rerun);
    let expressions = of(&condition);
    assert_eq!(
        expressions.condition(),
        "attribute_not_exists(#a) \
         OR (#b < :a AND (#c <> :b OR attribute_not_exists(#d) OR #d < :c)) \
         OR (#c = :b AND #d < :c)"
    );
    assert_eq!(
        rendered(&condition),
        "attribute_not_exists(id) \
         OR (expiration < :a AND (status <> :b OR attribute_not_exists(in_progress_expiration) \
         OR in_progress_expiration < :c)) \
         OR (status = :b AND in_progress_expiration < :c)"
    );
    assert_eq!(
        checked(&expressions),
        [
            (":a".to_owned(), Value::Number(1_700_000_000)),
            (":b".to_owned(), Value::Text("INPROGRESS")),
            (":c".to_owned(), Value::Number(1_700_000_000_999)),
        ]
    );
}

#[test]
fn a_claim_under_hold_renders_the_condition_of_the_protocol() {
    assert_eq!(
        rendered(&claimable(
            EpochMillis::new(1_700_000_000_999),
            OnTimeout::Hold
        )),
        "attribute_not_exists(id) OR (expiration < :a AND status <> :b) \
         OR (status = :b AND attribute_exists(failure))"
    );
}

#[test]
fn the_fence_of_an_owner_compares_token_and_status() {
    let condition = held_by(&OwnerToken::from_bytes([7; 16]));
    assert_eq!(rendered(&condition), "owner = :a AND status = :b");
    assert_eq!(
        checked(&of(&condition)),
        [
            (
                ":a".to_owned(),
                Value::Text("07070707070707070707070707070707")
            ),
            (":b".to_owned(), Value::Text("INPROGRESS")),
        ]
    );
}

#[test]
fn placeholders_have_the_configured_names() {
    let names = AttributeNames {
        key: "pk".to_owned(),
        status: "the.status".to_owned(),
        ..AttributeNames::default()
    };
    let condition = Condition::Any(vec![
        Condition::NoRecord,
        Condition::Exists(Attribute::Status),
    ]);
    let expressions = Shapes::default().condition(&names, &condition);
    assert_eq!(
        expressions.names(),
        [
            ("#a".to_owned(), "pk".to_owned()),
            ("#b".to_owned(), "the.status".to_owned()),
        ]
    );
    assert_eq!(expressions.values().count(), 0);
}

#[test]
fn lists_of_one_add_no_parentheses() {
    let one = Condition::All(vec![Condition::Any(vec![Condition::NoRecord])]);
    assert_eq!(rendered(&one), "attribute_not_exists(id)");
    let nested = Condition::Any(vec![
        Condition::NoRecord,
        Condition::All(vec![Condition::Any(vec![
            Condition::Exists(Attribute::Owner),
            Condition::Exists(Attribute::Data),
        ])]),
    ]);
    assert_eq!(
        rendered(&nested),
        "attribute_not_exists(id) OR (attribute_exists(owner) OR attribute_exists(data))"
    );
}

#[test]
fn empty_lists_hold_as_in_the_memory_store() {
    let always = "attribute_exists(id) OR attribute_not_exists(id)";
    let never = "attribute_exists(id) AND attribute_not_exists(id)";
    assert_eq!(rendered(&Condition::All(Vec::new())), always);
    assert_eq!(rendered(&Condition::Any(Vec::new())), never);
}

#[test]
fn seconds_are_never_compared_with_milliseconds() {
    let millis = || Operand::Millis(EpochMillis::new(1));
    let never = "attribute_exists(id) AND attribute_not_exists(id)";
    let always = "attribute_exists(id) OR attribute_not_exists(id)";
    assert_eq!(
        rendered(&Condition::Below(Attribute::Expiration, millis())),
        never
    );
    assert_eq!(
        rendered(&Condition::Differs(Attribute::Expiration, millis())),
        always
    );
    assert_eq!(
        rendered(&Condition::Equals(Attribute::Status, millis())),
        never
    );
    let text = Operand::Text("1".to_owned());
    assert_eq!(
        rendered(&Condition::Equals(Attribute::Expiration, text)),
        never
    );
}

/// Returns the update and the condition with the names of the attributes in place of their placeholders.
fn update(change: &Change, condition: &Condition) -> (Option<String>, String) {
    let names = AttributeNames::default();
    let set: Vec<_> = item::attributes(&change.set).collect();
    let expressions = Shapes::default().update(&names, &set, &change.remove, condition);
    checked(&expressions);
    let update = expressions.update();
    let update = update.map(|update| named(&expressions, update));
    (update, named(&expressions, expressions.condition()))
}

#[test]
fn a_completion_sets_its_attributes_and_its_condition_has_its_own_placeholders() {
    let change = Change {
        set: Record {
            expiration: Field::Value(EpochSeconds::new(5)),
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new("1")),
            validation: Field::Unreadable,
            ..Record::default()
        },
        remove: Vec::new(),
    };
    let (update, condition) = update(&change, &held_by(&OwnerToken::from_bytes([7; 16])));
    assert_eq!(
        update.as_deref(),
        Some("SET expiration = :a, status = :b, data = :c")
    );
    assert_eq!(condition, "owner = :d AND status = :e");
}

#[test]
fn an_attribute_that_is_set_and_removed_is_removed_once() {
    let change = Change {
        set: Record {
            failure: Field::Value("Timeout".to_owned()),
            owner: Field::Value(OwnerToken::from_bytes([7; 16])),
            ..Record::default()
        },
        remove: vec![Attribute::Owner, Attribute::Data, Attribute::Owner],
    };
    let (update, _) = update(&change, &Condition::NoRecord);
    assert_eq!(
        update.as_deref(),
        Some("SET failure = :a REMOVE owner, data")
    );
}

#[test]
fn an_empty_change_has_no_expression() {
    assert_eq!(update(&Change::default(), &Condition::NoRecord).0, None);
}

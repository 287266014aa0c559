//! Checks the rendered expressions, and that every placeholder is declared and used.

use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Data, Field, Record, Status};
use idempotency_core::store::Change;
use idempotency_core::time::{EpochMillis, EpochSeconds};

use super::*;

fn number(text: &str) -> AttributeValue {
    AttributeValue::N(text.to_owned())
}

fn string(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Returns the values, after a check that exactly the used placeholders are declared and that no two have the same name.
fn checked(expressions: Expressions<'_>, texts: &[&str]) -> HashMap<String, AttributeValue> {
    let tokens: std::collections::BTreeSet<String> = texts
        .iter()
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || "#:_".contains(c))))
        .filter(|token| token.starts_with(['#', ':']))
        .map(str::to_owned)
        .collect();
    let names = expressions.names().unwrap_or_default();
    let values = expressions.values().unwrap_or_default();
    let declared = names.keys().chain(values.keys()).cloned().collect();
    assert_eq!(tokens, declared, "in {texts:?}");
    let distinct: std::collections::BTreeSet<_> = names.values().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(texts.iter().all(|text| !text.contains("((")), "{texts:?}");
    values
}

fn rendered(condition: &Condition) -> (String, HashMap<String, AttributeValue>) {
    let names = AttributeNames::default();
    let mut expressions = Expressions::new(&names);
    let text = expressions.condition(condition);
    let values = checked(expressions, &[&text]);
    (text, values)
}

#[test]
fn a_claim_under_rerun_renders_the_condition_of_the_protocol() {
    let (text, values) = rendered(&claimable(
        EpochMillis::new(1_700_000_000_999),
        OnTimeout::Rerun,
    ));
    assert_eq!(
        text,
        "attribute_not_exists(#id) \
         OR (#expiration < :v0 AND (#status <> :v1 OR attribute_not_exists(#in_progress_expiration) \
         OR #in_progress_expiration < :v2)) \
         OR (#status = :v1 AND #in_progress_expiration < :v2)"
    );
    assert_eq!(
        values,
        HashMap::from([
            (":v0".to_owned(), number("1700000000")),
            (":v1".to_owned(), string("INPROGRESS")),
            (":v2".to_owned(), number("1700000000999")),
        ])
    );
}

#[test]
fn a_claim_under_hold_renders_the_condition_of_the_protocol() {
    let (text, _) = rendered(&claimable(
        EpochMillis::new(1_700_000_000_999),
        OnTimeout::Hold,
    ));
    assert_eq!(
        text,
        "attribute_not_exists(#id) OR (#expiration < :v0 AND #status <> :v1) \
         OR (#status = :v1 AND attribute_exists(#failure))"
    );
}

#[test]
fn the_fence_of_an_owner_compares_token_and_status() {
    let (text, values) = rendered(&held_by(&OwnerToken::from_bytes([7; 16])));
    assert_eq!(text, "#owner = :v0 AND #status = :v1");
    assert_eq!(values[":v0"], string("07070707070707070707070707070707"));
    assert_eq!(values[":v1"], string("INPROGRESS"));
}

#[test]
fn placeholders_have_the_configured_names() {
    let names = AttributeNames {
        key: "pk".to_owned(),
        status: "the.status".to_owned(),
        ..AttributeNames::default()
    };
    let mut expressions = Expressions::new(&names);
    expressions.condition(&Condition::Any(vec![
        Condition::NoRecord,
        Condition::Exists(Attribute::Status),
    ]));
    assert_eq!(
        expressions.names(),
        Some(HashMap::from([
            ("#id".to_owned(), "pk".to_owned()),
            ("#status".to_owned(), "the.status".to_owned()),
        ]))
    );
    assert_eq!(expressions.values(), None);
}

#[test]
fn lists_of_one_add_no_parentheses() {
    let one = Condition::All(vec![Condition::Any(vec![Condition::NoRecord])]);
    assert_eq!(rendered(&one).0, "attribute_not_exists(#id)");
    let nested = Condition::Any(vec![
        Condition::NoRecord,
        Condition::All(vec![Condition::Any(vec![
            Condition::Exists(Attribute::Owner),
            Condition::Exists(Attribute::Data),
        ])]),
    ]);
    assert_eq!(
        rendered(&nested).0,
        "attribute_not_exists(#id) OR (attribute_exists(#owner) OR attribute_exists(#data))"
    );
}

#[test]
fn empty_lists_hold_as_in_the_memory_store() {
    let always = "attribute_exists(#id) OR attribute_not_exists(#id)";
    let never = "attribute_exists(#id) AND attribute_not_exists(#id)";
    assert_eq!(rendered(&Condition::All(Vec::new())).0, always);
    assert_eq!(rendered(&Condition::Any(Vec::new())).0, never);
}

#[test]
fn seconds_are_never_compared_with_milliseconds() {
    let millis = || Operand::Millis(EpochMillis::new(1));
    let never = "attribute_exists(#id) AND attribute_not_exists(#id)";
    let always = "attribute_exists(#id) OR attribute_not_exists(#id)";
    assert_eq!(
        rendered(&Condition::Below(Attribute::Expiration, millis())).0,
        never
    );
    assert_eq!(
        rendered(&Condition::Differs(Attribute::Expiration, millis())).0,
        always
    );
    assert_eq!(
        rendered(&Condition::Equals(Attribute::Status, millis())).0,
        never
    );
    let text = Operand::Text("1".to_owned());
    assert_eq!(
        rendered(&Condition::Equals(Attribute::Expiration, text)).0,
        never
    );
}

fn update(change: &Change, condition: &Condition) -> (Option<String>, String) {
    let names = AttributeNames::default();
    let mut expressions = Expressions::new(&names);
    let update = expressions.update(item::attributes(&change.set), &change.remove);
    let condition = expressions.condition(condition);
    checked(
        expressions,
        &[update.as_deref().unwrap_or_default(), &condition],
    );
    (update, condition)
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
        Some("SET #expiration = :v0, #status = :v1, #data = :v2")
    );
    assert_eq!(condition, "#owner = :v3 AND #status = :v4");
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
        Some("SET #failure = :v0 REMOVE #data, #owner")
    );
}

#[test]
fn an_empty_change_has_no_expression() {
    assert_eq!(update(&Change::default(), &Condition::NoRecord).0, None);
}

//! Converts a record to an item and back. The stored format is frozen: the tests compare it as DynamoDB JSON.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::owner::OwnerToken;
use idempotency_core::record::{Attribute, Data, Field, Record, Status};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use crate::attribute_names::AttributeNames;
use crate::{json, number};

/// An item, as the SDK represents it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// Returns the attributes of a record that have a value.
pub(crate) fn attributes(record: &Record) -> Vec<(Attribute, AttributeValue)> {
    fn of<T>(field: &Field<T>, value: impl Fn(&T) -> AttributeValue) -> Option<AttributeValue> {
        field.value().map(value)
    }
    let string = |text: &str| AttributeValue::S(text.to_owned());
    [
        (
            Attribute::Expiration,
            of(&record.expiration, |at| seconds(*at)),
        ),
        (
            Attribute::InProgressExpiration,
            of(&record.in_progress_expiration, |at| millis(*at)),
        ),
        (
            Attribute::Status,
            of(&record.status, |status| string(status.as_str())),
        ),
        (
            Attribute::Data,
            of(&record.data, |data| string(data.as_str())),
        ),
        (
            Attribute::Validation,
            of(&record.validation, |hash| string(hash)),
        ),
        (
            Attribute::Owner,
            of(&record.owner, |owner| string(owner.as_str())),
        ),
        (
            Attribute::Failure,
            of(&record.failure, |failure| string(failure)),
        ),
        (
            Attribute::Operation,
            of(&record.operation, |path| string(path)),
        ),
    ]
    .into_iter()
    .filter_map(|(attribute, value)| Some((attribute, value?)))
    .collect()
}

/// Converts seconds to their stored form.
pub(crate) fn seconds(at: EpochSeconds) -> AttributeValue {
    AttributeValue::N(at.get().to_string())
}

/// Converts milliseconds to their stored form.
pub(crate) fn millis(at: EpochMillis) -> AttributeValue {
    AttributeValue::N(at.get().to_string())
}

/// Reads a record from an item, whichever program wrote it.
pub(crate) fn record(mut item: Item, names: &AttributeNames) -> Record {
    let mut take = |attribute| item.remove(names.of(attribute));
    Record {
        expiration: whole(take(Attribute::Expiration), EpochSeconds::new),
        in_progress_expiration: whole(take(Attribute::InProgressExpiration), EpochMillis::new),
        status: text(take(Attribute::Status), Status::from_record),
        data: data(take(Attribute::Data)),
        validation: text(take(Attribute::Validation), |hash| hash),
        owner: text(take(Attribute::Owner), OwnerToken::from_record),
        failure: text(take(Attribute::Failure), |failure| failure),
        operation: text(take(Attribute::Operation), |path| path),
    }
}

/// Reads a time; fractions are cut off.
fn whole<T>(value: Option<AttributeValue>, of: impl Fn(i64) -> T) -> Field<T> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::N(text)) => {
            number::floor(&text).map_or(Field::Unreadable, |n| Field::Value(of(n)))
        }
        Some(_) => Field::Unreadable,
    }
}

/// Reads a text attribute.
fn text<T>(value: Option<AttributeValue>, of: impl Fn(String) -> T) -> Field<T> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::S(text)) => Field::Value(of(text)),
        Some(_) => Field::Unreadable,
    }
}

/// Reads the response: JSON text from this framework and from Python, a native value from TypeScript.
fn data(value: Option<AttributeValue>) -> Field<Data> {
    match value {
        None => Field::Absent,
        Some(AttributeValue::S(text)) => Field::Value(Data::new(text)),
        Some(native) => {
            json::text(&native).map_or(Field::Unreadable, |text| Field::Value(Data::new(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(record: &Record) -> Value {
        let names = AttributeNames::default();
        attributes(record)
            .into_iter()
            .map(|(attribute, value)| {
                let value = match value {
                    AttributeValue::S(text) => json!({ "S": text }),
                    AttributeValue::N(text) => json!({ "N": text }),
                    other => panic!("{other:?} is never written"),
                };
                (names.of(attribute).to_owned(), value)
            })
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn item(record: &Record) -> Item {
        let names = AttributeNames::default();
        attributes(record)
            .into_iter()
            .map(|(attribute, value)| (names.of(attribute).to_owned(), value))
            .collect()
    }

    fn claim() -> Record {
        Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_010_500)),
            status: Field::Value(Status::InProgress),
            validation: Field::Value("c4ca4238a0b923820dcc509a6f75849b".to_owned()),
            owner: Field::Value(OwnerToken::from_bytes([7; 16])),
            operation: Field::Value("shop::charge".to_owned()),
            ..Record::default()
        }
    }

    fn whole_record() -> Record {
        Record {
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new(r#"{"paid":true}"#)),
            failure: Field::Value("Timeout".to_owned()),
            ..claim()
        }
    }

    #[test]
    fn a_claim_has_this_stored_form() {
        assert_eq!(
            stored(&claim()),
            json!({
                "expiration": { "N": "1700003600" },
                "in_progress_expiration": { "N": "1700000010500" },
                "status": { "S": "INPROGRESS" },
                "validation": { "S": "c4ca4238a0b923820dcc509a6f75849b" },
                "owner": { "S": "07070707070707070707070707070707" },
                "operation": { "S": "shop::charge" }
            })
        );
    }

    #[test]
    fn every_attribute_has_this_stored_form() {
        assert_eq!(
            stored(&whole_record()),
            json!({
                "expiration": { "N": "1700003600" },
                "in_progress_expiration": { "N": "1700000010500" },
                "status": { "S": "COMPLETED" },
                "data": { "S": "{\"paid\":true}" },
                "validation": { "S": "c4ca4238a0b923820dcc509a6f75849b" },
                "owner": { "S": "07070707070707070707070707070707" },
                "failure": { "S": "Timeout" },
                "operation": { "S": "shop::charge" }
            })
        );
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        for written in [Record::default(), claim(), whole_record()] {
            assert_eq!(record(item(&written), &AttributeNames::default()), written);
        }
    }

    #[test]
    fn attributes_are_read_under_their_configured_names_only() {
        let names = AttributeNames {
            status: "state".to_owned(),
            ..AttributeNames::default()
        };
        let item = Item::from([
            (
                "state".to_owned(),
                AttributeValue::S("COMPLETED".to_owned()),
            ),
            (
                "status".to_owned(),
                AttributeValue::S("INPROGRESS".to_owned()),
            ),
        ]);
        let expected = Record {
            status: Field::Value(Status::Completed),
            ..Record::default()
        };
        assert_eq!(record(item, &names), expected);
    }

    #[test]
    fn attributes_of_a_wrong_type_are_present_but_unreadable() {
        let wrong = |name: &str, value| {
            record(
                Item::from([(name.to_owned(), value)]),
                &AttributeNames::default(),
            )
        };
        let text = || AttributeValue::S("1700000000".to_owned());
        let number = || AttributeValue::N("1".to_owned());
        assert_eq!(wrong("expiration", text()).expiration, Field::Unreadable);
        assert_eq!(
            wrong("in_progress_expiration", AttributeValue::Null(true)).in_progress_expiration,
            Field::Unreadable
        );
        assert_eq!(wrong("status", number()).status, Field::Unreadable);
        assert_eq!(
            wrong("validation", AttributeValue::Null(true)).validation,
            Field::Unreadable
        );
        assert_eq!(wrong("owner", number()).owner, Field::Unreadable);
        assert_eq!(wrong("failure", number()).failure, Field::Unreadable);
        assert_eq!(wrong("operation", number()).operation, Field::Unreadable);
        assert_eq!(
            wrong("data", AttributeValue::Ns(vec!["1".to_owned()])).data,
            Field::Unreadable
        );
    }

    #[test]
    fn a_native_response_reads_as_its_json_text() {
        let read = |value| {
            record(
                Item::from([("data".to_owned(), value)]),
                &AttributeNames::default(),
            )
            .data
        };
        let native = AttributeValue::M(HashMap::from([(
            "n".to_owned(),
            AttributeValue::N("1.50".to_owned()),
        )]));
        assert_eq!(read(native), Field::Value(Data::new(r#"{"n":1.50}"#)));
        assert_eq!(
            read(AttributeValue::Null(true)),
            Field::Value(Data::new("null"))
        );
        assert_eq!(
            read(AttributeValue::Bool(true)),
            Field::Value(Data::new("true"))
        );
        assert_eq!(
            read(AttributeValue::N("0".to_owned())),
            Field::Value(Data::new("0"))
        );
    }

    #[test]
    fn fractions_of_a_second_are_cut_off() {
        let item = Item::from([(
            "expiration".to_owned(),
            AttributeValue::N("1700000000.75".to_owned()),
        )]);
        let read = record(item, &AttributeNames::default());
        assert_eq!(
            read.expiration,
            Field::Value(EpochSeconds::new(1_700_000_000))
        );
    }
}

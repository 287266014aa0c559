//! Any item can be read as a record. Its readable fields are the same after they are written and read again, its native
//! responses are JSON, its event is refused or within its limit, and it can be classified.
#![no_main]

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::example::call;
use idempotency_core::key::{Json, JsonErrorKind};
use idempotency_core::protocol::CallTerms;
use idempotency_core::protocol::classify;
use idempotency_core::protocol::policy::{OnTimeout, Policy};
use idempotency_core::record::{Attribute, Field, FieldValue, Record, StoredEvent};
use idempotency_core::time::EpochMillis;
use idempotency_dynamodb::fuzzing;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

/// The depth to which DynamoDB nests values.
const DEPTH: usize = 32;

fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    Ok(match bytes.int_in_range(0..=5)? {
        0 => "INPROGRESS".to_owned(),
        1 => "COMPLETED".to_owned(),
        2 => format!("{{\"all\":{}}}", bytes.arbitrary::<&str>()?),
        3 => format!("{{\"selected\":{}}}", bytes.arbitrary::<&str>()?),
        _ => bytes.arbitrary()?,
    })
}

/// Returns a number, or sometimes any text, because another database than DynamoDB may hold it.
fn number(bytes: &mut Unstructured<'_>) -> Result<String> {
    Ok(match bytes.int_in_range(0..=3)? {
        0 => bytes.arbitrary::<i64>()?.to_string(),
        1 => bytes.arbitrary()?,
        _ => {
            let letters = bytes.int_in_range(0..=50)?;
            let letter = |_| Ok(char::from(*bytes.choose(b"0123456789.eE+-")?));
            (0..letters).map(letter).collect::<Result<_>>()?
        }
    })
}

fn value(bytes: &mut Unstructured<'_>, depth: usize) -> Result<AttributeValue> {
    let deepest = if depth == 0 { 7 } else { 9 };
    Ok(match bytes.int_in_range(0..=deepest)? {
        0 | 1 => AttributeValue::S(text(bytes)?),
        2 | 3 => AttributeValue::N(number(bytes)?),
        4 => AttributeValue::Bool(bytes.arbitrary()?),
        5 => AttributeValue::Null(bytes.arbitrary()?),
        6 => AttributeValue::B(Blob::new(bytes.arbitrary::<Vec<u8>>()?)),
        7 => AttributeValue::Ss(vec![text(bytes)?]),
        8 => {
            let elements = bytes.int_in_range(0..=3)?;
            AttributeValue::L(
                (0..elements)
                    .map(|_| value(bytes, depth - 1))
                    .collect::<Result<_>>()?,
            )
        }
        _ => {
            let members = bytes.int_in_range(0..=3)?;
            AttributeValue::M(
                (0..members)
                    .map(|_| Ok((bytes.arbitrary()?, value(bytes, depth - 1)?)))
                    .collect::<Result<_>>()?,
            )
        }
    })
}

fn item(bytes: &mut Unstructured<'_>) -> Result<HashMap<String, AttributeValue>> {
    let mut item = HashMap::new();
    let known = Attribute::ALL.map(Attribute::default_name);
    for name in known.into_iter().chain(["other"]) {
        if bytes.arbitrary()? {
            item.insert(name.to_owned(), value(bytes, DEPTH)?);
        }
    }
    Ok(item)
}

/// Checks that a field is absent only without its attribute, and readable only if the attribute has the right type.
fn check(
    field: Field<FieldValue<'_>>,
    value: Option<&AttributeValue>,
    right: fn(&AttributeValue) -> bool,
) {
    match field {
        Field::Absent => assert!(value.is_none()),
        Field::Value(_) => assert!(value.is_some_and(right)),
        // A number attribute may hold text that is not a number.
        Field::Unreadable => assert!(value.is_some_and(|value| value.is_n() || !right(value))),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(item) = item(&mut Unstructured::new(bytes)) else {
        return;
    };
    let record = fuzzing::record(item.clone());
    for attribute in Attribute::ALL {
        let has_the_type = match attribute {
            Attribute::Expiration | Attribute::InProgressExpiration => AttributeValue::is_n,
            Attribute::Data | Attribute::Event | Attribute::Steps => continue,
            _ => AttributeValue::is_s,
        };
        check(
            record.field(attribute),
            item.get(attribute.default_name()),
            has_the_type,
        );
    }
    match (&record.data, item.get("data")) {
        (Field::Value(data), Some(AttributeValue::S(text))) => assert_eq!(data.as_str(), text),
        (Field::Value(data), Some(_)) => match Json::parse(data.as_str()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), JsonErrorKind::NumberTooLong, "{error}"),
        },
        (field, value) => assert_eq!(field.exists(), value.is_some()),
    }

    if let Some(Ok(event)) = item.get("event").map(fuzzing::event) {
        assert!(event.as_str().len() <= StoredEvent::LONGEST);
        assert_eq!(fuzzing::event(&fuzzing::stored_event(&event)), Ok(event));
    }

    let written = fuzzing::item(&record);
    let mut again = Record::default();
    for (attribute, _) in record.fields() {
        again.copy(attribute, &record);
    }
    assert_eq!(fuzzing::record(written), again);

    for on_timeout in [OnTimeout::Rerun, OnTimeout::Hold] {
        let mut policy = Policy::default();
        policy.on_timeout = on_timeout;
        let call = CallTerms { policy, ..call() };
        for now in [0, 1_700_000_000_500, i64::MAX] {
            let _state = classify(&record, EpochMillis::new(now), &call);
        }
    }
});

//! Compatibility with Powertools for AWS Lambda: keys, requests and records of the libraries for other languages.
//!
//! Our keys equal those of the Python library, byte for byte. Records that a library for another language wrote under one of our
//! keys are read.

mod published;
mod python_scenarios;

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::key::{Expression, HashAlgorithm, Json, Selector};
use idempotency_core::operation::CompiledOperation;
use idempotency_lambda::{BoxError, ErrorKind, Operation};
use idempotency_tests::{Table, id, keyed, ours};
use serde_json::{Value, json};

const VECTORS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/vectors/python_keys.json"
));

/// Returns a text of a vector. `""` stands for "none".
fn text<'a>(vector: &'a Json, name: &str) -> &'a str {
    vector
        .member(name)
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// Checks the key that an operation takes while it reads the event's text. A value of `serde_json` and its text must have one key.
fn check_while_reading(vector: &Json, prefix: &str) {
    let id = text(vector, "id");
    let expression = |name: &str| match text(vector, name) {
        "" => None,
        text => Some(text.to_owned().into()),
    };
    let settings = Settings {
        key: expression("expression"),
        validate: expression("validation_expression"),
        // Python's default.
        key_required: Some(KeyRequired::No),
        key_prefix: Some(prefix.to_owned().into()),
        ..Settings::default()
    };
    let event = text(vector, "event");
    let name = "IDEMPOTENCY_PYTHON_NUMBERS".to_owned();
    let variables = Variables::from_iter([(name, "true".to_owned())]);
    let Ok(operation) = CompiledOperation::new("charge", &settings, &variables) else {
        assert_eq!(text(vector, "outcome"), "error", "{id}");
        return;
    };
    let identity = operation.identify(event, None);
    match (text(vector, "outcome"), &identity) {
        ("error", Err(_)) => return,
        ("skipped_no_key", Ok(identity)) => assert!(identity.bypass().is_some(), "{id}"),
        ("idempotent", Ok(identity)) => {
            let key = identity.key().map(|key| key.as_str());
            assert_eq!(key, Some(text(vector, "idempotency_key")), "{id}");
            let validation = identity.validation().unwrap_or_default();
            assert_eq!(validation, text(vector, "validation_hash"), "{id}");
        }
        (outcome, other) => panic!("{id}: expected {outcome}, got {other:?}"),
    }
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(event) {
        let of_text = operation.identify(&value.to_string(), None);
        match operation.identify_value(&value, None) {
            // A `Value` makes a float of an integer beyond 64 bits.
            Err(error) if error.to_string().contains("has lost its digits") => {}
            of_value => assert_eq!(of_text.ok(), of_value.ok(), "{id}"),
        }
    }
}

/// Checks the key that the interpreter takes from the whole event.
fn check(vector: &Json, prefix: &str) {
    check_while_reading(vector, prefix);
    let id = text(vector, "id");
    let event = Json::parse(text(vector, "event")).unwrap_or_else(|error| panic!("{id}: {error}"));
    for hash in [HashAlgorithm::Md5, HashAlgorithm::Sha256] {
        let compiled = |name| match text(vector, name) {
            "" => Ok(None),
            text => Expression::compile(text).map(Some),
        };
        let expressions = (compiled("expression"), compiled("validation_expression"));
        let (Ok(key), Ok(validate)) = expressions else {
            return assert_eq!(text(vector, "outcome"), "error", "{id}");
        };
        let selector = Selector::new(key, validate, hash).with_python_numbers(true);
        match (text(vector, "outcome"), selector.key(&event)) {
            ("error", Err(_)) | ("skipped_no_key", Ok(None)) => {}
            ("idempotent", Ok(Some(key))) => {
                assert_eq!(key.text(), text(vector, "serialized"), "{id}");
                assert_eq!(key.digest(), text(vector, hash.name()), "{id}");
                let validation = selector.validation(&event).unwrap();
                if hash == HashAlgorithm::Md5 {
                    let expected = text(vector, "validation_hash");
                    assert_eq!(validation.unwrap_or_default(), expected, "{id}");
                }
            }
            (outcome, other) => panic!("{id}: expected {outcome}, got {other:?}"),
        }
    }
}

#[test]
fn every_vector_has_the_same_outcome_and_key_as_in_python() {
    let file = Json::parse(VECTORS).expect("the vectors are JSON");
    let (prefix, Some(Json::Array(vectors))) = (text(&file, "prefix"), file.member("vectors"))
    else {
        panic!("the file holds no vectors");
    };
    assert_eq!(vectors.len(), 187);
    for vector in vectors {
        check(vector, prefix);
    }
}

fn string(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: &str) -> AttributeValue {
    AttributeValue::N(number.to_owned())
}

fn charge() -> Operation {
    keyed(|of| of)
}

/// Returns a table with a record whose window ends in an hour, unless `attributes` set another time.
async fn existing(attributes: &[(&str, AttributeValue)]) -> Result<Table, BoxError> {
    let table = Table::start().await?;
    let mut item = HashMap::from([
        (
            "id",
            string("local.shop.charge#8f14e45fceea167a5a36dedd4bea2543"),
        ),
        ("status", string("COMPLETED")),
        ("expiration", number("1700003600")),
    ]);
    item.extend(attributes.iter().cloned());
    table.database.put("idempotency", item).await?;
    Ok(table)
}

async fn replayed(attributes: &[(&str, AttributeValue)]) -> Result<Value, BoxError> {
    let table = existing(attributes).await?;
    let order = json!({ "order_id": 7 });
    let outcome = table
        .call(&charge(), &order, async || Ok(json!("a second run")))
        .await?;
    assert!(outcome.is_replayed());
    Ok(outcome.into_response())
}

#[tokio::test]
async fn typescripts_native_response_and_fractional_times_are_read() -> Result<(), BoxError> {
    let response = AttributeValue::M(HashMap::from([
        ("paid".to_owned(), AttributeValue::Bool(true)),
        ("amount".to_owned(), number("12.5")),
        (
            "lines".to_owned(),
            AttributeValue::L(vec![number("1"), AttributeValue::Null(true)]),
        ),
    ]));
    let given = replayed(&[
        ("data", response),
        ("expiration", number("1700003600.25")),
        ("in_progress_expiration", number("1700000030500")),
    ])
    .await?;
    assert_eq!(
        given,
        json!({ "paid": true, "amount": 12.5, "lines": [1, null] })
    );
    Ok(())
}

#[tokio::test]
async fn a_response_in_any_spelling_of_json_is_read() -> Result<(), BoxError> {
    for (stored, response) in [
        ("{\"b\":1,\n\t\"a\" : [ ]}", json!({ "a": [], "b": 1 })),
        (r#"{"Text":"\u003C\u00E9/\/"}"#, json!({ "Text": "<é//" })),
        (" 1.50 ", json!(1.5)),
        ("null", Value::Null),
    ] {
        assert_eq!(replayed(&[("data", string(stored))]).await?, response);
    }
    Ok(())
}

#[tokio::test]
async fn a_response_that_is_not_json_or_not_a_rust_string_is_an_error_and_the_handler_does_not_run()
-> Result<(), BoxError> {
    // Java's bare text of a `String`; Python's `NaN`; one half of a surrogate pair.
    for (stored, kind) in [
        ("paid", ErrorKind::CorruptRecord),
        ("NaN", ErrorKind::CorruptRecord),
        (r#""\ud83d""#, ErrorKind::ResponseTypeChanged),
    ] {
        let table = existing(&[("data", string(stored))]).await?;
        let (charge, order) = (charge(), json!({ "order_id": 7 }));
        let call = table.call(&charge, &order, async || Ok(json!("a second run")));
        let error = call.await.unwrap_err();
        assert_eq!(ours(&error).kind(), kind, "{stored}");
        assert!(!ours(&error).handler_ran());
    }
    Ok(())
}

#[tokio::test]
async fn a_claim_of_another_library_is_live_until_its_lease_or_without_one_its_window_ends()
-> Result<(), BoxError> {
    let lease = ("in_progress_expiration", number("1700000005500"));
    for (lease, ends_in) in [(Some(lease), 5_001), (None, 3_600_500)] {
        let claim = [("status", string("INPROGRESS"))];
        let attributes: Vec<_> = claim.into_iter().chain(lease).collect();
        let table = existing(&attributes).await?;
        let (charge, order) = (charge(), json!({ "order_id": 7 }));
        let call = || table.call(&charge, &order, async || Ok(json!("ran")));
        let error = call().await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::AlreadyInProgress);
        table
            .clock
            .advance(std::time::Duration::from_millis(ends_in));
        assert_eq!(call().await?.into_response(), json!("ran"));
    }
    Ok(())
}

#[test]
fn an_integer_is_hashed_as_its_digits_and_a_text_with_its_quotes() {
    let digest = |text: &str| HashAlgorithm::Md5.hex(text);
    let key = |payload: &Value| {
        let key = id(&charge(), payload).to_string();
        key.rsplit('#').next().unwrap_or_default().to_owned()
    };
    assert_eq!(key(&json!(7)), digest("7"));
    assert_eq!(key(&json!("o-7")), digest("\"o-7\""));
    assert_eq!(key(&json!(["u", 7])), digest("[\"u\", 7]"));
}

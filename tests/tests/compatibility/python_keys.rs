//! Our keys equal those of Powertools for AWS Lambda (Python), byte for byte.

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::key::{Expression, HashAlgorithm, Json, Selector};
use idempotency_core::operation::CompiledOperation;

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

/// Checks the key that an operation takes while it reads the event, from the text and, if serde reads the text alike, from a value.
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
        let of_value = operation.identify_value(&value, None);
        assert_eq!(of_text.ok(), of_value.ok(), "{id}");
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

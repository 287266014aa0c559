//! Our keys equal those of Powertools for AWS Lambda (Python), byte for byte.

use idempotency_core::config::{Settings, Variables};
use idempotency_core::key::{Expression, HashAlgorithm, Json, is_absent_key};
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

/// Evaluates an expression on an event. The empty expression selects the whole event.
fn extract(expression: &str, event: &Json) -> Result<Json, String> {
    if expression.is_empty() {
        return Ok(event.clone());
    }
    let compiled = Expression::compile(expression).map_err(|error| error.to_string())?;
    compiled.evaluate(event).map_err(|error| error.to_string())
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
        key_prefix: Some(prefix.to_owned().into()),
        ..Settings::default()
    };
    let event = text(vector, "event");
    let Ok(operation) = CompiledOperation::new("charge", &settings, &Variables::default()) else {
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

fn check(vector: &Json, prefix: &str) {
    check_while_reading(vector, prefix);
    let id = text(vector, "id");
    let event = Json::parse(text(vector, "event")).unwrap_or_else(|error| panic!("{id}: {error}"));
    let extracted = extract(text(vector, "expression"), &event);
    match (text(vector, "outcome"), &extracted) {
        ("error", Err(_)) => return,
        ("skipped_no_key", Ok(json)) => {
            assert!(is_absent_key(json), "{id}: should have no key");
            return;
        }
        ("idempotent", Ok(json)) => assert!(!is_absent_key(json), "{id}: should have a key"),
        (outcome, other) => panic!("{id}: expected {outcome}, got {other:?}"),
    }
    let canonical = extracted.unwrap_or(Json::Null).to_canonical();
    assert_eq!(canonical, text(vector, "serialized"), "{id}");
    let md5 = HashAlgorithm::Md5.hex(&canonical);
    assert_eq!(md5, text(vector, "md5"), "{id}");
    assert_eq!(
        HashAlgorithm::Sha256.hex(&canonical),
        text(vector, "sha256"),
        "{id}"
    );
    assert_eq!(
        format!("{prefix}#{md5}"),
        text(vector, "idempotency_key"),
        "{id}"
    );

    let validation = text(vector, "validation_expression");
    if !validation.is_empty() {
        let validated = extract(validation, &event).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(
            HashAlgorithm::Md5.hex(&validated.to_canonical()),
            text(vector, "validation_hash"),
            "{id}"
        );
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

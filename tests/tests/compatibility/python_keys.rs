//! Our keys equal those of Powertools for AWS Lambda (Python), byte for byte.

use idempotency_core::key::{Expression, HashAlgorithm, Json, is_absent_key};

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

fn check(vector: &Json, prefix: &str) {
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

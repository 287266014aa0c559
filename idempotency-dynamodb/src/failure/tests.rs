//! Checks the classification of errors.

use super::*;
use crate::table_ref::tests::table;

#[test]
fn an_aws_endpoint_is_named_only_if_it_gave_no_response() {
    let table = table();
    table.note_endpoint("https://dynamodb.eu-west-1.amazonaws.com/");
    assert!(!table.to_string().contains("amazonaws"));
    let (_, text) = table.classify_no_response(true, false);
    assert!(
        text.contains("in eu-west-1 at https://dynamodb.eu-west-1.amazonaws.com: check"),
        "{text}"
    );
}

fn kind_and_text(code: &str, message: &str) -> (StoreErrorKind, String) {
    table().classify_response("dynamodb:PutItem", 400, Some(code), Some(message))
}

#[test]
fn validation_errors_about_size_and_about_keys_have_their_own_kinds() {
    let size = "Item size has exceeded the maximum allowed size";
    assert_eq!(
        kind_and_text("ValidationException", size).0,
        StoreErrorKind::TooLarge
    );
    let size = "Item size to update has exceeded the maximum allowed size";
    assert_eq!(
        kind_and_text("ValidationException", size).0,
        StoreErrorKind::TooLarge
    );
    for keys in [
        "The provided key element does not match the schema",
        "One or more parameter values were invalid: Missing the key pk in the item",
        "One or more parameter values were invalid: Type mismatch for key id expected: N actual: S",
        "The number of conditions on the keys is invalid",
    ] {
        let (kind, text) = kind_and_text("ValidationException", keys);
        assert_eq!(kind, StoreErrorKind::WrongSchema);
        assert!(text.starts_with(
            "the keys of DynamoDB table `payments` in eu-west-1 are not the partition key `id` of type S only: "
        ));
    }
    let (kind, text) = kind_and_text("ValidationException", "Invalid ConditionExpression: x");
    assert_eq!(kind, StoreErrorKind::Rejected);
    assert_eq!(
        text,
        "dynamodb:PutItem was rejected by DynamoDB table `payments` in eu-west-1: \
         ValidationException: Invalid ConditionExpression"
    );
}

#[test]
fn each_code_has_its_kind() {
    use StoreErrorKind as Kind;
    for (code, kind) in [
        ("ResourceNotFoundException", Kind::TableMissing),
        ("AccessDeniedException", Kind::AccessDenied),
        ("UnrecognizedClientException", Kind::Credentials),
        ("ExpiredTokenException", Kind::Credentials),
        ("ThrottlingException", Kind::Throttled),
        ("ProvisionedThroughputExceededException", Kind::Throttled),
        ("RequestLimitExceeded", Kind::Throttled),
        ("TransactionConflictException", Kind::Conflict),
        ("ItemCollectionSizeLimitExceededException", Kind::TooLarge),
        ("SerializationException", Kind::Rejected),
    ] {
        assert_eq!(kind_and_text(code, "m").0, kind, "{code}");
    }
    let unavailable =
        table().classify_response("dynamodb:PutItem", 503, Some("ServiceUnavailable"), None);
    assert_eq!(unavailable.0, Kind::Internal);
    assert_eq!(
        table()
            .classify_response("dynamodb:PutItem", 502, None, None)
            .0,
        Kind::Internal
    );
}

//! What a program does without the feature `zstd`.

use super::super::manifest::Encoding;
use super::*;

#[test]
fn nothing_is_compressed_and_what_does_not_fit_one_item_is_split_as_it_is() {
    let settings = Settings::default();
    assert_eq!(settings.compress_above, None);
    assert_eq!(settings.check(), Ok(()));
    let large = Data::new("x".repeat(100_000));
    assert!(!settings.concern(100_000));
    assert!(matches!(form(&large, settings, ROOM), Form::Plain));
    let larger = Data::new("x".repeat(500_000));
    let form = form(&larger, settings, ROOM);
    let Form::Split(stored) = &form else {
        panic!("it does not fit one item");
    };
    let all: Vec<u8> = stored.pieces().flatten().copied().collect();
    assert!(stored.manifest.response(all) == Ok(larger.clone()));
}

#[test]
fn a_threshold_is_an_error_that_names_the_feature_and_the_variable() {
    let error = settings(Some(16_384), true).check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "responses cannot be compressed, because the feature `zstd` of idempotency-dynamodb is not compiled in: enable it, \
         or set IDEMPOTENCY_COMPRESS_ABOVE=off"
    );
}

#[test]
fn a_compressed_response_is_refused_with_the_name_of_the_feature() {
    let refused = "its response is compressed, and this program was built without the feature `zstd` of \
                   idempotency-dynamodb: enable the feature";
    assert_eq!(decompressed(&[40, 181, 47, 253]).unwrap_err(), refused);
    let bytes = b"[0]".to_vec();
    let stored = Manifest::of(&bytes, Encoding::Zstd, 3);
    assert_eq!(stored.response(bytes).unwrap_err(), refused);
}

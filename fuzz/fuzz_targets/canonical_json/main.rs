//! Canonical text is ASCII, reads back as itself, and equals that of a slow reference that reads with `serde_json`. The digest
//! that is made without a tree is its digest.
#![no_main]

mod reference;

use idempotency_core::key::{HashAlgorithm, Json, JsonErrorKind};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;

fuzz_target!(|text: &str| {
    match Json::parse(text) {
        Ok(json) => {
            let once = json.to_canonical();
            assert!(once.is_ascii());
            let again = Json::parse(&once).expect("canonical text is JSON");
            assert_eq!(again.to_canonical(), once);
            let digest = HashAlgorithm::Md5.hex_of_json(text, usize::MAX);
            assert_eq!(digest, Some(HashAlgorithm::Md5.hex(&once)));
            if let Some(reference) = reference::canonical(text) {
                assert_eq!(once, reference);
            }
        }
        Err(error) => {
            assert_eq!(HashAlgorithm::Md5.hex_of_json(text, usize::MAX), None);
            let beyond = matches!(
                error.kind(),
                JsonErrorKind::TooDeep | JsonErrorKind::NumberTooLong
            );
            let refused = serde_json::from_str::<IgnoredAny>(text).is_err();
            assert!(beyond || refused, "{error}");
        }
    }
});

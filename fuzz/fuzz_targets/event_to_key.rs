//! Any event gives a key of fixed length or an error, the same each time.
#![no_main]

use std::sync::LazyLock;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::operation::Operation;
use libfuzzer_sys::fuzz_target;

static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    [
        None,
        Some("[a, b.c, *]"),
        Some("powertools_json(body).[a, b]"),
        Some("powertools_json(powertools_base64(body))"),
        Some("powertools_json(powertools_base64_gzip(body))"),
    ]
    .map(|key| {
        let settings = Settings {
            key: key.map(str::to_owned),
            validate: Some("@".to_owned()),
            key_prefix: Some("shop".to_owned()),
            ..Settings::default()
        };
        Operation::new("charge", &settings, &Variables::default()).expect("the settings are right")
    })
    .into()
});

fuzz_target!(|event: &str| {
    for operation in OPERATIONS.iter() {
        let (one, two) = (
            operation.identify(event, None),
            operation.identify(event, None),
        );
        assert_eq!(one.is_ok(), two.is_ok());
        if let (Ok(one), Ok(two)) = (one, two) {
            assert_eq!(one, two);
            assert!(
                one.key()
                    .is_none_or(|key| key.as_str().len() == "shop#".len() + 32)
            );
        }
    }
});

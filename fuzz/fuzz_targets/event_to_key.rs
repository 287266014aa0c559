//! Any event gives a key of fixed length or an error, the same each time.
#![no_main]

use std::sync::LazyLock;

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::operation::CompiledOperation;
use libfuzzer_sys::fuzz_target;

static OPERATIONS: LazyLock<Vec<CompiledOperation>> = LazyLock::new(|| {
    [
        None,
        Some("[a, b.c, *]"),
        Some("powertools_json(body).[a, b]"),
        Some("powertools_json(powertools_base64(body))"),
        Some("powertools_json(powertools_base64_gzip(body))"),
    ]
    .map(|key| {
        let settings = Settings {
            key: key.map(|key| key.to_owned().into()),
            validate: Some("@".into()),
            key_required: Some(KeyRequired::No),
            key_prefix: Some("shop".into()),
            ..Settings::default()
        };
        CompiledOperation::new("charge", &settings, &Variables::default())
            .expect("the settings are right")
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

//! Canonical text is ASCII and reads back as itself.
#![no_main]

use idempotency_core::key::Json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(json) = Json::parse(text) {
        let once = json.to_canonical();
        assert!(once.is_ascii());
        let again = Json::parse(&once).expect("canonical text is JSON");
        assert_eq!(again.to_canonical(), once);
    }
});
